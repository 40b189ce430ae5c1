// Fixpipe: L0C -> UB of one AIV, or of both with the rows split between them; fp32, NZ or rows.
#pragma once
#include "tensor.h"

namespace AscendC {

enum class CO2Layout : uint8_t { NZ = 0, ROW_MAJOR, COLUMN_MAJOR };

struct FixpipeConfig {
    CO2Layout format;
    bool isToUB;

    constexpr FixpipeConfig(CO2Layout format_) : format(format_), isToUB(false) {}
    constexpr FixpipeConfig(CO2Layout format_, bool isToUB_) : format(format_), isToUB(isToUB_) {}
};

constexpr FixpipeConfig CFG_NZ = {CO2Layout::NZ, false};
constexpr FixpipeConfig CFG_ROW_MAJOR = {CO2Layout::ROW_MAJOR, false};
constexpr FixpipeConfig CFG_COLUMN_MAJOR = {CO2Layout::COLUMN_MAJOR, false};

struct Nz2NdParams {
    Nz2NdParams() {}
    Nz2NdParams(const uint16_t ndNumIn, const uint16_t srcNdStrideIn, const uint32_t dstNdStrideIn)
        : ndNum(ndNumIn), srcNdStride(srcNdStrideIn), dstNdStride(dstNdStrideIn)
    {
    }

    uint16_t ndNum = 1;
    uint16_t srcNdStride = 0;
    uint32_t dstNdStride = 0;
};

template <CO2Layout format>
struct TransformParams {};
template <>
struct TransformParams<CO2Layout::NZ> {
    using PARAMS = uint8_t;
};
template <>
struct TransformParams<CO2Layout::ROW_MAJOR> {
    using PARAMS = Nz2NdParams;
};

// The device's fields for quantisation, ReLU, channel split and unitFlag are left out: the twin has none of it.
template <CO2Layout format = CO2Layout::ROW_MAJOR>
struct FixpipeParamsArch3510 {
    FixpipeParamsArch3510() {}
    FixpipeParamsArch3510(const uint16_t nSizeIn, const uint16_t mSizeIn, const uint16_t srcStrideIn,
                          const uint32_t dstStrideIn)
        : nSize(nSizeIn), mSize(mSizeIn), srcStride(srcStrideIn), dstStride(dstStrideIn)
    {
    }

    uint16_t nSize = 0;
    uint16_t mSize = 0;
    uint16_t srcStride = 0;   // rows between slabs of 16 columns
    uint32_t dstStride = 0;   // elements: between slabs (NZ) or rows
    uint8_t dualDstCtl = 0;   // 1: the upper half of the rows to AIV0, the lower half to AIV1, at the same address
    bool subBlockId = false;  // which AIV, when dualDstCtl is 0
    typename TransformParams<format>::PARAMS params;
};

}  // namespace AscendC

namespace twin {

constexpr uint32_t kSlabColumns = 16;
constexpr uint32_t kSlabRowBytes = kSlabColumns * sizeof(float);
constexpr uint32_t kFixpipeSourceAlign = 64;

// Plain values of a Fixpipe, for both layouts.
struct FixpipeJob {
    uint32_t rows;  // per AIV
    uint32_t columns;
    int64_t from_stride;  // bytes between slabs in L0C
    int64_t to_stride;    // bytes between slabs or rows in UB
    bool nz;
};

inline void run_fixpipe(const FixpipeJob& job, Bytes to, Bytes from)
{
    for (uint32_t column = 0; column < job.columns; column += kSlabColumns) {
        Bytes slab = from + column / kSlabColumns * job.from_stride;
        if (job.nz) {
            copy(to + column / kSlabColumns * job.to_stride, slab, job.rows * kSlabRowBytes);
            continue;
        }
        const uint32_t bytes = std::min(kSlabColumns, job.columns - column) * uint32_t(sizeof(float));
        for (uint32_t row = 0; row < job.rows; ++row) {
            copy(to + (row * job.to_stride + column * int64_t(sizeof(float))), slab + row * kSlabRowBytes, bytes);
        }
    }
}

inline Access fixpipe_read(const FixpipeJob& job, const Region& from, uint32_t rows)
{
    Access read{"source", false, from, kFixpipeSourceAlign, from.begin, rows * kSlabRowBytes, {}};
    read.loop[2] = {(job.columns + kSlabColumns - 1) / kSlabColumns, job.from_stride};
    return read;
}

inline Access fixpipe_write(const FixpipeJob& job, Region to, int aiv)
{
    to.aiv = aiv;
    Access write{"destination", true, to, qbsa::arch::kDataBlockBytes, to.begin, 0, {}};
    if (job.nz) {
        write.run_bytes = job.rows * kSlabRowBytes;
        write.loop[2] = {job.columns / kSlabColumns, job.to_stride};
    } else {
        write.run_bytes = job.columns * uint32_t(sizeof(float));
        write.loop[2] = {job.rows, job.to_stride};
    }
    return write;
}

template <AscendC::CO2Layout format>
void check_fixpipe(const AscendC::FixpipeParamsArch3510<format>& p)
{
    constexpr bool kNz = format == AscendC::CO2Layout::NZ;
    check_range("nSize", p.nSize, 0, 4095);
    check_multiple("nSize", p.nSize, kNz ? kSlabColumns : qbsa::arch::kDataBlockBytes / sizeof(float));
    check_range("dstStride", p.dstStride, 1, UINT32_MAX);
    check_range("dualDstCtl", p.dualDstCtl, 0, 1);
    if (p.dualDstCtl == 1) check_multiple("mSize with dualDstCtl 1", p.mSize, 2);
    if constexpr (!kNz) check_unused("params.ndNum", p.params.ndNum, 1);
}

}  // namespace twin

namespace AscendC {

// Slab c / 16 of L0C holds rows of 16 columns. NZ keeps them, ROW_MAJOR lays element (r, c) at r * dstStride + c.
template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR>
void Fixpipe(const LocalTensor<T>& dst, const LocalTensor<U>& src,
             const FixpipeParamsArch3510<config.format>& intriParams, twin::Where where = twin::Where::here())
{
    static_assert(std::is_same<T, float>::value && std::is_same<U, float>::value, "the twin moves fp32 to fp32");
    static_assert(config.isToUB, "Fixpipe to UB needs a config with isToUB = true");
    twin::Call call{"Fixpipe", PIPE_FIX, where};
    twin::Core& core = twin::begin(call);
    auto p = intriParams;
    if (p.nSize == 0 || p.mSize == 0) return;
    twin::mutate_stride(core, call, "srcStride", p.nSize > twin::kSlabColumns, p.srcStride);
    twin::mutate_stride(core, call, "dstStride", p.nSize > twin::kSlabColumns, p.dstStride);
    twin::check_fixpipe(p);
    twin::check_memory("source", src.region(), twin::Memory::kL0C);
    twin::check_memory("destination", dst.region(), twin::Memory::kUb);

    constexpr bool kNz = config.format == CO2Layout::NZ;
    const bool dual = p.dualDstCtl == 1;
    const twin::FixpipeJob job{dual ? p.mSize / 2u : p.mSize, p.nSize, p.srcStride * int64_t(twin::kSlabRowBytes),
                               int64_t(p.dstStride) * int64_t(sizeof(float)), kNz};
    const auto read = twin::fixpipe_read(job, src.region(), p.mSize);
    const twin::Bytes from = twin::bytes_at(core, read);
    if (!dual) {
        const auto write = twin::fixpipe_write(job, dst.region(), p.subBlockId);
        const twin::Bytes to = twin::bytes_at(core, write);
        twin::issue(core, call, {write, read}, [=] { twin::run_fixpipe(job, to, from); });
        return;
    }
    const auto write0 = twin::fixpipe_write(job, dst.region(), 0);
    const auto write1 = twin::fixpipe_write(job, dst.region(), 1);
    const twin::Bytes to0 = twin::bytes_at(core, write0);
    const twin::Bytes to1 = twin::bytes_at(core, write1);
    twin::issue(core, call, {write0, write1, read}, [=] {
        twin::run_fixpipe(job, to0, from);
        twin::run_fixpipe(job, to1, from + job.rows * int64_t(twin::kSlabRowBytes));
    });
}

}  // namespace AscendC
