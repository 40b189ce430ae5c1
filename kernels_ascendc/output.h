// Rows of out and LSE on their way from the staging buffers of an AIV to GM; both kernels end here.
#pragma once
#include "kernel_operator.h"

#include "accumulate.h"
#include "arch.h"
#include "buffers.h"
#include "contract.h"
#include "tasks.h"

namespace qbsa {

// LSE of a row that sees no key: -FLT_MAX.
static constexpr float kEmptyLse = -3.402823466e+38f;

template <class T>
__aicore__ inline __ubuf__ T* address(const LocalTensor<T>& tensor)
{
    return (__ubuf__ T*)tensor.GetPhyAddr();
}

// One AIV's part of a task's rows.
struct RowRange {
    uint16_t bands;
    i32 first;  // row of the task
    i32 rows;   // that exist; may be 0
};

// half: 0 or 1, which AIV of the group.
__aicore__ inline RowRange row_range(const Task& task, i64 half)
{
    RowRange range;
    range.bands = task.rows <= (i32)(arch::kAivPerAic * kBandRows) ? 1 : kAivRows / kBandRows;
    const i32 share = range.bands * kBandRows;
    range.first = (i32)half * share;
    range.rows = (i32)clamp(task.rows - range.first, 0, share);
    return range;
}

// Groups of eight that hold `rows` rows.
__aicore__ inline uint16_t row_groups(i32 rows) { return (uint16_t)((rows + kGroupRows - 1) / kGroupRows); }

// A copy of that many groups of each slab, from one [8 slabs][64 rows][16] fp32 to another.
__aicore__ inline AscendC::DataCopyParams copy_groups(uint16_t groups)
{
    constexpr uint16_t kGroupBlocks = kTile * sizeof(float) / arch::kDataBlockBytes;
    const uint16_t gap = kAivRows / kGroupRows * kGroupBlocks - groups * kGroupBlocks;
    return AscendC::DataCopyParams(kOutSlabs, groups * kGroupBlocks, gap, gap);
}

class OutputRows {
public:
    __aicore__ inline explicit OutputRows(const AttentionArgs& args) : args_(args)
    {
        out_.SetGlobalBuffer((__gm__ uint16_t*)args.out);
        lse_.SetGlobalBuffer((__gm__ float*)args.lse);
    }

    // out: bf16 bits [64][ub::kOutPitch]; lse: [64].
    __aicore__ inline void write(const Task& task, const RowRange& range, const LocalTensor<uint16_t>& out,
                                 const LocalTensor<float>& lse) const
    {
        write(task.head, task.first_token + range.first, range.rows, out, lse);
    }

    // `rows` rows of one head from `token` on.
    __aicore__ inline void write(i64 head, i64 token, i32 rows, const LocalTensor<uint16_t>& out,
                                 const LocalTensor<float>& lse) const
    {
        if (rows == 0) {
            return;
        }
        constexpr u64 kRowBytes = kHeadDim * sizeof(uint16_t);
        AscendC::DataCopyPad(out_[(token * args_.heads_q + head) * kHeadDim], out,
                             AscendC::DataCopyExtParams((uint16_t)rows, kRowBytes,
                                                        ub::kOutPitchBlocks - kRowBytes / arch::kDataBlockBytes,
                                                        (args_.heads_q - 1) * (i64)kRowBytes, 0));
        if (args_.lse != 0) {
            AscendC::DataCopyPad(lse_[head * args_.tokens + token], lse,
                                 AscendC::DataCopyExtParams(1, rows * (uint32_t)sizeof(float), 0, 0, 0));
        }
    }

private:
    const AttentionArgs& args_;
    AscendC::GlobalTensor<uint16_t> out_;
    AscendC::GlobalTensor<float> lse_;
};

}  // namespace qbsa
