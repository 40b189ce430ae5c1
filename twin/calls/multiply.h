// The arithmetic of Mmad on the host: fractals of e4m3, half or bfloat16 -> fp32 -> register-blocked product.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "../numeric/bf16.h"
#include "../numeric/e4m3.h"
#include "../numeric/fp16.h"
#include "fractal.h"
#include "types.h"

namespace twin {

constexpr uint32_t kCFractalRowBytes = 16 * sizeof(float);

template <typename T>
constexpr uint32_t kFractalColumns = kFractalRowBytes / sizeof(T);

QBSA_INLINE float decode(fp8_e4m3fn_t x) { return e4m3_decode(x.bits); }
QBSA_INLINE float decode(bfloat16_t x) { return bf16_decode(x.bits); }
QBSA_INLINE float decode(half x) { return fp16_decode(x.bits); }

// a * b + c. The products are exact in fp32 (of bfloat16 those that are normal), so one rounding or two give the same
// bits.
QBSA_INLINE VecF32 multiply_add(VecF32 a, VecF32 b, VecF32 c)
{
#if defined(__FMA__) || defined(__aarch64__)
    VecF32 sum;
    for (size_t i = 0; i < kSimdBytes / sizeof(float); ++i) sum[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return sum;
#else
    return a * b + c;
#endif
}

// A block of the product stays in host registers: kTileRows rows of 16 columns times kTileSlabs.
constexpr uint32_t kSlabVectors = 16 * sizeof(float) / kSimdBytes;
#if defined(__AVX512F__)
constexpr uint32_t kTileRows = 8, kTileSlabs = 2;
#elif defined(__AVX2__) || defined(__aarch64__)
constexpr uint32_t kTileRows = 6, kTileSlabs = 1;
#else
constexpr uint32_t kTileRows = 3, kTileSlabs = 1;
#endif

// Rows of fractals [k / C][rows / 16][16][C], C = kFractalColumns -> out[row][k], k contiguous.
template <typename T>
void unpack_rows(float* out, const uint8_t* fractals, uint32_t rows, uint32_t k)
{
    constexpr uint32_t kColumns = kFractalColumns<T>;
    const uint32_t slab_bytes = round_up_16(rows) * kFractalRowBytes;
    for (uint32_t begin = 0; begin < k; begin += kColumns) {
        const uint8_t* slab = fractals + begin / kColumns * slab_bytes;
        const uint32_t count = k - begin < kColumns ? k - begin : kColumns;
        for (uint32_t row = 0; row < rows; ++row) {
            const uint8_t* from = slab + row * kFractalRowBytes;
            for (uint32_t i = 0; i < count; ++i) {
                out[row * k + begin + i] = decode(load_scalar<T>(from + i * sizeof(T)));
            }
        }
    }
}

// Rows of fractals -> out[row / 16][k][row % 16], both rounded up to whole fractals.
template <typename T>
void unpack_columns(float* out, const uint8_t* fractals, uint32_t rows, uint32_t k)
{
    const uint32_t row_groups = round_up_16(rows) / 16;
    const uint32_t slabs = (k + kFractalColumns<T> - 1) / kFractalColumns<T>;
    for (uint32_t group = 0; group < row_groups; ++group) {
        for (uint32_t slab = 0; slab < slabs; ++slab) {
            const uint8_t* fractal = fractals + (slab * row_groups + group) * kFractal;
            for (uint32_t column = 0; column < kFractalColumns<T>; ++column) {
                const uint8_t* from = fractal + column * sizeof(T);
                for (uint32_t row = 0; row < 16; ++row, from += kFractalRowBytes) {
                    *out++ = decode(load_scalar<T>(from));
                }
            }
        }
    }
}

// The kernel's type, a column of fractals at a time.
template <>
inline void unpack_columns<fp8_e4m3fn_t>(float* out, const uint8_t* fractals, uint32_t rows, uint32_t k)
{
    const uint32_t row_groups = round_up_16(rows) / 16;
    const uint32_t slabs = (k + kFractalRowBytes - 1) / kFractalRowBytes;
    alignas(64) uint8_t codes[kFractal];   // [k % 32][row % 16]
    const volatile uint8_t* code = codes;  // volatile: one by one is faster than the gathers g++ would use
    for (uint32_t group = 0; group < row_groups; ++group) {
        for (uint32_t slab = 0; slab < slabs; ++slab) {
            const uint8_t* fractal = fractals + (slab * row_groups + group) * kFractal;
            transpose_16x16(codes, 16, fractal, kFractalRowBytes);
            transpose_16x16(codes + kFractal / 2, 16, fractal + 16, kFractalRowBytes);
#pragma GCC unroll 16
            for (uint32_t i = 0; i < kFractal; ++i) *out++ = e4m3_decode(code[i]);
        }
    }
}

// A tile of the product and its operands: rows of a with pitch k, slabs of b as [k][16] with a pitch, slabs of c as
// [rows][16] with a pitch.
struct Tile {
    float* c;
    uint32_t c_pitch;
    const float* a;
    const float* b;
    uint32_t b_pitch;
    uint32_t k;
    bool accumulate;
};

template <uint32_t kSlabs>
void multiply_tile(const Tile& t)
{
    constexpr uint32_t kVectors = kSlabs * kSlabVectors;
    constexpr uint32_t kLanes = kSimdBytes / sizeof(float);
    VecF32 sum[kTileRows][kVectors];
    auto place = [&](uint32_t row, uint32_t v) {
        return t.c + v / kSlabVectors * t.c_pitch + row * 16 + v % kSlabVectors * kLanes;
    };
#pragma GCC unroll 16
    for (uint32_t row = 0; row < kTileRows; ++row) {
#pragma GCC unroll 16
        for (uint32_t v = 0; v < kVectors; ++v) {
            sum[row][v] = t.accumulate ? load<float>(place(row, v)) : VecF32{};
        }
    }
    for (uint32_t i = 0; i < t.k; ++i) {
        VecF32 right[kVectors];
#pragma GCC unroll 16
        for (uint32_t v = 0; v < kVectors; ++v) {
            right[v] = load<float>(t.b + v / kSlabVectors * t.b_pitch + i * 16 + v % kSlabVectors * kLanes);
        }
#pragma GCC unroll 16
        for (uint32_t row = 0; row < kTileRows; ++row) {
            const VecF32 left = splat(t.a[row * t.k + i]);
#pragma GCC unroll 16
            for (uint32_t v = 0; v < kVectors; ++v) sum[row][v] = multiply_add(left, right[v], sum[row][v]);
        }
    }
#pragma GCC unroll 16
    for (uint32_t row = 0; row < kTileRows; ++row) {
#pragma GCC unroll 16
        for (uint32_t v = 0; v < kVectors; ++v) store(place(row, v), sum[row][v]);
    }
}

// At the edge of the product, computed on the side: nothing past its rows and columns is written.
template <uint32_t kSlabs>
void multiply_edge(const Tile& t, uint32_t rows, uint32_t columns)
{
    alignas(64) float side[kSlabs * kTileRows * 16] = {};
    auto copy_part = [&](bool back) {
        for (uint32_t column = 0; column < columns; column += 16) {
            const size_t bytes = std::min(16u, columns - column) * sizeof(float);
            for (uint32_t row = 0; row < rows; ++row) {
                float* at_c = t.c + column / 16 * t.c_pitch + row * 16;
                float* at_side = side + (column / 16 * kTileRows + row) * 16;
                std::memcpy(back ? at_c : at_side, back ? at_side : at_c, bytes);
            }
        }
    };
    if (t.accumulate) copy_part(false);
    Tile on_side = t;
    on_side.c = side;
    on_side.c_pitch = kTileRows * 16;
    multiply_tile<kSlabs>(on_side);
    copy_part(true);
}

template <uint32_t kSlabs>
void multiply_rows(Tile t, uint32_t rows, uint32_t columns)
{
    for (uint32_t row = 0; row < rows; row += kTileRows) {
        if (rows - row >= kTileRows && columns == kSlabs * 16) {
            multiply_tile<kSlabs>(t);
        } else {
            multiply_edge<kSlabs>(t, std::min(kTileRows, rows - row), columns);
        }
        t.c += kTileRows * 16;
        t.a += kTileRows * t.k;
    }
}

// c: [n / 16][m rounded up to 16][16]; a and b: fractals of T with k along their rows.
template <typename T>
void multiply(float* c, const uint8_t* a, const uint8_t* b, uint32_t m, uint32_t n, uint32_t k, bool accumulate)
{
    static thread_local std::vector<float> rows, columns;
    const uint32_t c_pitch = round_up_16(m) * 16;
    const uint32_t b_pitch = (k + kFractalColumns<T> - 1) / kFractalColumns<T> * kFractalColumns<T> * 16;
    rows.resize(size_t(m + kTileRows) * k);  // the last tile reads past m
    columns.resize(size_t(round_up_16(n)) / 16 * b_pitch);
    unpack_rows<T>(rows.data(), a, m, k);
    unpack_columns<T>(columns.data(), b, n, k);
    for (uint32_t column = 0; column < n;) {
        const uint32_t slab = column / 16;
        const Tile t{c + slab * c_pitch, c_pitch, rows.data(), columns.data() + slab * b_pitch, b_pitch, k, accumulate};
        const uint32_t width = std::min(n - column, kTileSlabs * 16);
        if (width > (kTileSlabs - 1) * 16) {
            multiply_rows<kTileSlabs>(t, m, width);
        } else {
            multiply_rows<1>(t, m, width);
        }
        column += width;
    }
}

}  // namespace twin
