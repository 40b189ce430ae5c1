// The AIV program: P = softmax numerators of the scores (V1) and the output accumulator (V2), V2 one macro-block behind
// V1, so that the cube multiplies P V of macro-block t while the AIV works on the scores of t + 1.
//
//   MTE2  k_descale, q_descale -> UB   kKeyScaleLoaded, kQueryScaleLoaded  ->  V     (back: the same ids)
//   AIC FIX -> scores, pv, acc         kScoresReady, kPvReady              ->  V     (back: kScoresFree, kPvFree,
//   kAccFree) V     P, out, lse in UB            kProbsDone, kOutDone                ->  MTE3  (back: the same ids)
//   MTE3  P -> L1                      kProbsReady                         ->  AIC MTE1  (back: kProbsFree)
#pragma once
#include "kernel_operator.h"

#include "accumulate.h"
#include "arch.h"
#include "buffers.h"
#include "contract.h"
#include "mask.h"
#include "pages.h"
#include "quant.h"
#include "softmax.h"
#include "tasks.h"

namespace qbsa {

using AscendC::HardEvent;
using AscendC::LocalTensor;
using AscendC::SetFlag;
using AscendC::TPosition;
using AscendC::WaitFlag;

// Ids of MTE2_V and V_MTE2; each names the first of its slots.
enum VectorLoad : int32_t { kKeyScaleLoaded = 0, kQueryScaleLoaded = kKeyScaleLoaded + ub::kSlots, kVectorLoads = 4 };
static_assert(kVectorLoads == kQueryScaleLoaded + (int32_t)ub::kSlots, "one id a slot");
// Ids of V_MTE3 and MTE3_V.
enum VectorResult : int32_t { kProbsDone, kOutDone, kVectorResults };

// LSE of a row that sees no key: -FLT_MAX.
static constexpr float kEmptyLse = -3.402823466e+38f;

template <class Quant, class Mask, class Pages>
class VectorProgram {
public:
    __aicore__ inline VectorProgram(const AttentionArgs& args, i64 group, i64 groups, i64 half)
        : args_(args),
          walker_(args, group, groups),
          pages_(args),
          half_(half),
          aiv_(group * arch::kAivPerAic + half),
          aivs_(groups * arch::kAivPerAic)
    {
        q_descale_.SetGlobalBuffer((__gm__ float*)args.q_descale);
        v_descale_.SetGlobalBuffer((__gm__ float*)args.v_descale);
        out_.SetGlobalBuffer((__gm__ uint16_t*)args.out);
        lse_.SetGlobalBuffer((__gm__ float*)args.lse);
    }

    __aicore__ inline void run()
    {
        begin();
        MacroBlock macro;
        MacroBlock previous;
        previous.blocks = 0;
        while (walker_.next(macro)) {
            if (macro.blocks == 0) {
                write_empty_task(macro.task);
                continue;
            }
            make_probs(macro);
            if (previous.blocks > 0) {
                accumulate_pv(previous, macro.first);
            }
            previous = macro;
        }
        if (previous.blocks > 0) {
            accumulate_pv(previous, true);
        }
        write_rows_of_no_task();
        end();
    }

private:
    // This AIV's part of a task's rows.
    struct RowRange {
        uint16_t bands;
        i32 first;  // row of the task
        i32 rows;   // that exist; may be 0
    };
    __aicore__ inline RowRange row_range(const Task& task) const
    {
        RowRange range;
        range.bands = task.rows <= (i32)(arch::kAivPerAic * kBandRows) ? 1 : kAivRows / kBandRows;
        const i32 share = range.bands * kBandRows;
        range.first = (i32)half_ * share;
        range.rows = (i32)clamp(task.rows - range.first, 0, share);
        return range;
    }

    template <class T>
    __aicore__ static inline __ubuf__ T* address(const LocalTensor<T>& tensor)
    {
        return (__ubuf__ T*)tensor.GetPhyAddr();
    }
    __aicore__ inline __ubuf__ float* state(const Task& task) const
    {
        return address(rows_[task.serial % ub::kSlots * rows::kSize]);
    }
    __aicore__ inline __ubuf__ float* alpha(const MacroBlock& macro) const
    {
        return address(alpha_[macro.serial % ub::kSlots * kAivRows]);
    }

    __aicore__ inline void begin()
    {
        // CTRL[60] = 0: each Cast saturates as its trait says, so that NaN and inf reach out.
        AscendC::SetCtrlSpr<60, 60>(0);
        float p_scale = 1.0f;
        if (args_.p_scale != 0) {
            AscendC::GlobalTensor<float> given;
            given.SetGlobalBuffer((__gm__ float*)args_.p_scale);
            p_scale = given.GetValue(0);
        }
        asc_vf_call<begin_core>(address(work_), address(query_scale_), address(alpha_), (uint16_t)ub::kSlots, p_scale);
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
        AscendC::CrossCoreSetFlag<4, PIPE_V>(kAccFree);
    }

    __aicore__ inline void end()
    {
        AscendC::SetCtrlSpr<60, 60>(1);  // the default
        for (int32_t id = 0; id < kVectorLoads; ++id) {
            WaitFlag<HardEvent::V_MTE2>(id);
        }
        for (int32_t id = 0; id < kVectorResults; ++id) {
            WaitFlag<HardEvent::MTE3_V>(id);
        }
        for (uint32_t i = 0; i < l1::kProbsSlots; ++i) {
            AscendC::CrossCoreWaitFlag<4, PIPE_MTE3>(kProbsFree);
        }
    }

    // V1 of one macro-block, and its P on the way to L1.
    __aicore__ inline void make_probs(const MacroBlock& macro)
    {
        const RowRange range = row_range(macro.task);
        const i32 s = macro.serial % ub::kSlots;
        if (macro.first) {
            begin_task(macro.task, range);
        }
        WaitFlag<HardEvent::V_MTE2>(kKeyScaleLoaded + s);
        pages_.copy_key_scales(key_scale_[s * kMacroKeys], macro, head_kv(macro.task));
        SetFlag<HardEvent::MTE2_V>(kKeyScaleLoaded + s);

        const SoftmaxTiles tiles = {address(probs_),
                                    address(scores_[macro.serial % ub::kScoresSlots * kScoresTile]),
                                    address(key_scale_[s * kMacroKeys]),
                                    state(macro.task),
                                    alpha(macro),
                                    address(work_)};
        BlockView view[kBlocksPerMacro] = {};
        const i64 last_key = Mask::last_key(macro.task.first_row + range.first, macro.task.q_len, macro.task.kv_len);
        for (i32 b = 0; b < macro.blocks; ++b) {
            view[b] = view_block<Mask>(last_key - macro.block[b].first_key, range.bands * (i32)kBandRows);
        }
        WaitFlag<HardEvent::MTE2_V>(kKeyScaleLoaded + s);
        AscendC::CrossCoreWaitFlag<4, PIPE_V>(kScoresReady);
        WaitFlag<HardEvent::MTE3_V>(kProbsDone);
        Quant::softmax(tiles, macro, range.bands, Mask::kRowSlope, view);
        AscendC::CrossCoreSetFlag<4, PIPE_V>(kScoresFree);
        SetFlag<HardEvent::V_MTE2>(kKeyScaleLoaded + s);
        SetFlag<HardEvent::V_MTE3>(kProbsDone);
        send_probs(macro, range);
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
        asc_vf_call<begin_rows>(state(task), address(query_scale_[s * kAivRows]), args_.softmax_scale);
        SetFlag<HardEvent::V_MTE2>(kQueryScaleLoaded + s);
    }

    // P [keys / 32][64][32] in UB -> this AIV's rows of the NZ operand in L1.
    __aicore__ inline void send_probs(const MacroBlock& macro, const RowRange& range)
    {
        const uint16_t share = range.bands * kBandRows;
        const uint32_t offset = macro.serial % l1::kProbsSlots * kProbsTile + (uint32_t)half_ * share * kC0;
        WaitFlag<HardEvent::V_MTE3>(kProbsDone);
        AscendC::CrossCoreWaitFlag<4, PIPE_MTE3>(kProbsFree);
        AscendC::DataCopy(probs_l1_[offset], probs_,
                          AscendC::DataCopyParams((uint16_t)(macro.keys() / kC0), share, kAivRows - share,
                                                  (arch::kAivPerAic - 1) * share));
        AscendC::CrossCoreSetFlag<4, PIPE_MTE3>(kProbsReady);
        SetFlag<HardEvent::MTE3_V>(kProbsDone);
    }

    // V2 of one macro-block. last: of its task; then the rows are written.
    __aicore__ inline void accumulate_pv(const MacroBlock& macro, bool last)
    {
        const RowRange range = row_range(macro.task);
        const uint16_t groups = range.bands * kBandGroups;
        AscendC::CrossCoreWaitFlag<4, PIPE_V>(kPvReady);
        if (last) {
            WaitFlag<HardEvent::MTE3_V>(kOutDone);
            const float v_descale = v_descale_.GetValue(head_kv(macro.task));
            if (macro.first) {
                call_finish<true>(macro, groups, v_descale);
            } else {
                call_finish<false>(macro, groups, v_descale);
            }
            SetFlag<HardEvent::V_MTE3>(kOutDone);
            write_rows(macro.task, range);
        } else if (!macro.first) {
            asc_vf_call<accumulate>(address(acc_), address(pv_), alpha(macro), groups);
        }
        if (!macro.first) {
            AscendC::CrossCoreSetFlag<4, PIPE_V>(kPvFree);
        }
        if (last) {
            AscendC::CrossCoreSetFlag<4, PIPE_V>(kAccFree);
        }
    }

    template <bool kSingle>
    __aicore__ inline void call_finish(const MacroBlock& macro, uint16_t groups, float v_descale)
    {
        asc_vf_call<finish<kSingle>>(address(out_ub_), address(lse_ub_), address(acc_), address(pv_), alpha(macro),
                                     state(macro.task), address(work_), groups, v_descale, kEmptyLse);
    }

    __aicore__ inline void write_empty_task(const Task& task)
    {
        clear_staging();
        write_rows(task, row_range(task));
    }

    // out rows and LSE of one task from the staging buffers.
    __aicore__ inline void write_rows(const Task& task, const RowRange& range)
    {
        WaitFlag<HardEvent::V_MTE3>(kOutDone);
        if (range.rows > 0) {
            constexpr u64 kRowBytes = kHeadDim * sizeof(uint16_t);
            const i64 token = task.first_token + range.first;
            AscendC::DataCopyPad(out_[(token * args_.heads_q + task.head) * kHeadDim], out_ub_,
                                 AscendC::DataCopyExtParams((uint16_t)range.rows, kRowBytes,
                                                            ub::kOutPitchBlocks - kRowBytes / arch::kDataBlockBytes,
                                                            (args_.heads_q - 1) * (i64)kRowBytes, 0));
            if (args_.lse != 0) {
                write_lse(task.head, token, range.rows);
            }
        }
        SetFlag<HardEvent::MTE3_V>(kOutDone);
    }

    __aicore__ inline void write_lse(i64 head, i64 token, i32 rows)
    {
        AscendC::DataCopyPad(lse_[head * args_.tokens + token], lse_ub_,
                             AscendC::DataCopyExtParams(1, rows * (uint32_t)sizeof(float), 0, 0, 0));
    }

    __aicore__ inline void clear_staging()
    {
        constexpr uint16_t kRegisters = kAivRows * ub::kOutPitch * sizeof(uint16_t) / arch::kVectorBytes;
        WaitFlag<HardEvent::MTE3_V>(kOutDone);
        asc_vf_call<clear_rows>(address(out_ub_), address(lse_ub_), kRegisters, kEmptyLse);
        SetFlag<HardEvent::V_MTE3>(kOutDone);
    }

    // Tokens that no task covers: before the first sequence, past the lists of a long one, past the last one (graphs
    // pad T). They select nothing, so they are written like rows without a key.
    __aicore__ inline void write_rows_of_no_task()
    {
        clear_staging();
        WaitFlag<HardEvent::V_MTE3>(kOutDone);
        i64 covered = 0;
        for (i64 batch = 0; batch < args_.batch; ++batch) {
            const i64 begin = walker_.sequence_begin(batch);
            const i64 end = walker_.sequence_end(batch);
            clear_tokens(covered, begin);
            clear_tokens(begin + clamp(clamp(args_.q_blocks, 0, kMaxBlocks) * kBlockRows, 0, end - begin), end);
            covered = clamp(end, covered, args_.tokens);
        }
        clear_tokens(covered, args_.tokens);
        SetFlag<HardEvent::MTE3_V>(kOutDone);
    }

    // All heads of tokens [begin, end), in pieces that the AIVs take in turn.
    __aicore__ inline void clear_tokens(i64 begin, i64 end)
    {
        constexpr uint32_t kRowBytes = kHeadDim * sizeof(uint16_t);
        for (i64 token = begin + aiv_ * kAivRows; token < end; token += aivs_ * kAivRows) {
            const i32 rows = (i32)clamp(end - token, 0, kAivRows);
            for (i64 head = 0; head < args_.heads_q; ++head) {
                AscendC::DataCopyPad(
                    out_[(token * args_.heads_q + head) * kHeadDim], out_ub_,
                    AscendC::DataCopyExtParams((uint16_t)rows, kRowBytes, 0, (args_.heads_q - 1) * (i64)kRowBytes, 0));
                if (args_.lse != 0) {
                    write_lse(head, token, rows);
                }
            }
        }
    }

    __aicore__ inline i64 head_kv(const Task& task) const { return task.head / (args_.heads_q / args_.heads_kv); }

    const AttentionArgs& args_;
    TaskWalker<Mask> walker_;
    Pages pages_;
    i64 half_;
    i64 aiv_;
    i64 aivs_;
    AscendC::GlobalTensor<float> q_descale_;
    AscendC::GlobalTensor<float> v_descale_;
    AscendC::GlobalTensor<uint16_t> out_;
    AscendC::GlobalTensor<float> lse_;

    LocalTensor<float> scores_{TPosition::VECIN, ub::kScores, ub::kScoresSlots* kScoresTile};
    LocalTensor<float> pv_{TPosition::VECIN, ub::kPv, kPvTile};
    LocalTensor<float> acc_{TPosition::VECIN, ub::kAcc, kPvTile};
    LocalTensor<uint8_t> probs_{TPosition::VECOUT, ub::kProbs, kScoresTile};
    LocalTensor<uint16_t> out_ub_{TPosition::VECOUT, ub::kOut, kAivRows* ub::kOutPitch};
    LocalTensor<float> lse_ub_{TPosition::VECOUT, ub::kLse, kAivRows};
    LocalTensor<float> key_scale_{TPosition::VECIN, ub::kKeyScale, ub::kSlots* kMacroKeys};
    LocalTensor<float> query_scale_{TPosition::VECIN, ub::kQueryScale, ub::kSlots* kAivRows};
    LocalTensor<float> rows_{TPosition::VECCALC, ub::kRows, ub::kSlots* rows::kSize};
    LocalTensor<float> alpha_{TPosition::VECCALC, ub::kAlpha, ub::kSlots* kAivRows};
    LocalTensor<float> work_{TPosition::VECCALC, ub::kWork, work::kSize};
    LocalTensor<uint8_t> probs_l1_{TPosition::A1, l1::kProbs, l1::kProbsSlots* kProbsTile};
};

}  // namespace qbsa
