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

    // L1 tile [128 / 32][keys][32], blocks in list order. Row 2r + o of a block holds key r of its half o, so that the
    // scales of the even columns of a slab of scores, and of the odd ones, are 32 consecutive bytes.
    __aicore__ inline void copy_keys(const AscendC::LocalTensor<Fp8>& tile, const MacroBlock& macro, i64 head_kv) const
    {
        zero_missing_rows(tile, macro);
        for (i32 b = 0; b < macro.blocks; ++b) {
            const Block& block = macro.block[b];
            copy_halves(tile[b * macro.block[0].tile_keys * kC0],
                        key_[block.page * args_.key_page_stride + head_kv * args_.key_head_stride], block, 0,
                        block.tile_keys / 2, args_.key_token_stride, (uint16_t)macro.keys(), 2);
        }
    }

    // Values in the column order of P (softmax.h): row 4r + 2s + o holds key r of half o of block s. If not both blocks
    // are there in full, each has rows of its own: row 4r + 2s + o holds key r of part s of its half o.
    __aicore__ inline void copy_values(const AscendC::LocalTensor<Fp8>& tile, const MacroBlock& macro,
                                       i64 head_kv) const
    {
        constexpr uint16_t kStep = 4;
        const uint16_t tile_rows = (uint16_t)macro.keys();
        const bool full = macro.is_full();
        const i32 parts = full ? 1 : 2;
        zero_missing_rows(tile, macro);
        for (i32 b = 0; b < macro.blocks; ++b) {
            const Block& block = macro.block[b];
            const AscendC::GlobalTensor<Fp8> rows =
                value_[block.page * args_.value_page_stride + head_kv * args_.value_head_stride];
            const i32 keys = block.tile_keys / 2 / parts;
            for (i32 s = 0; s < parts; ++s) {
                const i32 row = full ? 2 * b : b * macro.block[0].tile_keys + 2 * s;
                copy_halves(tile[row * kC0], rows, block, s * keys, keys, args_.value_token_stride, tile_rows, kStep);
            }
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
    // Keys first .. first + keys of both halves of a block: of half o to tile rows o, step + o, 2 * step + o ..
    __aicore__ inline void copy_halves(const AscendC::LocalTensor<Fp8>& dst, const AscendC::GlobalTensor<Fp8>& page,
                                       const Block& block, i32 first, i32 keys, i64 pitch, uint16_t tile_rows,
                                       uint16_t step) const
    {
        const i32 half = block.tile_keys / 2;
        const i64 half_pitch = half * pitch;
        if (block.keys == block.tile_keys && pitch > 0 && half_pitch <= (i64)arch::kNd2NzMaxPitch) {
            AscendC::DataCopy(
                dst, page[first * pitch],
                AscendC::Nd2NzParams(2, (uint16_t)keys, kHeadDim, half_pitch, pitch, tile_rows, step, kC0));
            return;
        }
        for (i32 o = 0; o < 2; ++o) {
            const i32 from = o * half + first;
            const i32 existing = (i32)clamp(block.keys - from, 0, keys);
            if (existing > 0) {
                copy_rows_to_nz(dst[o * kC0], page[from * pitch], existing, pitch, tile_rows, step);
            }
        }
    }

    // Rows of no key: hidden scores may be anything but P, 0 there, times NaN is NaN.
    __aicore__ static inline void zero_missing_rows(const AscendC::LocalTensor<Fp8>& tile, const MacroBlock& macro)
    {
        if (macro.has_tail()) {
            zero_nz(tile, 1, (uint16_t)(macro.keys() * (kHeadDim / kC0)), 0);
            AscendC::PipeBarrier<PIPE_MTE2>();
        }
    }

    const AttentionArgs& args_;
    AscendC::GlobalTensor<Fp8> key_;
    AscendC::GlobalTensor<Fp8> value_;
    AscendC::GlobalTensor<float> key_scale_;
};

}  // namespace qbsa
