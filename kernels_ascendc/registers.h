// Words of the vector functions: register types, casts, and the loads and stores that carry the slab layout.
//
// 512 consecutive bytes of a Fixpipe NZ slab are 8 rows x 16 keys. One de-interleaving load gives two registers of
// 8 rows x 8 keys (even keys, odd keys), a row in each 32-byte block. So a per-row value is a per-block broadcast, and
// a block reduction serves eight rows at once.
#pragma once
#include "kernel_operator.h"

#include "arch.h"
#include "buffers.h"

namespace qbsa {

namespace reg = AscendC::Reg;

using F32 = reg::RegTensor<float>;
using I32 = reg::RegTensor<int32_t>;
using U16 = reg::RegTensor<uint16_t>;
using U8 = reg::RegTensor<uint8_t>;
using F8 = reg::RegTensor<fp8_e4m3fn_t>;
using Bf16 = reg::RegTensor<bfloat16_t>;

static constexpr uint32_t kGroupRows = 8;                  // rows of one register
static constexpr uint32_t kSlab = kAivRows * kSlabKeys;    // elements of a slab
static constexpr uint32_t kTile = kGroupRows * kSlabKeys;  // elements of 8 rows of a slab
static constexpr uint32_t kBandGroups = kBandRows / kGroupRows;

// Finite, so that they survive every float mode: exp(kHiddenScore - kEmptyMax) is 0, so a row that never saw a key
// keeps a sum of 0 and is told from all others by it.
static constexpr float kHiddenScore = -3.0e38f;
static constexpr float kEmptyMax = -1.0e38f;

template <reg::RegLayout kByte>
static constexpr reg::CastTrait kToF8 = {kByte, reg::SatMode::SAT, reg::MaskMergeMode::ZEROING,
                                         AscendC::RoundMode::CAST_RINT};
static constexpr reg::CastTrait kToF8Byte0 = kToF8<reg::RegLayout::ZERO>;
static constexpr reg::CastTrait kToF8Byte1 = kToF8<reg::RegLayout::ONE>;
static constexpr reg::CastTrait kToF8Byte2 = kToF8<reg::RegLayout::TWO>;
static constexpr reg::CastTrait kToF8Byte3 = kToF8<reg::RegLayout::THREE>;
static constexpr reg::CastTrait kToBf16Low = {reg::RegLayout::ZERO, reg::SatMode::NO_SAT, reg::MaskMergeMode::ZEROING,
                                              AscendC::RoundMode::CAST_RINT};
static constexpr reg::CastTrait kToBf16High = {reg::RegLayout::ONE, reg::SatMode::NO_SAT, reg::MaskMergeMode::ZEROING,
                                               AscendC::RoundMode::CAST_RINT};

// 512 bytes <-> even and odd elements.
__simd_callee__ inline void load_pair(F32& even, F32& odd, __ubuf__ float* from)
{
    reg::LoadAlign<float, reg::LoadDist::DIST_DINTLV_B32>(even, odd, from);
}
__simd_callee__ inline void store_pair(__ubuf__ float* to, F32& even, F32& odd, reg::MaskReg& all)
{
    reg::StoreAlign<float, reg::StoreDist::DIST_INTLV_B32>(to, even, odd, all);
}
// Eight values, one to each 32-byte block; one 32-byte block to all blocks.
__simd_callee__ inline void load_per_row(F32& to, __ubuf__ float* from)
{
    reg::LoadAlign<float, reg::LoadDist::DIST_E2B_B32>(to, from);
}
__simd_callee__ inline void load_block_to_all(F32& to, __ubuf__ float* from)
{
    reg::LoadAlign<float, reg::LoadDist::DIST_BLK>(to, from);
}
// Between a store and a load of the same bytes inside one vector function.
__simd_callee__ inline void fence() { reg::LocalMemBar<reg::MemType::VEC_STORE, reg::MemType::VEC_LOAD>(); }

}  // namespace qbsa
