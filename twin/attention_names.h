// Buffers and flags of the kernels by name.
#pragma once
#include "../kernels_ascendc/buffers.h"
#include "../kernels_ascendc/cube.h"
#include "../kernels_ascendc/merge.h"
#include "../kernels_ascendc/vector.h"
#include "engine/names.h"

namespace twin {

inline Names attention_names()
{
    using namespace qbsa;
    using AscendC::HardEvent;
    constexpr uint32_t kFloat = sizeof(float);
    Names names;
    names.buffers = {
        {Memory::kL1, l1::kQuery, kQueryTile, l1::kSlots, "query"},
        {Memory::kL1, l1::kKey, kKeyTile, l1::kSlots, "key"},
        {Memory::kL1, l1::kValue, kKeyTile, kLagSlots, "value"},
        {Memory::kL1, l1::kProbs, kProbsTile, kLagSlots, "probs"},
        {Memory::kL0A, 0, l0::kSlotBytes, l0::kSlots, "l0a"},
        {Memory::kL0B, 0, l0::kSlotBytes, l0::kSlots, "l0b"},
        {Memory::kL0C, l0c::kScores, l0c::kScoresBytes, 1, "scores"},
        {Memory::kL0C, l0c::kPv, l0c::kPvBytes, l0c::kPvSlots, "pv"},
        {Memory::kUb, ub::kScores, kScoresTile * kFloat, ub::kScoresSlots, "scores"},
        {Memory::kUb, ub::kPv, kPvTile * kFloat, 1, "pv"},
        {Memory::kUb, ub::kAcc, kPvTile * kFloat, 1, "acc"},
        {Memory::kUb, ub::kProbs, kScoresTile, 1, "probs"},
        {Memory::kUb, ub::kOut, ub::kLse - ub::kOut, 1, "out"},
        {Memory::kUb, ub::kLse, ub::kKeyScale - ub::kLse, 1, "lse"},
        {Memory::kUb, ub::kKeyScale, kMacroKeys * kFloat, ub::kSlots, "key_scale"},
        {Memory::kUb, ub::kQueryScale, kAivRows * kFloat, ub::kSlots, "query_scale"},
        {Memory::kUb, ub::kRows, rows::kSize * kFloat, kLagSlots, "rows"},
        {Memory::kUb, ub::kAlpha, kAivRows * kFloat, kLagSlots, "alpha"},
        {Memory::kUb, ub::kTileSum, kAivRows * kFloat, kLagSlots, "tile_sum"},
        {Memory::kUb, ub::kWork, work::kSize * kFloat, 1, "work"},
    };
    auto pair = [&names](HardEvent there, HardEvent back, bool aic, int first, uint32_t count, const char* name) {
        names.flags.push_back({int(there), aic, first, int(count), name});
        names.flags.push_back({int(back), aic, first, int(count), name});
    };
    pair(HardEvent::MTE2_MTE1, HardEvent::MTE1_MTE2, true, kKeyLoaded, l1::kSlots, "kKeyLoaded");
    pair(HardEvent::MTE2_MTE1, HardEvent::MTE1_MTE2, true, kValueLoaded, kLagSlots, "kValueLoaded");
    pair(HardEvent::MTE1_M, HardEvent::M_MTE1, true, 0, l0::kSlots, "kOperands");
    pair(HardEvent::M_FIX, HardEvent::FIX_M, true, kScoresDone, 1, "kScoresDone");
    pair(HardEvent::M_FIX, HardEvent::FIX_M, true, kPvDone, l0c::kPvSlots, "kPvDone");
    pair(HardEvent::MTE2_V, HardEvent::V_MTE2, false, kKeyScaleLoaded, ub::kSlots, "kKeyScaleLoaded");
    pair(HardEvent::MTE2_V, HardEvent::V_MTE2, false, kQueryScaleLoaded, ub::kSlots, "kQueryScaleLoaded");
    pair(HardEvent::V_MTE3, HardEvent::MTE3_V, false, kProbsDone, 1, "kProbsDone");
    pair(HardEvent::V_MTE3, HardEvent::MTE3_V, false, kOutDone, 1, "kOutDone");
    constexpr const char* kCross[] = {"kScoresReady", "kScoresFree", "kProbsReady", "kPvReady", "kPvFree"};
    static_assert(sizeof kCross / sizeof kCross[0] == qbsa::kCrossFlags, "a name for each flag");
    for (int id = 0; id < qbsa::kCrossFlags; ++id) names.flags.push_back({kCrossEvent, true, id, 1, kCross[id]});
    return names;
}

inline Names merge_names()
{
    using namespace qbsa;
    using AscendC::HardEvent;
    constexpr uint32_t kFloat = sizeof(float);
    Names names;
    names.buffers = {
        {Memory::kUb, merge_ub::kPartials, kPvTile * kFloat, merge_ub::kSlots, "partials"},
        {Memory::kUb, merge_ub::kAcc, kPvTile * kFloat, 1, "merged_acc"},
        {Memory::kUb, merge_ub::kWeights, kAivRows * kFloat, kMaxCores, "weights"},
        {Memory::kUb, merge_ub::kOut, merge_ub::kLse - merge_ub::kOut, 1, "merged_out"},
        {Memory::kUb, merge_ub::kLse, kAivRows * kFloat, 1, "merged_lse"},
    };
    for (HardEvent event : {HardEvent::MTE2_V, HardEvent::V_MTE2}) {
        names.flags.push_back({int(event), false, MergeProgram::kLseLoaded, 1, "kLseLoaded"});
        names.flags.push_back({int(event), false, MergeProgram::kPartialLoaded, merge_ub::kSlots, "kPartialLoaded"});
    }
    for (HardEvent event : {HardEvent::V_MTE3, HardEvent::MTE3_V}) {
        names.flags.push_back({int(event), false, MergeProgram::kMergedDone, 1, "kMergedDone"});
    }
    return names;
}

}  // namespace twin
