// V1: scores -> P. One AIV, up to 64 rows, a macro-block of up to 256 keys, in place in UB.
//
//   scores [keys / 16][64 rows][16 keys] fp32, as Fixpipe writes NZ     P [keys / 32][64 rows][32] e4m3, an NZ operand
//
//   s = (S * q) * k          q = q_descale * softmax_scale per row, k = k_descale per key; in this order
//   m = max(m, max s)        the old maximum is just one more candidate
//   P = e4m3(exp(s - (m - ln p_scale)))
//   sum of fp32 P, alpha = exp(m_old - m_new); accumulate.h adds up l and O with them
//
// Pass 1 (scale_*) scales and finds the maximum, pass 2 (exponentials) makes P; each is a function of its own, so that
// what one stores the other may load without a barrier. Where k_descale is the same for all keys it is part of q, and
// in macro-blocks that all rows see whole pass 1 leaves the scaling to pass 2: max(S * q) = q * max S as q >= 0.
//
// Rows are walked in bands of 32, so the time falls with the rows. In pass 2 four registers (two slabs, even and odd
// columns) are cast to the four bytes of a lane and become 8 rows x 32 columns of P, 256 contiguous bytes. Column
// 4i + 2s + o of P comes from column 2i + o of slab s of the two; pages.h loads V in that order. Exact instruction
// counts: tests/test_vector_work.py.
#pragma once
#include "accumulate.h"
#include "registers.h"

namespace qbsa {

static_assert(kOutSlabs == kBlockSlabs, "V2 and a block have as many slabs");

// When scores are multiplied by what.
enum class Scaling {
    kPerKey,  // pass 1: by q of the row, then by k of the key
    kPerRow,  // pass 1: by q of the row, which holds k
    kLater    // pass 2: by q of the row, which holds k
};

// Which rows of a band see the keys of one half of a slab.
enum class Seen { kAll, kSome, kNone };

// Eight rows x 8 keys of one half: scaled, and hidden where not seen. order: slope * row - key of the lower half; a key
// is seen iff order >= limit.
template <Scaling kScaling, Seen kSeen>
__simd_callee__ inline void scale_half(F32& score, F32& q, F32& k, I32& order, int32_t limit, F32& hidden,
                                       reg::MaskReg& all)
{
    if constexpr (kScaling != Scaling::kLater) {
        reg::Mul(score, score, q, all);
    }
    if constexpr (kScaling == Scaling::kPerKey) {
        reg::Mul(score, score, k, all);
    }
    if constexpr (kSeen == Seen::kSome) {
        reg::MaskReg sees;
        reg::Compares<int32_t, AscendC::CMPMODE::GE>(sees, order, limit, all);
        reg::Select(score, score, hidden, sees);
    }
}

// Eight rows of a slab, in place, and their maximum. Masked scores may be anything, NaN included.
template <Scaling kScaling, Seen kLower, Seen kUpper>
__simd_callee__ inline void scale_tile(__ubuf__ float* tile, F32& q, F32& k_lower, F32& k_upper, F32& top, I32& order,
                                       int32_t limit, int32_t upper_limit, F32& hidden, reg::MaskReg& all)
{
    F32 lower, upper;
    load_pair(lower, upper, tile);
    scale_half<kScaling, kLower>(lower, q, k_lower, order, limit, hidden, all);
    if constexpr (kUpper == Seen::kNone) {
        store_pair(tile, lower, hidden, all);
    } else {
        scale_half<kScaling, kUpper>(upper, q, k_upper, order, upper_limit, hidden, all);
        if constexpr (kScaling != Scaling::kLater) {
            store_pair(tile, lower, upper, all);
        }
        reg::Max(lower, lower, upper, all);
    }
    reg::Max(top, top, lower, all);
}

// One slab of a band.
template <Scaling kScaling, Seen kLower, Seen kUpper>
__simd_callee__ inline void scale_slab(__ubuf__ float* slab, __ubuf__ float* k_lower_at, __ubuf__ float* k_upper_at,
                                       I32& order, int32_t limit, int32_t upper_limit, int32_t group_step, F32& hidden,
                                       F32& q0, F32& q1, F32& q2, F32& q3, F32& t0, F32& t1, F32& t2, F32& t3,
                                       reg::MaskReg& all)
{
    F32 k_lower, k_upper;
    if constexpr (kScaling == Scaling::kPerKey) {
        load_block_to_all(k_lower, k_lower_at);
        if constexpr (kUpper != Seen::kNone) {
            load_block_to_all(k_upper, k_upper_at);
        }
    }
    scale_tile<kScaling, kLower, kUpper>(slab, q0, k_lower, k_upper, t0, order, limit, upper_limit, hidden, all);
    scale_tile<kScaling, kLower, kUpper>(slab + kTile, q1, k_lower, k_upper, t1, order, limit - group_step,
                                         upper_limit - group_step, hidden, all);
    scale_tile<kScaling, kLower, kUpper>(slab + 2 * kTile, q2, k_lower, k_upper, t2, order, limit - 2 * group_step,
                                         upper_limit - 2 * group_step, hidden, all);
    scale_tile<kScaling, kLower, kUpper>(slab + 3 * kTile, q3, k_lower, k_upper, t3, order, limit - 3 * group_step,
                                         upper_limit - 3 * group_step, hidden, all);
}

// `slabs` slabs of one kind, the first of which is number `first` of its block.
template <Scaling kScaling, Seen kLower, Seen kUpper>
__simd_callee__ inline void scale_slabs(__ubuf__ float* block, __ubuf__ float* k_lower, __ubuf__ float* k_upper,
                                        uint16_t first, uint16_t slabs, I32& band_order, int32_t limit,
                                        int32_t upper_limit, int32_t group_step, F32& hidden, F32& q0, F32& q1, F32& q2,
                                        F32& q3, F32& t0, F32& t1, F32& t2, F32& t3, reg::MaskReg& all)
{
    I32 order;
    __ubuf__ float* from = block + first * kSlab;
    __ubuf__ float* lower_from = k_lower + first * kSlabHalf;
    __ubuf__ float* upper_from = k_upper + first * kSlabHalf;
    if constexpr (kLower == Seen::kSome || kUpper == Seen::kSome) {
        reg::Adds(order, band_order, -(int32_t)(first * kSlabHalf), all);
    }
    for (uint16_t c = 0; c < slabs; ++c) {
        scale_slab<kScaling, kLower, kUpper>(from + c * kSlab, lower_from + c * kSlabHalf, upper_from + c * kSlabHalf,
                                             order, limit, upper_limit, group_step, hidden, q0, q1, q2, q3, t0, t1, t2,
                                             t3, all);
        if constexpr (kLower == Seen::kSome || kUpper == Seen::kSome) {
            reg::Adds(order, order, -(int32_t)kSlabHalf, all);
        }
    }
}

// Slabs that no row of the band sees.
__simd_callee__ inline void hide_slabs(__ubuf__ float* from, uint16_t slabs, F32& hidden, reg::MaskReg& all)
{
    for (uint16_t c = 0; c < slabs; ++c) {
        store_pair(from + c * kSlab, hidden, hidden, all);
        store_pair(from + c * kSlab + kTile, hidden, hidden, all);
        store_pair(from + c * kSlab + 2 * kTile, hidden, hidden, all);
        store_pair(from + c * kSlab + 3 * kTile, hidden, hidden, all);
    }
}

// One block of one band: the five kinds of slabs of BlockView. limit: -BlockView::last.
template <Scaling kScaling>
__simd_callee__ inline void scale_block(__ubuf__ float* block, __ubuf__ float* key_scale, uint16_t half_keys,
                                        uint16_t seen, uint16_t upper, uint16_t both, uint16_t lower, uint16_t none,
                                        I32& order, int32_t limit, int32_t group_step, F32& hidden, F32& q0, F32& q1,
                                        F32& q2, F32& q3, F32& t0, F32& t1, F32& t2, F32& t3, reg::MaskReg& all)
{
    __ubuf__ float* k_upper = key_scale + half_keys;
    int32_t upper_limit = limit + half_keys;
    uint16_t to_both = seen + upper;
    uint16_t to_lower = to_both + both;
    uint16_t to_none = to_lower + lower;
    scale_slabs<kScaling, Seen::kAll, Seen::kAll>(block, key_scale, k_upper, 0, seen, order, limit, upper_limit,
                                                  group_step, hidden, q0, q1, q2, q3, t0, t1, t2, t3, all);
    scale_slabs<kScaling, Seen::kAll, Seen::kSome>(block, key_scale, k_upper, seen, upper, order, limit, upper_limit,
                                                   group_step, hidden, q0, q1, q2, q3, t0, t1, t2, t3, all);
    scale_slabs<kScaling, Seen::kSome, Seen::kSome>(block, key_scale, k_upper, to_both, both, order, limit, upper_limit,
                                                    group_step, hidden, q0, q1, q2, q3, t0, t1, t2, t3, all);
    scale_slabs<kScaling, Seen::kSome, Seen::kNone>(block, key_scale, k_upper, to_lower, lower, order, limit,
                                                    upper_limit, group_step, hidden, q0, q1, q2, q3, t0, t1, t2, t3,
                                                    all);
    hide_slabs(block + to_none * kSlab, none, hidden, all);
}

// slope * row - key for rows 0..7 (a row is a block of eight lanes) and keys 0..7.
__simd_callee__ inline void first_order(I32& order, int32_t slope, reg::MaskReg& all)
{
    I32 row;
    reg::Arange(order, 0);
    reg::ShiftRights(row, order, (int16_t)3, all);
    reg::Muls(row, row, slope + kSlabHalf, all);
    reg::Muls(order, order, -1, all);
    reg::Add(order, order, row, all);
}

// Per-row values of a band: 32 floats -> four registers of eight rows.
__simd_callee__ inline void load_band(F32& x0, F32& x1, F32& x2, F32& x3, __ubuf__ float* from)
{
    load_per_row(x0, from);
    load_per_row(x1, from + kGroupRows);
    load_per_row(x2, from + 2 * kGroupRows);
    load_per_row(x3, from + 3 * kGroupRows);
}

// The maxima of one band, one float a row.
__simd_callee__ inline void store_band_max(__ubuf__ float* to, F32& t0, F32& t1, F32& t2, F32& t3, reg::MaskReg& all,
                                           reg::MaskReg& eight)
{
    reg::ReduceDataBlock<reg::ReduceType::MAX>(t0, t0, all);
    reg::ReduceDataBlock<reg::ReduceType::MAX>(t1, t1, all);
    reg::ReduceDataBlock<reg::ReduceType::MAX>(t2, t2, all);
    reg::ReduceDataBlock<reg::ReduceType::MAX>(t3, t3, all);
    reg::StoreAlign(to, t0, eight);
    reg::StoreAlign(to + kGroupRows, t1, eight);
    reg::StoreAlign(to + 2 * kGroupRows, t2, eight);
    reg::StoreAlign(to + 3 * kGroupRows, t3, eight);
}

// Raw maxima of eight rows, scaled, or the old maxima.
__simd_callee__ inline void scale_max(F32& top, __ubuf__ float* q_scale, __ubuf__ float* old_max, reg::MaskReg& all)
{
    F32 q, old;
    load_per_row(q, q_scale);
    load_per_row(old, old_max);
    reg::Mul(top, top, q, all);
    reg::Max(top, top, old, all);
}

// V2 of one slab of a band, see accumulate.h.
__simd_callee__ inline void accumulate_slab(__ubuf__ float* acc, __ubuf__ float* pv, F32& a0, F32& a1, F32& a2, F32& a3,
                                            reg::MaskReg& all)
{
    accumulate_tile(acc, pv, a0, all);
    accumulate_tile(acc + kTile, pv + kTile, a1, all);
    accumulate_tile(acc + 2 * kTile, pv + 2 * kTile, a2, all);
    accumulate_tile(acc + 3 * kTile, pv + 3 * kTile, a3, all);
}

// Pass 1 of any macro-block. Of each block: half of its keys, slabs of each kind, limit -BlockView::last; the second
// block may have no slabs. kAccumulate: the first block is seen whole, and V2 of an earlier macro-block of as many rows
// is done slab by slab between its slabs: V2's loads and stores alone would leave half of the issue slots empty.
template <Scaling kScaling, bool kAccumulate>
__simd_vf__ inline void scale_masked(__ubuf__ float* scores, __ubuf__ float* key_scale, __ubuf__ float* q_scale,
                                     __ubuf__ float* old_max, __ubuf__ float* new_max, __ubuf__ float* acc,
                                     __ubuf__ float* pv, __ubuf__ float* sum, __ubuf__ float* tile_sum,
                                     __ubuf__ float* alpha, uint16_t bands, int32_t slope, uint16_t half0,
                                     uint16_t seen0, uint16_t upper0, uint16_t both0, uint16_t lower0, uint16_t none0,
                                     int32_t limit0, uint16_t half1, uint16_t seen1, uint16_t upper1, uint16_t both1,
                                     uint16_t lower1, uint16_t none1, int32_t limit1)
{
    reg::MaskReg all = reg::CreateMask<float, reg::MaskPattern::ALL>();
    reg::MaskReg eight = reg::CreateMask<float, reg::MaskPattern::VL8>();
    int32_t group_step = (int32_t)kGroupRows * slope;
    I32 order;
    F32 hidden;
    first_order(order, slope, all);
    reg::Duplicate(hidden, kHiddenScore);
    if constexpr (kAccumulate) {
        accumulate_sum(sum, tile_sum, alpha, all);
    }
    for (uint16_t band = 0; band < bands; ++band) {
        F32 q0, q1, q2, q3, t0, t1, t2, t3;
        __ubuf__ float* block0 = scores + band * (kBandGroups * kTile);
        __ubuf__ float* block1 = block0 + half0 * (2 * kAivRows);
        load_band(q0, q1, q2, q3, q_scale + band * kBandRows);
        load_band(t0, t1, t2, t3, old_max + band * kBandRows);
        if constexpr (kAccumulate) {
            F32 a0, a1, a2, a3;
            __ubuf__ float* acc_from = acc + band * (kBandGroups * kTile);
            __ubuf__ float* pv_from = pv + band * (kBandGroups * kTile);
            load_band(a0, a1, a2, a3, alpha + band * kBandRows);
            for (uint16_t c = 0; c < kBlockSlabs; ++c) {
                scale_slab<kScaling, Seen::kAll, Seen::kAll>(block0 + c * kSlab, key_scale + c * kSlabHalf,
                                                             key_scale + c * kSlabHalf + kBlockKeys / 2, order, 0, 0, 0,
                                                             hidden, q0, q1, q2, q3, t0, t1, t2, t3, all);
                accumulate_slab(acc_from + c * kSlab, pv_from + c * kSlab, a0, a1, a2, a3, all);
            }
        } else {
            scale_block<kScaling>(block0, key_scale, half0, seen0, upper0, both0, lower0, none0, order, limit0,
                                  group_step, hidden, q0, q1, q2, q3, t0, t1, t2, t3, all);
        }
        scale_block<kScaling>(block1, key_scale + kBlockKeys, half1, seen1, upper1, both1, lower1, none1, order, limit1,
                              group_step, hidden, q0, q1, q2, q3, t0, t1, t2, t3, all);
        reg::Adds(order, order, (int32_t)kBandRows * slope, all);
        store_band_max(new_max + band * kBandRows, t0, t1, t2, t3, all, eight);
    }
}

// Pass 1 of a macro-block of two whole blocks that all rows see. kAccumulate: as in scale_masked.
template <Scaling kScaling, bool kAccumulate>
__simd_vf__ inline void scale_whole(__ubuf__ float* scores, __ubuf__ float* key_scale, __ubuf__ float* q_scale,
                                    __ubuf__ float* old_max, __ubuf__ float* new_max, __ubuf__ float* acc,
                                    __ubuf__ float* pv, __ubuf__ float* sum, __ubuf__ float* tile_sum,
                                    __ubuf__ float* alpha, uint16_t bands)
{
    reg::MaskReg all = reg::CreateMask<float, reg::MaskPattern::ALL>();
    reg::MaskReg eight = reg::CreateMask<float, reg::MaskPattern::VL8>();
    if constexpr (kAccumulate) {
        accumulate_sum(sum, tile_sum, alpha, all);
    }
    for (uint16_t band = 0; band < bands; ++band) {
        I32 order;
        F32 hidden, q0, q1, q2, q3, t0, t1, t2, t3, a0, a1, a2, a3;
        __ubuf__ float* from = scores + band * (kBandGroups * kTile);
        __ubuf__ float* acc_from = acc + band * (kBandGroups * kTile);
        __ubuf__ float* pv_from = pv + band * (kBandGroups * kTile);
        __ubuf__ float* q_from = q_scale + band * kBandRows;
        __ubuf__ float* old_from = old_max + band * kBandRows;
        if constexpr (kScaling == Scaling::kPerKey) {
            load_band(q0, q1, q2, q3, q_from);
            load_band(t0, t1, t2, t3, old_from);
        } else {
            reg::Duplicate(t0, kHiddenScore);
            reg::Duplicate(t1, kHiddenScore);
            reg::Duplicate(t2, kHiddenScore);
            reg::Duplicate(t3, kHiddenScore);
        }
        if constexpr (kAccumulate) {
            load_band(a0, a1, a2, a3, alpha + band * kBandRows);
        }
        for (uint16_t c = 0; c < kBlockSlabs; ++c) {
            __ubuf__ float* slab = from + c * kSlab;
            __ubuf__ float* k0 = key_scale + c * kSlabHalf;
            __ubuf__ float* k1 = k0 + kBlockKeys;
            scale_slab<kScaling, Seen::kAll, Seen::kAll>(slab, k0, k0 + kBlockKeys / 2, order, 0, 0, 0, hidden, q0, q1,
                                                         q2, q3, t0, t1, t2, t3, all);
            scale_slab<kScaling, Seen::kAll, Seen::kAll>(slab + kBlockSlabs * kSlab, k1, k1 + kBlockKeys / 2, order, 0,
                                                         0, 0, hidden, q0, q1, q2, q3, t0, t1, t2, t3, all);
            if constexpr (kAccumulate) {
                accumulate_slab(acc_from + c * kSlab, pv_from + c * kSlab, a0, a1, a2, a3, all);
            }
        }
        if constexpr (kScaling == Scaling::kLater) {
            scale_max(t0, q_from, old_from, all);
            scale_max(t1, q_from + kGroupRows, old_from + kGroupRows, all);
            scale_max(t2, q_from + 2 * kGroupRows, old_from + 2 * kGroupRows, all);
            scale_max(t3, q_from + 3 * kGroupRows, old_from + 3 * kGroupRows, all);
        }
        store_band_max(new_max + band * kBandRows, t0, t1, t2, t3, all, eight);
    }
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
template <bool kScale>
__simd_callee__ inline void exp_tile(__ubuf__ uint8_t* out, __ubuf__ float* first, __ubuf__ float* second, F32& q,
                                     F32& shifted, F32& sum, reg::MaskReg& all, reg::MaskReg& bytes)
{
    F32 x0, x1, x2, x3;
    U8 packed;
    load_pair(x0, x1, first);
    load_pair(x2, x3, second);
    if constexpr (kScale) {
        reg::Mul(x0, x0, q, all);
        reg::Mul(x1, x1, q, all);
        reg::Mul(x2, x2, q, all);
        reg::Mul(x3, x3, q, all);
    }
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

// P of eight rows of `pairs` pairs of slabs; the two of a pair lie `pairs` slabs apart.
template <bool kScale>
__simd_callee__ inline void exp_pairs(__ubuf__ uint8_t* to, __ubuf__ float* from, uint16_t pairs, F32& q, F32& shifted,
                                      F32& sum, reg::MaskReg& all, reg::MaskReg& bytes)
{
    __ubuf__ float* second = from + pairs * kSlab;
    for (uint16_t c = 0; c < pairs; ++c) {
        exp_tile<kScale>(to + c * (kAivRows * arch::kDataBlockBytes), from + c * kSlab, second + c * kSlab, q, shifted,
                         sum, all, bytes);
    }
}

// Pass 2. pairs0, pairs1: pairs of slabs of the first block and of the second, or of both together and 0.
// kScale: pass 1 left the scaling.
template <bool kScale>
__simd_vf__ inline void exponentials(__ubuf__ uint8_t* probs, __ubuf__ float* scores, __ubuf__ float* q_scale,
                                     __ubuf__ float* old_max, __ubuf__ float* new_max, __ubuf__ float* alpha_out,
                                     __ubuf__ float* sum_out, __ubuf__ float* ln_p_scale, uint16_t groups,
                                     uint16_t pairs0, uint16_t pairs1)
{
    reg::MaskReg all = reg::CreateMask<float, reg::MaskPattern::ALL>();
    reg::MaskReg bytes = reg::CreateMask<uint8_t, reg::MaskPattern::ALL>();
    reg::MaskReg eight = reg::CreateMask<float, reg::MaskPattern::VL8>();
    F32 alpha, top, shift;
    reg::LoadAlign(alpha, old_max);
    reg::LoadAlign(top, new_max);
    reg::LoadAlign(shift, ln_p_scale);
    reg::ExpSub(alpha, alpha, top, all);
    reg::StoreAlign(alpha_out, alpha, all);
    __ubuf__ float* scores1 = scores + pairs0 * (2 * kSlab);
    __ubuf__ uint8_t* probs1 = probs + pairs0 * (kAivRows * arch::kDataBlockBytes);
    for (uint16_t g = 0; g < groups; ++g) {
        F32 shifted, q, sum;
        load_per_row(shifted, new_max + g * kGroupRows);
        if constexpr (kScale) {
            load_per_row(q, q_scale + g * kGroupRows);
        }
        reg::Sub(shifted, shifted, shift, all);
        reg::Duplicate(sum, 0.0f);
        exp_pairs<kScale>(probs + g * arch::kVectorBytes, scores + g * kTile, pairs0, q, shifted, sum, all, bytes);
        exp_pairs<kScale>(probs1 + g * arch::kVectorBytes, scores1 + g * kTile, pairs1, q, shifted, sum, all, bytes);
        reg::ReduceDataBlock<reg::ReduceType::SUM>(sum, sum, all);
        reg::StoreAlign(sum_out + g * kGroupRows, sum, eight);
    }
}

// Start of a task: scales of its rows, no key seen yet.
__simd_vf__ inline void begin_rows(__ubuf__ float* state, __ubuf__ float* q_descale, float scale)
{
    reg::MaskReg all = reg::CreateMask<float, reg::MaskPattern::ALL>();
    F32 q, empty_max, zero;
    reg::LoadAlign(q, q_descale);
    reg::Muls(q, q, scale, all);
    reg::Duplicate(empty_max, kEmptyMax);
    reg::Duplicate(zero, 0.0f);
    reg::StoreAlign(state + rows::kQueryScale, q, all);
    reg::StoreAlign(state + rows::kSum, zero, all);
    for (uint16_t s = 0; s < rows::kMaxSlots; ++s) {
        reg::StoreAlign(state + rows::kMax + s * kAivRows, empty_max, all);
    }
}

// Start of the kernel: the places whose lanes a short task leaves untouched, and ln(p_scale).
__simd_vf__ inline void begin_core(__ubuf__ float* ln_p_scale, __ubuf__ float* q_descale, uint16_t q_slots,
                                   __ubuf__ float* alpha, __ubuf__ float* tile_sum, float p_scale)
{
    reg::MaskReg all = reg::CreateMask<float, reg::MaskPattern::ALL>();
    F32 zero, logarithm;
    reg::Duplicate(zero, 0.0f);
    reg::Duplicate(logarithm, p_scale);
    reg::Ln(logarithm, logarithm, all);
    reg::StoreAlign(ln_p_scale, logarithm, all);
    for (uint16_t i = 0; i < q_slots; ++i) {
        reg::StoreAlign(q_descale + i * kAivRows, zero, all);
    }
    for (uint16_t i = 0; i < kLagSlots; ++i) {
        reg::StoreAlign(alpha + i * kAivRows, zero, all);
        reg::StoreAlign(tile_sum + i * kAivRows, zero, all);
    }
}

}  // namespace qbsa
