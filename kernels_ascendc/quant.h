// Quantisation policies: what k_descale scales, and when scores meet their scales.
#pragma once
#include "kernel_operator.h"

#include "contract.h"
#include "softmax.h"

namespace qbsa {

// quant_mode 1: e4m3; fp32 scales per token and head for Q and K, per head for V.
struct Fp8PerTokenHead {
    static constexpr Scaling kMasked = Scaling::kPerKey;
    static constexpr Scaling kWhole = Scaling::kPerKey;
};

// ... with one K scale a head, or one in all: k_descale does not change along tokens and pages.
struct Fp8KeyPerHead {
    static constexpr Scaling kMasked = Scaling::kPerRow;
    static constexpr Scaling kWhole = Scaling::kLater;

    __aicore__ static inline bool fits(const AttentionArgs& args)
    {
        return args.k_descale_page_stride == 0 && args.k_descale_token_stride == 0;
    }
};

}  // namespace qbsa
