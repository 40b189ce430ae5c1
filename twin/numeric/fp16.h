// half: 1 sign, 5 exponent (bias 15), 10 mantissa bits.
#pragma once
#include "simd.h"

namespace twin {

QBSA_INLINE float fp16_decode(uint16_t code)
{
    constexpr float kSubnormalStep = 1.0f / (1 << 24);
    const uint32_t sign = (uint32_t)(code & 0x8000) << 16;
    const uint32_t exponent = (code >> 10) & 0x1F;
    const uint32_t mantissa = code & 0x3FF;
    uint32_t bits = (exponent + 112) << 23 | mantissa << 13;
    if (exponent == 0) {
        const float subnormal = (float)mantissa * kSubnormalStep;
        bits = load_scalar<uint32_t>(&subnormal);
    } else if (exponent == 31) {
        bits = mantissa == 0 ? 255u << 23 : kNanBits;
    }
    bits |= sign;
    return load_scalar<float>(&bits);
}

}  // namespace twin
