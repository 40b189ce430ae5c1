// Arithmetic of one vector of lanes with the device's rules for NaN, signed zeros and integer overflow.
#pragma once
#include "math.h"

namespace twin {

template <typename T>
constexpr bool kIsFloat = std::is_same_v<T, float>;

// Integers wrap (the device's default), which the host has for unsigned ones only.
template <typename T>
using Wrapping = std::conditional_t<kIsFloat<T>, VecF32, VecU32>;

template <typename T>
QBSA_INLINE Vec<T> finish(Wrapping<T> x)
{
    if constexpr (kIsFloat<T>) {
        return canonical(x);
    } else {
        return (Vec<T>)x;
    }
}

template <typename T>
QBSA_INLINE Vec<T> add(Vec<T> a, Vec<T> b)
{
    return finish<T>((Wrapping<T>)a + (Wrapping<T>)b);
}
template <typename T>
QBSA_INLINE Vec<T> sub(Vec<T> a, Vec<T> b)
{
    return finish<T>((Wrapping<T>)a - (Wrapping<T>)b);
}
template <typename T>
QBSA_INLINE Vec<T> mul(Vec<T> a, Vec<T> b)
{
    return finish<T>((Wrapping<T>)a * (Wrapping<T>)b);
}

// max(-0, +0) is +0, min(-0, +0) is -0. A NaN makes the result NaN: documented for the reductions, taken to hold for
// single lanes too.
template <typename T>
QBSA_INLINE Vec<T> max(Vec<T> a, Vec<T> b)
{
    if constexpr (kIsFloat<T>) {
        const VecI32 same = a == b ? (VecI32)a & (VecI32)b : (VecI32)splat(kNanBits);
        const VecF32 not_larger = b > a ? b : (VecF32)same;
        return a > b ? a : not_larger;
    } else {
        return a > b ? a : b;
    }
}
template <typename T>
QBSA_INLINE Vec<T> min(Vec<T> a, Vec<T> b)
{
    if constexpr (kIsFloat<T>) {
        const VecI32 same = a == b ? (VecI32)a | (VecI32)b : (VecI32)splat(kNanBits);
        const VecF32 not_smaller = b < a ? b : (VecF32)same;
        return a < b ? a : not_smaller;
    } else {
        return a < b ? a : b;
    }
}

// Subnormal operands and results are zero.
QBSA_INLINE VecF32 div(VecF32 a, VecF32 b) { return flush(canonical(flush(a) / flush(b))); }

// Signed values keep their sign bit; bits beyond the width are gone.
template <typename T>
QBSA_INLINE Vec<T> shift_left(Vec<T> x, int bits)
{
    const VecU32 shifted = bits < 32 ? (VecU32)x << bits : VecU32{};
    if constexpr (std::is_signed_v<T>) {
        return bits < 32 ? (Vec<T>)((shifted & 0x7FFFFFFFu) | ((VecU32)x & 0x80000000u)) : Vec<T>{};
    } else {
        return shifted;
    }
}
template <typename T>
QBSA_INLINE Vec<T> shift_right(Vec<T> x, int bits)
{
    if constexpr (std::is_signed_v<T>) {
        return x >> (bits < 32 ? bits : 31);
    } else {
        return bits < 32 ? x >> bits : Vec<T>{};
    }
}

}  // namespace twin
