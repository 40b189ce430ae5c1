"""The two operators as torch sees them. Said once: registration, type checks and tests read it from here.

`torch.ops.qbsa.*` differs from the Python functions in one point: with return_softmax_lse False the second result is an
empty tensor, because an operator cannot return None.
"""

from typing import Any

import torch

NAMESPACE = "qbsa"

_ATTENTION = """quant_block_sparse_attn(
    Tensor query, Tensor key, Tensor value, Tensor q_descale, Tensor k_descale, Tensor v_descale, Tensor? p_scale,
    Tensor sparse_indices, Tensor sparse_seq_len, Tensor? atten_mask,
    float softmax_scale, int sparse_q_block_size, int sparse_kv_block_size, *,
    Tensor? cu_seqlens_q=None, Tensor? cu_seqlens_kv=None, Tensor? seqused_q=None, Tensor? seqused_kv=None,
    Tensor? block_table=None, Tensor? metadata=None,
    str layout_kv="PA_BNBD", str layout_q="TND", str layout_sparse_indices="B_N_Qb_Kb", str layout_out="TND",
    int quant_mode=1, int mask_mode=3, bool return_softmax_lse=False) -> (Tensor, Tensor)"""

_METADATA = """quant_block_sparse_attn_metadata(
    Tensor sparse_seq_len, int num_heads_q, int num_heads_kv, int head_dim, *,
    Tensor? cu_seqlens_q=None, Tensor? cu_seqlens_kv=None, Tensor? seqused_q=None, Tensor? seqused_kv=None,
    int sparse_block_size_q=128, int sparse_block_size_k=128, int quant_mode=1, int mask_mode=3,
    str layout_q="TND", str layout_kv="PA_BNBD", str layout_sparse_indices="B_N_Qb_Kb",
    int max_kv_splits=1) -> Tensor"""

# One line each: torch's schema parser knows no line breaks.
ATTENTION, METADATA = (" ".join(text.split()) for text in (_ATTENTION, _METADATA))

# Implemented by npu_binding.cpp for ops/npu.py, which defines them when it loads it. record: the bytes of AttentionArgs
# or ScheduleArgs; tensors: all that it points into.
LAUNCHES = (
    "enqueue_attention(int[] record, Tensor(a!)[] tensors) -> ()",
    "enqueue_schedule(int[] record, Tensor(a!)[] tensors) -> ()",
)


def argument_types(schema: str) -> dict[str, str]:
    """Argument name -> "Tensor", "Optional[Tensor]", "int", "float", "str" or "bool"."""
    return {argument.name: str(argument.type) for argument in torch._C.parse_schema(schema).arguments}


def defaults(schema: str) -> dict[str, Any]:
    """Keyword-only argument name -> its default."""
    arguments = torch._C.parse_schema(schema).arguments
    return {argument.name: argument.default_value for argument in arguments if argument.kwarg_only}
