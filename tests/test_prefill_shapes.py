"""The six published prefill shapes in full size: precision of sampled tasks. The lists of all others are empty."""

import itertools
import random

import pytest
import reference
import torch
from device import attend
from qbsa import cases, compare, quantize

TASKS = 12
SHAPES = [name for name in cases.CASES if name.startswith("b")]
RMS = 122.0  # of random e4m3 bytes, nearly: scales of 1 / RMS give scores of deviation 1


@pytest.mark.full
@pytest.mark.parametrize("name", SHAPES)
def test_sampled_tasks(name, record_property):
    inputs = cases.make_inputs(cases.CASES[name])
    generator = torch.Generator().manual_seed(len(name))
    for scales in ("q_descale", "k_descale", "v_descale"):
        inputs[scales] = (torch.rand(inputs[scales].shape, generator=generator) + 0.5) / RMS
    lengths = inputs["sparse_seq_len"]
    tasks = random.Random(name).sample(list(itertools.product(*map(range, lengths.shape))), TASKS)
    kept = torch.zeros_like(lengths)
    for task in tasks:
        kept[task] = lengths[task]
    inputs |= {"sparse_seq_len": kept, "p_scale": quantize.default_p_scale()}
    out, lse = attend(inputs)
    for report in compare.check(
        compare.against_chain(out, lse, reference.fp8_chain(select=tasks, **inputs), inputs)
    ) + compare.check(compare.against_exact(out, lse, reference.exact(select=tasks, **inputs), inputs)):
        record_property(f"miss share of {report.name}", report.misses / report.elements)
