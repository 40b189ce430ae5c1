// What work costs, in vector instructions of one AIV: the vector units are the bound of this kernel.
// Source: counts of kernels_ascendc/softmax.h and accumulate.h on full tiles (tests/test_vector_work.py).
#pragma once
#include "../kernels_ascendc/contract.h"

namespace qbsa {
namespace cost {

static constexpr i64 kTask = 24;                  // row state and last step, less what its first macro-block spares
static constexpr i64 kMacroBlock = 2658;          // V1 and V2 of 256 keys
static constexpr i64 kSingle = 1535;              // V1 and V2 of 128 keys
static constexpr i64 kEmptyTask = 77;             // zeros to the output
static constexpr i64 kMaxEntries = i64(1) << 24;  // no sequence has more blocks; keeps sums of wrong lengths in i64

}  // namespace cost

// A task whose list has `entries` entries.
inline i64 task_cost(i64 entries)
{
    if (entries == 0) {
        return cost::kEmptyTask;
    }
    if (entries > cost::kMaxEntries) {
        entries = cost::kMaxEntries;
    }
    return cost::kTask + entries / kBlocksPerMacro * cost::kMacroBlock + entries % kBlocksPerMacro * cost::kSingle;
}

}  // namespace qbsa
