"""The modes of the twin: how they are chosen, and that they all give the same bits."""

import cases
import pytest
import qbsa
import torch
from qbsa import library

CASES = [
    cases.Case("tails", (4, 2), (300, 1, 140, 0, 33), (500, 129, 70, 40, 33), "random", 3),
    cases.Case("no mask", (4, 1), (140, 260), (300, 90), "dense", 0, mask_mode=0),
    cases.Case("split", (1, 1), (130, 40), (1500, 900), "dense", 0),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_all_modes_give_the_same_bits(case):
    inputs = cases.make_inputs(case)
    if case.id == "split":
        heads = (inputs["query"].shape[1], inputs["key"].shape[1])
        inputs["metadata"] = qbsa.quant_block_sparse_attn_metadata(
            inputs["sparse_seq_len"], *heads, 128, cu_seqlens_q=inputs["cu_seqlens_q"], max_kv_splits=0
        )
    results = []
    for name in library.MODES:
        with library.mode(name):
            results.append(qbsa.quant_block_sparse_attn(**inputs))
    for out, lse in results[1:]:
        assert torch.equal(out.view(torch.int16), results[0][0].view(torch.int16))
        assert torch.equal(lse.view(torch.int32), results[0][1].view(torch.int32))


@pytest.mark.parametrize("name", library.MODES)
def test_the_environment_chooses(monkeypatch, name):
    monkeypatch.setenv(library.MODE_VARIABLE, name)
    assert library.current_mode() == name
    assert library.current().path.stem.endswith("_checked") == (name != "fast")
    with library.mode("fast"):
        assert library.current_mode() == "fast"


@pytest.mark.parametrize("name", ["fast", "race"])
def test_the_effect_log_has_a_line_for_each_instruction(monkeypatch, tmp_path, name):
    """Two heads, one query block and two entries each: two macro-blocks, so two products on the cube each."""
    inputs = cases.make_inputs(cases.Case("log", (2, 1), (100,), (256,), "dense", 0, mask_mode=0))
    log = tmp_path / "effects"
    monkeypatch.setenv("QBSA_TWIN_LOG", str(log))
    with library.mode(name):
        qbsa.quant_block_sparse_attn(**inputs)
    lines = log.read_text().splitlines()
    assert sum(" core=AIC pipe=M " in line and "call=Mmad at=cube.h:" in line for line in lines) == 2 * 2
    assert sum("call=Fixpipe" in line and "write=UB[0,0x10000)scores[0]@AIV1" in line for line in lines) == 2
    for part in ("set=MTE2_MTE1:0 name=kKeyLoaded[0]", "name=kProbsReady", "write=GM[0,0x7f00)out"):
        assert any(part in line for line in lines), part
    softmax = [line for line in lines if "call=vector_function_qbsa::exponentials<false>" in line]
    assert len(softmax) == 4  # a macro-block, an AIV
    assert all(("write=UB" in line) == (name == "race") for line in softmax)  # known where accesses are checked


@pytest.mark.parametrize(("rule", "queued"), [("pipe", True), ("core", False)])
def test_a_wait_may_hold_up_its_whole_core(monkeypatch, tmp_path, rule, queued):
    """The program itself waits then, and no pipe has the wait in its queue."""
    log = tmp_path / "effects"
    inputs = cases.make_inputs(CASES[1])
    expected = qbsa.quant_block_sparse_attn(**inputs)
    monkeypatch.setenv("QBSA_TWIN_LOG", str(log))
    monkeypatch.setenv("QBSA_TWIN_WAIT", rule)
    with library.mode("race"):
        results = qbsa.quant_block_sparse_attn(**inputs)
    assert all(torch.equal(x.view(torch.uint8), y.view(torch.uint8)) for x, y in zip(results, expected))
    text = log.read_text()
    assert ("cross-wait=" in text) == queued and "cross-set=" in text


def test_an_unknown_rule_of_waits_is_refused(monkeypatch):
    monkeypatch.setenv("QBSA_TWIN_WAIT", "group")
    with pytest.raises(RuntimeError, match='QBSA_TWIN_WAIT must be pipe or core; got "group"'):
        qbsa.quant_block_sparse_attn(**cases.make_inputs(CASES[1]))
