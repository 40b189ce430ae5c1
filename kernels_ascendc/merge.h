// The merge kernel: joins the pieces of split tasks by their LSE. It runs after the attention kernel on the same
// stream, on AIVs only. A unit of work is a part of the rows of one half (an AIV's share) of one split task: groups of
// eight rows, the fewer the more AIVs there are for a task.
//
//   M = max LSE_k    w_k = exp(LSE_k - M)    O = sum (w_k / sum w) O_k    LSE = M + ln(sum w)
//
// A piece without any key has LSE -FLT_MAX and O 0, so its weight is 0; with nothing but such pieces O is 0 and the LSE
// -FLT_MAX again, exactly.
//
//   MTE2  LSE of all pieces; O_k in two slots  kLseLoaded, kPartialLoaded  ->  V     (back: the same ids)
//   V     out, lse                             kMergedDone                 ->  MTE3  (back: the same id)
#pragma once
#include "kernel_operator.h"

#include "accumulate.h"
#include "buffers.h"
#include "contract.h"
#include "output.h"
#include "tasks.h"

namespace qbsa {

// weights: [pieces][64] LSE, becomes w_k / sum w. lse: of the task.
__simd_vf__ inline void merge_weights(__ubuf__ float* weights, __ubuf__ float* lse, uint16_t pieces)
{
    reg::MaskReg all = reg::CreateMask<float, reg::MaskPattern::ALL>();
    F32 top, sum, x;
    reg::LoadAlign(top, weights);
    for (uint16_t k = 0; k < pieces; ++k) {
        reg::LoadAlign(x, weights + k * kAivRows);
        reg::Max(top, top, x, all);
    }
    reg::Duplicate(sum, 0.0f);
    for (uint16_t k = 0; k < pieces; ++k) {
        reg::LoadAlign(x, weights + k * kAivRows);
        reg::ExpSub(x, x, top, all);
        reg::Add(sum, sum, x, all);
    }
    // No fence: what is stored comes from every load of its place, through top.
    for (uint16_t k = 0; k < pieces; ++k) {
        reg::LoadAlign(x, weights + k * kAivRows);
        reg::ExpSub(x, x, top, all);
        reg::Div(x, x, sum, all);
        reg::StoreAlign(weights + k * kAivRows, x, all);
    }
    reg::Ln(sum, sum, all);
    reg::Add(sum, sum, top, all);
    reg::StoreAlign(lse, sum, all);
}

// acc = acc + weight * partial, or the product alone for the first piece.
template <bool kFirst>
__simd_vf__ inline void add_partial(__ubuf__ float* acc, __ubuf__ float* partial, __ubuf__ float* weight,
                                    uint16_t groups)
{
    reg::MaskReg all = reg::CreateMask<float, reg::MaskPattern::ALL>();
    for (uint16_t g = 0; g < groups; ++g) {
        F32 w;
        load_per_row(w, weight + g * kGroupRows);
        for (uint16_t c = 0; c < kOutSlabs; ++c) {
            F32 even, odd, x, y;
            load_pair(x, y, partial + g * kTile + c * kSlab);
            if constexpr (kFirst) {
                reg::Mul(even, x, w, all);
                reg::Mul(odd, y, w, all);
            } else {
                load_pair(even, odd, acc + g * kTile + c * kSlab);
                reg::MulAddDst(even, x, w, all);
                reg::MulAddDst(odd, y, w, all);
            }
            store_pair(acc + g * kTile + c * kSlab, even, odd, all);
        }
    }
}

__simd_vf__ inline void merged_to_bf16(__ubuf__ uint16_t* out, __ubuf__ float* acc, uint16_t groups)
{
    reg::MaskReg all = reg::CreateMask<float, reg::MaskPattern::ALL>();
    reg::MaskReg all16 = reg::CreateMask<uint16_t, reg::MaskPattern::ALL>();
    for (uint16_t g = 0; g < groups; ++g) {
        for (uint16_t c = 0; c < kOutSlabs; ++c) {
            F32 even, odd;
            load_pair(even, odd, acc + g * kTile + c * kSlab);
            store_bf16(out + g * (kGroupRows * ub::kOutPitch) + c * kSlabKeys, even, odd, all, all16);
        }
    }
}

// What one unit merges of a half's rows.
struct PartRows {
    i32 first;  // of the half
    uint16_t groups;
    i64 token;  // of the first
    i32 count;  // that exist
};

class MergeProgram {
public:
    // aiv: index of this AIV among `aivs` of the launch.
    __aicore__ inline MergeProgram(const AttentionArgs& args, i64 aiv, i64 aivs)
        : args_(args), walker_(args, 0, 1), output_(args), aiv_(aiv), aivs_(aivs)
    {
        plan_ = (__gm__ const Plan*)args.plan;
    }

    // kForeignPlan: a split record was none, its task is not written.
    __aicore__ inline Status run()
    {
        Status status = Status::kOk;
        SetFlag<HardEvent::V_MTE2>(kLseLoaded);
        for (int32_t s = 0; s < (int32_t)merge_ub::kSlots; ++s) {
            SetFlag<HardEvent::V_MTE2>(kPartialLoaded + s);
        }
        SetFlag<HardEvent::MTE3_V>(kMergedDone);
        const i64 splits = clamp(plan_->header.splits, 0, kMaxCores);
        const i64 parts = splits > 0 ? clamp(aivs_ / arch::kAivPerAic / splits, 1, kAivRows / kGroupRows) : 0;
        for (i64 unit = aiv_; unit < splits * arch::kAivPerAic * parts; unit += aivs_) {
            const __gm__ SplitTask* split = &plan_->split[unit / parts / arch::kAivPerAic];
            if (!is_split(split)) {
                status = Status::kForeignPlan;
            } else if (walker_.read_task(split->task, task_)) {
                const i64 half = unit / parts % arch::kAivPerAic;
                merge(split->first_core, split->pieces, half, rows_of_part(half, unit % parts, parts));
            }
        }
        WaitFlag<HardEvent::V_MTE2>(kLseLoaded);
        for (int32_t s = 0; s < (int32_t)merge_ub::kSlots; ++s) {
            WaitFlag<HardEvent::V_MTE2>(kPartialLoaded + s);
        }
        WaitFlag<HardEvent::MTE3_V>(kMergedDone);
        return status;
    }

    // Ids of MTE2_V and V_MTE2, and of V_MTE3 and MTE3_V.
    enum Event : int32_t { kLseLoaded = 0, kPartialLoaded = 1, kMergedDone = 0 };
    static_assert(kPartialLoaded + merge_ub::kSlots <= arch::kUserEventIds, "event ids");

private:
    __aicore__ inline bool is_split(const __gm__ SplitTask* split) const
    {
        return split->check == plan_split_check(split) && split->task >= 0 &&
               split->task < args_.batch * args_.heads_q * args_.q_blocks && split->first_core >= 0 &&
               split->pieces >= 1 && split->pieces <= kMaxCores && split->first_core <= kMaxCores - split->pieces;
    }

    // Rows of the half that exist, in groups of eight, shared out evenly; the first one counts from the half's.
    __aicore__ inline PartRows rows_of_part(i64 half, i64 part, i64 parts) const
    {
        const RowRange range = row_range(task_, half);
        const i64 groups = row_groups(range.rows);
        PartRows rows;
        rows.first = (i32)(part * groups / parts * kGroupRows);
        rows.groups = (uint16_t)((part + 1) * groups / parts - part * groups / parts);
        rows.token = task_.first_token + range.first + rows.first;
        rows.count = (i32)clamp(range.rows - rows.first, 0, rows.groups * kGroupRows);
        return rows;
    }

    __aicore__ inline void merge(i32 first_core, i32 pieces, i64 half, const PartRows& rows)
    {
        if (rows.groups == 0) {
            return;
        }
        load_lse(first_core, pieces, half);
        WaitFlag<HardEvent::MTE2_V>(kLseLoaded);
        WaitFlag<HardEvent::MTE3_V>(kMergedDone);
        asc_vf_call<merge_weights>(address(weights_), address(lse_), (uint16_t)pieces);
        for (i32 k = 0; k < pieces; ++k) {
            const int32_t s = loads_++ % merge_ub::kSlots;
            load_partial(partial_slot(first_core + k, k == 0), half, rows, s);
            WaitFlag<HardEvent::MTE2_V>(kPartialLoaded + s);
            __ubuf__ float* partial = address(partials_[s * kPvTile]);
            __ubuf__ float* weight = address(weights_[k * kAivRows + rows.first]);
            if (k == 0) {
                asc_vf_call<add_partial<true>>(address(acc_), partial, weight, rows.groups);
            } else {
                asc_vf_call<add_partial<false>>(address(acc_), partial, weight, rows.groups);
            }
            SetFlag<HardEvent::V_MTE2>(kPartialLoaded + s);
        }
        SetFlag<HardEvent::V_MTE2>(kLseLoaded);
        asc_vf_call<merged_to_bf16>(address(out_), address(acc_), rows.groups);
        SetFlag<HardEvent::V_MTE3>(kMergedDone);
        WaitFlag<HardEvent::V_MTE3>(kMergedDone);
        output_.write(task_.head, rows.token, rows.count, out_, lse_[rows.first]);
        SetFlag<HardEvent::MTE3_V>(kMergedDone);
    }

    // Slots of all pieces but the first are one distance apart.
    __aicore__ inline void load_lse(i32 first_core, i32 pieces, i64 half)
    {
        constexpr uint16_t kBlocks = kAivRows * sizeof(float) / arch::kDataBlockBytes;
        const i64 slots_apart = partial_slot(1, false) - partial_slot(0, false);
        const uint16_t gap = (uint16_t)(slots_apart * workspace::kLseBytes / arch::kDataBlockBytes - kBlocks);
        AscendC::GlobalTensor<float> first, others;
        first.SetGlobalBuffer((__gm__ float*)workspace::lse(args_, partial_slot(first_core, true), half));
        others.SetGlobalBuffer((__gm__ float*)workspace::lse(args_, partial_slot(first_core + 1, false), half));
        WaitFlag<HardEvent::V_MTE2>(kLseLoaded);
        AscendC::DataCopy(weights_, first, kAivRows);
        if (pieces > 1) {
            AscendC::DataCopy(weights_[kAivRows], others,
                              AscendC::DataCopyParams((uint16_t)(pieces - 1), kBlocks, gap, 0));
        }
        SetFlag<HardEvent::MTE2_V>(kLseLoaded);
    }

    __aicore__ inline void load_partial(i64 slot, i64 half, const PartRows& rows, int32_t s)
    {
        AscendC::GlobalTensor<float> from;
        from.SetGlobalBuffer((__gm__ float*)workspace::partial(args_, slot, half));
        WaitFlag<HardEvent::V_MTE2>(kPartialLoaded + s);
        AscendC::DataCopy(partials_[s * kPvTile], from[rows.first * kSlabKeys], copy_groups(rows.groups));
        SetFlag<HardEvent::MTE2_V>(kPartialLoaded + s);
    }

    const AttentionArgs& args_;
    TaskWalker<LengthMask> walker_;
    OutputRows output_;
    __gm__ const Plan* plan_;
    i64 aiv_;
    i64 aivs_;
    Task task_;
    uint32_t loads_ = 0;

    LocalTensor<float> partials_{TPosition::VECIN, merge_ub::kPartials, merge_ub::kSlots* kPvTile};
    LocalTensor<float> acc_{TPosition::VECCALC, merge_ub::kAcc, kPvTile};
    LocalTensor<float> weights_{TPosition::VECIN, merge_ub::kWeights, kMaxCores* kAivRows};
    LocalTensor<uint16_t> out_{TPosition::VECOUT, merge_ub::kOut, kAivRows* ub::kOutPitch};
    LocalTensor<float> lse_{TPosition::VECOUT, merge_ub::kLse, kAivRows};
};

}  // namespace qbsa
