"""Split lists: pieces on several cores, joined by their LSE.

A piece restarts the running maximum, so the truth restarts at the borders of the plan; see split_truth.py.
"""

import ctypes
import random

import cases
import pytest
import qbsa
import reference
import torch
import workloads
from cases import Case
from qbsa import backend, compare, library, plan
from split_truth import truth_of_plan

DECODE = Case("decode", (4, 2), (1, 1, 70), (40 * 128, 3 * 128, 1000), "dense", 40, pages=60)
LONG_ROW = Case("long_row", (1, 1), (130,), (24 * 128 + 5,), "random", 22)


def plan_for(inputs, max_kv_splits=0, cores=0, **changes):
    """A plan for the call; cores 0: the library's default."""
    given = inputs | changes
    seq_len = given["sparse_seq_len"]
    if cores == 0:
        heads_q, heads_kv = seq_len.shape[1], given["key"].shape[1]
        return qbsa.quant_block_sparse_attn_metadata(
            seq_len, heads_q, heads_kv, 128, cu_seqlens_q=given["cu_seqlens_q"], max_kv_splits=max_kv_splits
        )
    workload = workloads.Workload(seq_len, given["key"].shape[1], given["cu_seqlens_q"])
    return workloads.make_plan(workload, cores, max_kv_splits)


def attend(inputs, metadata):
    return qbsa.quant_block_sparse_attn(**inputs | {"metadata": metadata, "return_softmax_lse": True})


def check(inputs, metadata):
    out, lse = attend(inputs, metadata)
    compare.check(compare.against_chain(out, lse, truth_of_plan(inputs, metadata), inputs))
    return out, lse


@pytest.fixture(autouse=True)
def checked():
    with library.mode("checked"):
        yield


@pytest.mark.parametrize("case", [DECODE, LONG_ROW], ids=lambda case: case.id)
@pytest.mark.parametrize("max_kv_splits, cores", [(0, 0), (2, 0), (3, 5), (0, 72)])
def test_pieces_join_to_the_chain_that_restarts_at_the_borders(case, max_kv_splits, cores):
    inputs = cases.make_inputs(case)
    metadata = plan_for(inputs, max_kv_splits, cores)
    batch, heads_q, q_blocks = inputs["sparse_seq_len"].shape
    qbsa.check_plan(metadata, batch=batch, heads_q=heads_q, q_blocks=q_blocks)
    splits = plan.read_plan(metadata).splits
    assert splits and (max_kv_splits == 0 or max(split.pieces for split in splits) <= max_kv_splits)
    check(inputs, metadata)


@pytest.mark.parametrize("rows, cores, units", [(128, 32, 16), (128, 3, 6), (70, 32, 9), (64, 2, 4), (1, 32, 1)])
def test_merging_is_shared_out(rows, cores, units):
    """One split list: by groups of eight rows that exist, to as many AIVs as there are."""
    inputs = cases.make_inputs(Case("", (1, 1), (rows,), (64 * 128,), "dense", 64))
    metadata = plan_for(inputs, cores=cores)
    assert len(plan.read_plan(metadata).splits) == 1
    check(inputs, metadata)
    functions = library.current().report()["vector_functions"]
    assert functions["qbsa::merge_weights"]["calls"] == units


def test_split_stays_within_the_rounding_of_p():
    """Split and unsplit differ by e4m3 roundings of P only: both pass the gate against exact softmax."""
    inputs = cases.make_inputs(DECODE)
    truth = reference.exact(**inputs)
    for max_kv_splits in (0, 1):
        compare.check(compare.against_exact(*attend(inputs, plan_for(inputs, max_kv_splits)), truth, inputs))


def test_equal_bits_for_one_plan():
    inputs = cases.make_inputs(DECODE)
    metadata = plan_for(inputs)
    first = attend(inputs, metadata)
    for mode in ("checked", "fast"):
        with library.mode(mode):
            again = attend(inputs, metadata)
            assert all(torch.equal(a.view(torch.uint8), b.view(torch.uint8)) for a, b in zip(first, again, strict=True))


def test_room_for_splits_alone_changes_no_bit():
    inputs = cases.make_inputs(DECODE)
    few = plan_for(inputs, max_kv_splits=2, cores=1)
    assert not plan.read_plan(few).splits
    for a, b in zip(attend(inputs, few), attend(inputs, plan_for(inputs, 1)), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("shorter_by", [1, 7, 39, 40])
def test_plan_made_for_longer_lists_leaves_empty_pieces(shorter_by):
    inputs = cases.make_inputs(DECODE)
    metadata = plan_for(inputs)
    short = inputs | {"sparse_seq_len": (inputs["sparse_seq_len"] - shorter_by).clamp(min=0)}
    check(short, metadata)


def test_plan_made_for_shorter_lists_runs_to_the_real_end():
    inputs = cases.make_inputs(DECODE)
    lengths = inputs["sparse_seq_len"].clone()
    lengths[0] = 12
    metadata = plan_for(inputs, cores=32, sparse_seq_len=lengths)
    assert plan.read_plan(metadata).splits
    check(inputs, metadata)


@pytest.mark.parametrize("seed", range(6))
def test_plan_made_for_other_lengths_and_rows(seed):
    """Of tasks that do not exist in the call, or only in the call; cut where the call's lists may end before."""
    inputs = cases.make_inputs(Case("", (2, 1), (130, 60, 258), (40 * 128, 900, 24 * 128), "dense", 40, pages=90))
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(0, 41, inputs["sparse_seq_len"].shape, dtype=torch.int32, generator=generator)
    rows = torch.tensor([[258, 130, 60], [0, 388, 60], [448, 0, 0]][seed % 3])
    other = {"sparse_seq_len": lengths, "cu_seqlens_q": torch.cat([rows.new_zeros(1), rows.cumsum(0)]).to(torch.int32)}
    metadata = plan_for(inputs, cores=24, **other)
    tasks = {split.task for split in plan.read_plan(metadata).splits}
    exists = workloads.Workload(inputs["sparse_seq_len"], 1, inputs["cu_seqlens_q"]).entries >= 0
    assert tasks and (seed % 3 != 1 or not all(exists[list(tasks)]))
    check(inputs, metadata)


def test_pieces_that_see_nothing():
    inputs = cases.make_inputs(LONG_ROW)
    lists = inputs["sparse_indices"].clone()
    lists[..., 4:16] = -1
    check(inputs | {"sparse_indices": lists}, plan_for(inputs))
    out, lse = check(inputs | {"sparse_indices": torch.full_like(lists, -1)}, plan_for(inputs))
    assert bool((out == 0).all()) and bool((lse == compare.EMPTY_LSE).all())


def test_damaged_plans_are_refused_or_harmless():
    """One word changed: an exception, or the right result where the word is not used. No hang, no stray access."""
    inputs = cases.make_inputs(LONG_ROW)
    metadata = plan_for(inputs)
    right = attend(inputs, metadata)
    words = random.Random(5).sample(range(metadata.numel()), 40) + list(range(26))
    refused = 0
    for word in words:
        damaged = metadata.clone()
        damaged[word] ^= 0x5A5A5A5A
        try:
            out, lse = attend(inputs, damaged)
        except RuntimeError as error:
            refused += 1
            assert "metadata" in str(error)
            continue
        assert torch.equal(out, right[0]) and torch.equal(lse, right[1]), f"word {word}"
    header_words = ctypes.sizeof(library.contract().records["PlanHeader"]) // 4
    assert refused >= header_words


def test_a_foreign_plan_turns_the_result_into_nan(monkeypatch):
    """What an NPU caller sees, to whom nothing is raised."""
    made = []
    outputs = backend._outputs
    monkeypatch.setattr(backend, "_outputs", lambda problem: made.append(outputs(problem)) or made[-1])
    inputs = cases.make_inputs(LONG_ROW)
    garbage = torch.randint(-(2**31), 2**31 - 1, plan_for(inputs).shape, generator=torch.Generator().manual_seed(1))
    with pytest.raises(RuntimeError, match="metadata"):
        attend(inputs, garbage.to(torch.int32))
    out, lse = made[-1]
    assert bool(out.isnan().all()) and bool(lse.isnan().all())
