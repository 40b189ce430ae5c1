// V1: scores -> P. One AIV, up to 64 rows, a macro-block of 256 keys (or 128), in place in UB.
//
//   scores [keys / 16][64 rows][16 keys] fp32, as Fixpipe writes NZ     P [keys / 32][64 rows][32] e4m3, an NZ operand
//
//   s = (S * q) * k          q = q_descale * softmax_scale per row, k = k_descale per key; in this order
//   m = max(m, max s)        the old maximum is just one more candidate
//   P = e4m3(exp(s - (m - ln p_scale)))
//   l = l * alpha + sum of fp32 P,  alpha = exp(m_old - m_new)
//
// Rows are walked in bands of 32, so the time falls with the rows. Pass 1 scales and finds the maximum, pass 2 makes P:
// four registers (two slabs, even and odd keys) are cast to the four bytes of a lane and become 8 rows x 32 columns of
// P, 256 contiguous bytes. Column 4i + 2s + o of P is key H * s + 2i + o (H half the keys; s, o < 2); V is loaded in
// the same order (pages.h). Exact instruction counts: tests/test_vector_work.py.
#pragma once
#include "registers.h"

namespace qbsa {

// s = (S * q) * k in place and the running maximum of eight rows x 16 keys.
__simd_callee__ inline void scale_tile(__ubuf__ float* tile, F32& q, F32& k_even, F32& k_odd, F32& top,
                                       reg::MaskReg& all)
{
    F32 even, odd;
    load_pair(even, odd, tile);
    reg::Mul(even, even, q, all);
    reg::Mul(odd, odd, q, all);
    reg::Mul(even, even, k_even, all);
    reg::Mul(odd, odd, k_odd, all);
    store_pair(tile, even, odd, all);
    reg::Max(even, even, odd, all);
    reg::Max(top, top, even, all);
}

// The same with hidden scores replaced. order: slope * row - key of the even keys; an even key is visible iff
// order >= limit, the odd key behind it iff order > limit.
__simd_callee__ inline void scale_tile_masked(__ubuf__ float* tile, F32& q, F32& k_even, F32& k_odd, F32& top,
                                              I32& order, int32_t limit, F32& hidden, reg::MaskReg& all)
{
    F32 even, odd;
    reg::MaskReg sees_even, sees_odd;
    reg::Compares<int32_t, AscendC::CMPMODE::GE>(sees_even, order, limit, all);
    reg::Compares<int32_t, AscendC::CMPMODE::GT>(sees_odd, order, limit, all);
    load_pair(even, odd, tile);
    reg::Mul(even, even, q, all);
    reg::Mul(odd, odd, q, all);
    reg::Mul(even, even, k_even, all);
    reg::Mul(odd, odd, k_odd, all);
    reg::Select(even, even, hidden, sees_even);
    reg::Select(odd, odd, hidden, sees_odd);
    store_pair(tile, even, odd, all);
    reg::Max(even, even, odd, all);
    reg::Max(top, top, even, all);
}

// `slabs` slabs of one band that all its rows see.
__simd_callee__ inline void scale_slabs(__ubuf__ float* scores, __ubuf__ float* key_even, __ubuf__ float* key_odd,
                                        uint16_t slabs, F32& q0, F32& q1, F32& q2, F32& q3, F32& t0, F32& t1, F32& t2,
                                        F32& t3, reg::MaskReg& all)
{
    for (uint16_t c = 0; c < slabs; ++c) {
        F32 k_even, k_odd;
        load_block_to_all(k_even, key_even + c * (kSlabKeys / 2));
        load_block_to_all(k_odd, key_odd + c * (kSlabKeys / 2));
        scale_tile(scores + c * kSlab, q0, k_even, k_odd, t0, all);
        scale_tile(scores + c * kSlab + kTile, q1, k_even, k_odd, t1, all);
        scale_tile(scores + c * kSlab + 2 * kTile, q2, k_even, k_odd, t2, all);
        scale_tile(scores + c * kSlab + 3 * kTile, q3, k_even, k_odd, t3, all);
    }
}

// One block of one band behind a mask: `full` slabs seen by all rows, `partial` by some, the rest by none.
// band_order: order of the band's first eight rows at key 0. Masked scores may be anything, NaN included.
__simd_callee__ inline void scale_block_masked(__ubuf__ float* scores, __ubuf__ float* key_even,
                                               __ubuf__ float* key_odd, uint16_t full, uint16_t partial, int32_t limit,
                                               int32_t slope, I32& band_order, F32& hidden, F32& q0, F32& q1, F32& q2,
                                               F32& q3, F32& t0, F32& t1, F32& t2, F32& t3, reg::MaskReg& all)
{
    scale_slabs(scores, key_even, key_odd, full, q0, q1, q2, q3, t0, t1, t2, t3, all);
    I32 order;
    reg::Adds(order, band_order, -(int32_t)(full * kSlabKeys), all);
    int32_t step = (int32_t)kGroupRows * slope;
    __ubuf__ float* from = scores + full * kSlab;
    __ubuf__ float* even_from = key_even + full * (kSlabKeys / 2);
    __ubuf__ float* odd_from = key_odd + full * (kSlabKeys / 2);
    for (uint16_t c = 0; c < partial; ++c) {
        F32 k_even, k_odd;
        load_block_to_all(k_even, even_from + c * (kSlabKeys / 2));
        load_block_to_all(k_odd, odd_from + c * (kSlabKeys / 2));
        scale_tile_masked(from + c * kSlab, q0, k_even, k_odd, t0, order, limit, hidden, all);
        scale_tile_masked(from + c * kSlab + kTile, q1, k_even, k_odd, t1, order, limit - step, hidden, all);
        scale_tile_masked(from + c * kSlab + 2 * kTile, q2, k_even, k_odd, t2, order, limit - 2 * step, hidden, all);
        scale_tile_masked(from + c * kSlab + 3 * kTile, q3, k_even, k_odd, t3, order, limit - 3 * step, hidden, all);
        reg::Adds(order, order, -(int32_t)kSlabKeys, all);
    }
    __ubuf__ float* hidden_from = from + partial * kSlab;
    uint16_t hidden_slabs = (uint16_t)(kBlockSlabs - full - partial);
    for (uint16_t c = 0; c < hidden_slabs; ++c) {
        store_pair(hidden_from + c * kSlab, hidden, hidden, all);
        store_pair(hidden_from + c * kSlab + kTile, hidden, hidden, all);
        store_pair(hidden_from + c * kSlab + 2 * kTile, hidden, hidden, all);
        store_pair(hidden_from + c * kSlab + 3 * kTile, hidden, hidden, all);
    }
}

// slope * row - key for rows 0..7 (a row is a block of eight lanes) and keys 0, 2, .., 14.
__simd_callee__ inline void first_order(I32& order, int32_t slope, reg::MaskReg& all)
{
    I32 row;
    reg::Arange(order, 0);
    reg::ShiftRights(row, order, (int16_t)3, all);
    reg::Muls(row, row, slope + kSlabKeys, all);
    reg::Muls(order, order, -2, all);
    reg::Add(order, order, row, all);
}

// Four fp32 registers -> 256 e4m3 bytes; byte 4 * lane + r comes from register r.
__simd_callee__ inline void pack_f8(U8& out, F32& x0, F32& x1, F32& x2, F32& x3, reg::MaskReg& all, reg::MaskReg& bytes)
{
    F8 b0, b1, b2, b3;
    reg::Cast<fp8_e4m3fn_t, float, kToF8Byte0>(b0, x0, all);
    reg::Cast<fp8_e4m3fn_t, float, kToF8Byte1>(b1, x1, all);
    reg::Cast<fp8_e4m3fn_t, float, kToF8Byte2>(b2, x2, all);
    reg::Cast<fp8_e4m3fn_t, float, kToF8Byte3>(b3, x3, all);
    reg::Or((U8&)b0, (U8&)b0, (U8&)b1, bytes);
    reg::Or((U8&)b2, (U8&)b2, (U8&)b3, bytes);
    reg::Or(out, (U8&)b0, (U8&)b2, bytes);
}

// P of 8 rows x 32 keys out of two slabs, and their sum.
__simd_callee__ inline void exp_tile(__ubuf__ uint8_t* out, __ubuf__ float* first, __ubuf__ float* second, F32& shifted,
                                     F32& sum, reg::MaskReg& all, reg::MaskReg& bytes)
{
    F32 x0, x1, x2, x3;
    U8 packed;
    load_pair(x0, x1, first);
    load_pair(x2, x3, second);
    reg::ExpSub(x0, x0, shifted, all);
    reg::ExpSub(x1, x1, shifted, all);
    reg::ExpSub(x2, x2, shifted, all);
    reg::ExpSub(x3, x3, shifted, all);
    pack_f8(packed, x0, x1, x2, x3, all, bytes);
    reg::StoreAlign(out, packed, bytes);
    reg::Add(x0, x0, x1, all);
    reg::Add(x2, x2, x3, all);
    reg::Add(x0, x0, x2, all);
    reg::Add(sum, sum, x0, all);
}

// The maxima of one band, one float a row.
__simd_callee__ inline void store_band_max(__ubuf__ float* chunk_max, F32& t0, F32& t1, F32& t2, F32& t3,
                                           reg::MaskReg& all, reg::MaskReg& eight)
{
    reg::ReduceDataBlock<reg::ReduceType::MAX>(t0, t0, all);
    reg::ReduceDataBlock<reg::ReduceType::MAX>(t1, t1, all);
    reg::ReduceDataBlock<reg::ReduceType::MAX>(t2, t2, all);
    reg::ReduceDataBlock<reg::ReduceType::MAX>(t3, t3, all);
    reg::StoreAlign(chunk_max, t0, eight);
    reg::StoreAlign(chunk_max + kGroupRows, t1, eight);
    reg::StoreAlign(chunk_max + 2 * kGroupRows, t2, eight);
    reg::StoreAlign(chunk_max + 3 * kGroupRows, t3, eight);
}

// Scores of kBlocks blocks -> P. state: rows:: of buffers.h; scratch: work:: of buffers.h. limitB = -last of block B
// (mask.h), all masking arguments are ignored without kMasked.
template <uint16_t kBlocks, bool kMasked>
__simd_vf__ inline void softmax(__ubuf__ uint8_t* probs, __ubuf__ float* scores, __ubuf__ float* key_scale,
                                __ubuf__ float* state, __ubuf__ float* alpha_out, __ubuf__ float* scratch,
                                uint16_t bands, int32_t slope, uint16_t full0, uint16_t partial0, int32_t limit0,
                                uint16_t full1, uint16_t partial1, int32_t limit1)
{
    constexpr uint16_t kSlabs = kBlocks * kBlockSlabs;
    constexpr uint16_t kHalf = kSlabs / 2;
    constexpr uint32_t kBlockScales = kBlockKeys / 2;
    __ubuf__ float* chunk_max = scratch + work::kChunkMax;
    __ubuf__ float* shifted_max = scratch + work::kShiftedMax;
    __ubuf__ float* chunk_sum = scratch + work::kChunkSum;
    __ubuf__ float* key_even = scratch + work::kKeyEven;
    __ubuf__ float* key_odd = scratch + work::kKeyOdd;
    reg::MaskReg all = reg::CreateMask<float, reg::MaskPattern::ALL>();
    reg::MaskReg bytes = reg::CreateMask<uint8_t, reg::MaskPattern::ALL>();
    reg::MaskReg eight = reg::CreateMask<float, reg::MaskPattern::VL8>();

    for (uint16_t b = 0; b < kBlocks; ++b) {
        F32 even, odd;
        load_pair(even, odd, key_scale + b * kBlockKeys);
        reg::StoreAlign(key_even + b * kBlockScales, even, all);
        reg::StoreAlign(key_odd + b * kBlockScales, odd, all);
    }
    fence();

    I32 order;
    F32 hidden;
    if constexpr (kMasked) {
        first_order(order, slope, all);
        reg::Duplicate(hidden, kHiddenScore);
    }
    for (uint16_t band = 0; band < bands; ++band) {
        F32 q0, q1, q2, q3, t0, t1, t2, t3;
        __ubuf__ float* from = scores + band * (kBandGroups * kTile);
        __ubuf__ float* q_scale = state + rows::kQueryScale + band * kBandRows;
        __ubuf__ float* old_max = state + rows::kMax + band * kBandRows;
        load_per_row(q0, q_scale);
        load_per_row(q1, q_scale + kGroupRows);
        load_per_row(q2, q_scale + 2 * kGroupRows);
        load_per_row(q3, q_scale + 3 * kGroupRows);
        load_per_row(t0, old_max);
        load_per_row(t1, old_max + kGroupRows);
        load_per_row(t2, old_max + 2 * kGroupRows);
        load_per_row(t3, old_max + 3 * kGroupRows);
        if constexpr (kMasked) {
            scale_block_masked(from, key_even, key_odd, full0, partial0, limit0, slope, order, hidden, q0, q1, q2, q3,
                               t0, t1, t2, t3, all);
            if constexpr (kBlocks > 1) {
                scale_block_masked(from + kBlockSlabs * kSlab, key_even + kBlockScales, key_odd + kBlockScales, full1,
                                   partial1, limit1, slope, order, hidden, q0, q1, q2, q3, t0, t1, t2, t3, all);
            }
            reg::Adds(order, order, (int32_t)kBandRows * slope, all);
        } else {
            scale_slabs(from, key_even, key_odd, kSlabs, q0, q1, q2, q3, t0, t1, t2, t3, all);
        }
        store_band_max(chunk_max + band * kBandRows, t0, t1, t2, t3, all, eight);
    }
    fence();

    F32 old, top, alpha, ln_p_scale, shifted_all;
    reg::LoadAlign(old, state + rows::kMax);
    reg::LoadAlign(top, chunk_max);
    reg::LoadAlign(ln_p_scale, scratch + work::kLnPScale);
    reg::ExpSub(alpha, old, top, all);
    reg::Sub(shifted_all, top, ln_p_scale, all);
    fence_store();
    reg::StoreAlign(state + rows::kMax, top, all);
    reg::StoreAlign(alpha_out, alpha, all);
    reg::StoreAlign(shifted_max, shifted_all, all);
    fence();

    uint16_t groups = (uint16_t)(bands * kBandGroups);
    for (uint16_t g = 0; g < groups; ++g) {
        F32 shifted, sum;
        __ubuf__ float* from = scores + g * kTile;
        __ubuf__ uint8_t* to = probs + g * arch::kVectorBytes;
        load_per_row(shifted, shifted_max + g * kGroupRows);
        reg::Duplicate(sum, 0.0f);
        for (uint16_t c = 0; c < kHalf; ++c) {
            exp_tile(to + c * (kAivRows * arch::kDataBlockBytes), from + c * kSlab, from + (c + kHalf) * kSlab, shifted,
                     sum, all, bytes);
        }
        reg::ReduceDataBlock<reg::ReduceType::SUM>(sum, sum, all);
        reg::StoreAlign(chunk_sum + g * kGroupRows, sum, eight);
    }
    fence();

    F32 total, row_sum;
    reg::LoadAlign(total, chunk_sum);
    reg::LoadAlign(row_sum, state + rows::kSum);
    reg::MulDstAdd(row_sum, alpha, total, all);
    reg::StoreAlign(state + rows::kSum, row_sum, all);
}

// Start of a task: scales of its rows, no key seen yet.
__simd_vf__ inline void begin_rows(__ubuf__ float* state, __ubuf__ float* q_descale, float softmax_scale)
{
    reg::MaskReg all = reg::CreateMask<float, reg::MaskPattern::ALL>();
    F32 scale, empty_max, zero;
    reg::LoadAlign(scale, q_descale);
    reg::Muls(scale, scale, softmax_scale, all);
    reg::Duplicate(empty_max, kEmptyMax);
    reg::Duplicate(zero, 0.0f);
    reg::StoreAlign(state + rows::kQueryScale, scale, all);
    reg::StoreAlign(state + rows::kMax, empty_max, all);
    reg::StoreAlign(state + rows::kSum, zero, all);
}

// Start of the kernel: the places whose lanes a short task leaves untouched, and ln(p_scale).
__simd_vf__ inline void begin_core(__ubuf__ float* scratch, __ubuf__ float* q_descale, __ubuf__ float* alpha,
                                   uint16_t slots, float p_scale)
{
    reg::MaskReg all = reg::CreateMask<float, reg::MaskPattern::ALL>();
    F32 zero, ln_p_scale;
    reg::Duplicate(zero, 0.0f);
    reg::Duplicate(ln_p_scale, p_scale);
    reg::Ln(ln_p_scale, ln_p_scale, all);
    reg::StoreAlign(scratch + work::kChunkMax, zero, all);
    reg::StoreAlign(scratch + work::kChunkSum, zero, all);
    reg::StoreAlign(scratch + work::kLnPScale, ln_p_scale, all);
    for (uint16_t i = 0; i < slots; ++i) {
        reg::StoreAlign(q_descale + i * kAivRows, zero, all);
        reg::StoreAlign(alpha + i * kAivRows, zero, all);
    }
}

}  // namespace qbsa
