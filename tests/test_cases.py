"""Every public case, and with `make test-all` every shape of the public lists, against the truth and in both layouts.

At the end pytest prints the misses over all cases that ran: see conftest.py.
"""

import itertools
import random

import cases
import cases_generalized
import pytest
import reference
import torch
from device import attend
from qbsa import compare, quantize

EXACT_STRIDE = 7  # of the tasks held against the chain, one in so many is held against exact attention
QUICK = [*cases.DSL, *cases_generalized.REPRESENTATIVE]
FULL = [case for case in cases_generalized.ALL.values() if case not in QUICK]


def tasks_of(case, inputs):
    """(batch, head, q_block) to compare: all, or the sample that the case asks for."""
    tasks = list(itertools.product(*map(range, inputs["sparse_seq_len"].shape)))
    return random.Random(case.seed).sample(tasks, case.sample) if case.sample else tasks


def check(case, record_property):
    inputs = cases.make_inputs(case)
    out, lse = attend(inputs)
    assert (lse is None) == (not case.lse)
    tasks = tasks_of(case, inputs)
    truth = reference.fp8_chain(select=tasks if case.sample else None, **inputs)
    reports = compare.check(compare.against_chain(out, lse, truth, inputs))
    for report in reports:
        record_property(f"miss share of {report.name}", report.misses / max(1, report.elements))
        record_property(f"worst share of cap of {report.name}", report.worst_share)

    # p_scale 0.1 makes weighty P subnormal: 7 % from exact attention, which bounds the rounding of normal numbers only.
    scaled = inputs | {"p_scale": quantize.default_p_scale()}
    exact = reference.exact(select=tasks[::EXACT_STRIDE], **scaled)
    compare.check(compare.against_exact(*attend(scaled), exact, scaled))

    ntd = cases.make_inputs(case, "NTD")
    out_ntd, lse_ntd = attend(ntd)
    assert torch.equal(out.view(torch.int16), out_ntd.view(torch.int16))
    assert lse is None or torch.equal(lse.view(torch.int32), lse_ntd.view(torch.int32))


@pytest.mark.parametrize("case", QUICK, ids=lambda case: case.id)
def test_case(case, record_property):
    check(case, record_property)


@pytest.mark.full
@pytest.mark.parametrize("case", FULL, ids=lambda case: case.id)
def test_listed_case(case, record_property):
    check(case, record_property)


def test_the_tables_hold_what_the_public_lists_name():
    listed = cases_generalized.ALL.values()
    assert len(cases.DSL) == 12 and len(listed) == 90
    patterns = {"causal", "sequential", "reverse", "random", "empty", "tail", "empty_tail", "dense"}
    assert {case.pattern for case in listed} == patterns == {case.pattern for case in QUICK}
    assert {0.1, 2.0, None} <= {case.p_scale for case in listed}
