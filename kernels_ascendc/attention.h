// FP8 block-sparse paged attention, one mixed kernel: AIC (cube.h) and two AIVs (vector.h) of a group walk the same
// stream of macro-blocks (tasks.h) in the memory of buffers.h.
//
//   AIC    C1(0) C1(1)  C2(0)  C1(2)  C2(1)  C1(3)  C2(2) ...
//   AIV          V1(0)         V1(1)  V2(0)  V1(2)  V2(1) ...
#pragma once
#include "kernel_operator.h"

#include "contract.h"
#include "cube.h"
#include "mask.h"
#include "pages.h"
#include "quant.h"
#include "vector.h"

namespace qbsa {

// Does the plan belong to this call? Read by every core, so that all of them stop together.
__aicore__ inline Status check_plan_header(const AttentionArgs& args)
{
    const __gm__ PlanHeader* header = (const __gm__ PlanHeader*)args.plan;
    const bool same = header->magic == kPlanMagic && header->version == kAbiVersion && header->words == kPlanWords &&
                      header->cores >= 1 && header->cores <= kMaxCores && header->batch == args.batch &&
                      header->heads_q == args.heads_q && header->q_blocks == args.q_blocks;
    return same ? Status::kOk : Status::kForeignPlan;
}

__aicore__ inline void write_status(const AttentionArgs& args, Status status)
{
    AscendC::GlobalTensor<int32_t> word;
    word.SetGlobalBuffer((__gm__ int32_t*)args.workspace);
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

template <class Quant, class Mask, class Pages>
__aicore__ inline void run_programs(const AttentionArgs& args)
{
    const i64 groups = AscendC::GetBlockNum();
    if ASCEND_IS_AIC {
        CubeProgram<Mask, Pages>(args, AscendC::GetBlockIdx(), groups).run();
    }
    if ASCEND_IS_AIV {
        VectorProgram<Quant, Mask, Pages>(args, AscendC::GetBlockIdx() / AscendC::GetTaskRatio(), groups,
                                          AscendC::GetSubBlockIdx())
            .run();
    }
}

// What every core of the launch runs.
__aicore__ inline void run_attention(const AttentionArgs& args)
{
    AscendC::InitSocState();
    forget_cached_scalars(args);
    const Status status = check_plan_header(args);
    if ASCEND_IS_AIV {
        if (AscendC::GetBlockIdx() == 0) {
            write_status(args, status);
        }
    }
    if (status == Status::kOk) {
        if (args.mask_mode == (i32)MaskMode::kCausal) {
            run_programs<Fp8PerTokenHead, CausalMask, PagedCache>(args);
        } else {
            run_programs<Fp8PerTokenHead, LengthMask, PagedCache>(args);
        }
    }
    AscendC::PipeBarrier<PIPE_ALL>();
}

}  // namespace qbsa
