// Masks: CreateMask, UpdateMask, logic on MaskReg.
#pragma once
#include "register.h"

namespace twin {

using AscendC::Reg::MaskPattern;

// Number of leading lanes that a pattern activates out of `lanes`; M3 and M4 are no prefixes.
constexpr size_t leading_lanes(MaskPattern pattern, size_t lanes)
{
    switch (pattern) {
        case MaskPattern::ALL:
            return lanes;
        case MaskPattern::VL1:
            return 1;
        case MaskPattern::VL2:
            return 2;
        case MaskPattern::VL3:
            return 3;
        case MaskPattern::VL4:
            return 4;
        case MaskPattern::VL8:
            return 8;
        case MaskPattern::VL16:
            return 16;
        case MaskPattern::VL32:
            return 32;
        case MaskPattern::VL64:
            return 64;
        case MaskPattern::VL128:
            return 128;
        case MaskPattern::H:
            return lanes / 2;
        case MaskPattern::Q:
            return lanes / 4;
        default:
            return 0;
    }
}

template <typename T, MaskPattern kPattern>
constexpr bool pattern_has(size_t lane)
{
    if (kPattern == MaskPattern::M3 || kPattern == MaskPattern::M4) {
        return lane % (kPattern == MaskPattern::M3 ? 3 : 4) == 0;
    }
    return lane < leading_lanes(kPattern, kRegBytes / sizeof(T));
}

// Mask bytes 4 * word .. 4 * word + 3.
template <typename T, MaskPattern kPattern>
constexpr uint32_t mask_word(size_t word)
{
    uint32_t bits = 0;
    for (size_t byte = 0; byte < sizeof bits; byte += sizeof(T)) {
        bits |= pattern_has<T, kPattern>((word * sizeof bits + byte) / sizeof(T)) ? 0xFFu << (8 * byte) : 0;
    }
    return bits;
}

// Element by element, so that the compiler sees a constant and drops the masking under ALL.
template <typename T, MaskPattern kPattern, size_t kChunk, size_t... kLane>
QBSA_INLINE VecU32 mask_chunk(std::index_sequence<kLane...>)
{
    return VecU32{
        std::integral_constant<uint32_t, mask_word<T, kPattern>(kChunk * sizeof...(kLane) + kLane)>::value...};
}

template <typename F, typename... Src>
QBSA_INLINE void map_mask(MaskReg& dst, F f, const Src&... src)
{
    on_vector_op(VectorOp::kMaskLogic);
    for_chunks(QBSA_EACH_CHUNK { dst.bytes[i] = f(src.bytes[i]...); });
}

}  // namespace twin

namespace AscendC {
namespace Reg {

template <typename T, MaskPattern mode = MaskPattern::ALL, const RegTrait& regTrait = RegTraitNumOne>
QBSA_INLINE MaskReg CreateMask()
{
    twin::on_vector_op(twin::VectorOp::kCreateMask);
    MaskReg mask;
    twin::for_chunks(QBSA_EACH_CHUNK {
        mask.bytes[i] = twin::mask_chunk<T, mode, i>(std::make_index_sequence<twin::kSimdBytes / sizeof(uint32_t)>{});
    });
    return mask;
}

// Activates the first scalarValue lanes and subtracts a register's worth from it.
template <typename T, const RegTrait& regTrait = RegTraitNumOne>
QBSA_INLINE MaskReg UpdateMask(uint32_t& scalarValue)
{
    twin::on_vector_op(twin::VectorOp::kUpdateMask);
    constexpr uint32_t kLanes = twin::kRegBytes / sizeof(T);
    alignas(twin::kSimdBytes) uint8_t bytes[twin::kRegBytes] = {};
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
        bytes[lane * sizeof(T)] = lane < scalarValue ? 0xFF : 0;
    }
    scalarValue = scalarValue < kLanes ? 0 : scalarValue - kLanes;
    MaskReg mask;
    twin::for_chunks(QBSA_EACH_CHUNK { mask.bytes[i] = twin::load<uint32_t>(bytes + i * twin::kSimdBytes); });
    return mask;
}

QBSA_INLINE void Not(MaskReg& dst, MaskReg& src, MaskReg& mask)
{
    twin::map_mask(dst, [](auto a, auto m) { return ~a & m; }, src, mask);
}
QBSA_INLINE void And(MaskReg& dst, MaskReg& src0, MaskReg& src1, MaskReg& mask)
{
    twin::map_mask(dst, [](auto a, auto b, auto m) { return a & b & m; }, src0, src1, mask);
}
QBSA_INLINE void Or(MaskReg& dst, MaskReg& src0, MaskReg& src1, MaskReg& mask)
{
    twin::map_mask(dst, [](auto a, auto b, auto m) { return (a | b) & m; }, src0, src1, mask);
}
QBSA_INLINE void Xor(MaskReg& dst, MaskReg& src0, MaskReg& src1, MaskReg& mask)
{
    twin::map_mask(dst, [](auto a, auto b, auto m) { return (a ^ b) & m; }, src0, src1, mask);
}
QBSA_INLINE void Move(MaskReg& dst, MaskReg& src, MaskReg& mask)
{
    twin::map_mask(dst, [](auto a, auto m) { return a & m; }, src, mask);
}
QBSA_INLINE void Move(MaskReg& dst, MaskReg& src)
{
    twin::map_mask(dst, [](auto a) { return a; }, src);
}
QBSA_INLINE void Select(MaskReg& dst, MaskReg& src0, MaskReg& src1, MaskReg& mask)
{
    twin::map_mask(dst, [](auto a, auto b, auto m) { return (a & m) | (b & ~m); }, src0, src1, mask);
}

}  // namespace Reg
}  // namespace AscendC
