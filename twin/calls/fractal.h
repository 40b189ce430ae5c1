// Fractals: 16 rows of one data block, the unit of the cube's operands.
#pragma once
#include <cstdint>
#include <cstring>

#include "../../kernels_ascendc/arch.h"

namespace twin {

constexpr uint32_t kFractal = qbsa::arch::kFractalBytes;
constexpr uint32_t kFractalRowBytes = kFractal / qbsa::arch::kFractalRows;

inline uint32_t round_up_16(uint32_t value) { return (value + 15) / 16 * 16; }

// Transposes 16 x 16 elements; pitches in elements. Four perfect shuffles of the rows are a transposition.
template <typename T>
inline void transpose_16x16(T* to, uint32_t to_pitch, const T* from, uint32_t from_pitch)
{
    typedef T Row __attribute__((vector_size(16 * sizeof(T))));
    Row row[16], next[16];
    for (int i = 0; i < 16; ++i) std::memcpy(&row[i], from + i * from_pitch, sizeof(Row));
    for (int round = 0; round < 4; ++round) {
        for (int i = 0; i < 8; ++i) {
            const Row a = row[i], b = row[i + 8];
            next[2 * i] = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            next[2 * i + 1] =
                __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
        }
        std::memcpy(row, next, sizeof row);
    }
    for (int i = 0; i < 16; ++i) std::memcpy(to + i * to_pitch, &row[i], sizeof(Row));
}

}  // namespace twin
