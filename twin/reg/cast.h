// Cast: fp32 -> e4m3, fp32 -> bf16, int32 <-> fp32.
#pragma once
#include "../numeric/bf16.h"
#include "../numeric/e4m3.h"
#include "arithmetic.h"

namespace twin {

using AscendC::RoundMode;
using AscendC::Reg::CastTrait;
using AscendC::Reg::RegLayout;
using AscendC::Reg::SatMode;

constexpr bool ctrl_bit(uint64_t ctrl, int bit) { return (ctrl >> bit & 1) != 0; }

// Do values beyond the range become the largest one (and NaN zero)? CTRL[60] decides who decides.
QBSA_INLINE bool saturates(SatMode of_instruction, uint64_t ctrl)
{
    return ctrl_bit(ctrl, 60) ? !ctrl_bit(ctrl, 48) : of_instruction == SatMode::SAT;
}

QBSA_INLINE E4m3Mode e4m3_mode(SatMode of_instruction, uint64_t ctrl)
{
    const bool saturate = saturates(of_instruction, ctrl);
    return {saturate ? kE4m3Max : kE4m3Nan, saturate && !ctrl_bit(ctrl, 50) ? 0 : kE4m3Nan};
}
QBSA_INLINE Bf16Mode bf16_mode(SatMode of_instruction, uint64_t ctrl)
{
    const bool saturate = saturates(of_instruction, ctrl);
    return {saturate ? kBf16Max : kBf16Inf, saturate ? 0 : kBf16Nan};
}

// fp32 -> int32, ties to even; too large values become the nearest end of the range, NaN becomes 0.
QBSA_INLINE VecI32 to_int(VecF32 x)
{
    constexpr float kInteger = 8388608.0f;  // 2^23: from here on every fp32 is an integer
    constexpr float kEnd = 2147483648.0f;   // 2^31
    const VecI32 sign = (VecI32)x & INT32_MIN;
    const VecF32 size = (VecF32)((VecI32)x ^ sign);
    const VecF32 rounded = size < kInteger ? (size + kInteger) - kInteger : size;
    const VecF32 signed_rounded = (VecF32)((VecI32)rounded | sign);
    const VecF32 inside = size < kEnd ? signed_rounded : VecF32{};
    const VecI32 result = __builtin_convertvector(inside, VecI32);
    const VecI32 end = sign == 0 ? splat(INT32_MAX) : splat(INT32_MIN);
    return x != x ? VecI32{} : (size < kEnd ? result : end);
}

template <typename To>
constexpr VectorOp cast_op()
{
    if (std::is_same_v<To, fp8_e4m3fn_t>) {
        return VectorOp::kCastF8;
    }
    return std::is_same_v<To, bfloat16_t> ? VectorOp::kCast : VectorOp::kCastInt;
}

// The destination element's place inside a 32-bit lane.
template <typename To>
constexpr int layout_shift(RegLayout layout)
{
    return (int)layout * (int)sizeof(To) * 8;
}

}  // namespace twin

namespace AscendC {
namespace Reg {

// The mask counts source elements. A narrower result stands at `layoutMode` in its 32-bit lane, the rest of which is 0.
template <typename T = DefaultType, typename U = DefaultType, const CastTrait& trait = castTrait, typename S,
          typename V>
QBSA_INLINE void Cast(S& dstReg, V& srcReg, MaskReg& mask)
{
    using To = typename S::ActualT;
    using From = typename V::ActualT;
    static_assert(twin::kTypeFits<T, S> && twin::kTypeFits<U, V>, "Cast: type and register differ");
    static_assert(trait.mrgMode == MaskMergeMode::ZEROING, "Cast: ZEROING only");
    static_assert(trait.roundMode == RoundMode::CAST_RINT, "Cast: the twin rounds by CAST_RINT only");
    constexpr bool kToF8 = std::is_same_v<To, fp8_e4m3fn_t> && std::is_same_v<From, float>;
    constexpr bool kToBf16 = std::is_same_v<To, bfloat16_t> && std::is_same_v<From, float>;
    constexpr bool kToInt = std::is_same_v<To, int32_t> && std::is_same_v<From, float>;
    constexpr bool kFromInt = std::is_same_v<To, float> && std::is_same_v<From, int32_t>;
    static_assert(kToF8 || kToBf16 || kToInt || kFromInt, "Cast: the twin has no such pair of types");
    twin::on_vector_op(twin::cast_op<To>());
    auto& lanes = (RegTensor<uint32_t>&)dstReg;
    if constexpr (kToF8) {
        static_assert(trait.layoutMode != RegLayout::UNKNOWN, "Cast to fp8_e4m3fn_t: layout ZERO to THREE");
        const auto mode = twin::e4m3_mode(trait.satMode, twin::running_ctrl);
        twin::map_lanes<uint32_t, MaskMergeMode::ZEROING>(
            lanes, mask,
            QBSA_LANES(auto x) { return twin::e4m3_encode(x, mode) << twin::layout_shift<To>(trait.layoutMode); },
            srcReg);
    } else if constexpr (kToBf16) {
        static_assert(trait.layoutMode == RegLayout::ZERO || trait.layoutMode == RegLayout::ONE,
                      "Cast to bfloat16_t: layout ZERO or ONE");
        const auto mode = twin::bf16_mode(trait.satMode, twin::running_ctrl);
        twin::map_lanes<uint32_t, MaskMergeMode::ZEROING>(
            lanes, mask,
            QBSA_LANES(auto x) { return twin::bf16_encode(x, mode) << twin::layout_shift<To>(trait.layoutMode); },
            srcReg);
    } else if constexpr (kToInt) {
        twin::map_lanes<uint32_t, MaskMergeMode::ZEROING>(
            lanes, mask, QBSA_LANES(auto x) { return twin::to_int(x); }, srcReg);
    } else {
        twin::map_lanes<uint32_t, MaskMergeMode::ZEROING>(
            lanes, mask, QBSA_LANES(auto x) { return __builtin_convertvector(x, twin::VecF32); }, srcReg);
    }
}

}  // namespace Reg
}  // namespace AscendC
