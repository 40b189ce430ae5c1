// What work costs, in cycles of a core: weights fitted to the twin's clock (docs/clock.md), chip 950PR, by
// benchmarks/fit_cost.py, which prints them and how far they are off. tests/test_cost.py fails when the kernel has
// moved away from them.
// A query block is short when at most half of its rows exist. Lengths alone do not tell whether a list holds the
// diagonal or the end of its sequence; that costs up to 7 % of a macro-block, at most once a task, and has no weight.
#pragma once
#include "../kernels_ascendc/arch.h"
#include "../kernels_ascendc/contract.h"

// X(name, value, meaning)
#define QBSA_COSTS(X)                                                                                     \
    X(kTask, 258, "start and end of a list of two entries or more")                                        \
    X(kMacroBlock, 1458, "256 keys")                                                                      \
    X(kSingle, 937, "128 keys behind them")                                                              \
    X(kLone, 1158, "a list of one entry, all of it")                                                      \
    X(kEmpty, 619, "zeros to the output")                                                                 \
    X(kShortTask, 209, "the same five of a short query block")                                            \
    X(kShortMacroBlock, 1123, "")                                                                         \
    X(kShortSingle, 657, "")                                                                              \
    X(kShortLone, 800, "")                                                                                \
    X(kShortEmpty, 273, "")                                                                               \
    X(kPieceGroup, 38, "a piece of a split task to the workspace, for eight rows of each vector core")    \
    X(kMerge, 534, "the merge kernel, once it has a split task")                                          \
    X(kMergeGroup, 96, "eight rows of a split task there")                                               \
    X(kMergePiece, 38, "a piece of it")                                                                   \
    X(kMergeTile, 49, "eight rows of a piece")

namespace qbsa {
namespace cost {

#define X(name, value, meaning) static constexpr i64 name = value;
QBSA_COSTS(X)
#undef X

static constexpr i64 kGroupRows = arch::kVectorBytes / arch::kDataBlockBytes;
static constexpr i64 kMostGroups = kBlockRows / arch::kAivPerAic / kGroupRows;  // of the rows of one vector core

}  // namespace cost

// What of a task decides its cost.
struct TaskSize {
    i64 entries;  // of its list; -1: the sequence does not have that query block
    i64 rows;     // of its query block

    bool is_short() const { return rows <= kBlockRows / 2; }
    i64 task() const { return is_short() ? cost::kShortTask : cost::kTask; }
    i64 macro_block() const { return is_short() ? cost::kShortMacroBlock : cost::kMacroBlock; }
    i64 single() const { return is_short() ? cost::kShortSingle : cost::kSingle; }
    i64 lone() const { return is_short() ? cost::kShortLone : cost::kLone; }

    i64 empty() const { return is_short() ? cost::kShortEmpty : cost::kEmpty; }

    // Groups of eight rows of the busier vector core.
    i64 groups() const
    {
        const i64 share = kBlockRows / arch::kAivPerAic / (is_short() ? 2 : 1);
        return ((rows < share ? rows : share) + cost::kGroupRows - 1) / cost::kGroupRows;
    }

    // `pairs` macro-blocks, as a piece of the split task.
    i64 piece(i64 pairs) const { return task() + pairs * macro_block() + groups() * cost::kPieceGroup; }

    // The list from pair_begin to its end, as one piece.
    i64 cost(i64 pair_begin) const
    {
        const i64 rest = entries - pair_begin * kBlocksPerMacro;
        const i64 partial = pair_begin > 0 ? groups() * cost::kPieceGroup : 0;
        if (rest <= 0) {
            return entries < 0 ? 0 : empty();
        }
        if (rest == 1) {
            return lone() + partial;
        }
        return task() + rest / kBlocksPerMacro * macro_block() + rest % kBlocksPerMacro * single() + partial;
    }
};

// Of one among `splits` split tasks of `groups` groups, as merge.h shares them out.
inline i64 merge_cost(i64 pieces, i64 groups, i64 splits, i64 cores)
{
    const i64 fair = cores / splits;
    const i64 parts = fair < 1 ? 1 : fair > cost::kMostGroups ? cost::kMostGroups : fair;
    const i64 of_part = (groups + parts - 1) / parts;
    return cost::kMerge + of_part * cost::kMergeGroup + pieces * (cost::kMergePiece + of_part * cost::kMergeTile);
}

}  // namespace qbsa
