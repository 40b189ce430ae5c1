// LoadAlign: UB -> register.
#pragma once
#include "register.h"

namespace twin {

using AscendC::Reg::LoadDist;

// Lanes 2j + kOdd of the 2n lanes of a and b.
template <size_t kOdd, typename V, size_t... kLane>
QBSA_INLINE V every_second(V a, V b, std::index_sequence<kLane...>)
{
    return __builtin_shufflevector(a, b, 2 * kLane + kOdd...);
}
template <size_t kOdd, typename V>
QBSA_INLINE V every_second(V a, V b)
{
    return every_second<kOdd>(a, b, std::make_index_sequence<sizeof(V) / sizeof(a[0])>{});
}

constexpr size_t kChunkLanes = kSimdBytes / sizeof(uint32_t);
constexpr size_t kBlockLanes = kBlockBytes / sizeof(uint32_t);

template <size_t... kElement>
QBSA_INLINE VecU32 pick(const uint8_t* block)
{
    const auto x = load<uint32_t, kBlockBytes>(block);
    return __builtin_shufflevector(x, x, kElement...);
}
template <size_t kChunk, size_t... kLane>
QBSA_INLINE VecU32 spread_wide(const uint8_t* eight, std::index_sequence<kLane...>)
{
    return pick<(kChunk * kChunkLanes + kLane) / kBlockLanes...>(eight);
}
template <size_t... kLane>
QBSA_INLINE VecU32 repeat_wide(const uint8_t* block, std::index_sequence<kLane...>)
{
    return pick<kLane % kBlockLanes...>(block);
}

// Chunk kChunk of: eight 32-bit values, each to a block of eight lanes.
template <size_t kChunk>
QBSA_INLINE VecU32 spread_to_blocks(const uint8_t* eight)
{
    if constexpr (kSimdBytes > kBlockBytes) {
        return spread_wide<kChunk>(eight, std::make_index_sequence<kChunkLanes>{});
    } else {
        return splat(load_scalar<uint32_t>(eight + kChunk * kSimdBytes / kBlockBytes * sizeof(uint32_t)));
    }
}
// Chunk kChunk of: one block to all blocks.
template <size_t kChunk>
QBSA_INLINE VecU32 repeat_block(const uint8_t* block)
{
    if constexpr (kSimdBytes > kBlockBytes) {
        return repeat_wide(block, std::make_index_sequence<kChunkLanes>{});
    } else {
        return load<uint32_t>(block + kChunk * kSimdBytes % kBlockBytes);
    }
}

}  // namespace twin

namespace AscendC {
namespace Reg {

template <typename T = DefaultType, LoadDist dist = LoadDist::DIST_NORM, typename U>
QBSA_INLINE void LoadAlign(U& dstReg, T* srcAddr)
{
    static_assert(twin::kTypeFits<T, U>, "LoadAlign: address and register differ in type");
    const uint8_t* from = (const uint8_t*)srcAddr;
    if constexpr (dist == LoadDist::DIST_NORM) {
        twin::on_vector_op(twin::VectorOp::kLoad);
        twin::on_vector_load(from, twin::kRegBytes, twin::kBlockBytes, twin::VectorOp::kLoad,
                             twin::identity(dstReg.chunks));
        twin::for_chunks(QBSA_EACH_CHUNK { dstReg.set(i, twin::load<uint32_t>(from + i * twin::kSimdBytes)); });
    } else if constexpr (dist == LoadDist::DIST_BRC_B32) {
        twin::on_vector_op(twin::VectorOp::kLoadBroadcast);
        twin::on_vector_load(from, sizeof(uint32_t), sizeof(uint32_t), twin::VectorOp::kLoadBroadcast,
                             twin::identity(dstReg.chunks));
        const uint32_t bits = twin::load_scalar<uint32_t>(from);
        twin::for_chunks(QBSA_EACH_CHUNK { dstReg.set(i, twin::splat(bits)); });
    } else if constexpr (dist == LoadDist::DIST_BLK) {
        twin::on_vector_op(twin::VectorOp::kLoadBlock);
        twin::on_vector_load(from, twin::kBlockBytes, twin::kBlockBytes, twin::VectorOp::kLoadBlock,
                             twin::identity(dstReg.chunks));
        twin::for_chunks(QBSA_EACH_CHUNK { dstReg.set(i, twin::repeat_block<i>(from)); });
    } else {
        static_assert(dist == LoadDist::DIST_E2B_B32, "LoadAlign: the twin has no such LoadDist");
        twin::on_vector_op(twin::VectorOp::kLoadPerBlock);
        twin::on_vector_load(from, twin::kBlockBytes, twin::kBlockBytes, twin::VectorOp::kLoadPerBlock,
                             twin::identity(dstReg.chunks));
        twin::for_chunks(QBSA_EACH_CHUNK { dstReg.set(i, twin::spread_to_blocks<i>(from)); });
    }
}

// 512 bytes: even elements to dstReg0, odd elements to dstReg1.
template <typename T = DefaultType, LoadDist dist, typename U>
QBSA_INLINE void LoadAlign(U& dstReg0, U& dstReg1, T* srcAddr)
{
    static_assert(twin::kTypeFits<T, U>, "LoadAlign: address and registers differ in type");
    static_assert(dist == LoadDist::DIST_DINTLV_B32, "LoadAlign: the twin has no such LoadDist for two registers");
    twin::on_vector_op(twin::VectorOp::kLoadPair);
    twin::on_vector_load(srcAddr, 2 * twin::kRegBytes, twin::kBlockBytes, twin::VectorOp::kLoadPair,
                         twin::identity(dstReg0.chunks));
    twin::computed_from(dstReg1.chunks, dstReg0);
    const uint8_t* from = (const uint8_t*)srcAddr;
    twin::for_chunks(QBSA_EACH_CHUNK {
        const auto a = twin::load<uint32_t>(from + 2 * i * twin::kSimdBytes);
        const auto b = twin::load<uint32_t>(from + (2 * i + 1) * twin::kSimdBytes);
        dstReg0.set(i, twin::every_second<0>(a, b));
        dstReg1.set(i, twin::every_second<1>(a, b));
    });
}

}  // namespace Reg
}  // namespace AscendC
