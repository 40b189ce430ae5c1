// Mask policies: which keys a query row sees. Four integers per block replace a mask tensor.
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

// What `rows` consecutive query rows see of one block: row i sees key j of the block iff j <= i * slope + last.
// In slabs of 16 keys: the first `full` are visible to all rows, the next `partial` to some, the rest to none.
struct BlockView {
    uint16_t full;
    uint16_t partial;
    i32 last;
};

static constexpr i32 kSlabKeys = 16;
static constexpr i32 kBlockSlabs = kBlockKeys / kSlabKeys;

__aicore__ inline i64 clamp(i64 x, i64 low, i64 high) { return x < low ? low : (x > high ? high : x); }

// last_of_first_row: index inside the block of the last key that row 0 sees; any sign, any size.
template <class Mask>
__aicore__ inline BlockView view_block(i64 last_of_first_row, i32 rows)
{
    BlockView view;
    // A bound beyond one block on either side decides nothing more and keeps the vector code's int32 safe.
    const i32 last = (i32)clamp(last_of_first_row, -(kBlockRows + 1), kBlockKeys);
    const i32 visible = (i32)clamp((last + (rows - 1) * Mask::kRowSlope + kSlabKeys) / kSlabKeys, 0, kBlockSlabs);
    view.full = (uint16_t)clamp((last + 1) / kSlabKeys, 0, kBlockSlabs);
    view.partial = (uint16_t)(visible - view.full);
    view.last = last;
    return view;
}

}  // namespace qbsa
