"""Reads the metadata tensor: the plan that metadata/schedule.h writes and the kernel follows."""

from __future__ import annotations

import ctypes
import dataclasses

import torch

from . import library

_BAR_COLUMNS = 40


@dataclasses.dataclass(frozen=True)
class CoreRange:
    """From pair pair_begin of task_begin up to pair pair_end of task_end; a pair is two list entries.

    cost is in the scheduler's unit.
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
    """A plan as Python values. Task t is head t // q_blocks % heads_q, query block t % q_blocks of its sequence."""

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


def read_plan(metadata: torch.Tensor) -> Plan:
    """Decodes a metadata tensor: int32 [W] on any device. ValueError if it is no plan of this version."""
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
        if getattr(plan, name) != wanted:
            raise ValueError(f"metadata header field {name} must be {wanted}; got {getattr(plan, name)}")
    at = (0, 0)
    for index, core in enumerate(plan.cores):
        if core.begin != at or core.end < core.begin or core.pair_end < 0:
            raise ValueError(f"core {index} must go on from (task, pair) {at}; got {core.begin} to {core.end}")
        at = core.end
    if at != (plan.tasks, 0):
        raise ValueError(f"the cores must take {plan.tasks} tasks together; got up to (task, pair) {at}")
    if plan.splits != _cut_tasks(plan):
        raise ValueError(f"the split tasks must be {_cut_tasks(plan)}, by the cores; got {plan.splits}")
    costs = [core.cost for core in plan.cores]
    for name, wanted in (("total_cost", sum(costs)), ("max_cost", max(costs))):
        if getattr(plan, name) != wanted:
            raise ValueError(f"metadata header field {name} must be {wanted}, by its cores; got {getattr(plan, name)}")


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
    """The plan as text: per core its tasks, its cost (unit of the scheduler) and a bar relative to the busiest."""
    plan = read_plan(metadata)
    top = max(plan.max_cost, 1)
    mean = plan.total_cost / len(plan.cores)
    shape = f"{plan.batch} sequences x {plan.heads_q} heads x {plan.q_blocks} query blocks"
    splits = f", {len(plan.splits)} of them split" if plan.splits else ""
    lines = [
        f"{shape} = {plan.tasks} tasks on {len(plan.cores)} cores{splits}",
        f"cost {plan.total_cost}; busiest core {plan.max_cost}; balance (mean / busiest) {mean / top:.3f}",
        f"{'core':>4} {'first task':>12} {'tasks':>8} {'cost':>12}  load",
    ]
    for index, core in enumerate(plan.cores):
        bar = "#" * round(_BAR_COLUMNS * core.cost / top)
        tasks = core.task_end - core.task_begin + (core.pair_end > 0)
        numbers = f"{index:>4} {core.task_begin:>12} {tasks:>8} {core.cost:>12}"
        lines.append(f"{numbers}  {bar:<{_BAR_COLUMNS}} {core.cost / top:4.0%}")
    return "\n".join(lines)
