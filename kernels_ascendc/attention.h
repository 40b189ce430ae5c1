// FP8 block-sparse paged attention, one mixed kernel: AIC (cube.h) and two AIVs (vector.h) of a group walk the same
// stream of macro-blocks (tasks.h) in the memory of buffers.h.
//
//   AIC    C1(0) C1(1) C1(2)  C2(0)  C1(3)      C2(1)  C1(4)      C2(2) ...
//   AIV          V1(0)        V1(1)  V1(2)+V2(0)       V1(3)+V2(1)      ...
#pragma once
#include "kernel_operator.h"

#include "contract.h"
#include "cube.h"
#include "mask.h"
#include "merge.h"
#include "pages.h"
#include "quant.h"
#include "vector.h"

namespace qbsa {

// Can this call be done? Read by every core, so that all of them stop together.
__aicore__ inline Status check_call(const AttentionArgs& args)
{
    const bool mode = args.quant_mode == (i32)QuantMode::kFp8PerTokenHead &&
                      (args.mask_mode == (i32)MaskMode::kCausal || args.mask_mode == (i32)MaskMode::kLength);
    if (!mode) {
        return Status::kUnknownMode;
    }
    const __gm__ PlanHeader* header = (const __gm__ PlanHeader*)args.plan;
    const bool same = header->magic == kPlanMagic && header->version == kAbiVersion &&
                      header->words == args.plan_words && header->cores >= 1 && header->cores <= kMaxCores &&
                      header->batch == args.batch && header->heads_q == args.heads_q &&
                      header->q_blocks == args.q_blocks && header->check == plan_header_check(header);
    return same ? Status::kOk : Status::kForeignPlan;
}

// The status word of one AIC group.
__aicore__ inline void write_status(const AttentionArgs& args, i64 group, Status status)
{
    AscendC::GlobalTensor<int32_t> word;
    word.SetGlobalBuffer((__gm__ int32_t*)(args.workspace + group % kMaxCores * kStatusBytes));
    word.SetValue(0, (int32_t)status);
    AscendC::DataCacheCleanAndInvalid<int32_t, AscendC::CacheLine::SINGLE_CACHE_LINE, AscendC::DcciDst::CACHELINE_OUT>(
        word);
}

// Scalar reads must see what the AICPU and earlier kernels wrote.
__aicore__ inline void forget_cached_scalars(const AttentionArgs& args)
{
    AscendC::GlobalTensor<int32_t> plan;
    plan.SetGlobalBuffer((__gm__ int32_t*)args.plan);
    AscendC::DataCacheCleanAndInvalid<int32_t, AscendC::CacheLine::ENTIRE_DATA_CACHE, AscendC::DcciDst::CACHELINE_OUT>(
        plan);
}

// CTRL for values that are no numbers. [48] = 1: NaN and inf pass; [60] = 0: each Cast saturates as its trait says. The
// defaults would turn a NaN row into zeros. Reset only when all pipes are done.
__aicore__ inline void keep_nan_and_inf(bool keep)
{
    AscendC::SetCtrlSpr<48, 48>(keep ? 1 : 0);
    AscendC::SetCtrlSpr<60, 60>(keep ? 0 : 1);
}

__aicore__ inline void begin_kernel(const AttentionArgs& args)
{
    AscendC::InitSocState();
    keep_nan_and_inf(true);
    forget_cached_scalars(args);
}

__aicore__ inline void end_kernel()
{
    AscendC::PipeBarrier<PIPE_ALL>();
    keep_nan_and_inf(false);
}

template <class Quant, class Mask>
__aicore__ inline void run_programs(const AttentionArgs& args, Status status)
{
    const i64 groups = AscendC::GetBlockNum();
    if ASCEND_IS_AIC {
        if (status == Status::kOk) {
            CubeProgram<Mask, PagedCache>(args, AscendC::GetBlockIdx(), groups).run();
        }
    }
    if ASCEND_IS_AIV {
        const i64 group = AscendC::GetBlockIdx() / AscendC::GetTaskRatio();
        const i64 half = AscendC::GetSubBlockIdx();
        VectorProgram<Quant, Mask, PagedCache> program(args, group, groups, half);
        if (status == Status::kOk) {
            status = program.run();
        } else {
            program.refuse();
        }
        if (half == 0) {
            write_status(args, group, status);
        }
    }
}

template <class Mask>
__aicore__ inline void choose_quant(const AttentionArgs& args, Status status)
{
    if (Fp8KeyPerHead::fits(args)) {
        run_programs<Fp8KeyPerHead, Mask>(args, status);
    } else {
        run_programs<Fp8PerTokenHead, Mask>(args, status);
    }
}

// What every core of the launch runs: AIC:AIV 1:2.
__aicore__ inline void run_attention(const AttentionArgs& args)
{
    begin_kernel(args);
    const Status status = check_call(args);
    if (args.mask_mode == (i32)MaskMode::kCausal) {
        choose_quant<CausalMask>(args, status);
    } else {
        choose_quant<LengthMask>(args, status);
    }
    end_kernel();
}

// The second launch of a call whose plan has room for splits, on AIVs only.
__aicore__ inline void run_merge(const AttentionArgs& args)
{
    begin_kernel(args);
    if ASCEND_IS_AIV {
        if (check_call(args) == Status::kOk) {
            const i64 aiv = AscendC::GetBlockIdx();
            const i64 aivs = AscendC::GetBlockNum() * AscendC::GetTaskRatio();
            const Status status = MergeProgram(args, aiv, aivs).run();
            if (status != Status::kOk) {
                write_status(args, aiv / AscendC::GetTaskRatio(), status);
            }
        }
    }
    end_kernel();
}

}  // namespace qbsa
