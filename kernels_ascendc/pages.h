// Page layout policy: where the rows of a block lie in the KV cache and how they come on chip.
//
// "PA_BNBD": key and value are [pages, heads_kv, 128, 128] by strides, so separate tensors, views of one interleaved
// cache and token-major pages are the same to the kernel.
#pragma once
#include "kernel_operator.h"

#include "arch.h"
#include "buffers.h"
#include "contract.h"
#include "tasks.h"

namespace qbsa {

using Fp8 = fp8_e4m3fn_t;
static constexpr uint32_t kC0 = arch::kDataBlockBytes / sizeof(Fp8);  // columns of an NZ row

// rows x 128 from GM to L1 in NZ: row i of the source lands at row i * dst_step of an NZ tile with dst_rows rows.
// pitch: elements from row to row in GM; Nd2Nz has a limit on it, so other rows come one by one.
__aicore__ inline void copy_rows_to_nz(const AscendC::LocalTensor<Fp8>& dst, const AscendC::GlobalTensor<Fp8>& src,
                                       i32 rows, i64 pitch, uint16_t dst_rows, uint16_t dst_step)
{
    if (pitch > 0 && pitch <= (i64)arch::kNd2NzMaxPitch) {
        AscendC::DataCopy(dst, src, AscendC::Nd2NzParams(1, (uint16_t)rows, kHeadDim, 0, pitch, dst_rows, dst_step, 0));
        return;
    }
    for (i32 row = 0; row < rows; ++row) {
        AscendC::DataCopy(dst[row * dst_step * kC0], src[row * pitch],
                          AscendC::Nd2NzParams(1, 1, kHeadDim, 0, kHeadDim, dst_rows, 1, 0));
    }
}

// Zeroes data blocks of an L1 tile: `runs` runs of `blocks` data blocks, `gap` data blocks apart.
__aicore__ inline void zero_nz(const AscendC::LocalTensor<Fp8>& dst, uint16_t runs, uint16_t blocks, uint16_t gap)
{
    AscendC::Fill(dst.ReinterpretCast<uint16_t>(), AscendC::InitConstValueParams<uint16_t>(runs, blocks, gap, 0));
}

class PagedCache {
public:
    __aicore__ inline explicit PagedCache(const AttentionArgs& args) : args_(args)
    {
        key_.SetGlobalBuffer((__gm__ Fp8*)args.key);
        value_.SetGlobalBuffer((__gm__ Fp8*)args.value);
        key_scale_.SetGlobalBuffer((__gm__ float*)args.k_descale);
    }

    // Keys in list order: L1 tile [128 / 32][keys][32]. Rows past the end of the sequence become zeros.
    __aicore__ inline void copy_keys(const AscendC::LocalTensor<Fp8>& tile, const MacroBlock& macro, i64 head_kv) const
    {
        const uint16_t tile_rows = (uint16_t)macro.keys();
        for (i32 b = 0; b < macro.blocks; ++b) {
            const Block& block = macro.block[b];
            const AscendC::LocalTensor<Fp8> rows = tile[b * kBlockKeys * kC0];
            const uint16_t missing = (uint16_t)(kBlockKeys - block.keys);
            if (missing > 0) {
                zero_nz(rows[block.keys * kC0], kHeadDim / kC0, missing, tile_rows - missing);
            }
            copy_rows_to_nz(rows, key_[block.page * args_.key_page_stride + head_kv * args_.key_head_stride],
                            block.keys, args_.key_token_stride, tile_rows, 1);
        }
    }

    // Values in the column order of P (softmax.h): row 4i + 2s + o of the tile holds key H * s + 2i + o, H half the
    // keys. With two blocks s is the block, with one it is the half of the block.
    __aicore__ inline void copy_values(const AscendC::LocalTensor<Fp8>& tile, const MacroBlock& macro,
                                       i64 head_kv) const
    {
        const uint16_t tile_rows = (uint16_t)macro.keys();
        if (macro.has_tail()) {
            // P is 0 there, but 0 * NaN is not.
            zero_nz(tile, 1, tile_rows * (kHeadDim / kC0), 0);
            AscendC::PipeBarrier<PIPE_MTE2>();
        }
        const i32 half_keys = macro.keys() / 2;
        for (i32 s = 0; s < 2; ++s) {
            const Block& block = macro.block[macro.blocks == kBlocksPerMacro ? s : 0];
            const i32 first = macro.blocks == kBlocksPerMacro ? 0 : s * half_keys;
            const AscendC::GlobalTensor<Fp8> rows =
                value_[block.page * args_.value_page_stride + head_kv * args_.value_head_stride +
                       first * args_.value_token_stride];
            const i32 keys = (i32)clamp(block.keys - first, 0, half_keys);
            copy_even_odd_rows(tile[2 * s * kC0], rows, keys, args_.value_token_stride, tile_rows);
        }
    }

    // k_descale of the macro-block, in list order.
    __aicore__ inline void copy_key_scales(const AscendC::LocalTensor<float>& dst, const MacroBlock& macro,
                                           i64 head_kv) const
    {
        const bool dense = args_.k_descale_token_stride == 1;
        const uint16_t runs = dense ? 1 : kBlockKeys;
        const uint32_t run_bytes = (dense ? kBlockKeys : 1) * sizeof(float);
        const i64 gap_bytes = dense ? 0 : (args_.k_descale_token_stride - 1) * (i64)sizeof(float);
        for (i32 b = 0; b < macro.blocks; ++b) {
            const i64 offset =
                macro.block[b].page * args_.k_descale_page_stride + head_kv * args_.k_descale_head_stride;
            AscendC::DataCopyPad<float, AscendC::PaddingMode::Compact>(
                dst[b * kBlockKeys], key_scale_[offset], AscendC::DataCopyExtParams(runs, run_bytes, gap_bytes, 0, 0),
                AscendC::DataCopyPadExtParams<float>(false, 0, 0, 0.0f));
        }
    }

private:
    // Source rows 2i + o go to tile rows 4i + o.
    __aicore__ inline void copy_even_odd_rows(const AscendC::LocalTensor<Fp8>& dst,
                                              const AscendC::GlobalTensor<Fp8>& src, i32 keys, i64 pitch,
                                              uint16_t tile_rows) const
    {
        constexpr uint16_t kStep = 4;
        if (keys % 2 == 0 && pitch > 0 && 2 * pitch <= (i64)arch::kNd2NzMaxPitch) {
            AscendC::DataCopy(
                dst, src,
                AscendC::Nd2NzParams(2, (uint16_t)(keys / 2), kHeadDim, pitch, 2 * pitch, tile_rows, kStep, kC0));
            return;
        }
        copy_rows_to_nz(dst, src, (keys + 1) / 2, 2 * pitch, tile_rows, kStep);
        copy_rows_to_nz(dst[kC0], src[pitch], keys / 2, 2 * pitch, tile_rows, kStep);
    }

    const AttentionArgs& args_;
    AscendC::GlobalTensor<Fp8> key_;
    AscendC::GlobalTensor<Fp8> value_;
    AscendC::GlobalTensor<float> key_scale_;
};

}  // namespace qbsa
