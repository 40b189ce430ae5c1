"""Every rule of the two operators, broken in every way: one error with the argument, the rule and the value."""

import pytest
import qbsa
import torch
from qbsa import schema
from small_call import (
    BATCH,
    CAPACITY,
    HEADS_KV,
    HEADS_Q,
    PAGES,
    Q_BLOCKS,
    TOKENS,
    WIDTH,
    attention_arguments,
    float32,
    fp8,
    int32,
    metadata_arguments,
)

# argument, its bad value (or a function of the good one), error, what the message says beside the argument's name.
ATTENTION_REFUSALS = [
    # dtype
    ("query", lambda t: t.to(torch.bfloat16), ValueError, "torch.float8_e4m3fn; got torch.bfloat16"),
    ("query", lambda t: t.to(torch.float8_e5m2), ValueError, "torch.float8_e4m3fn; got torch.float8_e5m2"),
    ("key", lambda t: t.half(), ValueError, "torch.float8_e4m3fn; got torch.float16"),
    ("value", lambda t: t.float(), ValueError, "torch.float8_e4m3fn; got torch.float32"),
    ("q_descale", lambda t: t.double(), ValueError, "torch.float32; got torch.float64"),
    ("k_descale", lambda t: t.half(), ValueError, "torch.float32; got torch.float16"),
    ("v_descale", lambda t: t.int(), ValueError, "torch.float32; got torch.int32"),
    ("p_scale", lambda t: t.double(), ValueError, "torch.float32; got torch.float64"),
    ("sparse_indices", lambda t: t.long(), ValueError, "torch.int32; got torch.int64"),
    ("sparse_seq_len", lambda t: t.long(), ValueError, "torch.int32; got torch.int64"),
    ("cu_seqlens_q", lambda t: t.long(), ValueError, "torch.int32; got torch.int64"),
    ("seqused_kv", lambda t: t.long(), ValueError, "torch.int32; got torch.int64"),
    ("block_table", lambda t: t.long(), ValueError, "torch.int32; got torch.int64"),
    ("metadata", torch.zeros(4), ValueError, "torch.int32; got torch.float32"),
    ("atten_mask", torch.zeros(2048, 2048, dtype=torch.bool), ValueError, "torch.uint8; got torch.bool"),
    # shape
    ("query", fp8(TOKENS, 128), ValueError, "3 dimensions [T, N1, D]; got shape [200, 128]"),
    ("query", fp8(TOKENS, HEADS_Q, 64), NotImplementedError, "D = 128; got shape [200, 4, 64]"),
    ("query", fp8(TOKENS, 3, 128), ValueError, "N1 = 3, N2 = 2"),
    ("query", fp8(TOKENS, 0, 128), ValueError, "N1 = 0, N2 = 2"),
    ("query", fp8(TOKENS, 34, 128), ValueError, "1 <= N1 / N2 <= 16; got N1 = 34, N2 = 2"),
    ("key", fp8(PAGES, HEADS_KV, 64, 128), ValueError, "token = 128, D = 128; got shape [5, 2, 64, 128]"),
    ("key", fp8(PAGES, HEADS_KV, 128, 64), NotImplementedError, "D = 128; got shape [5, 2, 128, 64]"),
    ("key", fp8(PAGES, 128, 128), ValueError, "4 dimensions [P, N2, token, D]; got shape [5, 128, 128]"),
    ("value", fp8(PAGES + 1, HEADS_KV, 128, 128), ValueError, "P = 5 (from key)"),
    ("value", fp8(PAGES, 1, 128, 128), ValueError, "N2 = 2 (from key)"),
    ("q_descale", float32(HEADS_Q, TOKENS), ValueError, "T = 200 (from query), N1 = 4 (from query); got"),
    ("k_descale", float32(PAGES, HEADS_KV, 128), ValueError, "4 dimensions [P, N2, token, 1]"),
    ("k_descale", float32(PAGES, HEADS_KV, 127, 1), ValueError, "got shape [5, 2, 127, 1]"),
    ("v_descale", float32(HEADS_Q), ValueError, "N2 = 2 (from key); got shape [4]"),
    ("p_scale", float32(2), ValueError, "must have shape [1]; got shape [2]"),
    ("p_scale", torch.tensor(1.0), ValueError, "1 dimensions [1]; got shape []"),
    ("sparse_indices", int32(BATCH, HEADS_KV, Q_BLOCKS, CAPACITY), ValueError, "N1 = 4 (from query)"),
    ("sparse_indices", int32(BATCH, HEADS_Q, Q_BLOCKS), ValueError, "4 dimensions [B, N1, Qb, Kb]"),
    ("sparse_seq_len", int32(BATCH, HEADS_Q, Q_BLOCKS + 1), ValueError, "Qb = 2 (from sparse_indices)"),
    ("cu_seqlens_q", int32(BATCH), ValueError, "B+1 = 3 (from sparse_indices); got shape [2]"),
    ("seqused_kv", int32(BATCH + 1), ValueError, "B = 2 (from sparse_indices); got shape [3]"),
    ("block_table", int32(BATCH + 1, WIDTH), ValueError, "B = 2 (from sparse_indices); got shape [3, 4]"),
    ("block_table", int32(WIDTH), ValueError, "2 dimensions [B, L]; got shape [4]"),
    ("metadata", int32(7), ValueError, "got shape [7]"),
    ("atten_mask", torch.zeros(1024, 2048, dtype=torch.uint8), ValueError, "[2048, 2048]; got shape [1024, 2048]"),
    # strides
    ("query", lambda t: t.transpose(1, 2).contiguous().transpose(1, 2), ValueError, "contiguous last dimension"),
    ("key", lambda t: t.transpose(2, 3), ValueError, "contiguous last dimension"),
    ("value", lambda t: t.transpose(2, 3), ValueError, "contiguous last dimension"),
    ("v_descale", lambda t: t.repeat(2)[::2], ValueError, "must be contiguous"),
    ("cu_seqlens_q", lambda t: t.repeat_interleave(2)[::2], ValueError, "must be contiguous"),
    ("seqused_kv", lambda t: t.repeat_interleave(2)[::2], ValueError, "must be contiguous"),
    # device
    *(
        (name, lambda t: t.to("meta"), ValueError, "must be on cpu, where the other tensors are; got meta")
        for name in ("key", "q_descale", "p_scale", "sparse_indices", "seqused_kv", "block_table")
    ),
    # modes, layouts and numbers
    ("quant_mode", 2, NotImplementedError, "must be 1; got 2"),
    ("mask_mode", 1, NotImplementedError, "must be one of 0, 3; got 1"),
    ("layout_q", "BSND", NotImplementedError, "must be one of 'TND', 'NTD'; got 'BSND'"),
    ("layout_kv", "PA_BNSD", NotImplementedError, "must be 'PA_BNBD'; got 'PA_BNSD'"),
    ("layout_sparse_indices", "B_Qb_N_Kb", NotImplementedError, "must be 'B_N_Qb_Kb'"),
    ("layout_out", "NTD", NotImplementedError, "must be 'TND'; got 'NTD'"),
    ("sparse_q_block_size", 64, ValueError, "must be 128; got 64"),
    ("sparse_kv_block_size", 256, ValueError, "must be 128; got 256"),
    *(
        ("softmax_scale", scale, ValueError, f"finite fp32 number > 0 (1.18e-38 to 3.4e+38); got {scale}")
        for scale in (0.0, -0.1, float("nan"), float("inf"), 1e39, 1e-46)
    ),
    # required and reserved
    *(
        (name, None, TypeError, "must be a torch.Tensor; got None")
        for name in ("query", "key", "value", "q_descale", "k_descale", "v_descale", "sparse_indices", "sparse_seq_len")
    ),
    *((name, None, TypeError, "is required") for name in ("cu_seqlens_q", "seqused_kv", "block_table")),
    ("cu_seqlens_kv", int32(BATCH + 1), ValueError, "reserved and must be None"),
    ("seqused_q", int32(BATCH), ValueError, "reserved and must be None"),
    # Python types
    ("query", [1.0], TypeError, "must be a torch.Tensor; got list [1.0]"),
    ("p_scale", 256.0, TypeError, "must be a torch.Tensor or None; got float 256.0"),
    ("softmax_scale", "0.1", TypeError, "must be a float; got str '0.1'"),
    ("softmax_scale", None, TypeError, "must be a float; got None"),
    ("sparse_q_block_size", 128.0, TypeError, "must be an int; got float 128.0"),
    ("quant_mode", True, TypeError, "must be an int; got bool True"),
    ("layout_q", 3, TypeError, "must be a str; got int 3"),
    ("return_softmax_lse", 1, TypeError, "must be a bool; got int 1"),
    # what torch would refuse first, without the name of the argument
    ("block_table", lambda t: t.to_sparse(), ValueError, "dense (torch.strided) tensor; got torch.sparse_coo"),
    *((name, 2**63, ValueError, "fit in 64 bits; got 9223372036854775808") for name in ("quant_mode", "softmax_scale")),
]

METADATA_REFUSALS = [
    ("sparse_seq_len", lambda t: t.long(), ValueError, "torch.int32; got torch.int64"),
    ("sparse_seq_len", int32(BATCH, HEADS_Q), ValueError, "3 dimensions [B, N1, Qb]"),
    ("sparse_seq_len", int32(BATCH, HEADS_Q + 1, Q_BLOCKS), ValueError, "N1 = 4; got shape [2, 5, 2]"),
    ("sparse_seq_len", None, TypeError, "must be a torch.Tensor; got None"),
    ("num_heads_q", 5, ValueError, "N1 = 5, N2 = 2"),
    ("num_heads_q", 4.0, TypeError, "must be an int; got float 4.0"),
    ("num_heads_kv", 0, ValueError, "at least one KV head"),
    ("head_dim", 64, NotImplementedError, "must be 128; got 64"),
    ("cu_seqlens_q", int32(BATCH), ValueError, "B+1 = 3 (from sparse_seq_len); got shape [2]"),
    ("cu_seqlens_q", int32(BATCH + 1).to("meta"), ValueError, "must be on cpu"),
    ("seqused_kv", int32(BATCH + 1), ValueError, "B = 2 (from sparse_seq_len); got shape [3]"),
    ("cu_seqlens_kv", int32(BATCH + 1), ValueError, "reserved and must be None"),
    ("seqused_q", int32(BATCH), ValueError, "reserved and must be None"),
    ("sparse_block_size_q", 64, ValueError, "must be 128; got 64"),
    ("sparse_block_size_k", 64, ValueError, "must be 128; got 64"),
    ("quant_mode", 0, NotImplementedError, "must be 1; got 0"),
    ("mask_mode", 4, NotImplementedError, "must be one of 0, 3; got 4"),
    ("layout_q", "TH", NotImplementedError, "must be one of 'TND', 'NTD'"),
    ("layout_kv", "PA_BBND", NotImplementedError, "must be 'PA_BNBD'"),
    ("layout_sparse_indices", "x", NotImplementedError, "must be 'B_N_Qb_Kb'; got 'x'"),
    ("max_kv_splits", -1, ValueError, "must be 0 (as many as pay), 1 (none) or more; got -1"),
    ("max_kv_splits", 2**63, ValueError, "fit in 64 bits; got 9223372036854775808"),
]


def refused(call, arguments, name, bad, error, text):
    arguments[name] = bad(arguments[name]) if callable(bad) else bad
    with pytest.raises(error) as caught:
        call(**arguments)
    assert type(caught.value) is error
    message = str(caught.value)
    assert message.startswith(f"{name} ") and text in message, message


@pytest.mark.parametrize(("name", "bad", "error", "text"), ATTENTION_REFUSALS)
def test_attention_refuses(name, bad, error, text):
    refused(qbsa.quant_block_sparse_attn, attention_arguments(), name, bad, error, text)


@pytest.mark.parametrize(("name", "bad", "error", "text"), METADATA_REFUSALS)
def test_metadata_refuses(name, bad, error, text):
    refused(qbsa.quant_block_sparse_attn_metadata, metadata_arguments(), name, bad, error, text)


def test_the_refusals_leave_out_no_argument():
    assert {name for name, *_ in ATTENTION_REFUSALS} == set(schema.argument_types(schema.ATTENTION))
    assert {name for name, *_ in METADATA_REFUSALS} == set(schema.argument_types(schema.METADATA))


def test_mask_belongs_to_the_causal_mode():
    mask = torch.ones(2048, 2048, dtype=torch.uint8)
    qbsa.quant_block_sparse_attn(**attention_arguments(atten_mask=mask, mask_mode=3))
    with pytest.raises(ValueError, match="^atten_mask must be None with mask_mode 0; got a tensor"):
        qbsa.quant_block_sparse_attn(**attention_arguments(atten_mask=mask, mask_mode=0))


def test_operators_refuse_with_the_same_words():
    arguments = attention_arguments(key=fp8(PAGES, HEADS_KV, 64, 128))
    with pytest.raises(ValueError, match=r"^key must have shape \[P, N2, token, D\]"):
        torch.ops.qbsa.quant_block_sparse_attn(**arguments)


# --- each tensor and each of its dimensions ---

# Whose sizes nobody else shares: Kb and L.
FREE_DIMENSIONS = {("sparse_indices", 3), ("block_table", 1)}


def with_metadata_and_mask():
    arguments = attention_arguments(atten_mask=torch.zeros(2048, 2048, dtype=torch.uint8))
    return arguments | {"metadata": qbsa.quant_block_sparse_attn_metadata(**metadata_arguments())}


TENSORS = [name for name, value in with_metadata_and_mask().items() if isinstance(value, torch.Tensor)]
DIMENSIONS = [(name, dim) for name in TENSORS for dim in range(with_metadata_and_mask()[name].dim())]


def one_longer(tensor, dim):
    shape = [size + (at == dim) for at, size in enumerate(tensor.shape)]
    return tensor.new_empty(shape)


@pytest.mark.parametrize("name", TENSORS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.int16, torch.bool])
def test_a_tensor_of_another_dtype(name, dtype):
    refused(
        *(qbsa.quant_block_sparse_attn, with_metadata_and_mask(), name, lambda t: t.to(dtype), ValueError),
        f"; got {dtype}",
    )


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_with_more_or_fewer_dimensions(name):
    for change in (lambda t: t[None], lambda t: t[0]):
        arguments = with_metadata_and_mask()
        rule = f"must have {arguments[name].dim()} dimensions ["
        refused(qbsa.quant_block_sparse_attn, arguments, name, change, ValueError, rule)


@pytest.mark.parametrize(("name", "dim"), DIMENSIONS)
def test_a_dimension_that_is_one_longer(name, dim):
    """The message names the tensor, as the one that does not fit or as where the size comes from, and both sizes."""
    arguments = with_metadata_and_mask()
    size = arguments[name].shape[dim]
    arguments[name] = one_longer(arguments[name], dim)
    if (name, dim) in FREE_DIMENSIONS:
        qbsa.quant_block_sparse_attn(**arguments)
        return
    with pytest.raises((ValueError, NotImplementedError)) as caught:
        qbsa.quant_block_sparse_attn(**arguments)
    message = str(caught.value)
    assert message.startswith(f"{name} ") or f"(from {name})" in message, message
    assert str(size + 1) in message and "got " in message, message


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_on_another_device(name):
    """With the query elsewhere, it is the next tensor that is not where the query is."""
    arguments = with_metadata_and_mask()
    arguments[name] = arguments[name].to("meta")
    where = "key must be on meta, .*; got cpu" if name == "query" else f"{name} must be on cpu, .*; got meta"
    with pytest.raises(ValueError, match=f"^{where}"):
        qbsa.quant_block_sparse_attn(**arguments)
