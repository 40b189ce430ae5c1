// Duplicate, Arange, Move.
#pragma once
#include "arithmetic.h"

namespace twin {

// A scalar as a register of T holds it: one element, bits only.
template <typename T, typename S>
QBSA_INLINE Lane<T> as_lane(S scalar)
{
    if constexpr (std::is_same_v<T, Lane<T>>) {
        return (T)scalar;
    } else {
        return scalar.bits;
    }
}

template <typename T, size_t... kLane>
QBSA_INLINE Vec<T> count_up(size_t first, std::index_sequence<kLane...>)
{
    return Vec<T>{(T)(first + kLane)...};
}

}  // namespace twin

namespace AscendC {
namespace Reg {

template <typename T = DefaultType, typename U, typename S>
QBSA_INLINE void Duplicate(S& dstReg, U scalarValue)
{
    static_assert(twin::kTypeFits<T, S>, "Duplicate: type and register differ");
    twin::on_vector_op(twin::VectorOp::kDuplicate);
    twin::computed_from(dstReg.chunks);
    const auto value = twin::splat(twin::as_lane<typename S::ActualT>(scalarValue));
    twin::for_chunks(QBSA_EACH_CHUNK { dstReg.set(i, value); });
}

template <typename T = DefaultType, MaskMergeMode mode = MaskMergeMode::ZEROING, typename U, typename S>
QBSA_INLINE void Duplicate(S& dstReg, U scalarValue, MaskReg& mask)
{
    static_assert(twin::kTypeFits<T, S>, "Duplicate: type and register differ");
    twin::on_vector_op(twin::VectorOp::kDuplicate);
    const auto value = twin::splat(twin::as_lane<typename S::ActualT>(scalarValue));
    twin::map_lanes<typename S::ActualT, mode>(dstReg, mask, QBSA_LANES() { return value; });
}

// Lane 0 of srcReg to all active lanes.
template <typename T = DefaultType, HighLowPart pos = HighLowPart::LOWEST, MaskMergeMode mode = MaskMergeMode::ZEROING,
          typename S>
QBSA_INLINE void Duplicate(S& dstReg, S& srcReg, MaskReg& mask)
{
    static_assert(twin::kTypeFits<T, S>, "Duplicate: type and register differ");
    static_assert(pos == HighLowPart::LOWEST, "Duplicate: LOWEST only");
    twin::on_vector_op(twin::VectorOp::kDuplicate);
    const auto value = twin::splat(srcReg.get(0)[0]);
    twin::map_lanes<typename S::ActualT, mode>(dstReg, mask, QBSA_LANES(auto) { return value; }, srcReg);
}

// scalarValue, scalarValue + 1, ..
template <typename T = DefaultType, IndexOrder order = IndexOrder::INCREASE_ORDER, typename U, typename S>
QBSA_INLINE void Arange(S& dstReg, U scalarValue)
{
    using Element = typename S::ActualT;
    static_assert(twin::kTypeFits<T, S> && twin::kComputes<Element>, "Arange: the twin has no such type");
    static_assert(order == IndexOrder::INCREASE_ORDER, "Arange: the twin counts up only");
    twin::on_vector_op(twin::rate_of<Element>(twin::VectorOp::kArange, twin::VectorOp::kArangeInt));
    twin::computed_from(dstReg.chunks);
    constexpr size_t kLanes = twin::kSimdBytes / sizeof(Element);
    const auto first = twin::splat((Element)scalarValue);
    twin::for_chunks(QBSA_EACH_CHUNK {
        const auto lane = twin::count_up<Element>(i * kLanes, std::make_index_sequence<kLanes>{});
        dstReg.set(i, twin::add<Element>(first, lane));
    });
}

template <typename T = DefaultType, MaskMergeMode mode = MaskMergeMode::MERGING, typename U>
QBSA_INLINE void Move(U& dstReg, U& srcReg, MaskReg mask)
{
    static_assert(twin::kTypeFits<T, U>, "Move: type and register differ");
    static_assert(mode == MaskMergeMode::MERGING, "Move: MERGING only");
    twin::on_vector_op(twin::VectorOp::kMove);
    twin::map_lanes<typename U::ActualT, mode>(dstReg, mask, QBSA_LANES(auto a) { return a; }, srcReg);
}

template <typename T = DefaultType, typename U>
QBSA_INLINE void Move(U& dstReg, U& srcReg)
{
    static_assert(twin::kTypeFits<T, U>, "Move: type and register differ");
    twin::on_vector_op(twin::VectorOp::kMove);
    twin::computed_from(dstReg.chunks, srcReg);
    twin::for_chunks(QBSA_EACH_CHUNK { dstReg.set(i, srcReg.get(i)); });
}

}  // namespace Reg
}  // namespace AscendC
