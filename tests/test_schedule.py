"""The scheduler alone: coverage, costs, bounds and equal bytes for any lengths; the goal on the committed workloads."""

import re
from pathlib import Path

import balance
import greedy
import pytest
import qbsa
import torch
import workloads
from hypothesis import given, settings
from hypothesis import strategies as st
from qbsa import library, plan

PAIR = 2


@st.composite
def calls(draw):
    """A workload, cores and max_kv_splits."""
    batch, heads_kv, group, q_blocks = (draw(st.integers(1, most)) for most in (4, 2, 3, 7))
    heads = heads_kv * group
    one = st.one_of(st.integers(0, 9), st.sampled_from([-3, 0, 1, 63, 64, 1000, 2**31 - 1]))
    values = draw(st.lists(one, min_size=batch * heads * q_blocks, max_size=batch * heads * q_blocks))
    lengths = torch.tensor(values, dtype=torch.int32).reshape(batch, heads, q_blocks)
    if draw(st.booleans()):  # the same values through other strides
        lengths = lengths.transpose(1, 2).contiguous().transpose(1, 2)
    rows = draw(st.lists(st.integers(0, q_blocks * 128 + 40), min_size=batch, max_size=batch))
    cu_seqlens_q = torch.tensor([0, *rows]).cumsum(0).to(torch.int32) if draw(st.booleans()) else None
    workload = workloads.Workload(lengths, heads_kv, cu_seqlens_q)
    return workload, draw(st.integers(1, 72)), draw(st.sampled_from([0, 1, 2, 3, 9, 72]))


def pieces(made, entries):
    """(core, task, first entry, one past the last) of all real tasks, as the kernel walks the plan."""
    for index, core in enumerate(made.cores):
        for task in range(core.task_begin, core.task_end + (core.pair_end > 0)):
            first = PAIR * core.pair_begin if task == core.task_begin else 0
            last = PAIR * core.pair_end if task == core.task_end else entries[task]
            if entries[task] >= 0:
                yield index, task, first, last


@settings(max_examples=150, deadline=None)
@given(calls())
def test_every_key_of_every_list_is_taken_once(call):
    workload, cores, max_kv_splits = call
    metadata = workloads.make_plan(*call)
    batch, heads, q_blocks = workload.lengths.shape
    qbsa.check_plan(metadata, batch=batch, heads_q=heads, q_blocks=q_blocks)
    made = plan.read_plan(metadata)
    assert len(made.cores) == cores
    entries = workload.entries.tolist()
    found: dict[int, list[tuple[int, int]]] = {}
    for _, task, first, last in pieces(made, entries):
        found.setdefault(task, []).append((first, last))
    assert sorted(found) == [task for task, length in enumerate(entries) if length >= 0]
    most = max_kv_splits or cores
    for task, ranges in found.items():
        assert [0, *(last for _, last in ranges)] == [*(first for first, _ in ranges), entries[task]]
        assert len(ranges) <= most
        assert len(ranges) == 1 or all(first < last for first, last in ranges)
    assert {s.task: s.pieces for s in made.splits} == {t: len(r) for t, r in found.items() if len(r) > 1}


@settings(max_examples=60, deadline=None)
@given(calls())
def test_costs_are_those_of_the_pieces(call):
    workload, cores, _ = call
    made = plan.read_plan(workloads.make_plan(*call))
    entries, rows = workload.entries.tolist(), workload.rows.tolist()
    costs = [0] * cores
    for core, task, first, last in pieces(made, entries):
        is_piece = first > 0 or last < entries[task]
        costs[core] += list_cost(last - first, rows[task]) + is_piece * partial_cost(rows[task])
    assert [core.cost for core in made.cores] == costs
    assert made.total_cost == sum(costs)
    merges = [merge_cost(split.pieces, rows[split.task], len(made.splits), cores) for split in made.splits]
    assert made.merge_cost == max(merges, default=0)


def list_cost(entries, rows):
    weight = {
        name.replace("Short", ""): value
        for name, value in library.contract().costs.items()
        if ("Short" in name) == (rows <= 64)
    }
    if entries < 2:
        return weight["kLone" if entries else "kEmpty"]
    return weight["kTask"] + entries // PAIR * weight["kMacroBlock"] + entries % PAIR * weight["kSingle"]


def partial_cost(rows):
    return workloads.row_groups(rows) * library.contract().costs["kPieceGroup"]


def merge_cost(pieces, rows, splits, cores):
    weight = library.contract().costs
    of_core = workloads.merged_groups(rows, splits, cores)
    of_piece = weight["kMergePiece"] + of_core * weight["kMergeTile"]
    return weight["kMerge"] + of_core * weight["kMergeGroup"] + pieces * of_piece


@settings(max_examples=60, deadline=None)
@given(calls())
def test_equal_lengths_give_equal_bytes(call):
    metadata = workloads.make_plan(*call)
    again = torch.full_like(metadata, 0x55555555)
    library.current().schedule(workloads.schedule_args(*call, again))
    assert torch.equal(metadata, again)


def fits(costs, cores, limit):
    used, load = 1, 0
    for cost in costs:
        used, load = (used, load + cost) if load + cost <= limit else (used + 1, cost)
    return used <= cores


@settings(max_examples=80, deadline=None)
@given(calls())
def test_makespan(call):
    """Whole: no contiguous ranges do better. Split: near the even share, by the size of a macro-block and a merge."""
    workload, cores, _ = call
    costs = workload.costs.tolist()
    whole = plan.read_plan(workloads.make_plan(workload, cores, 1)).max_cost
    assert fits(costs, cores, whole) and (whole == max(costs) or not fits(costs, cores, whole - 1))
    split = plan.read_plan(workloads.make_plan(workload, cores, 0)).max_cost
    # A core has two pieces at most, and stops where a third with one macro-block does not fit.
    weight = library.contract().costs
    piece = max(weight["kTask"], weight["kShortTask"]) + partial_cost(128)
    near = -(-sum(costs) // cores) + 3 * piece + weight["kMacroBlock"] + merge_cost(cores, 128, cores, cores)
    assert split <= whole and split <= 1.005 * near + 1


@pytest.mark.parametrize("workload", workloads.committed(), ids=lambda workload: workload.name)
def test_splits_reach_the_goal(workload):
    """The merge included; but not where lists are so few that the merge and two pieces are much of a core's work."""
    for cores in balance.CORES:
        made = plan.read_plan(workloads.make_plan(workload, cores, 0))
        cuts = made.merge_cost + 2 * partial_cost(128) if workload.tasks <= 8 else 0
        assert balance.meets_goal(made.max_cost - cuts, balance.bound(workload, cores, may_split=True))


def test_the_baseline_takes_every_row_once_in_order():
    for workload in workloads.committed():
        if workload.tasks <= 4096:
            core = greedy.cores_of_rows(workload.lengths, 32)
            assert len(core) == workload.tasks and 0 <= int(core.min()) and int(core.max()) < 32


def test_more_tasks_than_chunks():
    """The scheduler adds up chunks of tasks; borders of chunks must not show."""
    lengths = torch.randint(0, 40, (3, 7, 500), dtype=torch.int32, generator=torch.Generator().manual_seed(2))
    workload = workloads.Workload(lengths, 7, torch.tensor([0, 64000, 64010, 128000], dtype=torch.int32))
    costs = workload.costs.tolist()
    for cores in (1, 31, 72):
        metadata = workloads.make_plan(workload, cores)
        qbsa.check_plan(metadata, batch=3, heads_q=7, q_blocks=500)
        made = plan.read_plan(metadata)
        assert made.total_cost == sum(costs)
        assert fits(costs, cores, made.max_cost) and not fits(costs, cores, made.max_cost - 1)


def test_one_plan_serves_many_layers(capsys):
    """The example of docs/scheduler.md: all layers return with the first plan what they return with their own."""
    text = (Path(__file__).parents[1] / "docs" / "scheduler.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.S)
    names: dict = {}
    exec(example, names)
    assert "12 tasks on 32 cores" in capsys.readouterr().out
    for (tensors, kwargs), result in zip(names["layers"], names["results"], strict=True):
        out, _ = qbsa.quant_block_sparse_attn(
            *tensors, 128**-0.5, 128, 128, cu_seqlens_q=names["cu_seqlens_q"], **kwargs
        )
        assert torch.equal(out, result)
