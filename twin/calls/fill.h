// Fill: a constant to L1.
#pragma once
#include "tensor.h"

namespace AscendC {

template <typename T>
struct InitConstValueParams {
    InitConstValueParams() {}
    InitConstValueParams(const uint16_t repeatTimesIn, const uint16_t blockNumIn, const uint16_t dstGapIn,
                         const T initValueIn)
        : repeatTimes(repeatTimesIn), blockNum(blockNumIn), dstGap(dstGapIn), initValue(initValueIn)
    {
    }
    InitConstValueParams(const uint16_t repeatTimesIn, const T initValueIn)
        : repeatTimes(repeatTimesIn), initValue(initValueIn)
    {
    }

    uint16_t repeatTimes = 0;
    uint16_t blockNum = 0;  // data blocks
    uint16_t dstGap = 0;    // data blocks
    T initValue = {};
};

// Elements of 2 or 4 bytes; view others as such.
template <typename T, typename U = T, typename std::enable_if<std::is_same<T, U>::value, bool>::type = true>
void Fill(const LocalTensor<T>& dst, const InitConstValueParams<U>& initConstValueParams,
          twin::Where where = twin::Where::here())
{
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Fill takes elements of 2 or 4 bytes");
    twin::Call call{"Fill", PIPE_MTE2, where};
    twin::Core& core = twin::begin(call);
    InitConstValueParams<U> p = initConstValueParams;
    constexpr int64_t kMax = 32767;
    constexpr int64_t kBlock = qbsa::arch::kDataBlockBytes;
    if (p.repeatTimes == 0 || p.blockNum == 0) return;
    twin::mutate_stride(core, call, "dstGap", p.repeatTimes > 1, p.dstGap);
    twin::check_range("repeatTimes", p.repeatTimes, 0, kMax);
    twin::check_range("blockNum", p.blockNum, 0, kMax);
    twin::check_range("dstGap", p.dstGap, 0, kMax);
    twin::check_memory("destination", dst.region(), twin::Memory::kL1);

    const uint32_t bytes = uint32_t(p.blockNum * kBlock);
    twin::Access write{"destination", true, dst.region(), kBlock, dst.region().begin, bytes, {}};
    write.loop[2] = {p.repeatTimes, (p.blockNum + p.dstGap) * kBlock};
    const twin::Bytes to = twin::bytes_at(core, write);
    const int64_t stride = write.loop[2].stride_bytes;
    twin::issue(core, call, {write}, [=] {
        for (uint32_t i = 0; i < p.repeatTimes; ++i) {
            twin::Bytes run = to + i * stride;
            for (uint32_t at = 0; at < bytes; at += sizeof(T)) std::memcpy(run.data + at, &p.initValue, sizeof(T));
            twin::mark(run, bytes, true);
        }
    });
}

}  // namespace AscendC
