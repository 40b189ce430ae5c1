"""Named cases, patterns of them, and files of own cases."""

import json

import pytest
import torch
from qbsa import cases, plan, sparsity


@pytest.mark.parametrize("case", cases.CASES.values(), ids=cases.CASES)
def test_lengths_of_named_cases(case):
    lengths = case.list_lengths()
    visible = sparsity.visible_blocks(case.q_lens, case.kv_lens).sum(-1)[:, None]
    assert lengths.min() > 0 and bool((lengths <= visible).all())
    if case.blocks == 0:
        assert lengths.sum() / (visible.sum() * case.heads[0]) == pytest.approx(case.share, abs=0.01)


SMALL = cases.Case("", (4, 2), (300, 40), (500, 640), blocks=3)


def test_inputs_select_what_the_case_says():
    inputs = cases.make_inputs(SMALL)
    assert torch.equal(inputs["sparse_seq_len"], SMALL.list_lengths())
    visible = sparsity.visible_blocks(SMALL.q_lens, SMALL.kv_lens)
    mask = sparsity.lists_to_mask(inputs["sparse_indices"], inputs["sparse_seq_len"], visible.shape[-1])
    assert torch.equal(mask.sum(-1).int(), SMALL.list_lengths())  # no entry twice
    assert not (mask & ~visible[:, None]).any()
    last = visible.long().cumsum(-1).argmax(-1)[:, None, :, None].expand(-1, 4, -1, 1)
    assert mask.gather(-1, last)[SMALL.list_lengths() > 0].all()
    assert plan.read_plan(cases.plan_of(SMALL)) == plan.read_plan(cases.make_plan(inputs))
    torch.ops.qbsa.quant_block_sparse_attn(**inputs)


def test_a_part_has_the_same_lists():
    part = SMALL.part(1, 1)
    assert part.heads == (2, 1) and part.kv_lens == (500,)
    assert torch.equal(part.list_lengths()[0], SMALL.list_lengths()[0, :2])


def test_patterns_and_bundles_are_found(tmp_path):
    assert [source.name for source in cases.find(["b1_*s8192"])] == ["b1_n32_n4_s8192", "b1_n64_n8_s8192"]
    assert cases.find(["x/y.pt"])[0].name == "y"
    with pytest.raises(ValueError, match=r"CASE must be one of .*; got 'none_such'"):
        cases.find(["none_such"])


OWN = {"mine": {"heads": [8, 1], "q_lens": [256], "kv_lens": [512], "share": 0.5}}


def test_own_cases(tmp_path):
    pytest.importorskip("yaml")
    (tmp_path / "own.json").write_text(json.dumps(OWN))
    (tmp_path / "own.yaml").write_text("mine: {heads: [8, 1], q_lens: [256], kv_lens: [512], share: 0.5}\n")
    found = [cases.find([str(tmp_path / name)])[0].what.list_lengths() for name in ("own.json", "own.yaml")]
    assert torch.equal(*found) and found[0].shape == (1, 8, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": [8, 3]}, r"heads must be \[N1, N2\] .*; got \(8, 3\)"),
        ({"heads": 8}, "heads must be a list of positive integers; got 8"),
        ({"q_lens": [600]}, r"q_lens and kv_lens must be .* with q <= kv"),
        ({"kv_lens": [512, 512]}, "of equal length"),
        ({"blocks": -1}, "blocks must be an integer >= 0; got -1"),
        ({"share": 0}, "share must be in 0 < share <= 1; got 0"),
        ({"chare": 1}, "must have heads, q_lens and kv_lens"),
    ],
)
def test_own_cases_that_break_a_rule(tmp_path, change, message):
    path = tmp_path / "own.json"
    path.write_text(json.dumps({"mine": OWN["mine"] | change}))
    with pytest.raises(ValueError, match=f"case mine.*{message}"):
        cases.find([str(path)])


def test_files_that_hold_no_cases(tmp_path):
    pytest.importorskip("yaml")
    (tmp_path / "own.yaml").write_text("[1")
    with pytest.raises(ValueError, match="must be YAML"):
        cases.find([str(tmp_path / "own.yaml")])
    (tmp_path / "own.json").write_text("[]")
    with pytest.raises(ValueError, match="must hold cases"):
        cases.find([str(tmp_path / "own.json")])


def test_without_yaml_json_still_works(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    (tmp_path / "own.yaml").write_text("{}")
    with pytest.raises(RuntimeError, match=r"pip install 'qbsa\[tools\]'"):
        cases.find([str(tmp_path / "own.yaml")])
