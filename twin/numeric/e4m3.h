// fp8 e4m3fn: 1 sign, 4 exponent (bias 7), 3 mantissa bits; no infinity, 0x7F and 0xFF are NaN, largest value 448.
#pragma once
#include "simd.h"

namespace twin {

constexpr uint32_t kE4m3Max = 0x7E;
constexpr uint32_t kE4m3Nan = 0x7F;

// Code -> fp32 bits.
constexpr uint32_t e4m3_to_f32_bits(uint8_t code)
{
    const uint32_t sign = (uint32_t)(code & 0x80) << 24;
    const uint32_t exponent = (code >> 3) & 0xF;
    const uint32_t mantissa = code & 0x7;
    if ((code & 0x7F) == kE4m3Nan) {
        return kNanBits;
    }
    if (exponent != 0) {
        return sign | (exponent + 120) << 23 | mantissa << 20;
    }
    // A subnormal is mantissa * 2^-9.
    const uint32_t top = mantissa >= 4 ? 2 : (mantissa >= 2 ? 1 : 0);
    return mantissa == 0 ? sign : sign | (top + 118) << 23 | (mantissa << (23 - top) & 0x7FFFFF);
}

QBSA_INLINE float e4m3_decode(uint8_t code)
{
    const uint32_t bits = e4m3_to_f32_bits(code);
    return load_scalar<float>(&bits);
}

// A code in each lane.
QBSA_INLINE VecF32 e4m3_decode(VecU32 code)
{
    constexpr uint32_t kSubnormalStep = 121u << 23;  // 2^-6, whose mantissa steps by 2^-9 with the upper three bits
    const VecU32 size = code & 0x7Fu;
    const VecU32 mantissa = size << 20;
    const VecF32 subnormal = (VecF32)(mantissa + kSubnormalStep) - (VecF32)splat(kSubnormalStep);
    VecU32 bits = size < 8u ? (VecU32)subnormal : mantissa + (120u << 23);
    bits |= (code & 0x80u) << 24;
    return (VecF32)(size == kE4m3Nan ? splat(kNanBits) : bits);
}

// What stands for the values that e4m3 cannot hold: too large ones, and NaN.
struct E4m3Mode {
    uint32_t overflow;  // kE4m3Max or kE4m3Nan, with the value's sign
    uint32_t nan;       // 0 or kE4m3Nan
};

// fp32 -> code in the low byte of each lane; round to nearest, ties to even.
QBSA_INLINE VecU32 e4m3_encode(VecF32 x, E4m3Mode mode)
{
    constexpr uint32_t kMinNormalBits = 121u << 23;  // 2^-6
    constexpr float kSubnormalGrid = 16384.0f;       // its last bit is 2^-9, the step of e4m3 subnormals
    const VecU32 bits = (VecU32)x;
    const VecU32 size = bits & 0x7FFFFFFFu;
    const VecU32 normal = ((size + 0x7FFFFu + ((size >> 20) & 1)) >> 20) - (120u << 3);
    const VecU32 subnormal = (VecU32)((VecF32)size + kSubnormalGrid) - (uint32_t)(141 << 23);
    VecU32 code = (VecI32)size < (int32_t)kMinNormalBits ? subnormal : normal;
    code = (VecI32)code > (int32_t)kE4m3Max ? splat(mode.overflow) : code;
    code |= (bits >> 24) & 0x80u;
    return x != x ? splat(mode.nan) : code;
}

}  // namespace twin
