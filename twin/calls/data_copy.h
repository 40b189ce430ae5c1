// DataCopy: GM -> UB or L1, UB -> GM, UB -> L1 in blocks of 32 bytes; GM -> L1 with ND to NZ.
#pragma once
#include "tensor.h"

namespace AscendC {

struct DataCopyParams {
    DataCopyParams() {}
    DataCopyParams(const uint16_t count, const uint16_t len, const uint16_t srcStrideIn, const uint16_t dstStrideIn)
        : blockCount(count), blockLen(len), srcStride(srcStrideIn), dstStride(dstStrideIn)
    {
    }

    // lengths and gaps in data blocks
    uint16_t blockCount = 1;
    uint16_t blockLen = 0;
    union {
        uint16_t srcGap = 0;
        uint16_t srcStride;
    };
    union {
        uint16_t dstGap = 0;
        uint16_t dstStride;
    };
};

struct Nd2NzParams {
    Nd2NzParams() {}
    Nd2NzParams(const uint16_t ndNumIn, const uint16_t nValueIn, const uint32_t dValueIn,
                const uint64_t srcNdMatrixStrideIn, const uint64_t srcDValueIn, const uint16_t dstNzC0StrideIn,
                const uint16_t dstNzNStrideIn, const uint32_t dstNzMatrixStrideIn)
        : ndNum(ndNumIn),
          nValue(nValueIn),
          dValue(dValueIn),
          srcNdMatrixStride(srcNdMatrixStrideIn),
          srcDValue(srcDValueIn),
          dstNzC0Stride(dstNzC0StrideIn),
          dstNzNStride(dstNzNStrideIn),
          dstNzMatrixStride(dstNzMatrixStrideIn)
    {
    }

    uint16_t ndNum = 0;
    uint16_t nValue = 0;
    uint32_t dValue = 0;
    uint64_t srcNdMatrixStride = 0;  // elements
    uint64_t srcDValue = 0;          // elements
    uint16_t dstNzC0Stride = 0;      // data blocks
    uint16_t dstNzNStride = 0;       // data blocks
    uint32_t dstNzMatrixStride = 0;  // elements
};

}  // namespace AscendC

namespace twin {

constexpr uint32_t kBlock = qbsa::arch::kDataBlockBytes;
constexpr int64_t kMaxBlockCount = 4095;

inline uint32_t round_up(uint32_t value, uint32_t to) { return (value + to - 1) / to * to; }

// Copies equal runs; both accesses use the innermost loop only.
inline void issue_block_copy(Core& core, const Call& call, const Access& to, const Access& from)
{
    Bytes to_bytes = bytes_at(core, to);
    Bytes from_bytes = bytes_at(core, from);
    uint32_t count = from.loop[2].count;
    uint32_t bytes = from.run_bytes;
    int64_t to_stride = to.loop[2].stride_bytes;
    int64_t from_stride = from.loop[2].stride_bytes;
    bool leaves_chip = to.region.memory == Memory::kGm;
    uint64_t from_address = from.begin;
    issue(core, call, {to, from}, [=] {
        for (uint32_t i = 0; i < count; ++i) {
            Bytes block = from_bytes + i * from_stride;
            if (leaves_chip) check_initialised(block, bytes, "source", from_address + i * from_stride);
            copy(to_bytes + i * to_stride, block, bytes);
        }
    });
}

inline void copy_data_blocks(Core& core, const Call& call, const Region& to, const Region& from, uint32_t gm_align,
                             AscendC::DataCopyParams p)
{
    check_range("blockCount", p.blockCount, 0, kMaxBlockCount);
    if (p.blockCount == 0 || p.blockLen == 0) return;
    mutate_stride(core, call, "srcStride", p.blockCount > 1, p.srcStride);
    mutate_stride(core, call, "dstStride", p.blockCount > 1, p.dstStride);
    uint32_t bytes = p.blockLen * kBlock;
    auto align = [&](const Region& region) { return region.memory == Memory::kGm ? gm_align : kBlock; };
    Access write{"destination", true, to, align(to), to.begin, bytes, {}};
    Access read{"source", false, from, align(from), from.begin, bytes, {}};
    write.loop[2] = {p.blockCount, int64_t(bytes) + p.dstGap * kBlock};
    read.loop[2] = {p.blockCount, int64_t(bytes) + p.srcGap * kBlock};
    issue_block_copy(core, call, write, read);
}

// Silicon rounds a count down to whole data blocks; the twin takes that for a mistake.
template <typename T>
AscendC::DataCopyParams whole_blocks(uint32_t count)
{
    check_multiple("count * sizeof(T)", int64_t(count) * sizeof(T), kBlock);
    check_range("count * sizeof(T)", int64_t(count) * sizeof(T), 0, int64_t(UINT16_MAX) * kBlock);
    return AscendC::DataCopyParams(1, uint16_t(count * sizeof(T) / kBlock), 0, 0);
}

// AIC fills L1, an AIV fills its UB; GM addresses of the latter keep the element's alignment.
template <typename T>
void copy_from_gm(const Call& call, const AscendC::LocalTensor<T>& dst, const AscendC::GlobalTensor<T>& src,
                  const AscendC::DataCopyParams& p)
{
    Core& core = begin(call);
    check_memory("destination", dst.region(), core.is_aic() ? Memory::kL1 : Memory::kUb);
    copy_data_blocks(core, call, dst.region(), src.region(), core.is_aic() ? 1 : sizeof(T), p);
}

template <typename T>
void copy_to_gm(const Call& call, const AscendC::GlobalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                const AscendC::DataCopyParams& p)
{
    Core& core = begin(call);
    check_memory("source", src.region(), Memory::kUb);
    copy_data_blocks(core, call, dst.region(), src.region(), sizeof(T), p);
}

template <typename T>
void copy_ub_to_l1(const Call& call, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                   const AscendC::DataCopyParams& p)
{
    Core& core = begin(call);
    check_memory("source", src.region(), Memory::kUb);
    check_memory("destination", dst.region(), Memory::kL1);
    copy_data_blocks(core, call, dst.region(), src.region(), 1, p);
}

inline void check_nd2nz(const AscendC::Nd2NzParams& p)
{
    constexpr int64_t kMaxRows = 16384;
    check_range("ndNum", p.ndNum, 0, 4095);
    check_range("nValue", p.nValue, 0, kMaxRows);
    check_range("dValue", p.dValue, 0, 65535);
    check_range("srcNdMatrixStride", int64_t(p.srcNdMatrixStride), 0, qbsa::arch::kNd2NzMaxPitch);
    check_range("srcDValue", int64_t(p.srcDValue), 1, qbsa::arch::kNd2NzMaxPitch);
    check_range("dstNzC0Stride", p.dstNzC0Stride, 1, kMaxRows);
    check_range("dstNzNStride", p.dstNzNStride, 1, kMaxRows);
    check_range("dstNzMatrixStride", p.dstNzMatrixStride, 0, kMaxRows);
}

}  // namespace twin

namespace AscendC {

template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& repeatParams,
              twin::Where where = twin::Where::here())
{
    twin::copy_from_gm({"DataCopy", PIPE_MTE2, where}, dst, src, repeatParams);
}

template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const uint32_t count,
              twin::Where where = twin::Where::here())
{
    twin::Call call{"DataCopy", PIPE_MTE2, where};
    twin::begin(call);
    twin::copy_from_gm(call, dst, src, twin::whole_blocks<T>(count));
}

template <typename T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& repeatParams,
              twin::Where where = twin::Where::here())
{
    twin::copy_to_gm({"DataCopy", PIPE_MTE3, where}, dst, src, repeatParams);
}

template <typename T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count,
              twin::Where where = twin::Where::here())
{
    twin::Call call{"DataCopy", PIPE_MTE3, where};
    twin::begin(call);
    twin::copy_to_gm(call, dst, src, twin::whole_blocks<T>(count));
}

// UB -> L1
template <typename T>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& repeatParams,
              twin::Where where = twin::Where::here())
{
    twin::copy_ub_to_l1({"DataCopy", PIPE_MTE3, where}, dst, src, repeatParams);
}

template <typename T>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count,
              twin::Where where = twin::Where::here())
{
    twin::Call call{"DataCopy", PIPE_MTE3, where};
    twin::begin(call);
    twin::copy_ub_to_l1(call, dst, src, twin::whole_blocks<T>(count));
}

// Row r, column c of a matrix -> data block r * dstNzNStride + c / C0 * dstNzC0Stride, element c % C0, where C0
// elements fill a data block. Columns are filled up with zeros to whole blocks, rows are not.
template <typename T, bool enableSmallC0 = false>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const Nd2NzParams& intriParams,
              twin::Where where = twin::Where::here())
{
    static_assert(!enableSmallC0, "the twin has no small-C0 mode");
    twin::Call call{"DataCopy Nd2Nz", PIPE_MTE2, where};
    twin::Core& core = twin::begin(call);
    Nd2NzParams p = intriParams;
    if (p.ndNum == 0 || p.nValue == 0 || p.dValue == 0) return;
    twin::mutate_stride(core, call, "srcNdMatrixStride", p.ndNum > 1, p.srcNdMatrixStride);
    twin::mutate_stride(core, call, "srcDValue", p.nValue > 1, p.srcDValue);
    twin::mutate_stride(core, call, "dstNzC0Stride", p.dValue * sizeof(T) > twin::kBlock, p.dstNzC0Stride);
    twin::mutate_stride(core, call, "dstNzNStride", p.nValue > 1, p.dstNzNStride);
    twin::mutate_stride(core, call, "dstNzMatrixStride", p.ndNum > 1, p.dstNzMatrixStride);
    twin::check_nd2nz(p);
    twin::check_memory("destination", dst.region(), twin::Memory::kL1);

    const uint32_t row_bytes = p.dValue * sizeof(T);
    const uint32_t columns = twin::round_up(row_bytes, twin::kBlock) / twin::kBlock;
    twin::Access read{"source", false, src.region(), 1, src.region().begin, row_bytes, {}};
    read.loop[1] = {p.ndNum, int64_t(p.srcNdMatrixStride * sizeof(T))};
    read.loop[2] = {p.nValue, int64_t(p.srcDValue * sizeof(T))};
    twin::Access write{"destination", true, dst.region(), twin::kBlock, dst.region().begin, twin::kBlock, {}};
    write.loop[0] = {p.ndNum, int64_t(p.dstNzMatrixStride * sizeof(T))};
    write.loop[1] = {p.nValue, p.dstNzNStride * int64_t(twin::kBlock)};
    write.loop[2] = {columns, p.dstNzC0Stride * int64_t(twin::kBlock)};
    twin::check_multiple("dstNzMatrixStride * sizeof(T)", write.loop[0].stride_bytes, twin::kBlock);

    const twin::Bytes to = twin::bytes_at(core, write);
    const twin::Bytes from = twin::bytes_at(core, read);
    const twin::Loop from_nd = read.loop[1], from_row = read.loop[2];
    const twin::Loop to_nd = write.loop[0], to_row = write.loop[1], to_column = write.loop[2];
    const uint32_t last_bytes = row_bytes - (columns - 1) * twin::kBlock;
    twin::issue(core, call, {write, read}, [=] {
        for (uint32_t nd = 0; nd < to_nd.count; ++nd) {
            for (uint32_t row = 0; row < to_row.count; ++row) {
                twin::Bytes in = from + (nd * from_nd.stride_bytes + row * from_row.stride_bytes);
                twin::Bytes out = to + (nd * to_nd.stride_bytes + row * to_row.stride_bytes);
                for (uint32_t column = 0; column + 1 < columns; ++column) {
                    twin::copy(out + column * to_column.stride_bytes, in + column * twin::kBlock, twin::kBlock);
                }
                twin::Bytes last = out + (columns - 1) * to_column.stride_bytes;
                std::memset(last.data, 0, twin::kBlock);
                twin::mark(last, twin::kBlock, true);
                twin::copy(last, in + (columns - 1) * twin::kBlock, last_bytes);
            }
        }
    });
}

}  // namespace AscendC
