"""The two public functions: names, defaults and what every argument means.

Axes: T query tokens of all sequences, B sequences, N1 query heads, N2 KV heads, D = 128, P pages of 128 tokens,
Qb query blocks of 128 rows, Kb list capacity, L page table width. Any size is allowed; 1 <= N1 / N2 <= 16.
"""

from __future__ import annotations

import torch

from . import schema, validate

_ATTENTION_TYPES = schema.argument_types(schema.ATTENTION)
_METADATA_TYPES = schema.argument_types(schema.METADATA)


def quant_block_sparse_attn(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    q_descale: torch.Tensor,
    k_descale: torch.Tensor,
    v_descale: torch.Tensor,
    p_scale: torch.Tensor | None,
    sparse_indices: torch.Tensor,
    sparse_seq_len: torch.Tensor,
    atten_mask: torch.Tensor | None,
    softmax_scale: float,
    sparse_q_block_size: int,
    sparse_kv_block_size: int,
    *,
    cu_seqlens_q: torch.Tensor | None = None,
    cu_seqlens_kv: torch.Tensor | None = None,
    seqused_q: torch.Tensor | None = None,
    seqused_kv: torch.Tensor | None = None,
    block_table: torch.Tensor | None = None,
    metadata: torch.Tensor | None = None,
    layout_kv: str = "PA_BNBD",
    layout_q: str = "TND",
    layout_sparse_indices: str = "B_N_Qb_Kb",
    layout_out: str = "TND",
    quant_mode: int = 1,
    mask_mode: int = 3,
    return_softmax_lse: bool = False,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """FP8 attention of each query block over the KV blocks in its list, on a paged KV cache.

    Query head h uses KV head h // (N1 / N2). Row i of a sequence sees key j if block j // 128 is in the list of its
    query block (i // 128) and head, j < seqused_kv, and with mask_mode 3 also j <= i + seqused_kv - q_len. Scores are
    query . key * q_descale * softmax_scale * k_descale. All tensors are on one device; no argument is written.

    Args:
        query: float8_e4m3fn [T, N1, 128] ("TND") or [N1, T, 128] ("NTD"); last dimension contiguous.
        key, value: float8_e4m3fn [P, N2, 128, 128]: page, KV head, token of the page, D. Any strides with a contiguous
            last dimension: separate tensors, or views of one cache that interleaves K, V and scales.
        q_descale: float32 [T, N1] or [N1, T], as query: real value of a query element / its FP8 value.
        k_descale: float32 [P, N2, 128, 1], the same for each key; or [1], one value for all keys. A view with stride 0
            along pages and tokens (one value a head) and [1] take a faster path, for q_descale * k_descale >= 0.
        v_descale: float32 [N2], contiguous, the same for all values of a KV head.
        p_scale: float32 [1], > 0, or None for 1.0. Softmax weights are multiplied by it before they are rounded to
            float8_e4m3fn; it cancels from the result. 256 keeps small weights alive; above 448 large weights saturate.
        sparse_indices: int32 [B, N1, Qb, Kb], KV block numbers within the sequence (j // 128), in any order. Entries
            that are negative, >= L, or past seqused_kv contribute nothing. An entry listed twice counts twice.
        sparse_seq_len: int32 [B, N1, Qb], entries in use of each list; values outside 0..Kb are clamped.
        atten_mask: None, or with mask_mode 3 the uint8 [2048, 2048] mask of the public interface. Its contents are not
            read: the mask follows from the lengths.
        softmax_scale: finite, > 0; commonly 128 ** -0.5.
        sparse_q_block_size, sparse_kv_block_size: 128, in tokens.
        cu_seqlens_q: int32 [B + 1], contiguous, required: sequence b has query tokens cu_seqlens_q[b] to
            cu_seqlens_q[b + 1].
        cu_seqlens_kv, seqused_q: reserved, None.
        seqused_kv: int32 [B], contiguous, required: KV tokens of each sequence.
        block_table: int32 [B, L], required: page of each KV block. Pages may be shared; entries outside 0..P-1
            contribute nothing.
        metadata: the plan from quant_block_sparse_attn_metadata for the same B, N1 and Qb, or None to plan within the
            call.
        layout_kv: "PA_BNBD".
        layout_q: "TND" or "NTD".
        layout_sparse_indices: "B_N_Qb_Kb".
        layout_out: "TND".
        quant_mode: 1, FP8 with the scales above.
        mask_mode: 0 (length only) or 3 (causal, the last query row sees the last key).
        return_softmax_lse: whether to return the log-sum-exp too.

    Returns:
        bfloat16 [T, N1, 128], and float32 [N1, T] natural log-sum-exp of the scaled scores, or None. A row that sees no
        key, and every row from cu_seqlens_q[B] on, is 0 with a log-sum-exp of -3.4028234663852886e38.

    Values in tensors are not read before the call; docs/design.md says what any of them means. With QBSA_CHECK=1 in
    the environment they are, at some cost, and ValueError names the first bad one by tensor and index.

    Raises:
        TypeError: an argument has the wrong Python type, or a required one is None.
        ValueError: shape, stride, dtype, device, block size, or value out of range; a reserved argument is given.
        NotImplementedError: quant_mode, mask_mode, a layout or D that this release does not have.
        RuntimeError: metadata made for other shapes or by another version; or the tensors' device has no library here.
    """
    validate.check_types(locals(), _ATTENTION_TYPES)
    out, lse = torch.ops.qbsa.quant_block_sparse_attn(
        query,
        key,
        value,
        q_descale,
        k_descale,
        v_descale,
        p_scale,
        sparse_indices,
        sparse_seq_len,
        atten_mask,
        softmax_scale,
        sparse_q_block_size,
        sparse_kv_block_size,
        cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_kv=cu_seqlens_kv,
        seqused_q=seqused_q,
        seqused_kv=seqused_kv,
        block_table=block_table,
        metadata=metadata,
        layout_kv=layout_kv,
        layout_q=layout_q,
        layout_sparse_indices=layout_sparse_indices,
        layout_out=layout_out,
        quant_mode=quant_mode,
        mask_mode=mask_mode,
        return_softmax_lse=return_softmax_lse,
    )
    return out, lse if return_softmax_lse else None


def quant_block_sparse_attn_metadata(
    sparse_seq_len: torch.Tensor,
    num_heads_q: int,
    num_heads_kv: int,
    head_dim: int,
    *,
    cu_seqlens_q: torch.Tensor | None = None,
    cu_seqlens_kv: torch.Tensor | None = None,
    seqused_q: torch.Tensor | None = None,
    seqused_kv: torch.Tensor | None = None,
    sparse_block_size_q: int = 128,
    sparse_block_size_k: int = 128,
    quant_mode: int = 1,
    mask_mode: int = 3,
    layout_q: str = "TND",
    layout_kv: str = "PA_BNBD",
    layout_sparse_indices: str = "B_N_Qb_Kb",
    max_kv_splits: int = 1,
) -> torch.Tensor:
    """Plans a call of quant_block_sparse_attn: divides its (sequence, head, query block) tasks among the cores by cost.

    The plan holds no lengths and no lists: used with other values it gives the right result, only less balanced. It
    serves every call of the same B, N1 and Qb. qbsa.show_plan prints it.

    Args:
        sparse_seq_len: int32 [B, N1, Qb], as for quant_block_sparse_attn; its device gets the plan.
        num_heads_q, num_heads_kv: N1 and N2.
        head_dim: 128.
        cu_seqlens_q: int32 [B + 1], contiguous, or None to count every query block as full.
        cu_seqlens_kv, seqused_q: reserved, None.
        seqused_kv: int32 [B], contiguous, or None. Not needed for the plan; checked when given.
        sparse_block_size_q, sparse_block_size_k: 128, in tokens.
        quant_mode, mask_mode, layout_q, layout_kv, layout_sparse_indices: as for quant_block_sparse_attn.
        max_kv_splits: most cores that may share one list. 1, the default: none is cut, and results are the published
            ones bit for bit under any plan. 0: as many as pay; use it where a few long lists would keep most cores
            idle, as in decode. Where a list is cut the running maximum starts anew, so its weights are rounded to other
            FP8 steps; the result stays bit-identical for the same plan.

    Returns:
        int32 [W]: the plan. W has one value for max_kv_splits 1 and one for all others, whatever the shapes.

    Raises:
        TypeError, ValueError, NotImplementedError, RuntimeError: as quant_block_sparse_attn.
    """
    validate.check_types(locals(), _METADATA_TYPES)
    metadata: torch.Tensor = torch.ops.qbsa.quant_block_sparse_attn_metadata(
        sparse_seq_len,
        num_heads_q,
        num_heads_kv,
        head_dim,
        cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_kv=cu_seqlens_kv,
        seqused_q=seqused_q,
        seqused_kv=seqused_kv,
        sparse_block_size_q=sparse_block_size_q,
        sparse_block_size_k=sparse_block_size_k,
        quant_mode=quant_mode,
        mask_mode=mask_mode,
        layout_q=layout_q,
        layout_kv=layout_kv,
        layout_sparse_indices=layout_sparse_indices,
        max_kv_splits=max_kv_splits,
    )
    return metadata
