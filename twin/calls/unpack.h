// Operands of a product on the host: fractals of e4m3, half or bfloat16 -> words of 32 bits, and what multiplies them.
#pragma once
#include <cstdint>

#include "../numeric/bf16.h"
#include "../numeric/e4m3.h"
#include "../numeric/fp16.h"
#include "../numeric/math.h"
#include "fractal.h"
#include "types.h"

namespace twin {

template <typename T>
constexpr uint32_t kFractalColumns = kFractalRowBytes / sizeof(T);

template <typename T>
QBSA_INLINE float decode(T x)
{
    if constexpr (std::is_same_v<T, fp8_e4m3fn_t>) {
        return e4m3_decode(x.bits);
    } else if constexpr (std::is_same_v<T, bfloat16_t>) {
        return bf16_decode(x.bits);
    } else {
        return fp16_decode(x.bits);
    }
}
template <typename T>
QBSA_INLINE uint32_t decode_bits(T x)
{
    const float value = decode(x);
    return load_scalar<uint32_t>(&value);
}

// Every element is a word, in fp32.
template <typename T>
struct Fp32Words {
    static constexpr uint32_t kColumns = kFractalColumns<T>;  // of a fractal
    static constexpr uint32_t kPerWord = 1;
    static constexpr bool kIsE4m3 = std::is_same_v<T, fp8_e4m3fn_t>;

    // One row of a fractal.
    static QBSA_INLINE void unpack_row(uint32_t* out, const uint8_t* row)
    {
        if constexpr (kIsE4m3) {
            unpack_codes<kColumns>(out, row);
        } else {
            for (uint32_t i = 0; i < kColumns; ++i) out[i] = decode_bits(load_scalar<T>(row + i * sizeof(T)));
        }
    }

    // A fractal -> [column][16 rows].
    static QBSA_INLINE void unpack_transposed(uint32_t* out, const uint8_t* fractal)
    {
        if constexpr (kIsE4m3) {
            alignas(64) uint8_t codes[kFractal];
            transpose_16x16<uint8_t>(codes, 16, fractal, kFractalRowBytes);
            transpose_16x16<uint8_t>(codes + kFractal / 2, 16, fractal + 16, kFractalRowBytes);
            unpack_codes<kFractal>(out, codes);
        } else {
            for (uint32_t i = 0; i < kColumns * 16; ++i) {
                const uint8_t* from = fractal + i % 16 * kFractalRowBytes + i / 16 * sizeof(T);
                out[i] = decode_bits(load_scalar<T>(from));
            }
        }
    }

    template <uint32_t kCount>
    static QBSA_INLINE void unpack_codes(uint32_t* out, const uint8_t* codes)
    {
        constexpr uint32_t kLanes = kSimdBytes / sizeof(uint32_t);
        for (uint32_t i = 0; i < kCount; i += kLanes) store(out + i, e4m3_decode(load_bytes(codes + i)));
    }

    // The products are exact in fp32 (of bfloat16 those that are normal), so one rounding or two give the same bits.
    static QBSA_INLINE VecF32 multiply_add(VecF32 a, VecF32 b, VecF32 c)
    {
#if defined(__FMA__) || defined(__aarch64__)
        return fma(a, b, c);
#else
        return a * b + c;
#endif
    }
};

#if defined(__AVX512BF16__)

// Two neighbours of e4m3 are a word, in bfloat16, which holds every e4m3 value as a normal number. The instruction adds
// the product of the upper halves first, then that of the lower ones, each rounded to fp32: with the first of the two
// above, the sum is the ascending one, and its bits are those of Fp32Words.
struct Bf16Pairs {
    static constexpr uint32_t kColumns = kFractalColumns<fp8_e4m3fn_t>;
    static constexpr uint32_t kPerWord = 2;

    static QBSA_INLINE void unpack_row(uint32_t* out, const uint8_t* row)
    {
        const auto pairs = (VecU32)to_bf16(row);
        store(out, pairs << 16 | pairs >> 16);
    }

    // A fractal -> [pair of columns][16 rows].
    static QBSA_INLINE void unpack_transposed(uint32_t* out, const uint8_t* fractal)
    {
        alignas(64) uint16_t pairs[kFractal / 2];
        transpose_16x16<uint16_t>(pairs, 16, (const uint16_t*)fractal, kFractalRowBytes / 2);
        for (uint32_t i = 0; i < 16; ++i) unpack_row(out + i * 16, (const uint8_t*)(pairs + i * 16));
    }

    static QBSA_INLINE Vec<uint16_t> to_bf16(const uint8_t* codes)
    {
        constexpr auto bits_of = [](uint8_t code) { return (uint16_t)(e4m3_to_f32_bits(code) >> 16); };
        constexpr uint16_t kFirstNormal = 8;
        const Vec<uint16_t> subnormals = {bits_of(0), bits_of(1), bits_of(2), bits_of(3),
                                          bits_of(4), bits_of(5), bits_of(6), bits_of(7)};
        const auto code = (Vec<uint16_t>)_mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i*)codes));
        const Vec<uint16_t> size = code & 0x7F;
        Vec<uint16_t> bits = ((size - kFirstNormal) << 4) + bits_of(kFirstNormal);
        bits = size < kFirstNormal ? (Vec<uint16_t>)_mm512_permutexvar_epi16((__m512i)size, (__m512i)subnormals) : bits;
        bits = size == kE4m3Nan ? splat(bits_of(kE4m3Nan)) : bits;
        return bits | (code & 0x80) << 8;
    }

    static QBSA_INLINE VecF32 multiply_add(VecF32 a, VecF32 b, VecF32 c)
    {
        return (VecF32)_mm512_dpbf16_ps((__m512)c, (__m512bh)a, (__m512bh)b);
    }
};

#endif

// Rows of fractals [k / C][rows / 16][16][C], C = kColumns -> out[row][k / C * C].
template <class Words>
void unpack_rows(uint32_t* out, const uint8_t* fractals, uint32_t rows, uint32_t slabs)
{
    constexpr uint32_t kWords = Words::kColumns / Words::kPerWord;
    const uint32_t slab_bytes = round_up_16(rows) * kFractalRowBytes;
    for (uint32_t row = 0; row < rows; ++row, fractals += kFractalRowBytes) {
        for (uint32_t s = 0; s < slabs; ++s, out += kWords) Words::unpack_row(out, fractals + s * slab_bytes);
    }
}

// Rows of fractals -> out[row / 16][k / C * C][row % 16].
template <class Words>
void unpack_columns(uint32_t* out, const uint8_t* fractals, uint32_t rows, uint32_t slabs)
{
    constexpr uint32_t kWords = Words::kColumns / Words::kPerWord * 16;
    const uint32_t row_groups = round_up_16(rows) / 16;
    for (uint32_t group = 0; group < row_groups; ++group) {
        for (uint32_t s = 0; s < slabs; ++s, out += kWords) {
            Words::unpack_transposed(out, fractals + (s * row_groups + group) * kFractal);
        }
    }
}

}  // namespace twin
