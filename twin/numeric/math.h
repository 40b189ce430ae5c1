// exp, ln and the fused multiply-add of fp32 vectors. Plain operations in a fixed order, so every instruction set gives
// the same bits (compile with -ffp-contract=off). Like the device's: at most 1 ulp off, subnormal numbers are zero.
#pragma once
#include "simd.h"

namespace twin {

constexpr uint32_t kInfBits = 0x7F800000;
constexpr int32_t kMinNormalBits = 0x00800000;

// x with subnormals replaced by a zero of the same sign.
QBSA_INLINE VecF32 flush(VecF32 x)
{
    const VecI32 sign = (VecI32)x & INT32_MIN;
    return ((VecI32)x ^ sign) < kMinNormalBits ? (VecF32)sign : x;
}

// exp(x) = 2^n * exp(r), r = x - n ln 2 in [-0.35, 0.35]; exp(r) = 1 + r + r^2 q(r), q minimax to 3e-9. Over all fp32
// inputs it is at most 0.99 ulp off.
QBSA_INLINE VecF32 exp(VecF32 x)
{
    constexpr float kLowest = -104.0f;     // below it the result is zero whatever n says
    constexpr float kLargest = 88.72283f;  // above it fp32 overflows
    constexpr float kLog2E = 1.44269504f;
    constexpr float kToInteger = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
    constexpr float kLn2High = 0.693359375f;   // 9 bits: n * kLn2High is exact
    constexpr float kLn2Low = -2.12194440e-4f;
    VecF32 y = x < kLowest ? splat(kLowest) : x;
    y = y > kLargest ? splat(kLargest) : y;
    const VecF32 shifted = y * kLog2E + kToInteger;
    const VecF32 n = shifted - kToInteger;
    const VecF32 r = (y - n * kLn2High) - n * kLn2Low;
    VecF32 q = r * 1.3814466e-3f + 8.3687805e-3f;
    q = q * r + 4.1668394e-2f;
    q = q * r + 1.6666520e-1f;
    q = q * r + 4.9999993e-1f;
    const VecF32 p = (r * r * q + r) + 1.0f;
    const VecI32 bits = (VecI32)((VecU32)p + ((VecU32)shifted << 23));
    VecF32 result = bits < kMinNormalBits ? VecF32{} : (VecF32)bits;
    result = x > kLargest ? (VecF32)splat(kInfBits) : result;
    return x != x ? (VecF32)splat(kNanBits) : result;
}

// ln(x) of one normal positive x, in double: x = 2^e * m, m in [sqrt(1/2), sqrt(2)), ln m = 2 atanh((m - 1) / (m + 1)).
QBSA_INLINE float ln_normal(uint32_t bits)
{
    constexpr uint32_t kSqrtHalf = 0x3F3504F3;
    const int32_t e = (int32_t)(bits - kSqrtHalf) >> 23;
    const uint32_t m_bits = bits - ((uint32_t)e << 23);
    const double m = load_scalar<float>(&m_bits);
    const double s = (m - 1.0) / (m + 1.0);
    const double z = s * s;
    double t = z / 15.0 + 1.0 / 13.0;
    t = t * z + 1.0 / 11.0;
    t = t * z + 1.0 / 9.0;
    t = t * z + 1.0 / 7.0;
    t = t * z + 1.0 / 5.0;
    t = t * z + 1.0 / 3.0;
    return (float)(e * 0.693147180559945309 + 2.0 * (s + s * z * t));
}

QBSA_INLINE VecF32 ln(VecF32 x)
{
    const VecU32 bits = (VecU32)x;
    VecF32 result;
    for (size_t i = 0; i < sizeof x / sizeof(float); ++i) {
        result[i] = ln_normal(bits[i]);
    }
    const VecF32 y = flush(x);
    result = y == 0.0f ? (VecF32)splat(kInfBits | 0x80000000) : result;
    result = y == (VecF32)splat(kInfBits) ? y : result;
    return y >= 0.0f ? result : (VecF32)splat(kNanBits);
}

// a * b + c, rounded once. By name where the host has it: g++ turns a loop over the lanes into one instruction only in
// some places.
QBSA_INLINE VecF32 fma(VecF32 a, VecF32 b, VecF32 c)
{
#if QBSA_SIMD_BYTES == 64
    return (VecF32)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif QBSA_SIMD_BYTES == 32 && defined(__FMA__)
    return (VecF32)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
    return (VecF32)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    VecF32 result;
    for (size_t i = 0; i < sizeof a / sizeof(float); ++i) {
        result[i] = __builtin_fmaf(a[i], b[i], c[i]);
    }
    return result;
#endif
}

}  // namespace twin
