// LoadData with LoadData2DParamsV2: fractals of 512 bytes, L1 -> L0A or L0B.
#pragma once
#include "fractal.h"
#include "tensor.h"

namespace AscendC {

struct LoadData2DParamsV2 {
    LoadData2DParamsV2() {}
    LoadData2DParamsV2(const uint32_t mStartPositionIn, const uint32_t kStartPositionIn, const uint16_t mStepIn,
                       const uint16_t kStepIn, const int32_t srcStrideIn, const uint16_t dstStrideIn,
                       const bool ifTransposeIn, const uint8_t sidIn)
        : mStartPosition(mStartPositionIn),
          kStartPosition(kStartPositionIn),
          mStep(mStepIn),
          kStep(kStepIn),
          srcStride(srcStrideIn),
          dstStride(dstStrideIn),
          ifTranspose(ifTransposeIn),
          sid(sidIn)
    {
    }

    uint32_t mStartPosition = 0;  // 16 rows
    uint32_t kStartPosition = 0;  // 32 bytes
    uint16_t mStep = 0;
    uint16_t kStep = 0;
    int32_t srcStride = 0;   // fractals between columns of fractals
    uint16_t dstStride = 0;  // fractals
    bool ifTranspose = false;
    uint8_t sid = 0;
};

}  // namespace AscendC

namespace twin {

// 32 rows x 32 bytes (a fractal and the one below it) -> row n of the two fractals at `to` holds column n.
inline void transpose_bytes(uint8_t* to, const uint8_t* from)
{
    for (uint32_t half = 0; half < 2; ++half) {
        transpose_16x16(to + half * 16, kFractalRowBytes, from + half * kFractal, kFractalRowBytes);
        transpose_16x16(to + kFractal + half * 16, kFractalRowBytes, from + half * kFractal + 16, kFractalRowBytes);
    }
}

// A fractal of 16 x 16 elements of two bytes.
inline void transpose_pairs(uint8_t* to, const uint8_t* from)
{
    for (uint32_t row = 0; row < 16; ++row) {
        for (uint32_t column = 0; column < 16; ++column) {
            std::memcpy(to + column * kFractalRowBytes + 2 * row, from + row * kFractalRowBytes + 2 * column, 2);
        }
    }
}

// square: fractals from one square of elements to the next, in either direction.
template <void (*transpose)(uint8_t*, const uint8_t*), uint32_t square>
void load_transposed(Bytes to, Bytes from, uint32_t m_step, uint32_t k_step, int64_t to_stride, int64_t from_stride)
{
    for (uint32_t p = 0; p < m_step / square; ++p) {
        for (uint32_t j = 0; j < k_step; ++j) {
            Bytes in = from + (j * from_stride + square * p * int64_t(kFractal));
            Bytes out = to + (p * to_stride + square * j * int64_t(kFractal));
            transpose(out.data, in.data);
            if (kChecked) transpose(out.shadow, in.shadow);
        }
    }
}

}  // namespace twin

namespace AscendC {

// Not transposed: column j of mStep fractals -> column j, dstStride fractals on.
// Transposed, elements of one byte: 32 rows x 32 columns at row pair p and column j -> fractals 2j and 2j + 1 of
// column p. Of two bytes: fractal p of column j -> fractal j of column p.
template <typename T>
void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData2DParamsV2& loadDataParams,
              twin::Where where = twin::Where::here())
{
    twin::Call call{"LoadData", PIPE_MTE1, where};
    twin::Core& core = twin::begin(call);
    LoadData2DParamsV2 p = loadDataParams;
    if (p.mStep == 0 || p.kStep == 0) return;
    twin::mutate_stride(core, call, "srcStride", p.kStep > 1, p.srcStride);
    constexpr uint32_t kSquare = sizeof(T) == 1 ? 2 : 1;
    const uint32_t columns = p.ifTranspose ? p.mStep / kSquare : p.kStep;
    twin::mutate_stride(core, call, "dstStride", columns > 1, p.dstStride);
    twin::check_range("mStep", p.mStep, 0, 255);
    twin::check_range("kStep", p.kStep, 0, 255);
    twin::check_range("srcStride", p.srcStride, 0, INT32_MAX);
    if (p.ifTranspose) {
        twin::check_range("sizeof(T) of a transposing LoadData", sizeof(T), 1, 2);
        twin::check_multiple("mStep", p.mStep, kSquare);
    }
    twin::check_memory("source", src.region(), twin::Memory::kL1);
    if (dst.region().memory != twin::Memory::kL0A) twin::check_memory("destination", dst.region(), twin::Memory::kL0B);

    const int64_t from_stride = int64_t(p.srcStride) * twin::kFractal;
    const int64_t to_stride = int64_t(p.dstStride) * twin::kFractal;
    const uint64_t start = p.kStartPosition * uint64_t(from_stride) + uint64_t(p.mStartPosition) * twin::kFractal;
    const uint32_t column_bytes = p.mStep * twin::kFractal;
    twin::Access read{"source",     false, src.region(), qbsa::arch::kDataBlockBytes, src.region().begin + start,
                      column_bytes, {}};
    read.loop[2] = {p.kStep, from_stride};
    twin::Access write{"destination", true, dst.region(), qbsa::arch::kL0Align, dst.region().begin, column_bytes, {}};
    write.loop[2] = {columns, to_stride};
    if (p.ifTranspose) write.run_bytes = kSquare * p.kStep * twin::kFractal;

    const twin::Bytes to = twin::bytes_at(core, write);
    const twin::Bytes from = twin::bytes_at(core, read);
    twin::issue(core, call, {write, read}, [=] {
        if (p.ifTranspose) {
            constexpr auto kTranspose = sizeof(T) == 1 ? twin::transpose_bytes : twin::transpose_pairs;
            twin::load_transposed<kTranspose, kSquare>(to, from, p.mStep, p.kStep, to_stride, from_stride);
            return;
        }
        for (uint32_t j = 0; j < p.kStep; ++j) twin::copy(to + j * to_stride, from + j * from_stride, column_bytes);
    });
}

}  // namespace AscendC
