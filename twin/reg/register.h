// RegTensor and MaskReg, and the way operations are written: lane by lane over the chunks of their registers, under a
// mask.
#pragma once
#include "../calls/types.h"
#include "../engine/vector_scope.h"
#include "../numeric/simd.h"
#include "enums.h"

namespace twin {

constexpr size_t kRegBytes = 256;
constexpr size_t kBlockBytes = 32;
constexpr size_t kChunks = kRegBytes / kSimdBytes;

// f(chunk index) for every chunk of a register, unrolled, so that chunks live in host registers.
template <typename F, size_t... kIndex>
QBSA_INLINE void for_each(std::index_sequence<kIndex...>, F f)
{
    (f(std::integral_constant<size_t, kIndex>{}), ...);
}
template <size_t kCount = kChunks, typename F>
QBSA_INLINE void for_chunks(F f)
{
    for_each(std::make_index_sequence<kCount>{}, f);
}
#define QBSA_EACH_CHUNK [&]([[maybe_unused]] auto i) __attribute__((always_inline))
// A function of one chunk of each source register.
#define QBSA_LANES(...) [&](__VA_ARGS__) __attribute__((always_inline))

// The lane's own type, or the integer of its size for types that the host does not compute with.
template <typename T>
struct LaneOf {
    using type = T;
};
template <>
struct LaneOf<fp8_e4m3fn_t> {
    using type = uint8_t;
};
template <>
struct LaneOf<bfloat16_t> {
    using type = uint16_t;
};
template <typename T>
using Lane = typename LaneOf<T>::type;

template <size_t kBytes>
using SignedOf = std::conditional_t<kBytes == 1, int8_t, std::conditional_t<kBytes == 2, int16_t, int32_t>>;

}  // namespace twin

namespace AscendC {
namespace Reg {

// 256 bytes whatever T is; kernels view a register as another type by a reference cast, hence may_alias.
template <typename T, const RegTrait& regTrait = RegTraitNumOne>
struct __attribute__((may_alias)) RegTensor {
    using ActualT = T;
    static constexpr RegTrait trait = regTrait;
    static constexpr int REG_NUM = trait.REG_NUM;

    QBSA_INLINE RegTensor() {}

    QBSA_INLINE twin::Vec<twin::Lane<T>> get(size_t chunk) const { return (twin::Vec<twin::Lane<T>>)chunks[chunk]; }
    template <typename V>
    QBSA_INLINE void set(size_t chunk, V value)
    {
        chunks[chunk] = (twin::VecU32)value;
    }

    twin::VecU32 chunks[twin::kChunks];
};

// One bit per byte of a register, kept as a byte 0xFF or 0x00 each. Elements of 2 or 4 bytes look at their lowest byte
// only, and masks made for them set only that one.
struct MaskReg {
    // All bits of the lanes of T that are active.
    template <typename T>
    QBSA_INLINE twin::Vec<twin::SignedOf<sizeof(T)>> lanes(size_t chunk) const
    {
        using V = twin::Vec<twin::SignedOf<sizeof(T)>>;
        if constexpr (sizeof(T) == 1) {
            return (V)bytes[chunk];
        } else {
            return -((V)bytes[chunk] & 1);
        }
    }
    // mask: lanes of T with all bits set or none.
    template <typename T, typename V>
    QBSA_INLINE void set_lanes(size_t chunk, V mask)
    {
        if constexpr (sizeof(T) == 1) {
            bytes[chunk] = (twin::VecU32)mask;
        } else {
            bytes[chunk] = (twin::VecU32)(mask & 0xFF);
        }
    }

    twin::VecU32 bytes[twin::kChunks];
};

}  // namespace Reg
}  // namespace AscendC

namespace twin {

using AscendC::Reg::DefaultType;
using AscendC::Reg::MaskMergeMode;
using AscendC::Reg::MaskReg;
using AscendC::Reg::RegTensor;

// Which register it is.
QBSA_INLINE uintptr_t identity(const VecU32* chunks) { return reinterpret_cast<uintptr_t>(chunks); }

template <typename... Src>
QBSA_INLINE void computed_from(const VecU32* chunks, const Src&... src)
{
    on_vector_value(identity(chunks), {identity(src.chunks)...});
}

// T as the caller spelt it (or DefaultType) must be the type of the register U.
template <typename T, typename U>
constexpr bool kTypeFits = std::is_same_v<T, DefaultType> || std::is_same_v<T, typename U::ActualT>;

// dst = f(src...) in the active lanes; the others become zero, or stay with MERGING.
template <typename T, MaskMergeMode kMode, typename F, typename... Src>
QBSA_INLINE void map_lanes(RegTensor<T>& dst, const MaskReg& mask, F f, const Src&... src)
{
    if constexpr (kMode == MaskMergeMode::MERGING) {
        computed_from(dst.chunks, dst, src...);
    } else {
        computed_from(dst.chunks, src...);
    }
    for_chunks(QBSA_EACH_CHUNK {
        const auto active = mask.template lanes<T>(i);
        auto value = (decltype(+active))f(src.get(i)...) & active;
        if constexpr (kMode == MaskMergeMode::MERGING) {
            value |= (decltype(value))dst.get(i) & ~active;
        }
        dst.set(i, value);
    });
}

}  // namespace twin
