// Mask policies: which keys a query row sees. A few integers per block replace a mask tensor.
#pragma once
#include "kernel_operator.h"

#include "arch.h"
#include "contract.h"

namespace qbsa {

// mask_mode 0: key j is visible iff j < kv_len.
struct LengthMask {
    static constexpr i32 kRowSlope = 0;
    __aicore__ static inline i64 last_key(i64 /*row*/, i64 /*q_len*/, i64 kv_len) { return kv_len - 1; }
};

// mask_mode 3: ... and j <= row + kv_len - q_len, so the last row sees the last key.
struct CausalMask {
    static constexpr i32 kRowSlope = 1;
    __aicore__ static inline i64 last_key(i64 row, i64 q_len, i64 kv_len) { return row + kv_len - q_len; }
};

static constexpr i32 kSlabKeys = 16;
static constexpr i32 kSlabHalf = kSlabKeys / 2;
static constexpr i32 kBlockSlabs = kBlockKeys / kSlabKeys;
// A block takes part with 64 or 128 keys: a step behind the last visible key costs nothing.
static constexpr i32 kStepKeys = 64;

// What `rows` consecutive query rows see of one block: row i sees key j of the block iff j <= i * slope + last.
//
// On chip the lower half of a block's keys lies in the even columns and the upper half in the odd ones (pages.h): slab c
// holds keys 8c .. 8c + 7 of both halves. So the slabs of a block are of five kinds, in this order:
struct BlockView {
    uint16_t seen;   // by all rows, whole
    uint16_t upper;  // lower half by all rows, upper half by some
    uint16_t both;   // both halves by some rows
    uint16_t lower;  // lower half by some rows, upper half by none
    uint16_t none;
    i32 last;

    __aicore__ inline bool is_whole() const { return upper + both + lower + none == 0; }
};

__aicore__ inline i64 clamp(i64 x, i64 low, i64 high) { return x < low ? low : (x > high ? high : x); }

// keys: of the block, 64 or 128. last_of_first_row: index inside the block of the last key that row 0 sees; any sign,
// any size.
template <class Mask>
__aicore__ inline BlockView view_block(i64 last_of_first_row, i32 rows, i32 keys)
{
    // A bound beyond one block on either side decides nothing more and keeps the vector code's int32 safe.
    const i32 last = (i32)clamp(last_of_first_row, -(kBlockRows + 1), kBlockKeys);
    const i32 last_of_last_row = last + (rows - 1) * Mask::kRowSlope;
    const i32 slabs = keys / kSlabKeys;
    const i32 half = keys / 2;
    const i32 lower_by_all = (i32)clamp((last + 1) / kSlabHalf, 0, slabs);
    const i32 lower_by_some = (i32)clamp((last_of_last_row + kSlabHalf) / kSlabHalf, 0, slabs);
    const i32 upper_by_all = (i32)clamp((last - half + 1) / kSlabHalf, 0, slabs);
    const i32 upper_by_some = (i32)clamp((last_of_last_row - half + kSlabHalf) / kSlabHalf, 0, slabs);
    const i32 upper_only = (lower_by_all < upper_by_some ? lower_by_all : upper_by_some) - upper_by_all;
    BlockView view;
    view.seen = (uint16_t)upper_by_all;
    view.upper = (uint16_t)upper_only;
    view.both = (uint16_t)(upper_by_some - upper_by_all - upper_only);
    view.lower = (uint16_t)(lower_by_some - upper_by_some);
    view.none = (uint16_t)(slabs - lower_by_some);
    view.last = last;
    return view;
}

}  // namespace qbsa
