// What work costs, in vector instructions of one AIV: the vector units are the bound of this kernel.
// Source: counts of the vector functions on full tiles; tests/test_vector_work.py holds the weights against them.
#pragma once
#include "../kernels_ascendc/contract.h"

namespace qbsa {
namespace cost {

static constexpr i64 kTask = 24;          // row state and last step, less what its first macro-block spares
static constexpr i64 kMacroBlock = 2659;  // V1 and V2 of 256 keys
static constexpr i64 kSingle = 1536;      // V1 and V2 of 128 keys
static constexpr i64 kEmptyTask = 77;     // zeros to the output
static constexpr i64 kMerge = 400;        // one piece in the merge kernel

}  // namespace cost

// The part of a list from pair_begin to its end at `entries`, as one piece.
inline i64 rest_cost(i64 entries, i64 pair_begin)
{
    const i64 rest = entries - pair_begin * kBlocksPerMacro;
    if (rest <= 0) {
        return cost::kEmptyTask;
    }
    return cost::kTask + rest / kBlocksPerMacro * cost::kMacroBlock + rest % kBlocksPerMacro * cost::kSingle;
}

}  // namespace qbsa
