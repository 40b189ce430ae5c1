"""Reads the metadata tensor: the plan that metadata/schedule.h writes and the kernel follows."""

from __future__ import annotations

import ctypes
import dataclasses
import os

import torch

from . import check, library, pictures

_BAR_COLUMNS = 40


@dataclasses.dataclass(frozen=True)
class CoreRange:
    """From pair pair_begin of task_begin up to pair pair_end of task_end; a pair is two list entries.

    cost is in cycles of the scheduler's model.
    """

    task_begin: int
    task_end: int
    pair_begin: int
    pair_end: int
    cost: int

    @property
    def begin(self) -> tuple[int, int]:
        return self.task_begin, self.pair_begin

    @property
    def end(self) -> tuple[int, int]:
        return self.task_end, self.pair_end


@dataclasses.dataclass(frozen=True)
class SplitTask:
    """A task whose list is cut; piece k lies on core first_core + k."""

    task: int
    first_core: int
    pieces: int


@dataclasses.dataclass(frozen=True)
class Plan:
    """A plan as Python values. Tasks are numbered as `place` tells.

    Costs are in cycles of the scheduler's model; max_cost is the makespan: the busiest core and the longest merge
    after it.
    """

    batch: int
    heads_q: int
    q_blocks: int
    total_cost: int
    max_cost: int
    cores: tuple[CoreRange, ...]
    splits: tuple[SplitTask, ...]

    @property
    def tasks(self) -> int:
        return self.batch * self.heads_q * self.q_blocks

    @property
    def merge_cost(self) -> int:
        """Of the longest merge of a split task; 0 without splits."""
        return self.max_cost - max(core.cost for core in self.cores)

    @property
    def even_share(self) -> int:
        """total_cost over the cores: the makespan if all were equally busy and no merge followed."""
        return -(-self.total_cost // len(self.cores))


def place(task: int, *, batch: int, heads_q: int, heads_kv: int, q_blocks: int) -> tuple[int, int, int]:
    """(sequence, query head, query block) of a task number: rank in the KV group, sequence, KV head, query block."""
    stream, q_block = divmod(task, q_blocks)
    stream, kv_head = divmod(stream, heads_kv)
    rank, sequence = divmod(stream, batch)
    return sequence, kv_head * (heads_q // heads_kv) + rank, q_block


def read_plan(metadata: torch.Tensor) -> Plan:
    """Decodes a metadata tensor: int32 [W] on any device. ValueError if it is no plan of this version."""
    check.python_type("metadata", metadata, torch.Tensor, "a torch.Tensor")
    if metadata.is_meta:
        check.refuse(ValueError, "metadata", "must have values", "a tensor on the device meta")
    contract = library.contract()
    header_type, core_type = contract.records["PlanHeader"], contract.records["CorePlan"]
    if metadata.dtype != torch.int32 or metadata.dim() != 1:
        raise ValueError(f"metadata must be int32 with 1 dimension; got {metadata.dtype} {list(metadata.shape)}")
    sizes = contract.constants["kPlanWords"], contract.constants["kSplitPlanWords"]
    if metadata.numel() not in sizes:
        raise ValueError(f"metadata must have {sizes[0]} or {sizes[1]} words; got {metadata.numel()}")
    text = metadata.contiguous().cpu().numpy().tobytes()
    header = header_type.from_buffer_copy(text)
    most_cores = contract.constants["kMaxCores"]
    for field, allowed in (
        ("magic", (contract.constants["kPlanMagic"],)),
        ("version", (contract.constants["kAbiVersion"],)),
        ("words", (metadata.numel(),)),
        ("cores", range(1, most_cores + 1)),
        ("splits", range(header.cores if metadata.numel() == sizes[1] else 1)),
    ):
        value = getattr(header, field)
        if value not in allowed:
            choices = allowed[0] if len(allowed) == 1 else f"{allowed[0]}..{allowed[-1]}"
            raise ValueError(f"metadata header field {field} must be {choices}; got {value}")
    cores = (core_type * header.cores).from_buffer_copy(text, ctypes.sizeof(header_type))
    splits_begin = ctypes.sizeof(header_type) + most_cores * ctypes.sizeof(core_type)
    splits = (contract.records["SplitTask"] * header.splits).from_buffer_copy(text, splits_begin)
    return Plan(
        *(header.batch, header.heads_q, header.q_blocks, header.total_cost, header.max_cost),
        tuple(CoreRange(core.task_begin, core.task_end, core.pair_begin, core.pair_end, core.cost) for core in cores),
        tuple(SplitTask(split.task, split.first_core, split.pieces) for split in splits),
    )


def check_plan(metadata: torch.Tensor, *, batch: int, heads_q: int, q_blocks: int) -> None:
    """ValueError unless metadata is a plan for these sizes whose cores take all work exactly once, in order."""
    plan = read_plan(metadata)
    for name, wanted in (("batch", batch), ("heads_q", heads_q), ("q_blocks", q_blocks)):
        check.integer(name, wanted)
        if getattr(plan, name) != wanted:
            raise ValueError(f"metadata header field {name} must be {wanted}; got {getattr(plan, name)}")
    at = (0, 0)
    for index, core in enumerate(plan.cores):
        if core.begin != at or core.end < core.begin or core.pair_end < 0:
            raise ValueError(f"metadata core {index} must go on from (task, pair) {at}; got {core.begin} to {core.end}")
        at = core.end
    if at != (plan.tasks, 0):
        raise ValueError(f"metadata cores must take {plan.tasks} tasks together; got up to (task, pair) {at}")
    if plan.splits != _cut_tasks(plan):
        raise ValueError(f"metadata split tasks must be {_cut_tasks(plan)}, by the cores; got {plan.splits}")
    costs = [core.cost for core in plan.cores]
    if plan.total_cost != sum(costs):
        raise ValueError(f"metadata header field total_cost must be {sum(costs)}, by its cores; got {plan.total_cost}")
    if plan.merge_cost < 0 or (plan.merge_cost > 0 and not plan.splits):
        allowed = f"{max(costs)} or more" if plan.splits else f"{max(costs)}"
        raise ValueError(f"metadata header field max_cost must be {allowed}, by its cores; got {plan.max_cost}")


def _cut_tasks(plan: Plan) -> tuple[SplitTask, ...]:
    """The split tasks that the ranges of the cores imply."""
    cuts: dict[int, SplitTask] = {}
    for index, core in enumerate(plan.cores):
        if core.pair_end > 0:
            first = cuts.get(core.task_end)
            first_core, pieces = (first.first_core, first.pieces + 1) if first else (index, 2)
            cuts[core.task_end] = SplitTask(core.task_end, first_core, pieces)
    return tuple(cuts.values())


def show_plan(metadata: torch.Tensor) -> str:
    """The plan as text: makespan and bound, per core its tasks, cost and load, and the split tasks with their pieces.

    A load is relative to the busiest core. Tasks 7+2: seven whole ones, two pieces.
    """
    plan = read_plan(metadata)
    top = max(*(core.cost for core in plan.cores), 1)
    shape = f"{plan.batch} sequences x {plan.heads_q} heads x {plan.q_blocks} query blocks"
    merge = f", of it {plan.merge_cost} for the longest merge" if plan.splits else ""
    above = f"{plan.max_cost / max(plan.even_share, 1) - 1:.1%} above" if plan.max_cost else "equal to"
    lines = [
        f"{shape} = {plan.tasks} tasks on {len(plan.cores)} cores; costs in cycles of the scheduler's model",
        f"makespan {plan.max_cost}{merge}; {above} the even share of all work, {plan.even_share}",
        f"{'core':>4} {'first task':>12} {'tasks':>8} {'cost':>12}  load",
    ]
    for index, core in enumerate(plan.cores):
        bar = "#" * round(_BAR_COLUMNS * core.cost / top)
        numbers = f"{index:>4} {core.task_begin:>12} {_count_text(core):>8} {core.cost:>12}"
        lines.append(f"{numbers}  {bar:<{_BAR_COLUMNS}} {core.cost / top:4.0%}")
    if plan.splits:
        cut = ", ".join(f"{s.task} ({s.pieces} from core {s.first_core})" for s in plan.splits)
        lines.append(f"split tasks (pieces): {cut}")
    return "\n".join(lines)


def _count_text(core: CoreRange) -> str:
    """Whole tasks, and after a + the pieces of split ones."""
    inside_one = core.task_begin == core.task_end and core.pair_begin > 0 and core.pair_end > 0
    pieces = 1 if inside_one else (core.pair_begin > 0) + (core.pair_end > 0)
    whole = core.task_end - core.task_begin - (core.pair_begin > 0 and not inside_one)
    return f"{whole}+{pieces}" if pieces else str(whole)


def plot_plan(metadata: torch.Tensor, path: str | os.PathLike[str]) -> None:
    """Draws the load of each core, the makespan and the even share to an image file; needs matplotlib."""
    check.python_type("path", path, (str, os.PathLike), "a path")
    plan = read_plan(metadata)
    figure = pictures.figure(8, 3.5)
    axes = figure.add_subplot()
    axes.bar(range(len(plan.cores)), [core.cost for core in plan.cores], color="0.6")
    axes.axhline(plan.even_share, color="black", linestyle="--", linewidth=1, label=f"even share {plan.even_share}")
    axes.axhline(plan.max_cost, color="firebrick", linewidth=1, label=f"makespan {plan.max_cost}")
    axes.set_title(f"{plan.tasks} tasks, {len(plan.splits)} split, on {len(plan.cores)} cores")
    axes.set_xlabel("core")
    axes.set_ylabel("cost (cycles of the scheduler's model)")
    axes.set_xlim(-0.6, len(plan.cores) - 0.4)
    axes.legend(loc="lower left")
    figure.savefig(path)
