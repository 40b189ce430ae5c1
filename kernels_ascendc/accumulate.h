// V2: acc = acc * alpha + pv, l = l * alpha + sum of P, and the end of a task. acc and pv as Fixpipe writes NZ:
// [8 slabs][64 rows][16] fp32.
//
// The first macro-block of a task needs nothing: Fixpipe writes its pv into acc, V1 the sum of its P into l.
#pragma once
#include "registers.h"

namespace qbsa {

static constexpr uint16_t kOutSlabs = kHeadDim / kSlabKeys;

// Eight rows x 16 columns.
__simd_callee__ inline void accumulate_tile(__ubuf__ float* acc, __ubuf__ float* pv, F32& alpha, reg::MaskReg& all)
{
    F32 even, odd, x, y;
    load_pair(even, odd, acc);
    load_pair(x, y, pv);
    reg::MulDstAdd(even, alpha, x, all);
    reg::MulDstAdd(odd, alpha, y, all);
    store_pair(acc, even, odd, all);
}

// l = l * alpha + sum of P.
__simd_callee__ inline void accumulate_sum(__ubuf__ float* sum, __ubuf__ float* tile_sum, __ubuf__ float* alpha,
                                           reg::MaskReg& all)
{
    F32 total, part, a;
    reg::LoadAlign(total, sum);
    reg::LoadAlign(part, tile_sum);
    reg::LoadAlign(a, alpha);
    reg::MulDstAdd(total, a, part, all);
    reg::StoreAlign(sum, total, all);
}

__simd_vf__ inline void accumulate(__ubuf__ float* acc, __ubuf__ float* pv, __ubuf__ float* sum,
                                   __ubuf__ float* tile_sum, __ubuf__ float* alpha, uint16_t groups)
{
    reg::MaskReg all = reg::CreateMask<float, reg::MaskPattern::ALL>();
    accumulate_sum(sum, tile_sum, alpha, all);
    for (uint16_t g = 0; g < groups; ++g) {
        F32 a;
        load_per_row(a, alpha + g * kGroupRows);
        for (uint16_t c = 0; c < kOutSlabs; ++c) {
            accumulate_tile(acc + g * kTile + c * kSlab, pv + g * kTile + c * kSlab, a, all);
        }
    }
}

// factor = v_descale / l, 0 for a row that saw no key; lse = ln(l) + m - ln(p_scale), or -FLT_MAX. l is in sum.
__simd_callee__ inline void finish_rows(__ubuf__ float* factor, __ubuf__ float* lse, F32& sum, __ubuf__ float* top_from,
                                        __ubuf__ float* ln_p_scale, float v_descale, float empty_lse, reg::MaskReg& all)
{
    F32 top, scale, zero, empty, shift;
    reg::MaskReg seen;
    reg::LoadAlign(top, top_from);
    reg::LoadAlign(shift, ln_p_scale);
    reg::Duplicate(scale, v_descale);
    reg::Duplicate(zero, 0.0f);
    reg::Duplicate(empty, empty_lse);
    // Not equal, so that a NaN sum counts as seen and spreads.
    reg::Compares<float, AscendC::CMPMODE::NE>(seen, sum, 0.0f, all);
    reg::Div(scale, scale, sum, all);
    reg::Select(scale, scale, zero, seen);
    reg::StoreAlign(factor, scale, all);
    reg::Ln(sum, sum, all);
    reg::Add(sum, sum, top, all);
    reg::Sub(sum, sum, shift, all);
    reg::Select(sum, sum, empty, seen);
    reg::StoreAlign(lse, sum, all);
}

// Even and odd columns of eight rows x 16 columns -> bf16. They share a 32-bit lane, so two casts and an Or finish
// them.
__simd_callee__ inline void store_bf16(__ubuf__ uint16_t* out, F32& even, F32& odd, reg::MaskReg& all,
                                       reg::MaskReg& all16)
{
    Bf16 low, high;
    reg::Cast<bfloat16_t, float, kToBf16Low>(low, even, all);
    reg::Cast<bfloat16_t, float, kToBf16High>(high, odd, all);
    reg::Or((U16&)low, (U16&)low, (U16&)high, all16);
    reg::StoreAlign<uint16_t, reg::DataCopyMode::DATA_BLOCK_COPY>(out, (U16&)low, ub::kOutPitchBlocks, all16);
}

// O = (acc * alpha + pv) * v_descale / l; lse. kSingle: the piece has one macro-block, acc and sum are all of it.
// kPartial: the piece is not all of its task, O stays in acc as fp32; otherwise it becomes bf16 [64 rows]
// [ub::kOutPitch] in out.
template <bool kSingle, bool kPartial>
__simd_vf__ inline void finish(__ubuf__ uint16_t* out, __ubuf__ float* lse, __ubuf__ float* acc, __ubuf__ float* pv,
                               __ubuf__ float* sum_from, __ubuf__ float* tile_sum, __ubuf__ float* alpha,
                               __ubuf__ float* top, __ubuf__ float* scratch, uint16_t groups, float v_descale,
                               float empty_lse)
{
    reg::MaskReg all = reg::CreateMask<float, reg::MaskPattern::ALL>();
    reg::MaskReg all16 = reg::CreateMask<uint16_t, reg::MaskPattern::ALL>();
    __ubuf__ float* factor = scratch + work::kFactor;
    F32 sum;
    reg::LoadAlign(sum, sum_from);
    if constexpr (!kSingle) {
        F32 a, part;
        reg::LoadAlign(a, alpha);
        reg::LoadAlign(part, tile_sum);
        reg::MulDstAdd(sum, a, part, all);
    }
    finish_rows(factor, lse, sum, top, scratch + work::kLnPScale, v_descale, empty_lse, all);
    fence();
    for (uint16_t g = 0; g < groups; ++g) {
        F32 a, scale;
        __ubuf__ uint16_t* to = out + g * (kGroupRows * ub::kOutPitch);
        __ubuf__ float* from = acc + g * kTile;
        load_per_row(scale, factor + g * kGroupRows);
        if constexpr (!kSingle) {
            load_per_row(a, alpha + g * kGroupRows);
        }
        for (uint16_t c = 0; c < kOutSlabs; ++c) {
            F32 even, odd, x, y;
            load_pair(even, odd, from + c * kSlab);
            if constexpr (!kSingle) {
                load_pair(x, y, pv + g * kTile + c * kSlab);
                reg::MulDstAdd(even, a, x, all);
                reg::MulDstAdd(odd, a, y, all);
            }
            reg::Mul(even, even, scale, all);
            reg::Mul(odd, odd, scale, all);
            if constexpr (kPartial) {
                store_pair(from + c * kSlab, even, odd, all);
            } else {
                store_bf16(to + c * kSlabKeys, even, odd, all, all16);
            }
        }
    }
}

// Constant rows in the staging buffers: out (as bf16 bits) and lse.
__simd_vf__ inline void fill_rows(__ubuf__ uint16_t* out, __ubuf__ float* lse, uint16_t registers, uint16_t out_bits,
                                  float lse_value)
{
    reg::MaskReg all = reg::CreateMask<float, reg::MaskPattern::ALL>();
    reg::MaskReg all16 = reg::CreateMask<uint16_t, reg::MaskPattern::ALL>();
    U16 value;
    F32 lse_all;
    reg::Duplicate(value, out_bits);
    reg::Duplicate(lse_all, lse_value);
    reg::StoreAlign(lse, lse_all, all);
    for (uint16_t i = 0; i < registers; ++i) {
        reg::StoreAlign(out + i * (arch::kVectorBytes / sizeof(uint16_t)), value, all16);
    }
}

}  // namespace qbsa
