// The AIC program: scores = Q K^T (C1) and pv = P V (C2) of each macro-block, C2 kLag macro-blocks behind C1, so that
// neither waits for the AIVs.
//
//   MTE2  Q, K, V -> L1         kKeyLoaded (and Q), kValueLoaded   ->  MTE1   (back: the same ids)
//   MTE1  L1 -> L0A, L0B        the L0 slot                        ->  M      (back: the same)
//   M     L0C                   kScoresDone, kPvDone per L0C slot  ->  FIX    (back: kScoresDone)
//   FIX   L0C -> UB of the AIVs kScoresReady, kPvReady             ->  AIV V  (back: kScoresFree, kPvFree)
//   AIV MTE3 -> L1              kProbsReady                        ->  MTE1
//
// What has no way back is free by then anyway. P: vector.h says why. The L0C slot of pv: P of t, which it is multiplied
// from, is made by AIVs that have waited for pv of t - 2. The slot of Q: it was last read for a task before the last, so
// before the keys in whose slot its first keys go.
#pragma once
#include "kernel_operator.h"

#include "arch.h"
#include "buffers.h"
#include "contract.h"
#include "pages.h"
#include "tasks.h"

namespace qbsa {

// Ids of MTE2_MTE1 and MTE1_MTE2; each names the first of its slots. Q comes with the first keys of its task.
enum CubeLoad : int32_t {
    kKeyLoaded = 0,
    kValueLoaded = kKeyLoaded + l1::kSlots,
    kCubeLoads = kValueLoaded + kLagSlots
};
// Ids of M_FIX and, scores only, FIX_M.
enum CubeProduct : int32_t { kScoresDone = 0, kPvDone = 1, kCubeProducts = kPvDone + l0c::kPvSlots };
static_assert(kCubeLoads <= (int32_t)arch::kUserEventIds && kCubeProducts <= (int32_t)arch::kUserEventIds, "event ids");

// NZ, L0C -> UB.
static constexpr AscendC::FixpipeConfig kNzToUb = {AscendC::CO2Layout::NZ, true};

template <class Mask, class Pages>
class CubeProgram {
public:
    __aicore__ inline CubeProgram(const AttentionArgs& args, i64 group, i64 groups)
        : args_(args), walker_(args, group, groups), pages_(args)
    {
        query_.SetGlobalBuffer((__gm__ Fp8*)args.query);
    }

    __aicore__ inline void run()
    {
        give_free_slots();
        MacroBlock macro;
        MacroBlock previous = {};
        MacroBlock oldest = {};
        while (walker_.next(macro)) {
            if (macro.blocks == 0) {
                continue;
            }
            load(macro);
            multiply_query_key(macro);
            if (oldest.blocks > 0) {
                multiply_probs_value(oldest);
            }
            oldest = previous;
            previous = macro;
        }
        if (oldest.blocks > 0) {
            multiply_probs_value(oldest);
        }
        if (previous.blocks > 0) {
            multiply_probs_value(previous);
        }
        take_free_slots();
    }

private:
    __aicore__ static inline i32 query_slot(const MacroBlock& macro) { return macro.task.serial % l1::kSlots; }
    __aicore__ static inline i32 key_slot(const MacroBlock& macro) { return macro.serial % l1::kSlots; }
    __aicore__ static inline i32 lag_slot(const MacroBlock& macro) { return macro.serial % kLagSlots; }
    // Rows given to the cube: a whole number of bands for each AIV.
    __aicore__ static inline uint16_t cube_rows(const MacroBlock& macro)
    {
        constexpr i32 kShort = arch::kAivPerAic * kBandRows;
        return macro.task.rows <= kShort ? kShort : kBlockRows;
    }

    __aicore__ inline void give_free_slots()
    {
        for (int32_t id = 0; id < kCubeLoads; ++id) {
            SetFlag<HardEvent::MTE1_MTE2>(id);
        }
        for (int32_t id = 0; id < (int32_t)l0::kSlots; ++id) {
            SetFlag<HardEvent::M_MTE1>(id);
        }
        SetFlag<HardEvent::FIX_M>(kScoresDone);
    }

    __aicore__ inline void take_free_slots()
    {
        for (int32_t id = 0; id < kCubeLoads; ++id) {
            WaitFlag<HardEvent::MTE1_MTE2>(id);
        }
        for (int32_t id = 0; id < (int32_t)l0::kSlots; ++id) {
            WaitFlag<HardEvent::M_MTE1>(id);
        }
        WaitFlag<HardEvent::FIX_M>(kScoresDone);
        for (uint32_t i = 0; i < ub::kScoresSlots; ++i) {
            wait_both<PIPE_FIX>(kScoresFree);
        }
        wait_both<PIPE_FIX>(kPvFree);
    }

    template <pipe_t kPipe>
    __aicore__ static inline void set_both(CrossFlag flag)
    {
        AscendC::CrossCoreSetFlag<4, kPipe>(flag);
        AscendC::CrossCoreSetFlag<4, kPipe>(flag + arch::kCrossFlagAiv1);
    }
    template <pipe_t kPipe>
    __aicore__ static inline void wait_both(CrossFlag flag)
    {
        AscendC::CrossCoreWaitFlag<4, kPipe>(flag);
        AscendC::CrossCoreWaitFlag<4, kPipe>(flag + arch::kCrossFlagAiv1);
    }

    // Q (once per task), K and V to L1. MTE2 runs ahead of the cube by as many slots as L1 has.
    __aicore__ inline void load(const MacroBlock& macro)
    {
        const i64 head_kv = macro.task.head / (args_.heads_q / args_.heads_kv);
        const i32 k = key_slot(macro);
        WaitFlag<HardEvent::MTE1_MTE2>(kKeyLoaded + k);
        if (macro.first) {
            load_query(macro);
        }
        pages_.copy_keys(key_l1_[k * kKeyTile], macro, head_kv);
        SetFlag<HardEvent::MTE2_MTE1>(kKeyLoaded + k);

        const i32 v = lag_slot(macro);
        WaitFlag<HardEvent::MTE1_MTE2>(kValueLoaded + v);
        pages_.copy_values(value_l1_[v * kKeyTile], macro, head_kv);
        SetFlag<HardEvent::MTE2_MTE1>(kValueLoaded + v);
    }

    __aicore__ inline void load_query(const MacroBlock& macro)
    {
        const Task& task = macro.task;
        const uint16_t tile_rows = cube_rows(macro);
        const LocalTensor<Fp8> tile = query_l1_[query_slot(macro) * kQueryTile];
        if (task.rows < tile_rows) {
            zero_nz(tile, 1, tile_rows * (kHeadDim / kC0), 0);
            AscendC::PipeBarrier<PIPE_MTE2>();
        }
        copy_rows_to_nz(tile, query_[task.first_token * args_.query_token_stride + task.head * args_.query_head_stride],
                        task.rows, args_.query_token_stride, tile_rows, 1);
    }

    // C1: [rows, 128] x [keys, 128]^T -> scores in both UBs, NZ slabs of 16 keys.
    __aicore__ inline void multiply_query_key(const MacroBlock& macro)
    {
        const uint16_t rows = cube_rows(macro);
        const uint16_t keys = (uint16_t)macro.keys();
        const i32 s = key_slot(macro);
        WaitFlag<HardEvent::MTE2_MTE1>(kKeyLoaded + s);
        const i32 l0 = take_l0_slot();
        load_l0(l0a_, l0, query_l1_[query_slot(macro) * kQueryTile], rows, kHeadDim, false);
        load_l0(l0b_, l0, key_l1_[s * kKeyTile], keys, kHeadDim, false);
        SetFlag<HardEvent::MTE1_MTE2>(kKeyLoaded + s);
        WaitFlag<HardEvent::FIX_M>(kScoresDone);
        multiply(scores_l0c_, kScoresDone, l0, rows, keys, kHeadDim);

        wait_both<PIPE_FIX>(kScoresFree);
        drain(scores_ub_[(macro.serial % ub::kScoresSlots) * kScoresTile], scores_l0c_, kScoresDone, rows, keys);
        SetFlag<HardEvent::FIX_M>(kScoresDone);
        set_both<PIPE_FIX>(kScoresReady);
    }

    // C2: [rows, keys] x [keys, 128] -> pv in both UBs; into acc when it starts a task.
    __aicore__ inline void multiply_probs_value(const MacroBlock& macro)
    {
        const uint16_t rows = cube_rows(macro);
        const uint16_t keys = (uint16_t)macro.keys();
        const i32 s = lag_slot(macro);
        WaitFlag<HardEvent::MTE2_MTE1>(kValueLoaded + s);
        const i32 l0 = take_l0_slot();
        load_l0(l0b_, l0, value_l1_[s * kKeyTile], keys, kHeadDim, true);
        SetFlag<HardEvent::MTE1_MTE2>(kValueLoaded + s);
        wait_both<PIPE_MTE1>(kProbsReady);
        load_l0(l0a_, l0, probs_l1_[s * kProbsTile], rows, keys, false);
        const i32 pv = macro.serial % l0c::kPvSlots;
        const LocalTensor<float> product = pv_l0c_[pv * (l0c::kPvBytes / sizeof(float))];
        multiply(product, kPvDone + pv, l0, rows, kHeadDim, keys);

        wait_both<PIPE_FIX>(kPvFree);
        drain(macro.first ? acc_ub_ : pv_ub_, product, kPvDone + pv, rows, kHeadDim);
        set_both<PIPE_FIX>(kPvReady);
    }

    __aicore__ inline i32 take_l0_slot()
    {
        const i32 l0 = products_++ % l0::kSlots;
        WaitFlag<HardEvent::M_MTE1>(l0);
        return l0;
    }

    // One operand, rows x columns in NZ. transpose: the operand is [k, n] by rows and the cube wants n-major fractals.
    __aicore__ static inline void load_l0(const LocalTensor<Fp8>& dst, i32 l0, const LocalTensor<Fp8>& src,
                                          uint16_t rows, uint16_t columns, bool transpose)
    {
        const uint16_t row_fractals = rows / arch::kFractalRows;
        AscendC::LoadData2DParamsV2 params;
        params.mStep = row_fractals;
        params.kStep = columns / kC0;
        params.srcStride = row_fractals;
        params.dstStride = transpose ? columns / arch::kFractalRows : row_fractals;
        params.ifTranspose = transpose;
        AscendC::LoadData(dst[l0 * l0::kSlotBytes], src, params);
    }

    __aicore__ inline void multiply(const LocalTensor<float>& product, int32_t done, i32 l0, uint16_t m, uint16_t n,
                                    uint16_t k)
    {
        SetFlag<HardEvent::MTE1_M>(l0);
        WaitFlag<HardEvent::MTE1_M>(l0);
        AscendC::Mmad(product, l0a_[l0 * l0::kSlotBytes], l0b_[l0 * l0::kSlotBytes],
                      AscendC::MmadParams(m, n, k, 0, false, true));
        SetFlag<HardEvent::M_MTE1>(l0);
        SetFlag<HardEvent::M_FIX>(done);
    }

    // The upper half of the rows to AIV0, the lower to AIV1, at the same place: slabs of 16 columns, 64 rows apart.
    __aicore__ static inline void drain(const LocalTensor<float>& dst, const LocalTensor<float>& product, int32_t done,
                                        uint16_t rows, uint16_t columns)
    {
        WaitFlag<HardEvent::M_FIX>(done);
        AscendC::FixpipeParamsArch3510<AscendC::CO2Layout::NZ> params(columns, rows, rows, kAivRows * kSlabKeys);
        params.dualDstCtl = 1;
        AscendC::Fixpipe<float, float, kNzToUb>(dst, product, params);
    }

    const AttentionArgs& args_;
    TaskWalker<Mask> walker_;
    Pages pages_;
    AscendC::GlobalTensor<Fp8> query_;
    uint32_t products_ = 0;

    LocalTensor<Fp8> query_l1_{TPosition::A1, l1::kQuery, l1::kSlots* kQueryTile};
    LocalTensor<Fp8> key_l1_{TPosition::B1, l1::kKey, l1::kSlots* kKeyTile};
    LocalTensor<Fp8> value_l1_{TPosition::B1, l1::kValue, kLagSlots* kKeyTile};
    LocalTensor<Fp8> probs_l1_{TPosition::A1, l1::kProbs, kLagSlots* kProbsTile};
    LocalTensor<Fp8> l0a_{TPosition::A2, 0, arch::kL0aBytes};
    LocalTensor<Fp8> l0b_{TPosition::B2, 0, arch::kL0bBytes};
    LocalTensor<float> scores_l0c_{TPosition::CO1, l0c::kScores, l0c::kScoresBytes / sizeof(float)};
    LocalTensor<float> pv_l0c_{TPosition::CO1, l0c::kPv, l0c::kPvSlots* l0c::kPvBytes / sizeof(float)};
    LocalTensor<float> scores_ub_{TPosition::VECIN, ub::kScores, ub::kScoresSlots* kScoresTile};
    LocalTensor<float> pv_ub_{TPosition::VECIN, ub::kPv, kPvTile};
    LocalTensor<float> acc_ub_{TPosition::VECIN, ub::kAcc, kPvTile};
};

}  // namespace qbsa
