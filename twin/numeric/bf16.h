// bfloat16: the upper half of an fp32.
#pragma once
#include "simd.h"

namespace twin {

constexpr uint32_t kBf16Max = 0x7F7F;
constexpr uint32_t kBf16Inf = 0x7F80;
constexpr uint32_t kBf16Nan = kNanBits >> 16;

// What stands for infinity (with its sign), also after rounding up, and for NaN.
struct Bf16Mode {
    uint32_t overflow;  // kBf16Max or kBf16Inf
    uint32_t nan;       // 0 or kBf16Nan
};

QBSA_INLINE float bf16_decode(uint16_t code)
{
    const uint32_t bits = (uint32_t)code << 16;
    return load_scalar<float>(&bits);
}

// fp32 -> code in the low half of each lane; round to nearest, ties to even.
QBSA_INLINE VecU32 bf16_encode(VecF32 x, Bf16Mode mode)
{
    const VecU32 bits = (VecU32)x;
    const VecU32 size = bits & 0x7FFFFFFFu;
    VecU32 code = (size + 0x7FFFu + ((size >> 16) & 1)) >> 16;
    code = (VecI32)code >= (int32_t)kBf16Inf ? splat(mode.overflow) : code;
    code |= (bits >> 16) & 0x8000u;
    return x != x ? splat(mode.nan) : code;
}

}  // namespace twin
