"""What one call does: what its lists select, how its plan divides it, where its time would go by the twin's clock."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from . import bench, cases, library, profile, sparsity
from .plan import Plan, read_plan

_TRACED_GROUPS = 1  # groups of cores in the timeline: the busiest


@dataclass(frozen=True)
class Lists:
    """What the lists of a call select. Masks are bool [batch, heads_q, q_blocks, kv_blocks]."""

    q_lens: list[int]
    kv_lens: list[int]
    heads: tuple[int, int]
    mask: torch.Tensor
    visible: torch.Tensor  # without the heads
    density: sparsity.Density
    entries: int
    hidden: int  # entries of blocks that their query block does not see
    repeated: int  # entries that their list holds before
    nowhere: int  # entries that name no block of the sequence
    empty: int  # lists without entries, of query blocks that have rows


@dataclass(frozen=True)
class Timed:
    profile: profile.Profile
    timeline: dict[str, list[tuple[float, float]]]  # pipe of the busiest group -> (start, duration) in us


@dataclass(frozen=True)
class Explanation:
    """timed is None where the call is too large for the clock; note says so."""

    name: str
    soc: str
    lists: Lists
    plan: Plan
    timed: Timed | None
    note: str = ""


def explain(
    source: cases.Source, soc: str = "950PR", limit: float = bench.Settings.limit, max_kv_splits: int = 1
) -> Explanation:
    """Looks at one call. limit: host seconds that the clock may take; max_kv_splits: of its plan."""
    inputs = source.inputs()
    lists = read_lists(inputs)
    with library.clock(library.Clock(soc)):
        metadata = cases.make_plan(inputs, max_kv_splits)
    plan = read_plan(metadata)
    seconds = lists.entries * bench.seconds_per_entry("twin")
    if seconds > limit:
        note = f"the clock would take about {seconds:.0f} s here; the limit is {limit:.0f} s (--limit)"
        return Explanation(source.name, soc, lists, plan, None, note)
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        timed = profile.profile(inputs | {"metadata": metadata}, soc, trace, _TRACED_GROUPS, source.name)
        return Explanation(source.name, soc, lists, plan, Timed(timed, profile.timeline(trace)))


def read_lists(inputs: dict[str, Any]) -> Lists:
    """inputs: keyword arguments of the operator, on the CPU; values out of range count as the kernel has it."""
    block = library.contract().constants["kBlockKeys"]
    indices, lengths = inputs["sparse_indices"], inputs["sparse_seq_len"].clamp(0, inputs["sparse_indices"].shape[3])
    batch, heads_q, q_blocks, capacity = indices.shape
    width = inputs["block_table"].shape[1]
    q_lens = inputs["cu_seqlens_q"].diff().clamp(0, q_blocks * block).tolist()
    kv_lens = inputs["seqused_kv"].clamp(0).tolist()
    seen = sparsity.visible_blocks(q_lens, kv_lens, causal=inputs.get("mask_mode", 3) != 0)
    visible = torch.zeros(batch, q_blocks, max(width, seen.shape[2]), dtype=torch.bool)
    visible[:, : seen.shape[1], : seen.shape[2]] = seen
    has_rows = torch.arange(q_blocks) * block < torch.tensor(q_lens)[:, None]
    lengths = lengths * has_rows[:, None]
    mask = sparsity.lists_to_mask(indices, lengths, visible.shape[2])
    kv_blocks = (inputs["seqused_kv"].clamp(0).long() + block - 1) // block
    used = torch.arange(capacity) < lengths[..., None]
    named = used & (indices >= 0) & (indices < kv_blocks[:, None, None, None])
    selected = mask & (torch.arange(visible.shape[2]) < kv_blocks[:, None])[:, None, None]
    return Lists(
        q_lens=q_lens,
        kv_lens=kv_lens,
        heads=(heads_q, inputs["key"].shape[1]),
        mask=selected & visible[:, None],
        visible=visible,
        density=sparsity.density(selected, visible),
        entries=int(lengths.sum()),
        hidden=int((selected & ~visible[:, None]).sum()),
        repeated=int(named.sum()) - int(selected.sum()),
        nowhere=int(used.sum()) - int(named.sum()),
        empty=int(((lengths == 0) & has_rows[:, None]).sum()),
    )


def text(explained: Explanation) -> str:
    """The page in words."""
    return "\n\n".join(f"{head}\n{body}" for head, body in sections(explained))


def sections(explained: Explanation) -> list[tuple[str, str]]:
    """(heading, text): the call, its lists, its plan, its time."""
    of_time = _time_text(explained.timed.profile) if explained.timed else explained.note
    return [
        (f"{explained.name}: the call", _call_text(explained.lists)),
        ("What the lists select", _lists_text(explained.lists)),
        (f"What the plan does, on {len(explained.plan.cores)} cores", _plan_text(explained.plan)),
        (f"Where the time goes on {explained.soc}: model, not measured", of_time),
    ]


def as_json(explained: Explanation) -> dict[str, Any]:
    lists, plan = explained.lists, explained.plan
    density = lists.density
    return {
        "case": explained.name,
        "lists": {
            **{name: getattr(lists, name) for name in ("q_lens", "kv_lens", "heads", "entries")},
            **{name: getattr(lists, name) for name in ("hidden", "repeated", "nowhere", "empty")},
            **{"selected": density.selected, "visible": density.visible, "longest_list": density.longest_list},
            "density_per_head": density.per_head.tolist(),
        },
        "plan": {"tasks": plan.tasks, "makespan": plan.max_cost, "even_share": plan.even_share}
        | {"core_costs": [core.cost for core in plan.cores], "splits": len(plan.splits)},
        "profile": explained.timed.profile.report if explained.timed else None,
        "note": explained.note,
    }


def _call_text(lists: Lists) -> str:
    heads_q, heads_kv = lists.heads
    return "\n".join(
        [
            f"{len(lists.q_lens)} sequences, {sum(lists.q_lens):,} query tokens, {sum(lists.kv_lens):,} KV tokens",
            f"query lengths {_range(lists.q_lens)}, KV lengths {_range(lists.kv_lens)}",
            f"{heads_q} query heads on {heads_kv} KV heads; {lists.entries:,} list entries",
        ]
    )


def _lists_text(lists: Lists) -> str:
    density = lists.density
    lines = [str(density)]
    least, most = (int(index) for index in (density.per_head.argmin(), density.per_head.argmax()))
    if density.per_head[least] < density.per_head[most]:
        lines.append(f"sparsest head {least}, densest head {most}")
    shared = _sharing(lists)
    if shared:
        lines.append(
            f"heads of a KV group agree on {shared:.0%} of their blocks; what one loads serves the others by L2"
        )
    for count, what in (
        (lists.empty, "lists are empty: their rows become 0"),
        (lists.hidden, "entries name blocks that causality hides: skipped"),
        (lists.nowhere, "entries name no block of their sequence: skipped"),
        (lists.repeated, "entries repeat one of their list: counted twice"),
    ):
        if count:
            lines.append(f"{count:,} {what}")
    return "\n".join(lines)


def _sharing(lists: Lists) -> float:
    """Entries of all heads of a KV group over (heads x blocks that any of them selects): 1 if all select the same."""
    heads_q, heads_kv = lists.heads
    group = heads_q // heads_kv
    if group == 1:
        return 0.0
    by_group = lists.mask.reshape(len(lists.mask), heads_kv, group, *lists.mask.shape[2:])
    together = int(by_group.any(2).sum()) * group
    return int(by_group.sum()) / together if together else 0.0


def _plan_text(plan: Plan) -> str:
    costs = [core.cost for core in plan.cores]
    busy = sum(cost > 0 for cost in costs)
    over = f"{plan.max_cost / max(plan.even_share, 1) - 1:.1%} above the even share {plan.even_share:,}"
    lines = [
        f"{plan.tasks:,} tasks; {busy} cores have work; the busiest costs {plan.max_cost:,}, {over}",
        f"least loaded core: {min(costs):,}; unit: cycles of the scheduler's cost model",
    ]
    if plan.splits:
        lines.append(f"{len(plan.splits)} lists are cut; their merge costs {plan.merge_cost:,} of the makespan")
    if plan.max_cost > 1.05 * plan.even_share and not plan.splits:
        lines.append("uneven: few or large tasks. max_kv_splits=0 cuts lists where that pays (--splits 0)")
    return "\n".join(lines)


def _time_text(timed: profile.Profile) -> str:
    return timed.table().split("\n", 1)[1]


def _range(values: list[int]) -> str:
    low, high = min(values, default=0), max(values, default=0)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
