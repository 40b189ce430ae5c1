// Everything that two compilers or two languages must agree on: numbers, mode values and argument records.
// Readers: the kernel (bisheng), the AICPU scheduler, the twin (g++) and Python (contract_json.h).
// C++14, <stdint.h> only; 8-byte fields first, no padding.
#pragma once
#include <stdint.h>

// X(name, value, meaning)
#define QBSA_CONSTANTS(X)                                                                      \
    X(kAbiVersion, 4, "rises with any change of this file or of metadata/plan.h")              \
    X(kHeadDim, 128, "columns of query, key, value and out")                                   \
    X(kBlockRows, 128, "query rows of a sparse block")                                         \
    X(kBlockKeys, 128, "keys of a sparse block; a page of the KV cache holds one block")       \
    X(kBlocksPerMacro, 2, "list entries fused into one macro-block; positions 2k and 2k + 1")  \
    X(kMaxGroup, 16, "query heads that may share one KV head")                                 \
    X(kMaxCores, 72, "AIC groups a plan can address")                                          \
    X(kStatusBytes, 64, "bytes from the status word of one core to the next: lines of their own")

// X(name, value, meaning): the integers of the public arguments quant_mode and mask_mode.
#define QBSA_QUANT_MODES(X) X(kFp8PerTokenHead, 1, "e4m3; fp32 scale per token and head (K, Q), per head (V)")
#define QBSA_MASK_MODES(X)                                  \
    X(kLength, 0, "key j is visible iff j < kv_len")        \
    X(kCausal, 3, "... and j <= i + kv_len - q_len; row i of the sequence")

// X(name, value, meaning): status words, at the start of the workspace, written by each AIC group of a launch.
#define QBSA_STATUS(X)                                      \
    X(kOk, 0, "done")                                       \
    X(kForeignPlan, 1, "metadata was made for other static shapes, by another version, or is no plan") \
    X(kUnknownMode, 2, "quant_mode or mask_mode is none of this library's")

// Tensor pointers are device addresses; shapes beside them, strides below, both in elements.
#define QBSA_ATTENTION_ARGS(X)                                                            \
    X(u64, query, "e4m3 [tokens, heads_q, 128]")                                          \
    X(u64, key, "e4m3 [pages, heads_kv, 128, 128]")                                       \
    X(u64, value, "e4m3 [pages, heads_kv, 128, 128]")                                     \
    X(u64, q_descale, "fp32 [tokens, heads_q]")                                           \
    X(u64, k_descale, "fp32 [pages, heads_kv, 128]")                                      \
    X(u64, v_descale, "fp32 [heads_kv]")                                                  \
    X(u64, p_scale, "fp32 [1], or 0 for 1.0")                                             \
    X(u64, sparse_indices, "int32 [batch, heads_q, q_blocks, list_capacity]")             \
    X(u64, sparse_seq_len, "int32 [batch, heads_q, q_blocks]")                            \
    X(u64, cu_seqlens_q, "int32 [batch + 1]")                                             \
    X(u64, seqused_kv, "int32 [batch]")                                                   \
    X(u64, block_table, "int32 [batch, table_width]")                                     \
    X(u64, plan, "metadata/plan.h")                                                       \
    X(u64, workspace, "status words, then partial results of split tasks")               \
    X(u64, out, "bf16 [tokens, heads_q, 128], contiguous")                                \
    X(u64, lse, "fp32 [heads_q, tokens], contiguous, or 0 when not wanted")               \
    X(i64, tokens, "") X(i64, batch, "") X(i64, heads_q, "") X(i64, heads_kv, "")         \
    X(i64, q_blocks, "") X(i64, list_capacity, "") X(i64, pages, "") X(i64, table_width, "") \
    X(i64, query_token_stride, "") X(i64, query_head_stride, "")                          \
    X(i64, q_descale_token_stride, "") X(i64, q_descale_head_stride, "")                  \
    X(i64, key_page_stride, "") X(i64, key_head_stride, "") X(i64, key_token_stride, "")  \
    X(i64, value_page_stride, "") X(i64, value_head_stride, "") X(i64, value_token_stride, "") \
    X(i64, k_descale_page_stride, "") X(i64, k_descale_head_stride, "") X(i64, k_descale_token_stride, "") \
    X(i64, indices_batch_stride, "") X(i64, indices_head_stride, "")                      \
    X(i64, indices_block_stride, "") X(i64, indices_entry_stride, "")                     \
    X(i64, seq_len_batch_stride, "") X(i64, seq_len_head_stride, "") X(i64, seq_len_block_stride, "") \
    X(i64, table_batch_stride, "") X(i64, table_entry_stride, "")                         \
    X(f32, softmax_scale, "finite, > 0")                                                  \
    X(i32, quant_mode, "QBSA_QUANT_MODES")                                                \
    X(i32, mask_mode, "QBSA_MASK_MODES")                                                  \
    X(i32, cores, "AIC groups to launch, at most kMaxCores; 0: the library chooses")                   \
    X(i32, plan_words, "int32 words of the plan")                                         \
    X(i32, reserved, "0")

#define QBSA_SCHEDULE_ARGS(X)                                                             \
    X(u64, sparse_seq_len, "int32 [batch, heads_q, q_blocks]")                            \
    X(u64, cu_seqlens_q, "int32 [batch + 1], or 0: every q block is full")                \
    X(u64, plan, "int32 [plan_words], written")                                           \
    X(i64, batch, "") X(i64, heads_q, "") X(i64, heads_kv, "") X(i64, q_blocks, "")       \
    X(i64, seq_len_batch_stride, "") X(i64, seq_len_head_stride, "") X(i64, seq_len_block_stride, "") \
    X(i32, cores, "AIC groups to plan for, at most kMaxCores; 0: the library chooses")                        \
    X(i32, max_kv_splits, "most pieces of one task; 1: none is cut, 0: as many as pay")

namespace qbsa {

typedef uint64_t u64;
typedef int64_t i64;
typedef int32_t i32;
typedef float f32;

#define X(name, value, meaning) static constexpr i32 name = value;
QBSA_CONSTANTS(X)
#undef X

#define X(name, value, meaning) name = value,
enum class QuantMode : i32 { QBSA_QUANT_MODES(X) };
enum class MaskMode : i32 { QBSA_MASK_MODES(X) };
enum class Status : i32 { QBSA_STATUS(X) };
#undef X

#define X(type, name, meaning) type name;
struct AttentionArgs {
    QBSA_ATTENTION_ARGS(X)
};
struct ScheduleArgs {
    QBSA_SCHEDULE_ARGS(X)
};
#undef X

static_assert(sizeof(AttentionArgs) % 8 == 0 && sizeof(ScheduleArgs) % 8 == 0, "records must have no padding");

}  // namespace qbsa
