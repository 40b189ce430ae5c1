// Vectors of the host: GNU vector types as wide as the instruction set has them, so that plain operators become SIMD
// instructions. Results never depend on the width.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#define QBSA_INLINE inline __attribute__((always_inline))

namespace twin {

#if defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
constexpr size_t kSimdBytes = 64;
#elif defined(__AVX2__)
constexpr size_t kSimdBytes = 32;
#else
constexpr size_t kSimdBytes = 16;
#endif

template <typename T, size_t kBytes>
struct VecOf {
    typedef T type __attribute__((vector_size(kBytes)));
    typedef T at_any_address __attribute__((vector_size(kBytes), aligned(1), may_alias));
};
template <typename T, size_t kBytes = kSimdBytes>
using Vec = typename VecOf<T, kBytes>::type;

using VecF32 = Vec<float>;
using VecI32 = Vec<int32_t>;
using VecU32 = Vec<uint32_t>;

template <typename T>
QBSA_INLINE T load_scalar(const void* from)
{
    T x;
    std::memcpy(&x, from, sizeof x);
    return x;
}
template <typename T>
QBSA_INLINE Vec<T> splat(T x)
{
    if constexpr (std::is_same_v<T, float>) {
        return (Vec<float>)splat(load_scalar<uint32_t>(&x));
    } else {
        return Vec<T>{} + x;
    }
}

// No memcpy here: g++ 12 stores a constant vector wrongly that way when its upper half is zero.
template <typename T, size_t kBytes = kSimdBytes>
QBSA_INLINE Vec<T, kBytes> load(const void* from)
{
    return *(const typename VecOf<T, kBytes>::at_any_address*)from;
}
template <typename V>
QBSA_INLINE void store(void* to, V x)
{
    using Element = std::decay_t<decltype(x[0])>;
    *(typename VecOf<Element, sizeof(V)>::at_any_address*)to = x;
}

// The quiet NaN that device instructions produce (Div's page shows it). Hosts disagree about the NaN of an invalid
// operation, so every arithmetic result that is NaN becomes this one.
constexpr uint32_t kNanBits = 0x7FFFFFFF;

QBSA_INLINE VecF32 canonical(VecF32 x) { return x != x ? (VecF32)splat(kNanBits) : x; }

}  // namespace twin
