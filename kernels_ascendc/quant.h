// Quantisation policies: which scales a macro-block needs and which vector function turns its scores into P.
#pragma once
#include "kernel_operator.h"

#include "buffers.h"
#include "contract.h"
#include "mask.h"
#include "softmax.h"
#include "tasks.h"

namespace qbsa {

// UB places of one softmax call.
struct SoftmaxTiles {
    __ubuf__ uint8_t* probs;
    __ubuf__ float* scores;
    __ubuf__ float* key_scale;
    __ubuf__ float* state;
    __ubuf__ float* alpha;
    __ubuf__ float* scratch;
};

// quant_mode 1: e4m3; scales per token and head for Q and K, per head for V.
struct Fp8PerTokenHead {
    // view[b] is what this AIV's rows see of block b; slope as in mask.h.
    __aicore__ static inline void softmax(const SoftmaxTiles& tiles, const MacroBlock& macro, uint16_t bands, i32 slope,
                                          const BlockView* view)
    {
        const bool two = macro.blocks == kBlocksPerMacro;
        const bool masked = view[0].full < kBlockSlabs || (two && view[1].full < kBlockSlabs);
        if (two && masked) {
            call<kBlocksPerMacro, true>(tiles, bands, slope, view);
        } else if (two) {
            call<kBlocksPerMacro, false>(tiles, bands, slope, view);
        } else if (masked) {
            call<1, true>(tiles, bands, slope, view);
        } else {
            call<1, false>(tiles, bands, slope, view);
        }
    }

private:
    template <uint16_t kBlocks, bool kMasked>
    __aicore__ static inline void call(const SoftmaxTiles& tiles, uint16_t bands, i32 slope, const BlockView* view)
    {
        asc_vf_call<qbsa::softmax<kBlocks, kMasked>>(
            tiles.probs, tiles.scores, tiles.key_scale, tiles.state, tiles.alpha, tiles.scratch, bands, slope,
            view[0].full, view[0].partial, -view[0].last, view[1].full, view[1].partial, -view[1].last);
    }
};

}  // namespace qbsa
