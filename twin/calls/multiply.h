// The arithmetic of Mmad on the host: fractals of e4m3, half or bfloat16 -> words -> register-blocked product in fp32.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "unpack.h"

namespace twin {

constexpr uint32_t kCFractalRowBytes = 16 * sizeof(float);

// A block of the product stays in host registers: kTileRows rows of 16 columns times kTileSlabs.
constexpr uint32_t kSlabVectors = 16 * sizeof(float) / kSimdBytes;
#if defined(__AVX512F__)
constexpr uint32_t kTileRows = 8, kTileSlabs = 2;
#elif defined(__AVX2__) || defined(__aarch64__)
constexpr uint32_t kTileRows = 6, kTileSlabs = 1;
#else
constexpr uint32_t kTileRows = 3, kTileSlabs = 1;
#endif

// A tile of the product and its operands: rows of a with a pitch, slabs of b as [words][16] with a pitch, slabs of c as
// [rows][16] with a pitch. words: of a row, k elements.
struct Tile {
    float* c;
    uint32_t c_pitch;
    const uint32_t* a;
    uint32_t a_pitch;
    const uint32_t* b;
    uint32_t b_pitch;
    uint32_t words;
    bool accumulate;
};

template <class Words, uint32_t kSlabs>
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
    for (uint32_t i = 0; i < t.words; ++i) {
        VecF32 right[kVectors];
#pragma GCC unroll 16
        for (uint32_t v = 0; v < kVectors; ++v) {
            right[v] = load<float>(t.b + v / kSlabVectors * t.b_pitch + i * 16 + v % kSlabVectors * kLanes);
        }
#pragma GCC unroll 16
        for (uint32_t row = 0; row < kTileRows; ++row) {
            const VecF32 left = (VecF32)splat(t.a[row * t.a_pitch + i]);
#pragma GCC unroll 16
            for (uint32_t v = 0; v < kVectors; ++v) sum[row][v] = Words::multiply_add(left, right[v], sum[row][v]);
        }
    }
#pragma GCC unroll 16
    for (uint32_t row = 0; row < kTileRows; ++row) {
#pragma GCC unroll 16
        for (uint32_t v = 0; v < kVectors; ++v) store(place(row, v), sum[row][v]);
    }
}

// At the edge of the product, computed on the side: nothing past its rows and columns is written.
template <class Words, uint32_t kSlabs>
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
    multiply_tile<Words, kSlabs>(on_side);
    copy_part(true);
}

template <class Words, uint32_t kSlabs>
void multiply_rows(Tile t, uint32_t rows, uint32_t columns)
{
    for (uint32_t row = 0; row < rows; row += kTileRows) {
        if (rows - row >= kTileRows && columns == kSlabs * 16) {
            multiply_tile<Words, kSlabs>(t);
        } else {
            multiply_edge<Words, kSlabs>(t, std::min(kTileRows, rows - row), columns);
        }
        t.c += kTileRows * 16;
        t.a += kTileRows * t.a_pitch;
    }
}

template <class Words>
void multiply_words(float* c, const uint8_t* a, const uint8_t* b, uint32_t m, uint32_t n, uint32_t k, bool accumulate)
{
    static thread_local std::vector<uint32_t> rows, columns;
    const uint32_t slabs = (k + Words::kColumns - 1) / Words::kColumns;
    const uint32_t pitch = slabs * Words::kColumns / Words::kPerWord;
    const uint32_t c_pitch = round_up_16(m) * 16;
    rows.resize(size_t(m + kTileRows) * pitch);  // the last tile reads past m
    columns.resize(size_t(round_up_16(n)) * pitch);
    unpack_rows<Words>(rows.data(), a, m, slabs);
    unpack_columns<Words>(columns.data(), b, n, slabs);
    Tile t{c, c_pitch, rows.data(), pitch, columns.data(), pitch * 16, k / Words::kPerWord, accumulate};
    for (uint32_t column = 0; column < n; column += kTileSlabs * 16) {
        const uint32_t width = std::min(n - column, kTileSlabs * 16);
        if (width > (kTileSlabs - 1) * 16) {
            multiply_rows<Words, kTileSlabs>(t, m, width);
        } else {
            multiply_rows<Words, 1>(t, m, width);
        }
        t.c += kTileSlabs * t.c_pitch;
        t.b += kTileSlabs * t.b_pitch;
    }
}

// c: [n / 16][m rounded up to 16][16]; a and b: fractals of T with k along their rows.
template <typename T>
void multiply(float* c, const uint8_t* a, const uint8_t* b, uint32_t m, uint32_t n, uint32_t k, bool accumulate)
{
#if defined(__AVX512BF16__)
    if (std::is_same_v<T, fp8_e4m3fn_t> && k % Bf16Pairs::kPerWord == 0) {
        return multiply_words<Bf16Pairs>(c, a, b, m, n, k, accumulate);
    }
#endif
    multiply_words<Fp32Words<T>>(c, a, b, m, n, k, accumulate);
}

}  // namespace twin
