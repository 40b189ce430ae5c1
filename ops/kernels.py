"""Reads what torch_npu.profiler (kernel_details.csv) and msprof (op_summary_*.csv) say about kernels.

Both files have a row for each execution of a kernel. Column names differ between the two and between releases; metric
columns depend on profiler level and aic_metrics, and may be missing. Times are in us.
"""

from __future__ import annotations

import csv
import dataclasses
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

# What a column is called, newest spelling first.
_COLUMNS = {
    "name": ("Name", "Op Name"),
    "duration": ("Duration(us)", "Task Duration(us)"),
    "type": ("Type", "OP Type"),
    "core": ("Accelerator Core", "Task Type"),
    "start": ("Start Time(us)", "Task Start Time(us)"),
    "wait": ("Wait Time(us)", "Task Wait Time(us)"),
    "blocks": ("Block Num", "Block Dim"),
    "mix_blocks": ("Mix Block Num", "Mix Block Dim"),
    "step": ("Step Id",),
}
_REQUIRED = ("name", "duration")
_METRIC = re.compile(r"(ai[cv]|aicore|cube)_.*")  # aic_mac_ratio, aicore_time(us), cube_utilization(%)

# As kernels_ascendc/launch.asc and metadata/launch.aicpu name them; a profiler may add to a name.
OURS = r"qbsa_(attention|merge|schedule)_kernel"


@dataclasses.dataclass(frozen=True)
class Kernel:
    """One execution. Fields that the file does not have are "" or None."""

    name: str
    duration: float
    type: str = ""
    core: str = ""
    start: float | None = None
    wait: float | None = None
    blocks: float | None = None
    mix_blocks: float | None = None
    step: str = ""
    metrics: dict[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Summary:
    """All executions of one kernel. metrics are those of the fastest execution."""

    name: str
    calls: int
    least: float
    median: float
    most: float
    core: str
    metrics: dict[str, float]


def read(path: Path) -> list[Kernel]:
    """Every execution in a file, or in the files below a folder. See find_files; ValueError for a foreign file."""
    return [kernel for file in find_files(path) for kernel in _read_file(file)]


def find_files(path: Path) -> list[Path]:
    """path itself, or every kernel_details.csv below it, or where there is none every op_summary_*.csv."""
    if not path.is_dir():
        return [path]
    for pattern in ("kernel_details*.csv", "op_summary*.csv"):
        if files := sorted(path.rglob(pattern)):
            return files
    raise FileNotFoundError(f"there is no kernel_details.csv or op_summary_*.csv below {path}")


def matching(kernels: Sequence[Kernel], pattern: str = OURS) -> list[Kernel]:
    """Those whose name holds the regular expression. ValueError, with the names there are, if none does."""
    found = [kernel for kernel in kernels if re.search(pattern, kernel.name)]
    if not found:
        names = Counter(kernel.name for kernel in kernels)
        there = ", ".join(f"{name} ({count})" for name, count in names.most_common(10)) or "none"
        raise ValueError(f"no kernel is named like {pattern!r}; kernels there: {there}")
    return found


def summarise(kernels: Sequence[Kernel]) -> list[Summary]:
    """By name, in the order of their first execution."""
    by_name: dict[str, list[Kernel]] = defaultdict(list)
    for kernel in kernels:
        by_name[kernel.name].append(kernel)
    summaries = []
    for name, runs in by_name.items():
        times = [run.duration for run in runs]
        fastest = min(runs, key=lambda run: run.duration)
        figures = (len(runs), min(times), statistics.median(times), max(times), fastest.core, fastest.metrics)
        summaries.append(Summary(name, *figures))
    return summaries


def time_per_call(kernels: Sequence[Kernel], calls: int | None = None) -> float:
    """Device time of one call: each kernel's shortest duration, times its executions per call.

    calls None: as many as there are steps, or where the file has no steps, as the rarest kernel has executions.
    """
    summaries = summarise(kernels)
    steps = {kernel.step for kernel in kernels if kernel.step}
    calls = calls or len(steps) or min(summary.calls for summary in summaries)
    return sum(summary.least * max(1, round(summary.calls / calls)) for summary in summaries)


def pipe_ratios(metrics: dict[str, float]) -> dict[str, float]:
    """Column name without _ratio -> ratio, of every pipe."""
    return {name.removesuffix("_ratio"): value for name, value in metrics.items() if name.endswith("_ratio")}


def busiest_pipe(metrics: dict[str, float]) -> tuple[str, float]:
    """Name as pipe_ratios has it, and ratio, of the pipe that is busy most; ("-", 0) without such columns."""
    return max(pipe_ratios(metrics).items(), key=lambda item: item[1], default=("-", 0.0))


def _read_file(path: Path) -> list[Kernel]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file)
        head = [name.strip() for name in next(rows, [])]
        columns = {field: _column(head, names) for field, names in _COLUMNS.items()}
        missing = ["/".join(_COLUMNS[field]) for field in _REQUIRED if columns[field] is None]
        if missing:
            raise ValueError(f"{path} must have columns {' and '.join(missing)}; got {', '.join(head) or 'no line'}")
        metrics = {index: name for index, name in enumerate(head) if _METRIC.fullmatch(name)}
        return [kernel for row in rows if row and (kernel := _kernel(row, columns, metrics))]


def _column(head: list[str], names: tuple[str, ...]) -> int | None:
    return next((head.index(name) for name in names if name in head), None)


def _kernel(row: list[str], columns: dict[str, int | None], metrics: dict[int, str]) -> Kernel | None:
    """None for a row without a duration, such as one of a task that never ended."""

    def cell(field: str) -> str:
        index = columns[field]
        return row[index].strip() if index is not None and index < len(row) else ""

    duration = _number(cell("duration"))
    if duration is None:
        return None
    read = {name: _number(row[index]) for index, name in metrics.items() if index < len(row)}
    return Kernel(
        name=cell("name"),
        duration=duration,
        type=cell("type"),
        core=cell("core"),
        start=_number(cell("start")),
        wait=_number(cell("wait")),
        blocks=_number(cell("blocks")),
        mix_blocks=_number(cell("mix_blocks")),
        step=cell("step"),
        metrics={name: value for name, value in read.items() if value is not None},
    )


def _number(text: str) -> float | None:
    try:
        return float(text.strip())
    except ValueError:
        return None  # N/A, or empty
