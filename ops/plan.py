"""Reads the metadata tensor: the plan that metadata/schedule.h writes and the kernel follows."""

from __future__ import annotations

import ctypes
import dataclasses

import torch

from . import library

_BAR_COLUMNS = 40


@dataclasses.dataclass(frozen=True)
class CoreRange:
    """Tasks [task_begin, task_end) of one core; cost in the scheduler's unit."""

    task_begin: int
    task_end: int
    cost: int


@dataclasses.dataclass(frozen=True)
class Plan:
    """A plan as Python values. Task t is head t // q_blocks % heads_q, query block t % q_blocks of its sequence."""

    batch: int
    heads_q: int
    q_blocks: int
    total_cost: int
    max_cost: int
    cores: tuple[CoreRange, ...]

    @property
    def tasks(self) -> int:
        return self.batch * self.heads_q * self.q_blocks


def read_plan(metadata: torch.Tensor) -> Plan:
    """Decodes a metadata tensor: int32 [W] on any device. ValueError if it is no plan of this version."""
    contract = library.contract()
    header_type, core_type = contract.records["PlanHeader"], contract.records["CorePlan"]
    if metadata.dtype != torch.int32 or metadata.dim() != 1:
        raise ValueError(f"metadata must be int32 with 1 dimension; got {metadata.dtype} {list(metadata.shape)}")
    text = metadata.contiguous().cpu().numpy().tobytes()
    if len(text) < ctypes.sizeof(header_type):
        raise ValueError(f"metadata must hold at least a header of {ctypes.sizeof(header_type)} bytes; got {len(text)}")
    header = header_type.from_buffer_copy(text)
    most = (len(text) - ctypes.sizeof(header_type)) // ctypes.sizeof(core_type)
    for field, allowed in (
        ("magic", (contract.constants["kPlanMagic"],)),
        ("version", (contract.constants["kAbiVersion"],)),
        ("words", (metadata.numel(),)),
        ("cores", range(1, min(most, contract.constants["kMaxCores"]) + 1)),
    ):
        value = getattr(header, field)
        if value not in allowed:
            choices = allowed[0] if len(allowed) == 1 else f"{allowed[0]}..{allowed[-1]}"
            raise ValueError(f"metadata header field {field} must be {choices}; got {value}")
    cores = (core_type * header.cores).from_buffer_copy(text, ctypes.sizeof(header_type))
    ranges = tuple(CoreRange(core.task_begin, core.task_end, core.cost) for core in cores)
    return Plan(header.batch, header.heads_q, header.q_blocks, header.total_cost, header.max_cost, ranges)


def check_plan(metadata: torch.Tensor, *, batch: int, heads_q: int, q_blocks: int) -> None:
    """ValueError unless metadata is a plan for these sizes whose cores take every task exactly once, in order."""
    plan = read_plan(metadata)
    for name, wanted in (("batch", batch), ("heads_q", heads_q), ("q_blocks", q_blocks)):
        if getattr(plan, name) != wanted:
            raise ValueError(f"metadata header field {name} must be {wanted}; got {getattr(plan, name)}")
    task = 0
    for index, core in enumerate(plan.cores):
        if core.task_begin != task or core.task_end < core.task_begin:
            raise ValueError(f"core {index} must take tasks from {task} on; got [{core.task_begin}, {core.task_end})")
        task = core.task_end
    if task != plan.tasks:
        raise ValueError(f"the cores must take {plan.tasks} tasks together; got {task}")
    costs = [core.cost for core in plan.cores]
    for name, wanted in (("total_cost", sum(costs)), ("max_cost", max(costs))):
        if getattr(plan, name) != wanted:
            raise ValueError(f"metadata header field {name} must be {wanted}, by its cores; got {getattr(plan, name)}")


def show_plan(metadata: torch.Tensor) -> str:
    """The plan as text: per core its tasks, its cost (unit of the scheduler) and a bar relative to the busiest."""
    plan = read_plan(metadata)
    top = max(plan.max_cost, 1)
    mean = plan.total_cost / len(plan.cores)
    shape = f"{plan.batch} sequences x {plan.heads_q} heads x {plan.q_blocks} query blocks"
    lines = [
        f"{shape} = {plan.tasks} tasks on {len(plan.cores)} cores",
        f"cost {plan.total_cost}; busiest core {plan.max_cost}; balance (mean / busiest) {mean / top:.3f}",
        f"{'core':>4} {'first task':>12} {'tasks':>8} {'cost':>12}  load",
    ]
    for index, core in enumerate(plan.cores):
        bar = "#" * round(_BAR_COLUMNS * core.cost / top)
        numbers = f"{index:>4} {core.task_begin:>12} {core.task_end - core.task_begin:>8} {core.cost:>12}"
        lines.append(f"{numbers}  {bar:<{_BAR_COLUMNS}} {core.cost / top:4.0%}")
    return "\n".join(lines)
