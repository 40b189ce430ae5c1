// Compare and Compares: registers -> mask. Select: mask -> register.
#pragma once
#include "arithmetic.h"

namespace twin {

using AscendC::CMPMODE;

// IEEE: a comparison with NaN is false, only NE is true.
template <CMPMODE kMode, typename V>
QBSA_INLINE auto compare(V a, V b)
{
    if constexpr (kMode == CMPMODE::LT) {
        return a < b;
    } else if constexpr (kMode == CMPMODE::GT) {
        return a > b;
    } else if constexpr (kMode == CMPMODE::LE) {
        return a <= b;
    } else if constexpr (kMode == CMPMODE::GE) {
        return a >= b;
    } else if constexpr (kMode == CMPMODE::EQ) {
        return a == b;
    } else {
        return a != b;
    }
}

}  // namespace twin

namespace AscendC {
namespace Reg {

// Inactive lanes give 0.
template <typename T = DefaultType, CMPMODE mode = CMPMODE::EQ, typename U>
QBSA_INLINE void Compare(MaskReg& dst, U& srcReg0, U& srcReg1, MaskReg& mask)
{
    using Element = typename U::ActualT;
    static_assert(twin::kTypeFits<T, U> && twin::kComputes<Element>, "Compare: the twin has no such type");
    twin::on_vector_op(twin::VectorOp::kCompare);
    twin::for_chunks(QBSA_EACH_CHUNK {
        const auto active = mask.lanes<Element>(i);
        dst.set_lanes<Element>(i, twin::compare<mode>(srcReg0.get(i), srcReg1.get(i)) & active);
    });
}

template <typename T = DefaultType, CMPMODE mode = CMPMODE::EQ, typename U, typename S>
QBSA_INLINE void Compares(MaskReg& dst, U& srcReg, S scalarValue, MaskReg& mask)
{
    using Element = typename U::ActualT;
    static_assert(twin::kTypeFits<T, U> && twin::kComputes<Element>, "Compares: the twin has no such type");
    twin::on_vector_op(twin::VectorOp::kCompare);
    const auto scalar = twin::splat((Element)scalarValue);
    twin::for_chunks(QBSA_EACH_CHUNK {
        const auto active = mask.lanes<Element>(i);
        dst.set_lanes<Element>(i, twin::compare<mode>(srcReg.get(i), scalar) & active);
    });
}

// Active lanes from srcReg0, the others from srcReg1.
template <typename T = DefaultType, typename U>
QBSA_INLINE void Select(U& dstReg, U& srcReg0, U& srcReg1, MaskReg& mask)
{
    using Element = typename U::ActualT;
    static_assert(twin::kTypeFits<T, U>, "Select: type and register differ");
    twin::on_vector_op(twin::VectorOp::kSelect);
    twin::computed_from(dstReg.chunks, srcReg0, srcReg1);
    twin::for_chunks(QBSA_EACH_CHUNK {
        const auto active = mask.lanes<Element>(i);
        using Bits = decltype(+active);
        dstReg.set(i, ((Bits)srcReg0.get(i) & active) | ((Bits)srcReg1.get(i) & ~active));
    });
}

}  // namespace Reg
}  // namespace AscendC
