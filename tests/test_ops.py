"""The operators as torch and users see them: signatures, refusals, shapes, devices, plans, choice of the library.

Numerics have their own tests; nothing here depends on what attention computes.
"""

import ctypes
import inspect
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import qbsa
import torch
from qbsa import backend, cli, isa, library, schema
from torch._subclasses import FakeTensorMode
from torch.library import opcheck

BATCH, HEADS_Q, HEADS_KV, TOKENS, PAGES, Q_BLOCKS, CAPACITY, WIDTH = 2, 4, 2, 200, 5, 2, 3, 4
PER_HEAD_AND_BLOCK = (BATCH, HEADS_Q, Q_BLOCKS)
ATTENTION = torch.ops.qbsa.quant_block_sparse_attn.default
METADATA = torch.ops.qbsa.quant_block_sparse_attn_metadata.default
EMPTY_LSE = -3.4028234663852886e38


def attention_arguments(**changes):
    """A small valid call; changes replace arguments."""
    generator = torch.Generator().manual_seed(1)

    def fp8(*shape):
        return torch.empty(shape).uniform_(-1, 1, generator=generator).to(torch.float8_e4m3fn)

    arguments = {
        "query": fp8(TOKENS, HEADS_Q, 128),
        "key": fp8(PAGES, HEADS_KV, 128, 128),
        "value": fp8(PAGES, HEADS_KV, 128, 128),
        "q_descale": torch.ones(TOKENS, HEADS_Q),
        "k_descale": torch.ones(PAGES, HEADS_KV, 128, 1),
        "v_descale": torch.ones(HEADS_KV),
        "p_scale": torch.tensor([256.0]),
        "sparse_indices": torch.arange(CAPACITY, dtype=torch.int32).repeat(*PER_HEAD_AND_BLOCK, 1),
        "sparse_seq_len": torch.full(PER_HEAD_AND_BLOCK, 2, dtype=torch.int32),
        "atten_mask": None,
        "softmax_scale": 128**-0.5,
        "sparse_q_block_size": 128,
        "sparse_kv_block_size": 128,
        "cu_seqlens_q": torch.tensor([0, 150, TOKENS], dtype=torch.int32),
        "seqused_kv": torch.tensor([300, 400], dtype=torch.int32),
        "block_table": torch.arange(BATCH * WIDTH, dtype=torch.int32).reshape(BATCH, WIDTH) % PAGES,
    }
    return arguments | changes


def metadata_arguments(**changes):
    lengths = torch.full(PER_HEAD_AND_BLOCK, 2, dtype=torch.int32)
    return {"sparse_seq_len": lengths, "num_heads_q": HEADS_Q, "num_heads_kv": HEADS_KV, "head_dim": 128} | changes


def int32(*shape):
    return torch.zeros(shape, dtype=torch.int32)


def float32(*shape):
    return torch.ones(shape)


def fp8(*shape):
    return torch.zeros(shape, dtype=torch.float8_e4m3fn)


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
]


def test_numpy_scalars_are_numbers():
    arguments = attention_arguments(softmax_scale=np.float32(0.1), sparse_q_block_size=np.int64(128))
    wanted = attention_arguments(softmax_scale=float(np.float32(0.1)))
    assert torch.equal(qbsa.quant_block_sparse_attn(**arguments)[0], qbsa.quant_block_sparse_attn(**wanted)[0])


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
        ATTENTION(**arguments)


@pytest.mark.parametrize("function", [qbsa.quant_block_sparse_attn, qbsa.quant_block_sparse_attn_metadata])
def test_signature_is_the_schema(function):
    text = {"quant_block_sparse_attn": schema.ATTENTION}.get(function.__name__, schema.METADATA)
    parameters = inspect.signature(function).parameters
    assert list(parameters) == list(schema.argument_types(text))
    assert {p.name: p.default for p in parameters.values() if p.kind is p.KEYWORD_ONLY} == schema.defaults(text)
    for name in parameters:
        assert name in function.__doc__


def test_outputs():
    out, lse = qbsa.quant_block_sparse_attn(**attention_arguments())
    assert (out.shape, out.dtype, lse) == ((TOKENS, HEADS_Q, 128), torch.bfloat16, None)
    again, lse = qbsa.quant_block_sparse_attn(**attention_arguments(return_softmax_lse=True))
    assert (lse.shape, lse.dtype) == ((HEADS_Q, TOKENS), torch.float32)
    assert torch.equal(out, again) and out.isfinite().all() and out.any()
    operator_out, no_lse = ATTENTION(**attention_arguments())
    assert no_lse.shape == (0,) and torch.equal(out, operator_out)


def test_arguments_are_not_written():
    arguments = attention_arguments()
    before = {name: x.clone() for name, x in arguments.items() if isinstance(x, torch.Tensor)}
    qbsa.quant_block_sparse_attn(**arguments, return_softmax_lse=True)
    for name, x in before.items():
        assert torch.equal(x.view(torch.uint8), arguments[name].view(torch.uint8)), name


def interleaved(*tensors):
    """Views of one cache that holds, for each page, the bytes of all tensors and a gap."""
    gap = torch.full((len(tensors[0]), 64), 255, dtype=torch.uint8)
    cache = torch.cat([*(x.flatten(1).view(torch.uint8) for x in tensors), gap], dim=1)
    sections = cache.split([*(x[0].nbytes for x in tensors), 64], dim=1)
    return [section.view(x.dtype).unflatten(1, x.shape[1:]) for section, x in zip(sections, tensors)]


def test_layout_of_the_query_and_strides_do_not_change_a_bit():
    arguments = attention_arguments(return_softmax_lse=True)
    expected = qbsa.quant_block_sparse_attn(**arguments)

    def strided(x):
        """The same values, the stride of the first dimension doubled."""
        return torch.cat([x, x], dim=1)[:, : x.shape[1]]

    changes = {name: strided(arguments[name]) for name in ("key", "value", "k_descale", "block_table", "q_descale")}
    changes |= {name: strided(arguments[name]) for name in ("query", "sparse_indices", "sparse_seq_len")}
    names = ("key", "value", "k_descale")
    cache = dict(zip(names, interleaved(*(arguments[name] for name in names))))
    by_token = {name: arguments[name].transpose(1, 2).contiguous().transpose(1, 2) for name in ("key", "value")}
    by_head = {name: arguments[name].transpose(0, 1).contiguous() for name in ("query", "q_descale")}
    for changed in (changes, cache, by_token, by_head | {"layout_q": "NTD"}):
        for result, wanted in zip(qbsa.quant_block_sparse_attn(**(arguments | changed)), expected, strict=True):
            assert torch.equal(result, wanted)


@pytest.mark.parametrize("axis", ["B", "P", "Kb", "L", "Qb"])
def test_nothing_to_attend_to_gives_sentinels(axis):
    changes = {
        "B": {
            "sparse_indices": int32(0, HEADS_Q, Q_BLOCKS, CAPACITY),
            "sparse_seq_len": int32(0, HEADS_Q, Q_BLOCKS),
            "cu_seqlens_q": int32(1),
            "seqused_kv": int32(0),
            "block_table": int32(0, WIDTH),
        },
        "P": {
            "key": fp8(0, HEADS_KV, 128, 128),
            "value": fp8(0, HEADS_KV, 128, 128),
            "k_descale": float32(0, HEADS_KV, 128, 1),
        },
        "Kb": {"sparse_indices": int32(*PER_HEAD_AND_BLOCK, 0)},
        "L": {"block_table": int32(BATCH, 0)},
        "Qb": {
            "sparse_indices": int32(BATCH, HEADS_Q, 0, CAPACITY),
            "sparse_seq_len": int32(BATCH, HEADS_Q, 0),
        },
    }[axis]
    out, lse = qbsa.quant_block_sparse_attn(**attention_arguments(**changes, return_softmax_lse=True))
    assert out.shape == (TOKENS, HEADS_Q, 128) and not out.any()
    assert lse.shape == (HEADS_Q, TOKENS) and (lse == EMPTY_LSE).all()


def test_no_query_tokens():
    changes = {"query": fp8(0, HEADS_Q, 128), "q_descale": float32(0, HEADS_Q), "cu_seqlens_q": int32(BATCH + 1)}
    out, lse = qbsa.quant_block_sparse_attn(**attention_arguments(**changes, return_softmax_lse=True))
    assert out.shape == (0, HEADS_Q, 128) and lse.shape == (HEADS_Q, 0)


# --- plans ---


def test_plan_given_or_made_within_the_call():
    arguments = attention_arguments()
    plan = qbsa.quant_block_sparse_attn_metadata(**metadata_arguments(cu_seqlens_q=arguments["cu_seqlens_q"]))
    qbsa.check_plan(plan, batch=BATCH, heads_q=HEADS_Q, q_blocks=Q_BLOCKS)
    assert torch.equal(
        qbsa.quant_block_sparse_attn(**arguments, metadata=plan)[0], qbsa.quant_block_sparse_attn(**arguments)[0]
    )


@pytest.mark.parametrize("batch, q_blocks", [(0, 2), (3, 0)])
def test_plan_of_no_tasks(batch, q_blocks):
    plan = qbsa.quant_block_sparse_attn_metadata(int32(batch, HEADS_Q, q_blocks), HEADS_Q, HEADS_KV, 128)
    qbsa.check_plan(plan, batch=batch, heads_q=HEADS_Q, q_blocks=q_blocks)
    assert "= 0 tasks" in qbsa.show_plan(plan)


@pytest.mark.parametrize("max_kv_splits", [0, 1, 2, 1000])
def test_plan_has_one_of_two_sizes(max_kv_splits):
    constants = library.contract().constants
    plan = qbsa.quant_block_sparse_attn_metadata(**metadata_arguments(max_kv_splits=max_kv_splits))
    assert plan.numel() == constants["kPlanWords" if max_kv_splits == 1 else "kSplitPlanWords"]
    qbsa.check_plan(plan, batch=BATCH, heads_q=HEADS_Q, q_blocks=Q_BLOCKS)


def test_foreign_plan_is_refused():
    arguments = attention_arguments()
    other = qbsa.quant_block_sparse_attn_metadata(int32(BATCH, HEADS_Q, Q_BLOCKS + 1), HEADS_Q, HEADS_KV, 128)
    for plan in (other, torch.zeros_like(other), torch.full_like(other, -1)):
        with pytest.raises(RuntimeError, match="metadata|plan"):
            qbsa.quant_block_sparse_attn(**arguments, metadata=plan)


def with_word(plan, record, field, value, index=0):
    """A copy of plan with one field of its header or of a core's record replaced (of an int64: the low half)."""
    records = library.contract().records
    header = ctypes.sizeof(records["PlanHeader"]) if record == "CorePlan" else 0
    offset = header + index * ctypes.sizeof(records[record]) + getattr(records[record], field).offset
    changed = plan.clone()
    changed[offset // 4] = value
    return changed


def test_check_plan_names_what_is_wrong():
    plan = qbsa.quant_block_sparse_attn_metadata(**metadata_arguments())
    sizes = {"batch": BATCH, "heads_q": HEADS_Q, "q_blocks": Q_BLOCKS}
    qbsa.check_plan(plan, **sizes)
    for field in ("magic", "version", "words", "cores", "batch", "heads_q", "q_blocks", "total_cost", "max_cost"):
        with pytest.raises(ValueError, match=f"header field {field} must be .*; got 12345"):
            qbsa.check_plan(with_word(plan, "PlanHeader", field, 12345), **sizes)
    for field, message in (("task_begin", r"core 0 must go on from \(task, pair\) \(0, 0\)"), ("task_end", "core")):
        with pytest.raises(ValueError, match=message):
            qbsa.check_plan(with_word(plan, "CorePlan", field, 12345), **sizes)
    with pytest.raises(ValueError, match=r"metadata header field heads_q must be 5; got 4"):
        qbsa.check_plan(plan, **(sizes | {"heads_q": 5}))
    for other in (plan.long(), plan[None], plan[:4], plan[:-1]):
        with pytest.raises(ValueError, match="^metadata "):
            qbsa.check_plan(other, **sizes)


def test_show_plan_and_the_command_line(tmp_path, capsys):
    plan = qbsa.quant_block_sparse_attn_metadata(**metadata_arguments())
    text = qbsa.show_plan(plan)
    assert f"{BATCH} sequences x {HEADS_Q} heads x {Q_BLOCKS} query blocks = 16 tasks" in text
    assert "100%" in text
    torch.save(plan, tmp_path / "plan.pt")
    assert cli.main(["plan", str(tmp_path / "plan.pt")]) == 0
    assert capsys.readouterr().out == text + "\n"
    torch.save({"plan": plan}, tmp_path / "dict.pt")
    (tmp_path / "garbage.pt").write_bytes(b"no pickle")
    for name in ("dict.pt", "garbage.pt", "absent.pt"):
        assert cli.main(["plan", str(tmp_path / name)]) == 1
        assert capsys.readouterr().err.startswith("python -m qbsa plan: ")


def test_env_command_names_versions_and_library(capsys):
    assert cli.main(["env"]) == 0
    text = capsys.readouterr().out
    for part in (qbsa.__version__, torch.__version__, library.current().path.name):
        assert part in text


# --- torch ---


def operator_call():
    """Positional and keyword arguments of a call of the operator."""
    arguments = attention_arguments(return_softmax_lse=True)
    positional = [arguments.pop(name) for name in list(arguments)[:13]]
    return positional, arguments


def test_opcheck_attention():
    # torch's schema check cannot compare float8 tensors; test_arguments_are_not_written stands in for it.
    checks = ("test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    opcheck(ATTENTION, *operator_call(), test_utils=checks)


def test_opcheck_metadata():
    arguments = metadata_arguments(cu_seqlens_q=attention_arguments()["cu_seqlens_q"])
    lengths = arguments.pop("sparse_seq_len")
    opcheck(METADATA, (lengths,), arguments)


def test_fake_tensors_have_the_right_shapes():
    with FakeTensorMode() as mode:
        arguments = {
            name: mode.from_tensor(x) if isinstance(x, torch.Tensor) else x for name, x in attention_arguments().items()
        }
        plan = qbsa.quant_block_sparse_attn_metadata(arguments["sparse_seq_len"], HEADS_Q, HEADS_KV, 128)
        out, lse = qbsa.quant_block_sparse_attn(**arguments, metadata=plan, return_softmax_lse=True)
        with pytest.raises(ValueError, match="^value must have dtype"):
            qbsa.quant_block_sparse_attn(**(arguments | {"value": arguments["value"].float()}))
    assert (out.shape, out.dtype, out.device.type) == ((TOKENS, HEADS_Q, 128), torch.bfloat16, "cpu")
    assert (lse.shape, lse.dtype) == ((HEADS_Q, TOKENS), torch.float32)
    assert plan.shape == qbsa.quant_block_sparse_attn_metadata(**metadata_arguments()).shape


def test_meta_tensors_have_the_right_shapes():
    arguments = {name: x.to("meta") if isinstance(x, torch.Tensor) else x for name, x in attention_arguments().items()}
    out, lse = qbsa.quant_block_sparse_attn(**arguments, return_softmax_lse=True)
    assert (out.shape, lse.shape, out.device.type) == ((TOKENS, HEADS_Q, 128), (HEADS_Q, TOKENS), "meta")


def test_compile_fullgraph_keeps_the_number_of_tokens_dynamic():
    def both(arguments):
        heads_q, heads_kv = arguments["query"].shape[1], arguments["key"].shape[1]
        plan = qbsa.quant_block_sparse_attn_metadata(arguments["sparse_seq_len"], heads_q, heads_kv, 128)
        return qbsa.quant_block_sparse_attn(**arguments, metadata=plan)[0]

    graphs = []

    def count(graph, _):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(both, fullgraph=True, dynamic=True, backend=count)
    for tokens in (TOKENS, 190, 170):
        changes = {"query": fp8(tokens, HEADS_Q, 128), "q_descale": float32(tokens, HEADS_Q)}
        arguments = attention_arguments(**changes)
        assert torch.equal(compiled(arguments), both(arguments))
    assert len(graphs) == 1


def test_threads_get_the_same_bits():
    arguments = attention_arguments(return_softmax_lse=True)
    expected = qbsa.quant_block_sparse_attn(**arguments)
    start = threading.Barrier(4)

    def call(_):
        start.wait()
        return qbsa.quant_block_sparse_attn(**arguments)

    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(call, range(4)):
            assert all(torch.equal(x, y) for x, y in zip(result, expected, strict=True))


def test_importing_twice_is_harmless():
    script = """
import importlib, sys
import qbsa, torch
importlib.reload(qbsa.backend); importlib.reload(qbsa)
for name in [name for name in sys.modules if name.partition(".")[0] == "qbsa"]:
    del sys.modules[name]
del qbsa
import gc; gc.collect()
import qbsa
lengths = torch.ones(1, 1, 1, dtype=torch.int32)
qbsa.check_plan(qbsa.quant_block_sparse_attn_metadata(lengths, 1, 1, 128), batch=1, heads_q=1, q_blocks=1)
print("good")
"""
    assert run_python(script) == "good"


def test_npu_tensors_get_an_error_that_says_what_is_missing():
    for call, arguments in (
        (backend.attention_npu, schema.defaults(schema.ATTENTION) | attention_arguments()),
        (backend.metadata_npu, schema.defaults(schema.METADATA) | metadata_arguments()),
    ):
        with pytest.raises(RuntimeError, match=r"without an NPU part \(libqbsa_npu\.so .* pip install .* \.cpu\(\)"):
            call(**arguments)


def test_npu_tensors_reach_that_error_through_torch():
    """Tensors of a renamed private backend stand for NPU tensors: same dispatch key, no device."""
    script = """
import torch, qbsa
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend
_setup_privateuseone_for_python_backend("npu")
lengths = torch._C._acc.create_empty_tensor((1, 1, 1), torch.int32)
try:
    qbsa.quant_block_sparse_attn_metadata(lengths, 1, 1, 128)
except RuntimeError as error:
    print(str(error).splitlines()[0])
"""
    assert run_python(script).startswith("the tensors are on npu:0, but this installation of qbsa was built without")


def run_python(script, **environment):
    """stdout of a fresh interpreter, stripped."""
    command = [sys.executable, "-c", script]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


# --- the choice of the library ---


def test_newest_instruction_set_is_taken():
    assert library.current().path.name == isa.library_name(isa.supported()[-1], library.current_mode() == "checked")


def test_mode_by_context_and_environment():
    with library.mode("checked"):
        assert library.current().path.name.endswith("_checked.so")
        with library.mode("fast"):
            assert not library.current().path.name.endswith("_checked.so")
        assert library.current_mode() == "checked"
    script = "from qbsa import library; print(library.current().path.name)"
    assert run_python(script, QBSA_TWIN="checked").endswith("_checked.so")
    failing = "import qbsa\ntry: qbsa.library.current()\nexcept ValueError as e: print(e)"
    known = ", ".join(library.MODES)
    assert run_python(failing, QBSA_TWIN="quick") == f"QBSA_TWIN must be one of {known}; got 'quick'"
    with pytest.raises(ValueError, match="got 'quick'"), library.mode("quick"):
        pass


def test_mode_is_of_one_thread():
    with library.mode("checked"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(library.current_mode).result() == os.environ.get("QBSA_TWIN", "fast")


def test_threads_progress_and_report_of_the_twin():
    arguments = attention_arguments(return_softmax_lse=True)
    expected = qbsa.quant_block_sparse_attn(**arguments)
    with library.mode("checked"):
        twin = library.current()
        try:
            twin.set_threads(1)
            result = qbsa.quant_block_sparse_attn(**arguments)
        finally:
            twin.set_threads(0)
        report = twin.report()
    assert all(torch.equal(x, y) for x, y in zip(result, expected, strict=True))
    assert report["host_threads"] == 1
    assert all(function["calls"] > 0 and function["ops"] for function in report["vector_functions"].values())
    assert twin.progress() > 0
    with pytest.raises(RuntimeError, match="host_threads is -1"):
        twin.set_threads(-1)


def test_absent_library_says_what_there_is():
    with pytest.raises(RuntimeError, match=r"no fast twin for z80 in .*libqbsa_twin_.*make build"):
        library.load("fast", "z80")


@pytest.mark.parametrize("instruction_set", isa.supported())
def test_every_instruction_set_gives_the_same_bits(instruction_set, monkeypatch):
    arguments = attention_arguments(return_softmax_lse=True)
    expected = qbsa.quant_block_sparse_attn(**arguments)
    twin = library.load("fast", instruction_set)
    assert twin.contract.constants == library.contract().constants
    monkeypatch.setattr(library, "current", lambda: twin)
    for result, wanted in zip(qbsa.quant_block_sparse_attn(**arguments), expected, strict=True):
        assert torch.equal(result, wanted)


def test_error_of_a_foreign_library_names_the_field():
    values = dict.fromkeys((name for name, _ in library.contract().records["ScheduleArgs"]._fields_), 0)
    del values["heads_kv"]
    with pytest.raises(RuntimeError, match="field 'heads_kv' of ScheduleArgs"):
        library.current().schedule(values)
