// The memory plan: every on-chip buffer, its place and why it has its size. Offsets in bytes.
//
// A group works on a stream of macro-blocks, 128 query rows against 256 keys. Each AIV owns half of the rows: 64, or 32
// when the query block has at most 64 (a band is 32 rows, the unit in which vector work is cut).
//
//   memory    buffers and slots                    why
//   L1        query 2 | key 2 | value 3 | probs 3  what comes next is loaded while one is computed; values and P wait
//                                                  kLag macro-blocks for the second product
//   L0A, L0B  2 slots of 32 KiB                    Mmad on one, LoadData into the other
//   L0C       scores 1 | pv 2                      QK and PV alternate: each drains behind the other
//   UB        scores 2 | pv | acc | probs | out    scores come one macro-block ahead; acc is the pv of the first
//                                                  macro-block of a task, written in place by Fixpipe
#pragma once
#include "kernel_operator.h"

#include "../metadata/plan.h"
#include "arch.h"
#include "contract.h"
#include "mask.h"

namespace qbsa {

using AscendC::HardEvent;
using AscendC::LocalTensor;
using AscendC::SetFlag;
using AscendC::TPosition;
using AscendC::WaitFlag;

static constexpr uint32_t kMacroKeys = kBlocksPerMacro * kBlockKeys;
static constexpr uint32_t kAivRows = kBlockRows / arch::kAivPerAic;
static constexpr uint32_t kBandRows = 32;

// C2 and V2 run this many macro-blocks behind C1 and V1: V1 of t works while P of t - 1 is multiplied and pv of t - 2
// is at hand. What lives from V1 to V2 of a macro-block has a slot more.
static constexpr uint32_t kLag = 2;
static constexpr uint32_t kLagSlots = kLag + 1;
static_assert(kLag == 2, "both programs keep the previous macro-block and the one before it");

// Tiles, in elements.
static constexpr uint32_t kQueryTile = kBlockRows * kHeadDim;
static constexpr uint32_t kKeyTile = kMacroKeys * kHeadDim;
static constexpr uint32_t kProbsTile = kBlockRows * kMacroKeys;
static constexpr uint32_t kScoresTile = kAivRows * kMacroKeys;
static constexpr uint32_t kPvTile = kAivRows * kHeadDim;

namespace l1 {
static constexpr uint32_t kSlots = 2;  // of query and key
static constexpr uint32_t kQuery = 0;
static constexpr uint32_t kKey = kQuery + kSlots * kQueryTile;
static constexpr uint32_t kValue = kKey + kSlots * kKeyTile;
static constexpr uint32_t kProbs = kValue + kLagSlots * kKeyTile;
static constexpr uint32_t kEnd = kProbs + kLagSlots * kProbsTile;
static_assert(kEnd <= arch::kL1Bytes, "L1 is full");
}  // namespace l1

namespace l0 {
static constexpr uint32_t kSlots = 2;
static constexpr uint32_t kSlotBytes = arch::kL0aBytes / kSlots;
static_assert(kQueryTile <= kSlotBytes && kKeyTile <= kSlotBytes && kProbsTile <= kSlotBytes,
              "an operand fills a slot");
static_assert(arch::kL0aBytes == arch::kL0bBytes, "both sides have the same slots");
}  // namespace l0

namespace l0c {
static constexpr uint32_t kScoresBytes = kBlockRows * kMacroKeys * sizeof(float);
static constexpr uint32_t kPvBytes = kBlockRows * kHeadDim * sizeof(float);
static constexpr uint32_t kPvSlots = 2;
static constexpr uint32_t kScores = 0;
static constexpr uint32_t kPv = kScores + kScoresBytes;
static constexpr uint32_t kEnd = kPv + kPvSlots * kPvBytes;
static_assert(kEnd <= arch::kL0cBytes, "L0C is full");
}  // namespace l0c

// State of the 64 rows of one AIV, one float a row: offsets in floats inside ub::kRows.
namespace rows {
static constexpr uint32_t kQueryScale = 0;  // q_descale * softmax_scale, and k_descale if a head has one
static constexpr uint32_t kSum = kAivRows;  // running sum of P, unrounded, p_scale included
static constexpr uint32_t kMaxSlots = 2;
static constexpr uint32_t kMax = 2 * kAivRows;  // maximum of the scaled scores up to the last macro-block and this one
static constexpr uint32_t kSize = kMax + kMaxSlots * kAivRows;
}  // namespace rows

// Scratch of the end of a task, and ln(p_scale) in all lanes: offsets in floats inside ub::kWork.
namespace work {
static constexpr uint32_t kFactor = 0;
static constexpr uint32_t kLnPScale = kFactor + kAivRows;
static constexpr uint32_t kSize = kLnPScale + arch::kLanes;
}  // namespace work

namespace ub {
static constexpr uint32_t kScoresSlots = 2;
static constexpr uint32_t kSlots = 2;
// A bf16 row is 8 data blocks; a pitch of 9 spreads eight rows over the eight bank groups.
static constexpr uint32_t kOutPitchBlocks = 9;
static constexpr uint32_t kOutPitch = kOutPitchBlocks * arch::kDataBlockBytes / sizeof(uint16_t);

static constexpr uint32_t kScores = 0;
static constexpr uint32_t kPv = kScores + kScoresSlots * kScoresTile * sizeof(float);
static constexpr uint32_t kAcc = kPv + kPvTile * sizeof(float);
static constexpr uint32_t kProbs = kAcc + kPvTile * sizeof(float);
static constexpr uint32_t kOut = kProbs + kScoresTile;
static constexpr uint32_t kLse = kOut + kAivRows * kOutPitchBlocks * arch::kDataBlockBytes;
static constexpr uint32_t kKeyScale = kLse + kAivRows * sizeof(float);
static constexpr uint32_t kQueryScale = kKeyScale + kSlots * kMacroKeys * sizeof(float);  // q_descale as it arrives
static constexpr uint32_t kRows = kQueryScale + kSlots * kAivRows * sizeof(float);
static constexpr uint32_t kAlpha = kRows + kLagSlots * rows::kSize * sizeof(float);  // exp(old maximum - new maximum)
static constexpr uint32_t kTileSum = kAlpha + kLagSlots * kAivRows * sizeof(float);  // sum of P of one macro-block
static constexpr uint32_t kWork = kTileSum + kLagSlots * kAivRows * sizeof(float);
static constexpr uint32_t kEnd = kWork + work::kSize * sizeof(float);
static_assert(kEnd <= arch::kUbBytes, "UB is full");
}  // namespace ub

// The merge kernel has UB to itself: partial results of some pieces, the weights of all, the sum, out and lse.
namespace merge_ub {
static constexpr uint32_t kSlots = 5;  // pieces on their way at a time; one more event id is for their LSE
static constexpr uint32_t kPartials = 0;
static constexpr uint32_t kAcc = kPartials + kSlots * kPvTile * sizeof(float);
static constexpr uint32_t kWeights = kAcc + kPvTile * sizeof(float);
static constexpr uint32_t kOut = kWeights + kMaxCores * kAivRows * sizeof(float);
static constexpr uint32_t kLse = kOut + kAivRows * ub::kOutPitchBlocks * arch::kDataBlockBytes;
static constexpr uint32_t kEnd = kLse + kAivRows * sizeof(float);
static_assert(kEnd <= arch::kUbBytes, "UB is full");
}  // namespace merge_ub

// The workspace in GM: status words, then two slots a core for pieces of split tasks, each with both AIVs' halves of O
// ([8 slabs][64 rows][16] fp32, divided by the sum of its piece) and of the LSE.
namespace workspace {
static constexpr i64 kPartials = (i64)kMaxCores * kStatusBytes;
static constexpr i64 kSlots = 2 * (i64)kMaxCores;
static constexpr i64 kPartialBytes = (i64)arch::kAivPerAic * kPvTile * (i64)sizeof(float);
static constexpr i64 kLse = kPartials + kSlots * kPartialBytes;
static constexpr i64 kLseBytes = (i64)arch::kAivPerAic * kAivRows * (i64)sizeof(float);
static constexpr i64 kBytes = kLse + kSlots * kLseBytes;

__aicore__ inline u64 partial(const AttentionArgs& args, i64 slot, i64 half)
{
    return args.workspace + (u64)(kPartials + slot * kPartialBytes + half * (kPartialBytes / arch::kAivPerAic));
}
__aicore__ inline u64 lse(const AttentionArgs& args, i64 slot, i64 half)
{
    return args.workspace + (u64)(kLse + slot * kLseBytes + half * (kLseBytes / arch::kAivPerAic));
}

// Host: bytes that a call needs. The slots exist only for plans with room for splits.
inline i64 bytes(const AttentionArgs& args) { return args.plan_words == kSplitPlanWords ? kBytes : kPartials; }
}  // namespace workspace

// Hand-overs between the cores of a group (mode 4). Each flag is a counter of credits; the AIC sets and waits once per
// AIV. "Free" credits are given by the consumer at the start, one per slot, and taken back by the producer at the end.
enum CrossFlag : uint16_t {
    kScoresReady,  // AIC FIX -> AIV V
    kScoresFree,   // AIV V -> AIC FIX
    kProbsReady,   // AIV MTE3 -> AIC MTE1
    kPvReady,      // AIC FIX -> AIV V, in pv or, for the first macro-block of a task, in acc
    kPvFree,       // AIV V or, where acc goes to the workspace, MTE3 -> AIC FIX: pv and what it was added to are done
    kCrossFlags
};
static_assert(kCrossFlags <= arch::kCrossFlagIds, "mode 4 has 11 flags");

}  // namespace qbsa
