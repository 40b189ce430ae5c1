"""The modes of the twin: how they are chosen, and that they all give the same bits."""

import cases
import pytest
import qbsa
import torch
from qbsa import library

CASES = [
    cases.Case("tails", (4, 2), (300, 1, 140, 0, 33), (500, 129, 70, 40, 33), "random", 3),
    cases.Case("no mask", (4, 1), (140, 260), (300, 90), "dense", 0, mask_mode=0),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_all_modes_give_the_same_bits(case):
    inputs = cases.make_inputs(case)
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
