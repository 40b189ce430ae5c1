// The global memory that an attention call may touch, from its shapes and strides.
#pragma once
#include <initializer_list>
#include <vector>

#include "../metadata/plan.h"
#include "engine/gm_ranges.h"

namespace twin {

struct Axis {
    int64_t size;
    int64_t stride;  // elements
};

// Bytes from the first to the last element.
inline uint64_t extent_bytes(uint64_t element_bytes, std::initializer_list<Axis> axes)
{
    uint64_t last = 0;
    for (const Axis& axis : axes) {
        if (axis.size <= 0) return 0;
        last += uint64_t(axis.size - 1) * uint64_t(axis.stride);
    }
    return (last + 1) * element_bytes;
}

inline std::vector<GmRange> attention_tensors(const qbsa::AttentionArgs& a)
{
    using qbsa::kBlockKeys;
    using qbsa::kHeadDim;
    const Axis columns{kHeadDim, 1};
    auto cache = [&](int64_t page_stride, int64_t head_stride, int64_t token_stride, uint64_t element_bytes,
                     Axis last) {
        return extent_bytes(element_bytes,
                            {{a.pages, page_stride}, {a.heads_kv, head_stride}, {kBlockKeys, token_stride}, last});
    };
    auto q_rows = [&](int64_t token_stride, int64_t head_stride, uint64_t element_bytes, Axis last) {
        return extent_bytes(element_bytes, {{a.tokens, token_stride}, {a.heads_q, head_stride}, last});
    };
    const uint64_t indices = extent_bytes(4, {{a.batch, a.indices_batch_stride},
                                              {a.heads_q, a.indices_head_stride},
                                              {a.q_blocks, a.indices_block_stride},
                                              {a.list_capacity, a.indices_entry_stride}});
    const uint64_t lengths = extent_bytes(
        4,
        {{a.batch, a.seq_len_batch_stride}, {a.heads_q, a.seq_len_head_stride}, {a.q_blocks, a.seq_len_block_stride}});
    const uint64_t key = cache(a.key_page_stride, a.key_head_stride, a.key_token_stride, 1, columns);
    const uint64_t value = cache(a.value_page_stride, a.value_head_stride, a.value_token_stride, 1, columns);
    const uint64_t k_descale =
        cache(a.k_descale_page_stride, a.k_descale_head_stride, a.k_descale_token_stride, 4, {1, 1});
    const uint64_t rows = uint64_t(a.tokens) * uint64_t(a.heads_q);
    return {
        {a.query, q_rows(a.query_token_stride, a.query_head_stride, 1, columns), "query", GmUse::kRead},
        {a.key, key, "key", GmUse::kRead},
        {a.value, value, "value", GmUse::kRead},
        {a.q_descale, q_rows(a.q_descale_token_stride, a.q_descale_head_stride, 4, {1, 1}), "q_descale", GmUse::kRead},
        {a.k_descale, k_descale, "k_descale", GmUse::kRead},
        {a.v_descale, extent_bytes(4, {{a.heads_kv, 1}}), "v_descale", GmUse::kRead},
        {a.p_scale, a.p_scale ? 4u : 0u, "p_scale", GmUse::kRead},
        {a.sparse_indices, indices, "sparse_indices", GmUse::kRead},
        {a.sparse_seq_len, lengths, "sparse_seq_len", GmUse::kRead},
        {a.cu_seqlens_q, extent_bytes(4, {{a.batch + 1, 1}}), "cu_seqlens_q", GmUse::kRead},
        {a.seqused_kv, extent_bytes(4, {{a.batch, 1}}), "seqused_kv", GmUse::kRead},
        {a.block_table, extent_bytes(4, {{a.batch, a.table_batch_stride}, {a.table_width, a.table_entry_stride}}),
         "block_table", GmUse::kRead},
        {a.plan, uint64_t(a.plan_words) * 4, "metadata", GmUse::kRead},
        {a.workspace, uint64_t(qbsa::workspace::bytes(a)), "workspace", GmUse::kReadWrite},
        {a.out, rows * kHeadDim * 2, "out", GmUse::kWrite},
        {a.lse, a.lse ? rows * 4 : 0, "lse", GmUse::kWrite},
    };
}

}  // namespace twin
