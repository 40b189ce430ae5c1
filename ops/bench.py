"""Times named calls on the CPU, an NPU or the twin's clock, and other implementations of the same call beside it.

cpu   measured: wall clock of the operator on this machine, the best of the repeats
npu   measured: torch_npu.profiler, Level1 with PipeUtilization, shortest Task Duration of each kernel of a call
twin  model: the twin's clock (docs/clock.md); a case that is too large may be estimated from two parts of it

Plans are made before and not timed.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch

from . import __version__, bundle, cases, kernels, library, npu, profile
from .attention import quant_block_sparse_attn
from .console import Console
from .plan import read_plan

MEASURED, MODEL = "measured", "model"


@dataclasses.dataclass(frozen=True)
class Settings:
    """device: cpu, npu, npu:1 .. or twin. limit: seconds that one case may take on the host, cpu and twin alone."""

    device: str = "cpu"
    soc: str = "950PR"  # of the twin
    warmups: int = 2
    repeats: int = 5
    limit: float = 120.0
    sample: bool = False
    splits: int = 1  # max_kv_splits of our plans
    keep: Path | None = None  # folder for the profiler's files

    @property
    def source(self) -> str:
        return MODEL if self.device == "twin" else MEASURED


@dataclasses.dataclass(frozen=True)
class Timing:
    """One case of one implementation. us is None where it was not timed, and note says why.

    entries: list entries of the call, each 128 rows x 128 keys. error: of an estimate, as a share; None otherwise.
    """

    case: str
    entries: int
    us: float | None
    runs: tuple[float, ...] = ()
    columns: dict[str, float] = dataclasses.field(default_factory=dict)
    error: float | None = None
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Result:
    """The timings of one implementation, and where they are from."""

    name: str
    source: str
    device: str
    date: str
    version: str
    timings: tuple[Timing, ...]

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n")

    def is_estimate(self, case: str) -> bool:
        return any(timing.case == case and timing.error is not None for timing in self.timings)

    def us_of(self, case: str) -> float | None:
        """None if the case was not timed."""
        return next((timing.us for timing in self.timings if timing.case == case), None)


def load(path: Path) -> Result:
    """A Result that save wrote; ValueError for anything else."""
    try:
        content = json.loads(path.read_text())
        timings = tuple(Timing(**{**timing, "runs": tuple(timing["runs"])}) for timing in content["timings"])
        return Result(**{**content, "timings": timings})
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path} must be a result that bench --output wrote; got {error!r:.80}") from None


Call = Callable[..., Any]


def function(name: str) -> Call:
    """The function that "module:function" names. ValueError if there is none."""
    module, _, attribute = name.partition(":")
    try:
        found: Call = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{name!r} must name an importable module:function; got {error}") from error
    return found


def run(
    sources: list[cases.Source],
    settings: Settings,
    console: Console,
    other: tuple[Call, Call | None] | None = None,
    name: str = "qbsa",
) -> Result:
    """Times each source. other: a function to time instead of ours, called with the same arguments, and its planner."""
    timings = []
    for source in console.progress(sources, lambda source: f"{name} {source.name} on {settings.device}"):
        timings.append(time_one(source, settings, other))
    date = datetime.now(timezone.utc).date().isoformat()
    return Result(name, settings.source, device_name(settings), date, _version(), tuple(timings))


def time_one(source: cases.Source, settings: Settings, other: tuple[Call, Call | None] | None = None) -> Timing:
    if settings.device.startswith("npu"):
        return _time_npu(source, settings, other)
    entries = source.entries()
    is_twin = settings.device == "twin"
    calls = 1 if is_twin else settings.warmups + settings.repeats
    seconds = entries * calls * seconds_per_entry(settings.device)
    if other is None and seconds > settings.limit:
        return _too_large(source, entries, seconds, settings)
    inputs = source.inputs()
    if is_twin:
        us, columns = _clock(inputs, settings)
        return Timing(source.name, entries, us, columns=columns)
    return _time_cpu(source.name, inputs, settings, other)


def device_name(settings: Settings) -> str:
    """For people: what the times are of."""
    if settings.device == "twin":
        return f"Ascend {settings.soc}, model of docs/clock.md"
    if settings.device == "cpu":
        return f"CPU {platform.machine()}, {len(os.sched_getaffinity(0))} threads, {library.current().path.name}"
    return f"{settings.device} {npu.runtime().get_device_name(npu.device(settings.device))}"


_PROBE = cases.Case("", (8, 1), (1024,), (1024,))
_seconds_per_entry: dict[str, float] = {}


def seconds_per_entry(device: str) -> float:
    """Host seconds that a list entry takes on device cpu or twin, from a small call; once a process."""
    if device not in _seconds_per_entry:
        inputs = cases.make_inputs(_PROBE)
        with library.mode("timed" if device == "twin" else "fast"):
            torch.ops.qbsa.quant_block_sparse_attn(**inputs)  # loads the library
            started = time.monotonic()
            torch.ops.qbsa.quant_block_sparse_attn(**inputs)
        _seconds_per_entry[device] = (time.monotonic() - started) / _entries(inputs)
    return _seconds_per_entry[device]


def _time_cpu(name: str, inputs: dict[str, Any], settings: Settings, other: tuple[Call, Call | None] | None) -> Timing:
    call = _prepared(inputs, other, settings.splits)
    for _ in range(settings.warmups):
        call()
    runs = []
    for _ in range(settings.repeats):
        started = time.perf_counter()
        call()
        runs.append((time.perf_counter() - started) * 1e6)
    return Timing(name, _entries(inputs), min(runs), tuple(runs))


def _clock(inputs: dict[str, Any], settings: Settings) -> tuple[float, dict[str, float]]:
    """us, and the profiler's columns."""
    with library.clock(library.Clock(settings.soc)):
        plan = cases.make_plan(inputs, settings.splits)
    report = profile.profile(inputs | {"metadata": plan}, settings.soc).report
    return report["duration_us"], report["columns"]


def _time_npu(source: cases.Source, settings: Settings, other: tuple[Call, Call | None] | None) -> Timing:
    inputs = bundle.to_device(source.inputs(), settings.device)
    call = _prepared(inputs, other, settings.splits)
    with tempfile.TemporaryDirectory() as temporary:
        folder = (settings.keep or Path(temporary)) / source.name
        profile_npu(call, folder, settings)
        found = kernels.read(folder)
    if other is None:
        found = kernels.matching(found)
    slowest = max(kernels.summarise(found), key=lambda summary: summary.least)
    us = kernels.time_per_call(found, settings.repeats)
    runs = tuple(kernel.duration for kernel in found if kernel.name == slowest.name)
    return Timing(source.name, _entries(inputs), us, runs, slowest.metrics)


def profile_npu(call: Callable[[], Any], folder: Path, settings: Settings) -> None:
    """Runs warmups and repeats of call under torch_npu.profiler, each a step; its files go below folder."""
    import torch_npu

    profiler = torch_npu.profiler
    config = profiler._ExperimentalConfig(
        profiler_level=profiler.ProfilerLevel.Level1, aic_metrics=profiler.AiCMetrics.PipeUtilization
    )
    with profiler.profile(
        activities=[profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.NPU],
        schedule=profiler.schedule(wait=0, warmup=settings.warmups, active=settings.repeats, repeat=1),
        on_trace_ready=profiler.tensorboard_trace_handler(str(folder)),
        experimental_config=config,
    ) as recorder:
        for _ in range(settings.warmups + settings.repeats):
            call()
            npu.runtime().synchronize(settings.device)
            recorder.step()


def _prepared(inputs: dict[str, Any], other: tuple[Call, Call | None] | None, splits: int) -> Callable[[], Any]:
    """One call with its plan made."""
    if other is None:
        plan = cases.make_plan(inputs, splits)
        return lambda: quant_block_sparse_attn(**inputs, metadata=plan)
    attend, plan_for = other
    if plan_for is None:
        return lambda: attend(**inputs)
    lengths, key = inputs["sparse_seq_len"], inputs["key"]
    named = {name: inputs[name] for name in ("cu_seqlens_q", "seqused_kv", "mask_mode", "layout_q") if name in inputs}
    plan = plan_for(lengths, lengths.shape[1], key.shape[1], key.shape[3], **named)
    return lambda: attend(**inputs, metadata=plan)


def _too_large(source: cases.Source, entries: int, seconds: float, settings: Settings) -> Timing:
    if settings.sample and settings.device == "twin" and isinstance(source.what, cases.Case):
        return _estimate(source.name, source.what, entries, settings)
    help_text = "--limit" + (" or --sample" if settings.device == "twin" else "")
    note = f"too large: about {_duration(seconds)} here, the limit is {_duration(settings.limit)} ({help_text})"
    return Timing(source.name, entries, None, note=note)


def _estimate(name: str, case: cases.Case, entries: int, settings: Settings) -> Timing:
    """By the clock's time of a part of the sequences and KV heads, scaled by the makespans of their plans.

    The error is that of the same step from a part at most half as large to this one. Both must fit into the limit.
    """
    units = [(1, heads) for heads in range(1, case.heads[1])]
    units += [(sequences, case.heads[1]) for sequences in range(1, len(case.kv_lens))]
    parts = [case.part(*unit) for unit in units]
    sizes = [int(part.list_lengths().sum()) for part in parts]
    pairs = [
        (max(i for i in range(large) if 2 * sizes[i] <= sizes[large]), large)
        for large in range(len(parts))
        if 2 * sizes[0] <= sizes[large]
    ]
    rate = seconds_per_entry("twin")
    fitting = [pair for pair in pairs if sum(sizes[i] for i in pair) * rate <= settings.limit]
    if not fitting:
        least = _duration(sum(sizes[i] for i in pairs[0]) * rate) if pairs else "as long as the whole"
        return Timing(name, entries, None, note=f"too large to estimate: two parts of it take {least} here (--limit)")
    small, large = fitting[-1]
    (half, half_cost), (part, part_cost) = (_time_part(parts[i], settings) for i in (small, large))
    error = half * part_cost / half_cost / part - 1
    whole = part * _makespan(case, settings) / part_cost
    steps = f"the same step from {sizes[small] / sizes[large]:.0%} of them to all is off by {error:+.1%}"
    note = f"estimate from {sizes[large] / entries:.1%} of its entries; {steps}"
    return Timing(name, entries, whole, error=error, note=note)


def _time_part(case: cases.Case, settings: Settings) -> tuple[float, int]:
    return _clock(cases.make_inputs(case), settings)[0], _makespan(case, settings)


def _makespan(case: cases.Case, settings: Settings) -> int:
    """Of the case's plan for the chip, in the scheduler's unit."""
    with library.clock(library.Clock(settings.soc)):
        return read_plan(cases.plan_of(case, settings.splits)).max_cost


def _entries(inputs: dict[str, Any]) -> int:
    return int(inputs["sparse_seq_len"].sum())


def _version() -> str:
    return f"qbsa {__version__}, git {npu.build_record()['git']}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
