// What work costs, in vector instructions of one AIV: the vector units are the bound of this kernel.
// Source: counts of the vector functions; tests/test_vector_work.py holds the weights against them.
// The diagonal and the end of a sequence cost 28..46 more, at most once a task: 1..2 % of one macro-block, and lengths
// alone do not tell whether a list holds such a block. They have no weight.
#pragma once
#include "../kernels_ascendc/contract.h"

// X(name, value, meaning)
#define QBSA_COSTS(X)                                                                     \
    X(kTask, 24, "row state and last step, less what its first macro-block spares")       \
    X(kMacroBlock, 2659, "256 keys against more than half of a query block's rows")       \
    X(kSingle, 1536, "128 keys against them")                                             \
    X(kShortMacroBlock, 1343, "256 keys against at most half of a query block's rows")    \
    X(kShortSingle, 780, "128 keys against them")                                         \
    X(kEmptyTask, 77, "zeros to the output")                                              \
    X(kMergeTask, 265, "of a split task in the merge kernel, beside its pieces; short: half")          \
    X(kMergePiece, 338, "of each of its pieces there; short: half")

namespace qbsa {
namespace cost {

#define X(name, value, meaning) static constexpr i64 name = value;
QBSA_COSTS(X)
#undef X

}  // namespace cost

// What of a task decides its cost.
struct TaskSize {
    i64 entries;    // of its list; -1: the sequence does not have that query block
    bool is_short;  // at most half of a query block's rows

    i64 macro_block() const { return is_short ? cost::kShortMacroBlock : cost::kMacroBlock; }
    i64 single() const { return is_short ? cost::kShortSingle : cost::kSingle; }

    // The list from pair_begin to its end, as one piece.
    i64 cost(i64 pair_begin) const
    {
        const i64 rest = entries - pair_begin * kBlocksPerMacro;
        if (rest <= 0) {
            return entries < 0 ? 0 : cost::kEmptyTask;
        }
        return cost::kTask + rest / kBlocksPerMacro * macro_block() + rest % kBlocksPerMacro * single();
    }
};

inline i64 merge_cost(i64 pieces, bool is_short)
{
    return (cost::kMergeTask + pieces * cost::kMergePiece) / (is_short ? 2 : 1);
}

}  // namespace qbsa
