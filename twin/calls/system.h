// Who am I, control register, scalar cache.
#pragma once
#include "tensor.h"

#define ASCEND_IS_AIC (::twin::running_core().is_aic())
#define ASCEND_IS_AIV (!::twin::running_core().is_aic())

namespace twin {

inline Core& running_core() { return caller({"ASCEND_IS_AIC/AIV", PIPE_S, {}}); }

constexpr bool is_ctrl_field(int8_t first, int8_t last)
{
    return first == last && (first == 48 || first == 50 || first == 60);
}

}  // namespace twin

namespace AscendC {

enum class CacheLine : uint64_t { SINGLE_CACHE_LINE = 0, ENTIRE_DATA_CACHE };
enum class DcciDst : uint64_t { CACHELINE_ALL = 0, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };

inline void InitSocState() { twin::caller({"InitSocState", PIPE_S, {}}).ctrl = twin::kCtrlDefault; }

// AIC: the group; AIV: 2 * group + GetSubBlockIdx().
inline int64_t GetBlockIdx()
{
    twin::Core& core = twin::caller({"GetBlockIdx", PIPE_S, {}});
    int64_t group = core.group->index();
    return core.is_aic() ? group : group * qbsa::arch::kAivPerAic + core.aiv();
}

// Groups, on either kind of core.
inline int64_t GetBlockNum() { return twin::caller({"GetBlockNum", PIPE_S, {}}).group->launch().groups; }

inline int64_t GetSubBlockIdx()
{
    twin::Core& core = twin::caller({"GetSubBlockIdx", PIPE_S, {}});
    return core.is_aic() ? 0 : core.aiv();
}

// AIVs per AIC on an AIV, 1 on an AIC.
inline int64_t GetTaskRatio()
{
    return twin::caller({"GetTaskRatio", PIPE_S, {}}).is_aic() ? 1 : qbsa::arch::kAivPerAic;
}

// Bits that choose how floats saturate (vector_scope.h); a vector function sees them as they are at its call.
template <int8_t startBit, int8_t endBit>
void SetCtrlSpr(int64_t value, twin::Where where = twin::Where::here())
{
    static_assert(twin::is_ctrl_field(startBit, endBit), "the twin has CTRL bits 48, 50 and 60, one at a time");
    twin::Core& core = twin::caller({"SetCtrlSpr", PIPE_S, where});
    twin::check_range("value", value, 0, 1);
    core.ctrl = (core.ctrl & ~(uint64_t{1} << startBit)) | uint64_t(value) << startBit;
}

template <int8_t startBit, int8_t endBit>
int64_t GetCtrlSpr()
{
    static_assert(twin::is_ctrl_field(startBit, endBit), "the twin has CTRL bits 48, 50 and 60, one at a time");
    return twin::caller({"GetCtrlSpr", PIPE_S, {}}).ctrl >> startBit & 1;
}

// Scalar accesses of the twin go to GM at once; the call has nothing left to do.
template <typename T, CacheLine entireType, DcciDst dcciDst>
void DataCacheCleanAndInvalid(const GlobalTensor<T>&)
{
}
template <typename T, CacheLine entireType>
void DataCacheCleanAndInvalid(const GlobalTensor<T>&)
{
}

}  // namespace AscendC
