// Reduce and ReduceDataBlock: sum, maximum or minimum over a register or over each of its 32-byte blocks, as a binary
// tree of neighbours. Lanes behind the results are 0 (the documentation says nothing about them).
#pragma once
#include <limits>

#include "arithmetic.h"
#include "load.h"

namespace twin {

using AscendC::ReduceType;

template <ReduceType kType, typename T>
QBSA_INLINE Vec<T> combine(Vec<T> a, Vec<T> b)
{
    if constexpr (kType == ReduceType::SUM) {
        return add<T>(a, b);
    } else if constexpr (kType == ReduceType::MAX) {
        return max<T>(a, b);
    } else {
        return min<T>(a, b);
    }
}

// What an inactive lane counts as: "the smallest value of the type" for MAX, which for float is taken as -inf.
template <ReduceType kType, typename T>
constexpr T neutral()
{
    using Limits = std::numeric_limits<T>;
    if (kType == ReduceType::SUM) {
        return 0;
    }
    if (Limits::has_infinity) {
        return kType == ReduceType::MAX ? -Limits::infinity() : Limits::infinity();
    }
    return kType == ReduceType::MAX ? Limits::lowest() : Limits::max();
}

template <typename T>
struct Lanes {
    Vec<T> chunks[kChunks];
};

template <ReduceType kType, typename T>
QBSA_INLINE Lanes<T> active_or_neutral(const RegTensor<T>& src, const MaskReg& mask)
{
    Lanes<T> x;
    const auto rest = splat(neutral<kType, T>());
    for_chunks(QBSA_EACH_CHUNK { x.chunks[i] = mask.template lanes<T>(i) != 0 ? src.get(i) : rest; });
    return x;
}

// One level of the tree: lane j becomes lanes 2j and 2j + 1 combined; the upper half becomes 0. kUsed: chunks in use.
template <ReduceType kType, typename T, size_t kUsed>
QBSA_INLINE void halve(Lanes<T>& x)
{
    for_chunks(QBSA_EACH_CHUNK {
        if constexpr (2 * i < kUsed) {
            const auto a = x.chunks[2 * i];
            const auto b = 2 * i + 1 < kUsed ? x.chunks[(2 * i + 1) % kChunks] : Vec<T>{};
            x.chunks[i] = combine<kType, T>(every_second<0>(a, b), every_second<1>(a, b));
        } else {
            x.chunks[i] = Vec<T>{};
        }
    });
}

// kLevels levels: groups of 2^kLevels neighbours.
template <ReduceType kType, typename T, int kLevels, size_t kUsed = kChunks>
QBSA_INLINE void reduce_groups(Lanes<T>& x)
{
    halve<kType, T, kUsed>(x);
    if constexpr (kLevels > 1) {
        reduce_groups<kType, T, kLevels - 1, (kUsed + 1) / 2>(x);
    }
}

// Lane of the first element equal to `best`, or of the first NaN when it is NaN.
template <typename T>
QBSA_INLINE uint32_t first_lane_of(const Lanes<T>& x, T best)
{
    constexpr uint32_t kPerChunk = kSimdBytes / sizeof(T);
    for (uint32_t lane = 0; lane < kRegBytes / sizeof(T); ++lane) {
        const T value = x.chunks[lane / kPerChunk][lane % kPerChunk];
        if (value == best || (value != value && best != best)) {
            return lane;
        }
    }
    return 0;
}

}  // namespace twin

namespace AscendC {
namespace Reg {

// Result in lane 0; with MAX and MIN lane 1 holds the index of the first such lane, as an integer.
template <ReduceType type = ReduceType::SUM, typename T = DefaultType, typename U = DefaultType,
          MaskMergeMode mode = MaskMergeMode::ZEROING, typename S, typename V>
QBSA_INLINE void Reduce(S& dstReg, const V& srcReg, MaskReg mask)
{
    using Element = typename V::ActualT;
    static_assert(twin::kTypeFits<T, S> && twin::kTypeFits<U, V> && std::is_same_v<S, V> && twin::kComputes<Element>,
                  "Reduce: the twin has no such types");
    static_assert(mode == MaskMergeMode::ZEROING, "Reduce: ZEROING only");
    twin::on_vector_op(twin::VectorOp::kReduce);
    twin::computed_from(dstReg.chunks, srcReg);
    const auto source = twin::active_or_neutral<type, Element>(srcReg, mask);
    auto x = source;
    twin::reduce_groups<type, Element, 6>(x);
    twin::for_chunks(QBSA_EACH_CHUNK { dstReg.set(i, x.chunks[i]); });
    if constexpr (type != ReduceType::SUM) {
        dstReg.chunks[0][1] = twin::first_lane_of<Element>(source, x.chunks[0][0]);
    }
}

// Result of block j in lane j.
template <ReduceType type = ReduceType::SUM, typename T = DefaultType, MaskMergeMode mode = MaskMergeMode::ZEROING,
          typename U>
QBSA_INLINE void ReduceDataBlock(U& dstReg, const U& srcReg, MaskReg mask)
{
    using Element = typename U::ActualT;
    static_assert(twin::kTypeFits<T, U> && twin::kComputes<Element>, "ReduceDataBlock: the twin has no such type");
    static_assert(mode == MaskMergeMode::ZEROING, "ReduceDataBlock: ZEROING only");
    twin::on_vector_op(twin::VectorOp::kReduceBlock);
    twin::computed_from(dstReg.chunks, srcReg);
    auto x = twin::active_or_neutral<type, Element>(srcReg, mask);
    twin::reduce_groups<type, Element, 3>(x);
    twin::for_chunks(QBSA_EACH_CHUNK { dstReg.set(i, x.chunks[i]); });
}

}  // namespace Reg
}  // namespace AscendC
