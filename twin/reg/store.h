// StoreAlign: register -> UB. Bytes of inactive lanes keep their value; a 32-byte block without active lanes is not
// touched at all.
#pragma once
#include "register.h"

namespace twin {

using AscendC::Reg::DataCopyMode;
using AscendC::Reg::StoreDist;

// A store under a mask walks a register in pieces that never cross a 32-byte block.
constexpr size_t kPieceBytes = kSimdBytes < kBlockBytes ? kSimdBytes : kBlockBytes;
constexpr size_t kPieces = kRegBytes / kPieceBytes;
using Piece = Vec<uint64_t, kPieceBytes>;

template <typename V>
QBSA_INLINE bool all_set(V active)
{
    uint64_t bits = ~uint64_t{0};
    for (size_t i = 0; i < sizeof(V) / sizeof bits; ++i) {
        bits &= active[i];
    }
    return bits == ~uint64_t{0};
}
template <typename V>
QBSA_INLINE bool any_set(V active)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < sizeof(V) / sizeof bits; ++i) {
        bits |= active[i];
    }
    return bits != 0;
}

template <size_t kPiece, size_t kChunkBytes = kSimdBytes>
QBSA_INLINE Piece piece_of(const VecU32* chunks)
{
    if constexpr (kChunkBytes == kPieceBytes) {
        return (Piece)chunks[kPiece];
    } else {
        constexpr size_t kFirst = kPiece % 2 * 4;
        const auto chunk = (Vec<uint64_t, kChunkBytes>)chunks[kPiece / 2];
        return __builtin_shufflevector(chunk, chunk, kFirst, kFirst + 1, kFirst + 2, kFirst + 3);
    }
}

QBSA_INLINE void store_piece(uint8_t* to, Piece value, Piece active)
{
    if (all_set(active)) {
        store(to, value);
    } else if (any_set(active)) {
        const auto old = load<uint64_t, kPieceBytes>(to);
        store(to, (value & active) | (old & ~active));
    }
}

// Bytes of the active lanes of T.
struct ActiveBytes {
    VecU32 chunks[kChunks];

    template <typename T>
    static QBSA_INLINE ActiveBytes of(const MaskReg& mask)
    {
        ActiveBytes active;
        for_chunks(QBSA_EACH_CHUNK { active.chunks[i] = (VecU32)mask.template lanes<T>(i); });
        return active;
    }
    QBSA_INLINE bool all() const
    {
        Vec<uint64_t> both = (Vec<uint64_t>)chunks[0];
        for_chunks(QBSA_EACH_CHUNK { both &= (Vec<uint64_t>)chunks[i]; });
        return all_set(both);
    }
};

QBSA_INLINE void store_register(uint8_t* to, const VecU32* chunks, const ActiveBytes& active)
{
    if (active.all()) {
        on_vector_store(to, kRegBytes, kBlockBytes, VectorOp::kStore, identity(chunks));
        for_chunks(QBSA_EACH_CHUNK { store(to + i * kSimdBytes, chunks[i]); });
        return;
    }
    on_vector_store_bytes(to, (const uint8_t*)active.chunks, kRegBytes, kBlockBytes, VectorOp::kStore,
                          identity(chunks));
    for_chunks<kPieces>(
        QBSA_EACH_CHUNK { store_piece(to + i * kPieceBytes, piece_of<i>(chunks), piece_of<i>(active.chunks)); });
}

// Block b goes to `to` + b * pitch_bytes.
QBSA_INLINE void store_blocks(uint8_t* to, size_t pitch_bytes, const VecU32* chunks, const ActiveBytes& active)
{
    if constexpr (kChecked) {
        for (size_t at = 0; at < kRegBytes; at += kBlockBytes) {
            on_vector_store_bytes(to + at / kBlockBytes * pitch_bytes, (const uint8_t*)active.chunks + at, kBlockBytes,
                                  kBlockBytes, VectorOp::kStoreBlocks, identity(chunks));
        }
    }
    for_chunks<kPieces>(QBSA_EACH_CHUNK {
        constexpr size_t kByte = i * kPieceBytes;
        store_piece(to + kByte / kBlockBytes * pitch_bytes + kByte % kBlockBytes, piece_of<i>(chunks),
                    piece_of<i>(active.chunks));
    });
}

// The lowest byte of every 32-bit lane, 64 bytes in a row.
QBSA_INLINE void store_low_bytes(uint8_t* to, const VecU32* chunks, const ActiveBytes& active)
{
    constexpr size_t kLanes = kSimdBytes / sizeof(uint32_t);
    uint8_t bytes[kRegBytes / sizeof(uint32_t)];
    uint8_t wanted[sizeof bytes];
    for (size_t i = 0; i < sizeof bytes; ++i) {
        bytes[i] = (uint8_t)chunks[i / kLanes][i % kLanes];
        wanted[i] = (uint8_t)active.chunks[i / kLanes][i % kLanes];
    }
    on_vector_store_bytes(to, wanted, sizeof bytes, kBlockBytes, VectorOp::kStorePack4, identity(chunks));
    for (size_t i = 0; i < sizeof bytes; ++i) {
        to[i] = wanted[i] != 0 ? bytes[i] : to[i];
    }
}

// Lanes kFirst, kFirst + 1, .. of a and b in turn.
template <size_t kFirst, size_t... kLane>
QBSA_INLINE VecU32 interleave(VecU32 a, VecU32 b, std::index_sequence<kLane...>)
{
    return __builtin_shufflevector(a, b, (kFirst + kLane / 2 + kLane % 2 * sizeof...(kLane))...);
}

}  // namespace twin

namespace AscendC {
namespace Reg {

template <typename T = DefaultType, StoreDist dist = StoreDist::DIST_NORM, typename U>
QBSA_INLINE void StoreAlign(T* dstAddr, U& srcReg, MaskReg& mask)
{
    static_assert(twin::kTypeFits<T, U>, "StoreAlign: address and register differ in type");
    uint8_t* to = (uint8_t*)dstAddr;
    if constexpr (dist == StoreDist::DIST_FIRST_ELEMENT_B32) {
        twin::on_vector_op(twin::VectorOp::kStoreFirst);
        twin::on_vector_store(to, sizeof(uint32_t), sizeof(uint32_t), twin::VectorOp::kStoreFirst,
                              twin::identity(srcReg.chunks));
        const uint32_t first = srcReg.chunks[0][0];
        std::memcpy(to, &first, sizeof first);
    } else if constexpr (dist == StoreDist::DIST_PACK4_B32) {
        twin::on_vector_op(twin::VectorOp::kStorePack4);
        twin::store_low_bytes(to, srcReg.chunks, twin::ActiveBytes::of<uint32_t>(mask));
    } else {
        static_assert(dist == StoreDist::DIST_NORM || (dist == StoreDist::DIST_NORM_B8 && sizeof(T) == 1) ||
                          (dist == StoreDist::DIST_NORM_B16 && sizeof(T) == 2) ||
                          (dist == StoreDist::DIST_NORM_B32 && sizeof(T) == 4),
                      "StoreAlign: the twin has no such StoreDist");
        twin::on_vector_op(twin::VectorOp::kStore);
        twin::store_register(to, srcReg.chunks, twin::ActiveBytes::of<T>(mask));
    }
}

// 512 bytes, elements of srcReg0 and srcReg1 in turn; the mask is ignored.
template <typename T = DefaultType, StoreDist dist, typename U>
QBSA_INLINE void StoreAlign(T* dstAddr, U& srcReg0, U& srcReg1, MaskReg& /*mask*/)
{
    static_assert(twin::kTypeFits<T, U>, "StoreAlign: address and registers differ in type");
    static_assert(dist == StoreDist::DIST_INTLV_B32, "StoreAlign: the twin has no such StoreDist for two registers");
    twin::on_vector_op(twin::VectorOp::kStorePair);
    twin::on_vector_store(dstAddr, 2 * twin::kRegBytes, twin::kBlockBytes, twin::VectorOp::kStorePair,
                          twin::identity(srcReg0.chunks));
    uint8_t* to = (uint8_t*)dstAddr;
    twin::for_chunks(QBSA_EACH_CHUNK {
        constexpr size_t kLanes = twin::kSimdBytes / sizeof(uint32_t);
        constexpr auto kIndices = std::make_index_sequence<kLanes>{};
        const auto a = srcReg0.chunks[i];
        const auto b = srcReg1.chunks[i];
        twin::store(to + 2 * i * twin::kSimdBytes, twin::interleave<0>(a, b, kIndices));
        twin::store(to + (2 * i + 1) * twin::kSimdBytes, twin::interleave<kLanes / 2>(a, b, kIndices));
    });
}

// Eight 32-byte blocks, dataBlockStride blocks from one to the next.
template <typename T = DefaultType, DataCopyMode dataMode, typename U>
QBSA_INLINE void StoreAlign(T* dstAddr, U& srcReg, uint32_t dataBlockStride, MaskReg& mask)
{
    static_assert(twin::kTypeFits<T, U>, "StoreAlign: address and register differ in type");
    twin::on_vector_op(twin::VectorOp::kStoreBlocks);
    twin::store_blocks((uint8_t*)dstAddr, dataBlockStride * twin::kBlockBytes, srcReg.chunks,
                       twin::ActiveBytes::of<T>(mask));
}

}  // namespace Reg
}  // namespace AscendC
