// The AIV program: P = softmax numerators of the scores (V1) and the output accumulator (V2), V2 kLag macro-blocks
// behind V1: while the AIV works on the scores of t, the cube multiplies P V of t - 1, and pv of t - 2 is at hand. In a
// long list V2 is part of pass 1 of V1.
//
//   MTE2  k_descale, q_descale -> UB  kKeyScaleLoaded, kQueryScaleLoaded  ->  V         (back: the same ids)
//   FIX   of the AIC: scores          kScoresReady                        ->  V         (back: kScoresFree)
//   FIX   of the AIC: pv or acc       kPvReady                            ->  V         (back: kPvFree)
//   V     P; out, lse or acc          kProbsDone, kOutDone                ->  MTE3      (back: the same ids)
//   MTE3  P -> L1                     kProbsReady                         ->  AIC MTE1
//
// P of t goes to a slot of L1 that the cube has read: scores of t come from a Mmad behind that of P V of t - 3.
#pragma once
#include "kernel_operator.h"

#include "accumulate.h"
#include "arch.h"
#include "buffers.h"
#include "contract.h"
#include "mask.h"
#include "output.h"
#include "pages.h"
#include "quant.h"
#include "softmax.h"
#include "tasks.h"

namespace qbsa {

// Ids of MTE2_V and V_MTE2; each names the first of its slots.
enum VectorLoad : int32_t {
    kKeyScaleLoaded = 0,
    kQueryScaleLoaded = kKeyScaleLoaded + ub::kSlots,
    kVectorLoads = kQueryScaleLoaded + ub::kSlots
};
static_assert(kVectorLoads <= (int32_t)arch::kUserEventIds, "event ids");
// Ids of V_MTE3 and MTE3_V.
enum VectorResult : int32_t { kProbsDone, kOutDone, kVectorResults };

template <class Quant, class Mask, class Pages>
class VectorProgram {
public:
    __aicore__ inline VectorProgram(const AttentionArgs& args, i64 group, i64 groups, i64 half)
        : args_(args),
          walker_(args, group, groups),
          pages_(args),
          output_(args),
          half_(half),
          aiv_(group * arch::kAivPerAic + half),
          aivs_(groups * arch::kAivPerAic)
    {
        q_descale_.SetGlobalBuffer((__gm__ float*)args.q_descale);
        k_descale_.SetGlobalBuffer((__gm__ float*)args.k_descale);
        v_descale_.SetGlobalBuffer((__gm__ float*)args.v_descale);
    }

    // kForeignPlan: a core record was none, its tasks are not done.
    __aicore__ inline Status run()
    {
        begin();
        MacroBlock macro;
        MacroBlock previous = {};
        MacroBlock oldest = {};
        while (walker_.next(macro)) {
            if (macro.blocks == 0) {
                write_empty_piece(macro.task);
                continue;
            }
            step(macro, oldest, previous.first);
            oldest = previous;
            previous = macro;
        }
        if (oldest.blocks > 0) {
            accumulate_pv(oldest, previous.first);
        }
        if (previous.blocks > 0) {
            accumulate_pv(previous, true);
        }
        write_rows_of_no_task();
        end();
        return walker_.met_foreign_record() ? Status::kForeignPlan : Status::kOk;
    }

    // Instead of run(), when the plan is foreign to the call: NaN everywhere.
    __aicore__ inline void refuse()
    {
        constexpr uint16_t kNanBf16 = 0x7FC0;
        SetFlag<HardEvent::MTE3_V>(kOutDone);
        fill_staging(kNanBf16, __builtin_nanf(""));
        WaitFlag<HardEvent::V_MTE3>(kOutDone);
        write_staging_to_tokens(0, args_.tokens);
        SetFlag<HardEvent::MTE3_V>(kOutDone);
        WaitFlag<HardEvent::MTE3_V>(kOutDone);
    }

private:
    __aicore__ inline __ubuf__ float* state(const Task& task, uint32_t offset) const
    {
        return address(rows_[task.serial % kLagSlots * rows::kSize + offset]);
    }
    // Maximum of the rows up to this macro-block, or up to the one before.
    __aicore__ inline __ubuf__ float* new_max(const MacroBlock& macro) const
    {
        return state(macro.task, rows::kMax + macro.serial % rows::kMaxSlots * kAivRows);
    }
    __aicore__ inline __ubuf__ float* old_max(const MacroBlock& macro) const
    {
        return state(macro.task, rows::kMax + (macro.serial + 1) % rows::kMaxSlots * kAivRows);
    }
    __aicore__ inline __ubuf__ float* alpha(const MacroBlock& macro) const
    {
        return address(alpha_[macro.serial % kLagSlots * kAivRows]);
    }
    __aicore__ inline __ubuf__ float* tile_sum(const MacroBlock& macro) const
    {
        return address(tile_sum_[macro.serial % kLagSlots * kAivRows]);
    }
    __aicore__ inline __ubuf__ float* scores(const MacroBlock& macro) const
    {
        return address(scores_[macro.serial % ub::kScoresSlots * kScoresTile]);
    }

    __aicore__ inline void begin()
    {
        float p_scale = 1.0f;
        if (args_.p_scale != 0) {
            AscendC::GlobalTensor<float> given;
            given.SetGlobalBuffer((__gm__ float*)args_.p_scale);
            p_scale = given.GetValue(0);
        }
        asc_vf_call<begin_core>(address(work_[work::kLnPScale]), address(query_scale_), (uint16_t)ub::kSlots,
                                address(alpha_), address(tile_sum_), p_scale);
        for (int32_t id = 0; id < kVectorLoads; ++id) {
            SetFlag<HardEvent::V_MTE2>(id);
        }
        for (int32_t id = 0; id < kVectorResults; ++id) {
            SetFlag<HardEvent::MTE3_V>(id);
        }
        for (uint32_t i = 0; i < ub::kScoresSlots; ++i) {
            AscendC::CrossCoreSetFlag<4, PIPE_V>(kScoresFree);
        }
        AscendC::CrossCoreSetFlag<4, PIPE_V>(kPvFree);
    }

    __aicore__ inline void end()
    {
        for (int32_t id = 0; id < kVectorLoads; ++id) {
            WaitFlag<HardEvent::V_MTE2>(id);
        }
        for (int32_t id = 0; id < kVectorResults; ++id) {
            WaitFlag<HardEvent::MTE3_V>(id);
        }
    }

    // V1 of one macro-block and V2 of the one kLag before it, if there is one: together where both are plain.
    __aicore__ inline void step(const MacroBlock& macro, const MacroBlock& oldest, bool oldest_is_last)
    {
        const RowRange range = row_range(macro.task, half_);
        BlockView view[kBlocksPerMacro] = {};
        bool whole = macro.is_full();  // all rows see all of two blocks
        const i64 last_key = Mask::last_key(macro.task.first_row + range.first, macro.task.q_len, macro.task.kv_len);
        for (i32 b = 0; b < macro.blocks; ++b) {
            view[b] = view_block<Mask>(last_key - macro.block[b].first_key, range.bands * (i32)kBandRows,
                                       macro.block[b].tile_keys);
            whole = whole && view[b].is_whole();
        }
        const bool trailing = oldest.blocks > 0;
        const bool together = trailing && !oldest.first && !oldest_is_last && view[0].is_whole() &&
                              macro.block[0].tile_keys == kBlockKeys &&
                              row_range(oldest.task, half_).bands == range.bands;
        if (trailing && !together) {
            accumulate_pv(oldest, oldest_is_last);  // ahead of V1, so that the next pv is there for the next step
        }
        if (macro.first) {
            begin_task(macro.task, range);
        }
        load_key_scales(macro);
        AscendC::CrossCoreWaitFlag<4, PIPE_V>(kScoresReady);
        if (together) {
            AscendC::CrossCoreWaitFlag<4, PIPE_V>(kPvReady);
            call_scale<true>(macro, oldest, range.bands, whole, view);
            AscendC::CrossCoreSetFlag<4, PIPE_V>(kPvFree);
        } else {
            call_scale<false>(macro, macro, range.bands, whole, view);
        }
        free_key_scales(macro);
        make_probs(macro, range, whole);
    }

    __aicore__ inline void load_key_scales(const MacroBlock& macro)
    {
        if constexpr (Quant::kMasked == Scaling::kPerKey) {
            const i32 s = macro.serial % ub::kSlots;
            WaitFlag<HardEvent::V_MTE2>(kKeyScaleLoaded + s);
            pages_.copy_key_scales(key_scale_[s * kMacroKeys], macro, head_kv(macro.task));
            SetFlag<HardEvent::MTE2_V>(kKeyScaleLoaded + s);
            WaitFlag<HardEvent::MTE2_V>(kKeyScaleLoaded + s);
        }
    }
    __aicore__ inline void free_key_scales(const MacroBlock& macro)
    {
        if constexpr (Quant::kMasked == Scaling::kPerKey) {
            SetFlag<HardEvent::V_MTE2>(kKeyScaleLoaded + macro.serial % ub::kSlots);
        }
    }

    template <bool kAccumulate>
    __aicore__ inline void call_scale(const MacroBlock& macro, const MacroBlock& oldest, uint16_t bands, bool whole,
                                      const BlockView* view)
    {
        if (whole) {
            asc_vf_call<scale_whole<Quant::kWhole, kAccumulate>>(
                scores(macro), key_scales(macro), state(macro.task, rows::kQueryScale), old_max(macro), new_max(macro),
                address(acc_), address(pv_), state(oldest.task, rows::kSum), tile_sum(oldest), alpha(oldest), bands);
            return;
        }
        const uint16_t half0 = (uint16_t)(macro.block[0].tile_keys / 2);
        const uint16_t half1 = (uint16_t)(macro.keys() / 2 - half0);
        asc_vf_call<scale_masked<Quant::kMasked, kAccumulate>>(
            scores(macro), key_scales(macro), state(macro.task, rows::kQueryScale), old_max(macro), new_max(macro),
            address(acc_), address(pv_), state(oldest.task, rows::kSum), tile_sum(oldest), alpha(oldest), bands,
            Mask::kRowSlope, half0, view[0].seen, view[0].upper, view[0].both, view[0].lower, view[0].none,
            -view[0].last, half1, view[1].seen, view[1].upper, view[1].both, view[1].lower, view[1].none,
            -view[1].last);
    }

    // Pass 2 of V1, and P on its way to L1. whole: scale_whole was pass 1.
    __aicore__ inline void make_probs(const MacroBlock& macro, const RowRange& range, bool whole)
    {
        constexpr i32 kPairKeys = 2 * kSlabKeys;
        const bool second = macro.blocks == kBlocksPerMacro && !macro.is_full();
        const uint16_t pairs1 = (uint16_t)(second ? macro.block[1].tile_keys / kPairKeys : 0);
        const uint16_t pairs0 = (uint16_t)(macro.keys() / kPairKeys - pairs1);
        const uint16_t groups = range.bands * kBandGroups;
        WaitFlag<HardEvent::MTE3_V>(kProbsDone);
        if (whole) {
            call_exponentials<Quant::kWhole == Scaling::kLater>(macro, groups, pairs0, pairs1);
        } else {
            call_exponentials<false>(macro, groups, pairs0, pairs1);
        }
        AscendC::CrossCoreSetFlag<4, PIPE_V>(kScoresFree);
        SetFlag<HardEvent::V_MTE3>(kProbsDone);
        send_probs(macro, range);
    }

    template <bool kScale>
    __aicore__ inline void call_exponentials(const MacroBlock& macro, uint16_t groups, uint16_t pairs0, uint16_t pairs1)
    {
        asc_vf_call<exponentials<kScale>>(address(probs_), scores(macro), state(macro.task, rows::kQueryScale),
                                          old_max(macro), new_max(macro), alpha(macro),
                                          macro.first ? state(macro.task, rows::kSum) : tile_sum(macro),
                                          address(work_[work::kLnPScale]), groups, pairs0, pairs1);
    }

    __aicore__ inline void begin_task(const Task& task, const RowRange& range)
    {
        const i32 s = task.serial % ub::kSlots;
        WaitFlag<HardEvent::V_MTE2>(kQueryScaleLoaded + s);
        const i64 offset =
            (task.first_token + range.first) * args_.q_descale_token_stride + task.head * args_.q_descale_head_stride;
        AscendC::DataCopyPad<float, AscendC::PaddingMode::Compact>(
            query_scale_[s * kAivRows], q_descale_[offset],
            AscendC::DataCopyExtParams((uint16_t)range.rows, sizeof(float),
                                       (args_.q_descale_token_stride - 1) * (i64)sizeof(float), 0, 0),
            AscendC::DataCopyPadExtParams<float>(true, 0, 0, 0.0f));
        SetFlag<HardEvent::MTE2_V>(kQueryScaleLoaded + s);
        WaitFlag<HardEvent::MTE2_V>(kQueryScaleLoaded + s);
        float scale = args_.softmax_scale;
        if constexpr (Quant::kMasked == Scaling::kPerRow) {
            scale *= k_descale_.GetValue(head_kv(task) * args_.k_descale_head_stride);
        }
        asc_vf_call<begin_rows>(state(task, 0), address(query_scale_[s * kAivRows]), scale);
        SetFlag<HardEvent::V_MTE2>(kQueryScaleLoaded + s);
    }

    // P [keys / 32][64][32] in UB -> this AIV's rows of the NZ operand in L1.
    __aicore__ inline void send_probs(const MacroBlock& macro, const RowRange& range)
    {
        const uint16_t share = range.bands * kBandRows;
        const uint32_t offset = macro.serial % kLagSlots * kProbsTile + (uint32_t)half_ * share * kC0;
        WaitFlag<HardEvent::V_MTE3>(kProbsDone);
        AscendC::DataCopy(probs_l1_[offset], probs_,
                          AscendC::DataCopyParams((uint16_t)(macro.keys() / kC0), share, kAivRows - share,
                                                  (arch::kAivPerAic - 1) * share));
        AscendC::CrossCoreSetFlag<4, PIPE_MTE3>(kProbsReady);
        SetFlag<HardEvent::MTE3_V>(kProbsDone);
    }

    // V2 of one macro-block. last: of its task; then the rows are written.
    __aicore__ inline void accumulate_pv(const MacroBlock& macro, bool last)
    {
        const RowRange range = row_range(macro.task, half_);
        const uint16_t groups = range.bands * kBandGroups;
        AscendC::CrossCoreWaitFlag<4, PIPE_V>(kPvReady);
        if (last) {
            finish_piece(macro, range, groups);
        } else if (!macro.first) {
            asc_vf_call<accumulate>(address(acc_), address(pv_), state(macro.task, rows::kSum), tile_sum(macro),
                                    alpha(macro), groups);
        }
        if (last && macro.task.partial_slot >= 0) {
            AscendC::CrossCoreSetFlag<4, PIPE_MTE3>(kPvFree);  // acc itself is on its way to the workspace
        } else {
            AscendC::CrossCoreSetFlag<4, PIPE_V>(kPvFree);
        }
    }

    __aicore__ inline void finish_piece(const MacroBlock& macro, const RowRange& range, uint16_t groups)
    {
        const bool partial = macro.task.partial_slot >= 0;
        WaitFlag<HardEvent::MTE3_V>(kOutDone);
        if (macro.first && partial) {
            call_finish<true, true>(macro, groups);
        } else if (macro.first) {
            call_finish<true, false>(macro, groups);
        } else if (partial) {
            call_finish<false, true>(macro, groups);
        } else {
            call_finish<false, false>(macro, groups);
        }
        SetFlag<HardEvent::V_MTE3>(kOutDone);
        WaitFlag<HardEvent::V_MTE3>(kOutDone);
        if (partial) {
            write_partial(macro.task, range);
        } else {
            output_.write(macro.task, range, out_ub_, lse_ub_);
        }
        SetFlag<HardEvent::MTE3_V>(kOutDone);
    }

    template <bool kSingle, bool kPartial>
    __aicore__ inline void call_finish(const MacroBlock& macro, uint16_t groups)
    {
        asc_vf_call<finish<kSingle, kPartial>>(address(out_ub_), address(lse_ub_), address(acc_), address(pv_),
                                               state(macro.task, rows::kSum), tile_sum(macro), alpha(macro),
                                               new_max(macro), address(work_), groups,
                                               v_descale_.GetValue(head_kv(macro.task)), kEmptyLse);
    }

    // acc, the rows that exist, and LSE of one piece to its slot of the workspace.
    __aicore__ inline void write_partial(const Task& task, const RowRange& range)
    {
        if (range.rows == 0) {
            return;
        }
        AscendC::DataCopy(partial_lse(task), lse_ub_, kAivRows);
        AscendC::DataCopy(partial(task), acc_, copy_groups(row_groups(range.rows)));
    }

    // No key visible to a whole task, or to a piece of one.
    __aicore__ inline void write_empty_piece(const Task& task)
    {
        const RowRange range = row_range(task, half_);
        fill_staging(0, kEmptyLse);
        WaitFlag<HardEvent::V_MTE3>(kOutDone);
        if (task.partial_slot < 0) {
            output_.write(task, range, out_ub_, lse_ub_);
        } else {
            const LocalTensor<float> zeros = out_ub_.template ReinterpretCast<float>();
            for (uint16_t c = 0; c < kOutSlabs; ++c) {
                AscendC::DataCopy(partial(task)[c * kSlab], zeros, kSlab);
            }
            AscendC::DataCopy(partial_lse(task), lse_ub_, kAivRows);
        }
        SetFlag<HardEvent::MTE3_V>(kOutDone);
    }

    __aicore__ inline AscendC::GlobalTensor<float> partial(const Task& task) const
    {
        AscendC::GlobalTensor<float> slot;
        slot.SetGlobalBuffer((__gm__ float*)workspace::partial(args_, task.partial_slot, half_));
        return slot;
    }
    __aicore__ inline AscendC::GlobalTensor<float> partial_lse(const Task& task) const
    {
        AscendC::GlobalTensor<float> slot;
        slot.SetGlobalBuffer((__gm__ float*)workspace::lse(args_, task.partial_slot, half_));
        return slot;
    }

    __aicore__ inline void fill_staging(uint16_t out_bits, float lse)
    {
        constexpr uint16_t kRegisters = kAivRows * ub::kOutPitch * sizeof(uint16_t) / arch::kVectorBytes;
        WaitFlag<HardEvent::MTE3_V>(kOutDone);
        asc_vf_call<fill_rows>(address(out_ub_), address(lse_ub_), kRegisters, out_bits, lse);
        SetFlag<HardEvent::V_MTE3>(kOutDone);
    }

    // Tokens that no task covers: before the first sequence, past the lists of a long one, past the last one (graphs
    // pad T). They select nothing, so they are written like rows without a key.
    __aicore__ inline void write_rows_of_no_task()
    {
        fill_staging(0, kEmptyLse);
        WaitFlag<HardEvent::V_MTE3>(kOutDone);
        i64 covered = 0;
        for (i64 batch = 0; batch < args_.batch; ++batch) {
            const i64 begin = walker_.sequence_begin(batch);
            const i64 end = walker_.sequence_end(batch);
            write_staging_to_tokens(covered, begin);
            write_staging_to_tokens(begin + clamp(clamp(args_.q_blocks, 0, kMaxBlocks) * kBlockRows, 0, end - begin),
                                    end);
            covered = clamp(end, covered, args_.tokens);
        }
        write_staging_to_tokens(covered, args_.tokens);
        SetFlag<HardEvent::MTE3_V>(kOutDone);
    }

    // All heads of tokens [begin, end), in pieces that the AIVs take in turn. The staging rows are all alike.
    __aicore__ inline void write_staging_to_tokens(i64 begin, i64 end)
    {
        for (i64 token = begin + aiv_ * kAivRows; token < end; token += aivs_ * kAivRows) {
            const i32 rows = (i32)clamp(end - token, 0, kAivRows);
            for (i64 head = 0; head < args_.heads_q; ++head) {
                output_.write(head, token, rows, out_ub_, lse_ub_);
            }
        }
    }

    __aicore__ inline __ubuf__ float* key_scales(const MacroBlock& macro) const
    {
        return address(key_scale_[macro.serial % ub::kSlots * kMacroKeys]);
    }
    __aicore__ inline i64 head_kv(const Task& task) const { return task.head / (args_.heads_q / args_.heads_kv); }

    const AttentionArgs& args_;
    TaskWalker<Mask> walker_;
    Pages pages_;
    OutputRows output_;
    i64 half_;
    i64 aiv_;
    i64 aivs_;
    AscendC::GlobalTensor<float> q_descale_;
    AscendC::GlobalTensor<float> k_descale_;
    AscendC::GlobalTensor<float> v_descale_;

    LocalTensor<float> scores_{TPosition::VECIN, ub::kScores, ub::kScoresSlots* kScoresTile};
    LocalTensor<float> pv_{TPosition::VECIN, ub::kPv, kPvTile};
    LocalTensor<float> acc_{TPosition::VECIN, ub::kAcc, kPvTile};
    LocalTensor<uint8_t> probs_{TPosition::VECOUT, ub::kProbs, kScoresTile};
    LocalTensor<uint16_t> out_ub_{TPosition::VECOUT, ub::kOut, kAivRows* ub::kOutPitch};
    LocalTensor<float> lse_ub_{TPosition::VECOUT, ub::kLse, kAivRows};
    LocalTensor<float> key_scale_{TPosition::VECIN, ub::kKeyScale, ub::kSlots* kMacroKeys};
    LocalTensor<float> query_scale_{TPosition::VECIN, ub::kQueryScale, ub::kSlots* kAivRows};
    LocalTensor<float> rows_{TPosition::VECCALC, ub::kRows, kLagSlots* rows::kSize};
    LocalTensor<float> alpha_{TPosition::VECCALC, ub::kAlpha, kLagSlots* kAivRows};
    LocalTensor<float> tile_sum_{TPosition::VECCALC, ub::kTileSum, kLagSlots* kAivRows};
    LocalTensor<float> work_{TPosition::VECCALC, ub::kWork, work::kSize};
    LocalTensor<uint8_t> probs_l1_{TPosition::A1, l1::kProbs, kLagSlots* kProbsTile};
};

}  // namespace qbsa
