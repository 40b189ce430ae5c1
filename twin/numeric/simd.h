// Vectors of the host: GNU vector types as wide as the instruction set has them, so that plain operators become SIMD
// instructions. Results never depend on the width.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define QBSA_INLINE inline __attribute__((always_inline))

#if defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#define QBSA_SIMD_BYTES 64
#elif defined(__AVX2__)
#define QBSA_SIMD_BYTES 32
#else
#define QBSA_SIMD_BYTES 16
#endif

namespace twin {

constexpr size_t kSimdBytes = QBSA_SIMD_BYTES;

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

// Bytes to lanes. By name where the host has it: g++ 12 widens a vector byte by byte. Under a full mask, because without
// one it warns of its own header.
QBSA_INLINE VecU32 load_bytes(const uint8_t* from)
{
#if QBSA_SIMD_BYTES == 64
    return (VecU32)_mm512_maskz_cvtepu8_epi32(0xFFFF, _mm_loadu_si128((const __m128i*)from));
#elif QBSA_SIMD_BYTES == 32
    return (VecU32)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)from));
#else
    return VecU32{from[0], from[1], from[2], from[3]};
#endif
}

// The quiet NaN that device instructions produce (Div's page shows it). Hosts disagree about the NaN of an invalid
// operation, so every arithmetic result that is NaN becomes this one.
constexpr uint32_t kNanBits = 0x7FFFFFFF;

QBSA_INLINE VecF32 canonical(VecF32 x) { return x != x ? (VecF32)splat(kNanBits) : x; }

}  // namespace twin
