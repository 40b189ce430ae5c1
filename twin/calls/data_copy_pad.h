// DataCopyPad: GM <-> UB to the byte.
#pragma once
#include "data_copy.h"

namespace AscendC {

enum class PaddingMode : uint8_t {
    Normal = 0,
    Compact,
};

struct DataCopyExtParams {
    DataCopyExtParams() {}
    DataCopyExtParams(const uint16_t count, const uint32_t len, const int64_t srcStrideIn, const int64_t dstStrideIn,
                      const uint32_t rsvIn)
        : blockCount(count), blockLen(len), srcStride(srcStrideIn), dstStride(dstStrideIn), rsv(rsvIn)
    {
    }

    uint16_t blockCount = 1;
    uint32_t blockLen = 0;  // bytes
    int64_t srcStride = 0;  // gap between blocks: bytes in GM, data blocks in UB
    int64_t dstStride = 0;
    uint32_t rsv = 0;
};

template <typename T>
struct GetPadValueType {
    using Type = T;
};
template <>
struct GetPadValueType<fp8_e4m3fn_t> {
    using Type = uint8_t;
};

template <typename T>
struct DataCopyPadExtParams {
    using TYPE = typename GetPadValueType<T>::Type;

    DataCopyPadExtParams() {}
    DataCopyPadExtParams(const bool isPadValue, const uint8_t leftPadValue, const uint8_t rightPadValue, T padValue)
        : isPad(isPadValue), leftPadding(leftPadValue), rightPadding(rightPadValue)
    {
        std::memcpy(&paddingValue, &padValue, sizeof padValue);
    }

    bool isPad = false;
    uint8_t leftPadding = 0;   // elements
    uint8_t rightPadding = 0;  // elements
    TYPE paddingValue = {};
};

}  // namespace AscendC

namespace twin {

constexpr int64_t kMaxGmGap = (int64_t(1) << 40) - 1;
constexpr int64_t kMaxUbGap = 65535;

template <typename T>
void check_pad_blocks(const AscendC::DataCopyExtParams& p)
{
    check_range("blockCount", p.blockCount, 0, kMaxBlockCount);
    check_range("blockLen", p.blockLen, 0, 2097151);
    check_multiple("blockLen", p.blockLen, sizeof(T));
}

// What stands beside the data of a block in UB. Bytes that the manual calls random count as not written.
struct Padding {
    bool known;
    uint8_t element_bytes;
    uint8_t element[8];

    void write(Bytes to, uint32_t bytes) const
    {
        for (uint32_t i = 0; i < bytes; ++i) to.data[i] = known ? element[i % element_bytes] : kPoison;
        mark(to, bytes, known);
    }
};

}  // namespace twin

namespace AscendC {

// GM -> UB. Normal: every block starts on a data block and is filled up to whole ones. Compact: blocks follow each
// other without gaps, only the end is filled up; dstStride and both paddings have no meaning.
template <typename T, PaddingMode mode = PaddingMode::Normal>
void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyExtParams& dataCopyParams,
                 const DataCopyPadExtParams<T>& padParams, twin::Where where = twin::Where::here())
{
    twin::Call call{"DataCopyPad", PIPE_MTE2, where};
    twin::Core& core = twin::begin(call);
    DataCopyExtParams p = dataCopyParams;
    twin::check_pad_blocks<T>(p);
    if (p.blockCount == 0 || p.blockLen == 0) return;
    constexpr bool kCompact = mode == PaddingMode::Compact;
    twin::mutate_stride(core, call, "srcStride", p.blockCount > 1, p.srcStride);
    twin::mutate_stride(core, call, "dstStride", !kCompact && p.blockCount > 1, p.dstStride);
    twin::check_range("srcStride", p.srcStride, -int64_t(p.blockLen), twin::kMaxGmGap);
    twin::check_range("dstStride", p.dstStride, 0, twin::kMaxUbGap);
    twin::check_memory("destination", dst.region(), twin::Memory::kUb);

    const uint32_t left = kCompact ? 0 : uint32_t(padParams.leftPadding * sizeof(T));
    const uint32_t right = kCompact ? 0 : uint32_t(padParams.rightPadding * sizeof(T));
    twin::check_range("leftPadding in bytes", left, 0, twin::kBlock);
    twin::check_range("rightPadding in bytes", right, 0, twin::kBlock);
    const uint32_t data_bytes = kCompact ? p.blockCount * p.blockLen : p.blockLen;
    const uint32_t ub_bytes = twin::round_up(left + data_bytes + right, twin::kBlock);
    const int64_t ub_stride = kCompact ? 0 : ub_bytes + p.dstStride * int64_t(twin::kBlock);
    const int64_t gm_stride = p.blockLen + p.srcStride;

    twin::Access read{"source", false, src.region(), 1, src.region().begin, p.blockLen, {}};
    read.loop[2] = {p.blockCount, gm_stride};
    twin::Access write{"destination", true, dst.region(), twin::kBlock, dst.region().begin, ub_bytes, {}};
    if (!kCompact) write.loop[2] = {p.blockCount, ub_stride};

    // Without isPad and paddings the manual repeats the block's first element.
    twin::Padding padding{padParams.isPad, sizeof(T), {}};
    std::memcpy(padding.element, &padParams.paddingValue, sizeof(T));
    const bool repeats_first = !padParams.isPad && left == 0 && right == 0 && !kCompact;
    const twin::Bytes to = twin::bytes_at(core, write);
    const twin::Bytes from = twin::bytes_at(core, read);
    twin::issue(core, call, {write, read}, [=] {
        for (uint32_t i = 0; i < p.blockCount; ++i) {
            twin::Bytes in = from + i * gm_stride;
            if (kCompact) {
                twin::copy(to + int64_t(i) * p.blockLen, in, p.blockLen);
                continue;
            }
            twin::Padding around = padding;
            if (repeats_first) {
                around.known = true;
                std::memcpy(around.element, in.data, sizeof(T));
            }
            twin::Bytes out = to + i * ub_stride;
            around.write(out, left);
            twin::copy(out + left, in, p.blockLen);
            around.write(out + (left + p.blockLen), ub_bytes - left - p.blockLen);
        }
        if (kCompact) padding.write(to + data_bytes, ub_bytes - data_bytes);
    });
}

// UB -> GM: exactly blockLen bytes of every block.
template <typename T, PaddingMode mode = PaddingMode::Normal>
void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyExtParams& dataCopyParams,
                 twin::Where where = twin::Where::here())
{
    twin::Call call{"DataCopyPad", PIPE_MTE3, where};
    twin::Core& core = twin::begin(call);
    DataCopyExtParams p = dataCopyParams;
    twin::check_pad_blocks<T>(p);
    if (p.blockCount == 0 || p.blockLen == 0) return;
    constexpr bool kCompact = mode == PaddingMode::Compact;
    twin::mutate_stride(core, call, "srcStride", !kCompact && p.blockCount > 1, p.srcStride);
    twin::mutate_stride(core, call, "dstStride", p.blockCount > 1, p.dstStride);
    twin::check_range("srcStride", p.srcStride, 0, kCompact ? 0 : twin::kMaxUbGap);
    twin::check_range("dstStride", p.dstStride, 0, twin::kMaxGmGap);
    twin::check_memory("source", src.region(), twin::Memory::kUb);

    const int64_t ub_stride =
        kCompact ? p.blockLen : twin::round_up(p.blockLen, twin::kBlock) + p.srcStride * int64_t(twin::kBlock);
    twin::Access read{"source", false, src.region(), twin::kBlock, src.region().begin, p.blockLen, {}};
    read.loop[2] = {p.blockCount, ub_stride};
    twin::Access write{"destination", true, dst.region(), 1, dst.region().begin, p.blockLen, {}};
    write.loop[2] = {p.blockCount, p.blockLen + p.dstStride};
    twin::issue_block_copy(core, call, write, read);
}

}  // namespace AscendC
