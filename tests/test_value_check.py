"""QBSA_CHECK=1 names the first bad value by tensor and index, and lets every right call pass."""

import ctypes

import cases
import pytest
import qbsa
import torch
from cases import Case
from qbsa import library, value_check

NAN_CODE = 0x7F


@pytest.fixture(autouse=True)
def checking(monkeypatch):
    monkeypatch.setenv(value_check.VARIABLE, "1")


def make(layout_q="TND", heads=(4, 2)):
    case = Case("", heads, (140, 40), (300, 131), "dense", 0, table="sequential")
    inputs = cases.make_inputs(case, layout_q)
    return inputs | {"block_table": torch.arange(6, dtype=torch.int32).reshape(2, 3)}


def changed(*place, to):
    def change(tensor):
        copy = tensor.clone()
        if copy.dtype == torch.float8_e4m3fn:
            copy.view(torch.uint8)[place] = to
        else:
            copy[place] = to
        return copy

    return change


# tensor, its change, message
BAD = [
    ("cu_seqlens_q", changed(0, to=1), r"cu_seqlens_q[0] must begin with 0 and never descend; got 1"),
    ("cu_seqlens_q", changed(2, to=139), r"cu_seqlens_q[2] must begin with 0 and never descend; got 139"),
    ("cu_seqlens_q", changed(2, to=181), r"cu_seqlens_q[2] must be at most T = 180; got 181"),
    ("seqused_kv", changed(1, to=-1), r"seqused_kv[1] must be in 0..384: L = 3 pages; got -1"),
    ("seqused_kv", changed(0, to=385), r"seqused_kv[0] must be in 0..384: L = 3 pages; got 385"),
    ("sparse_seq_len", changed(0, 3, 1, to=4), r"sparse_seq_len[0, 3, 1] must be in 0..Kb = 3; got 4"),
    ("sparse_seq_len", changed(0, 3, 0, to=-2), r"sparse_seq_len[0, 3, 0] must be in 0..Kb = 3; got -2"),
    ("sparse_seq_len", changed(1, 2, 1, to=1), r"sparse_seq_len[1, 2, 1] must be 0: the query block lies past the"),
    (
        "sparse_indices",
        changed(1, 0, 0, 1, to=2),
        "sparse_indices[1, 0, 0, 1] must be in 0..1, the KV blocks of seqused_kv = 131; got 2",
    ),
    ("sparse_indices", changed(0, 2, 1, 0, to=-1), "sparse_indices[0, 2, 1, 0] must be in 0..2, the KV blocks of"),
    (
        "sparse_indices",
        changed(0, 2, 1, 2, to=0),
        "sparse_indices[0, 2, 1, 2] must not repeat an entry; got 0, as at index 0",
    ),
    ("block_table", changed(1, 1, to=6), "block_table[1, 1] must be in 0..5 (P = 6); got 6"),
    ("block_table", changed(0, 2, to=-1), "block_table[0, 2] must be in 0..5 (P = 6); got -1"),
    *(
        ("p_scale", changed(0, to=scale), f"p_scale[0] must be > 0 and <= 448; got {scale}")
        for scale in (0.0, -1.0, 449.0, float("nan"), float("inf"))
    ),
    *(
        (name, changed(*place, to=scale), f"{name}{list(place)} must be finite and >= 0; got {scale}")
        for name, place in (("q_descale", (179, 3)), ("k_descale", (4, 1, 2, 0)), ("v_descale", (1,)))
        for scale in (-1.0, float("nan"), float("inf"), float("-inf"))
    ),
    ("query", changed(179, 3, 127, to=0xFF), "query[179, 3, 127] must not be NaN; got code 0xff"),
    ("key", changed(2, 0, 43, 5, to=NAN_CODE), "key[2, 0, 43, 5] must not be NaN; got code 0x7f"),
    ("value", changed(4, 1, 2, 0, to=NAN_CODE), "value[4, 1, 2, 0] must not be NaN; got code 0x7f"),
]


@pytest.mark.parametrize(("name", "change", "message"), BAD)
def test_a_bad_value_is_named(name, change, message):
    inputs = make()
    with pytest.raises(ValueError) as caught:
        qbsa.quant_block_sparse_attn(**(inputs | {name: change(inputs[name])}))
    assert str(caught.value).startswith(message)


def test_too_few_query_blocks():
    inputs = make()
    fewer = {name: inputs[name][:, :, :1] for name in ("sparse_indices", "sparse_seq_len")}
    with pytest.raises(ValueError, match=r"^cu_seqlens_q\[1\] must end a sequence of at most 128 tokens: .* got 140"):
        qbsa.quant_block_sparse_attn(**(inputs | fewer))


def test_the_index_is_one_of_the_callers_layout():
    inputs = make("NTD")
    with pytest.raises(ValueError, match=r"^query\[3, 179, 5\] must not be NaN"):
        qbsa.quant_block_sparse_attn(**(inputs | {"query": changed(3, 179, 5, to=NAN_CODE)(inputs["query"])}))
    with pytest.raises(ValueError, match=r"^q_descale\[3, 179\] must be finite"):
        qbsa.quant_block_sparse_attn(**(inputs | {"q_descale": changed(3, 179, to=-1.0)(inputs["q_descale"])}))


def test_a_broken_plan_is_named():
    inputs = make()
    plan = qbsa.quant_block_sparse_attn_metadata(inputs["sparse_seq_len"], 4, 2, 128)
    header = library.contract().records["PlanHeader"]
    plan[ctypes.sizeof(header) // 4] = 5  # where the first core begins
    with pytest.raises(ValueError, match="^metadata core 0 must go on from .* got .5, 0. to"):
        qbsa.quant_block_sparse_attn(**(inputs | {"metadata": plan}))


def test_the_plan_operator_checks_what_it_reads():
    inputs = make()
    lengths, ends = inputs["sparse_seq_len"], inputs["cu_seqlens_q"]
    for bad, message in (
        ({"sparse_seq_len": changed(0, 0, 0, to=-1)(lengths)}, r"^sparse_seq_len\[0, 0, 0\] must be >= 0; got -1"),
        ({"cu_seqlens_q": changed(1, to=-1)(ends)}, r"^cu_seqlens_q\[1\] must begin with 0"),
        ({"sparse_seq_len": changed(1, 0, 1, to=1)(lengths)}, r"^sparse_seq_len\[1, 0, 1\] must be 0"),
    ):
        arguments = {"sparse_seq_len": lengths, "cu_seqlens_q": ends} | bad
        with pytest.raises(ValueError, match=message):
            qbsa.quant_block_sparse_attn_metadata(num_heads_q=4, num_heads_kv=2, head_dim=128, **arguments)


def test_right_calls_pass_and_keep_their_bits(monkeypatch):
    """What is no data may be anything: unused entries and pages, page tails, scales and tokens of no sequence."""
    inputs = make()
    for name in ("key", "value"):
        inputs[name] = changed(2, slice(None), slice(44, None), to=NAN_CODE)(inputs[name])  # kv_len 300
        inputs[name] = changed(5, to=NAN_CODE)(inputs[name])
    inputs["k_descale"] = changed(2, slice(None), slice(44, None), to=float("nan"))(inputs["k_descale"])
    inputs["block_table"] = changed(1, 2, to=-7)(inputs["block_table"])
    inputs["sparse_indices"] = changed(1, slice(None), slice(None), 2, to=-7)(inputs["sparse_indices"])
    inputs["query"] = torch.cat([inputs["query"], changed(to=0xFF)(inputs["query"][:1])])
    inputs["q_descale"] = torch.cat([inputs["q_descale"], inputs["q_descale"][:1] * float("nan")])
    inputs["metadata"] = qbsa.quant_block_sparse_attn_metadata(inputs["sparse_seq_len"], 4, 2, 128)
    checked = qbsa.quant_block_sparse_attn(**inputs)
    monkeypatch.setenv(value_check.VARIABLE, "0")
    assert all(torch.equal(x, y) for x, y in zip(checked, qbsa.quant_block_sparse_attn(**inputs)))


@pytest.mark.parametrize("axis", ["B", "P", "Kb", "L", "T"])
def test_empty_calls_pass(axis):
    inputs = make()
    inputs["sparse_seq_len"] = torch.zeros_like(inputs["sparse_seq_len"])
    if axis == "B":
        for name in ("sparse_indices", "sparse_seq_len", "seqused_kv", "block_table"):
            inputs[name] = inputs[name][:0]
        inputs["cu_seqlens_q"] = inputs["cu_seqlens_q"][:1]
    elif axis == "P":
        for name in ("key", "value", "k_descale"):
            inputs[name] = inputs[name][:0]
    elif axis == "T":
        inputs["query"], inputs["q_descale"] = inputs["query"][:0], inputs["q_descale"][:0]
        inputs["cu_seqlens_q"] = torch.zeros_like(inputs["cu_seqlens_q"])
    else:
        name = "sparse_indices" if axis == "Kb" else "block_table"
        inputs[name] = inputs[name][..., :0]
        inputs["seqused_kv"] = inputs["seqused_kv"] * (axis == "Kb")
    out, lse = qbsa.quant_block_sparse_attn(**inputs)
    assert not out.any()


def test_off_by_default(monkeypatch):
    inputs = make()
    bad = inputs | {"seqused_kv": changed(0, to=-1)(inputs["seqused_kv"])}
    for value in ("0", "", None):
        monkeypatch.delenv(value_check.VARIABLE) if value is None else monkeypatch.setenv(value_check.VARIABLE, value)
        qbsa.quant_block_sparse_attn(**bad)
    monkeypatch.setenv(value_check.VARIABLE, "yes")
    with pytest.raises(ValueError, match="^QBSA_CHECK must be 0 or 1; got 'yes'"):
        qbsa.quant_block_sparse_attn(**inputs)
