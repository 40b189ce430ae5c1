"""`python -m qbsa bench` and `python -m qbsa kernels`: see bench.py and kernels.py."""

from __future__ import annotations

import argparse
import csv
import dataclasses
from collections.abc import Sequence
from pathlib import Path

from . import bench, bench_chart, cases, kernels
from .console import Answer, Console, table

BENCH_TEXT = "time named calls: measured on the CPU or an NPU, modelled by the twin; compare with others"
BENCH_EXAMPLES = """
python -m qbsa bench                                     the cases that take seconds, on this CPU
python -m qbsa bench --list                              all named cases
python -m qbsa bench 'b1_*' --device npu --png bars.png  wall time is not asked: torch_npu.profiler is
python -m qbsa bench own.yaml decode_b8 --device twin    own cases (python -m qbsa bench --list shows the form)
python -m qbsa bench 'b8_*' --device twin --sample       large ones by parts, with the error of that
python -m qbsa bench decode_b8 --against mine:attend     another function, the same keyword arguments
python -m qbsa bench decode_b8 -o new.json --against old.json"""
KERNELS_TEXT = "read kernel_details.csv or op_summary of any profiler run, find our kernels, compare two runs"
KERNELS_EXAMPLES = """
python -m qbsa kernels profile/                          every kernel_details.csv below the folder
python -m qbsa kernels new/ old/op_summary_1.csv         two runs, with ratios
python -m qbsa kernels run/ --name 'MatMul|Softmax'      other kernels"""
QUICK = ("prefill_8k_quarter", "chunk_1k_on_16k", "decode_b8")


def add_bench_arguments(parser: argparse.ArgumentParser) -> None:
    suffixes = ", ".join(cases.FILE_SUFFIXES)
    text = f"named cases or patterns, files of own cases ({suffixes}), bundles; default: {' '.join(QUICK)}"
    parser.add_argument("cases", nargs="*", metavar="CASE", default=QUICK, help=text)
    parser.add_argument("--list", action="store_true", help="show the named cases and end")
    parser.add_argument("--device", default=bench.Settings.device, help="cpu (default), npu, npu:1 .. or twin")
    parser.add_argument("--soc", default=bench.Settings.soc, help="chip of the twin: 950PR (default), 950DT, 950DT36")
    parser.add_argument("--splits", type=int, default=1, metavar="N", help="max_kv_splits of our plans (default 1)")
    parser.add_argument("--warmups", type=int, default=bench.Settings.warmups, metavar="N", help="default %(default)s")
    parser.add_argument("--repeats", type=int, default=bench.Settings.repeats, metavar="N", help="default %(default)s")
    text = "host time that one case may take on cpu and twin (default %(default)s); longer ones are left out"
    parser.add_argument("--limit", type=float, default=bench.Settings.limit, metavar="SECONDS", help=text)
    parser.add_argument("--sample", action="store_true", help="twin: estimate what is left out from parts of it")
    text = "module:function with the arguments of quant_block_sparse_attn, or a saved result"
    parser.add_argument("--against", metavar="OTHER", help=text)
    text = "module:function that makes OTHER's metadata argument, called as quant_block_sparse_attn_metadata"
    parser.add_argument("--against-plan", metavar="M:F", help=text)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE.json", help="save the result")
    parser.add_argument("--csv", type=Path, metavar="FILE.csv", help="write the table")
    parser.add_argument("--png", type=Path, metavar="FILE.png", help="draw bars; needs qbsa[plot]")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="npu: keep the files of the profiler there")


def run_bench(options: argparse.Namespace, console: Console) -> Answer:
    if options.list:
        return _list()
    settings = _settings(options)
    sources = cases.find(options.cases)
    against = options.against or ""
    other_call = _other_function(options, settings)
    other = bench.load(Path(against)) if against and other_call is None else None
    ours = bench.run(sources, settings, console)
    if other_call:
        other = bench.run(sources, settings, console, other_call, against)
    if options.output:
        ours.save(options.output)
    head, rows = _rows(ours, other)
    if options.csv:
        from_where = [ours.source, ours.device, ours.date]
        _write_csv(options.csv, [*head, "source", "device", "date"], [[*row, *from_where] for row in rows])
    if options.png:
        bench_chart.draw(ours, other, options.png)
    text = "\n".join([*_title(ours, other), table(head, rows)])
    data = {"ours": dataclasses.asdict(ours), "other": other and dataclasses.asdict(other)}
    return Answer(text, data)


def _list() -> Answer:
    known = {name: dataclasses.asdict(case) for name, case in cases.CASES.items()}
    listed = table(("case", "what"), [(name, case.text) for name, case in cases.CASES.items()])
    return Answer(f"{listed}\n\n{cases.FILE_FORM}", known)


def add_kernels_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, metavar="RUN", help="a .csv of the profiler, or a folder of its output")
    parser.add_argument("other", type=Path, nargs="?", metavar="OTHER", help="a second run, to compare")
    parser.add_argument("--name", default=kernels.OURS, metavar="REGEX", help="kernels of RUN (default: ours)")
    parser.add_argument("--other-name", metavar="REGEX", help="kernels of OTHER (default: as --name)")
    parser.add_argument("--csv", type=Path, metavar="FILE.csv", help="write the table")


def run_kernels(options: argparse.Namespace, console: Console) -> Answer:
    runs = [(options.path, options.name)]
    if options.other:
        runs.append((options.other, options.other_name or options.name))
    found = [kernels.matching(kernels.read(path), name) for path, name in runs]
    head = ("kernel", "calls", "min us", "median us", "max us", "core", "busiest pipe")
    sections, data = [], []
    times = [kernels.time_per_call(executions) for executions in found]
    for (path, _), executions, a_call in zip(runs, found, times):
        summaries = kernels.summarise(executions)
        rows = [_kernel_row(summary) for summary in summaries]
        sections.append(f"{path}: measured by a profiler, {a_call:.2f} us a call\n{table(head, rows)}")
        found_here = [dataclasses.asdict(summary) for summary in summaries]
        data.append({"path": str(path), "us": a_call, "kernels": found_here})
        if options.csv:
            name = options.csv if path == options.path else options.csv.with_stem(f"{options.csv.stem}_other")
            _write_csv(name, head, rows)
    if options.other:
        ratio = times[1] / times[0]
        sections.append(f"{options.other} takes {ratio:.3f} times as long as {options.path}")
        sections += _compared(found)
    return Answer("\n\n".join(sections), data if options.other else data[0])


def _settings(options: argparse.Namespace) -> bench.Settings:
    if options.device not in ("cpu", "twin") and not options.device.startswith("npu"):
        raise ValueError(f"--device must be cpu, npu, npu:N or twin; got {options.device!r}")
    for name, least in (("warmups", 0), ("repeats", 1), ("limit", 0)):
        if getattr(options, name) < least:
            raise ValueError(f"--{name} must be at least {least}; got {getattr(options, name)}")
    names = [field.name for field in dataclasses.fields(bench.Settings)]
    return bench.Settings(**{name: getattr(options, name) for name in names})


def _other_function(
    options: argparse.Namespace, settings: bench.Settings
) -> tuple[bench.Call, bench.Call | None] | None:
    if not options.against or ":" not in options.against:
        return None
    if settings.device == "twin":
        raise ValueError("--against must be a saved result with --device twin: the clock times our kernels alone")
    plan = bench.function(options.against_plan) if options.against_plan else None
    return bench.function(options.against), plan


def _title(ours: bench.Result, other: bench.Result | None) -> list[str]:
    lines = []
    for result in (ours, other):
        if result:
            lines.append(f"{result.name}: {result.source}, {result.date}, {result.device}, {result.version}")
    return lines


def _rows(ours: bench.Result, other: bench.Result | None) -> tuple[list[str], list[list[str]]]:
    head = ["case", "entries", "us", "slowest / best", "us a 1000 entries", "busiest pipe"]
    head += [other.name + " us", "ratio"] if other else []
    rows = []
    for timing in ours.timings:
        estimate = "~" if ours.is_estimate(timing.case) else ""
        row = [timing.case, str(timing.entries), estimate + _number(timing.us)]
        row.append(f"{max(timing.runs) / min(timing.runs):.2f}" if timing.runs else "-")
        row.append(_number(timing.us and timing.us / max(1, timing.entries) * 1000))
        row.append("{} {:.2f}".format(*kernels.busiest_pipe(timing.columns)) if timing.columns else "-")
        if other:
            theirs = other.us_of(timing.case)
            row.append(_number(theirs))
            row.append(f"{theirs / timing.us:.3f}" if theirs and timing.us else "-")
        rows.append([*row, timing.note])
    return [*head, "note"], rows


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _kernel_row(summary: kernels.Summary) -> list[str]:
    times = (f"{value:.2f}" for value in (summary.least, summary.median, summary.most))
    pipe = "{} {:.3f}".format(*kernels.busiest_pipe(summary.metrics)) if summary.metrics else "-"
    return [summary.name, str(summary.calls), *times, summary.core or "-", pipe]


def _compared(found: Sequence[Sequence[kernels.Kernel]]) -> list[str]:
    """The metric columns of the longest kernel of each run, side by side; none where a run has no metrics."""
    longest = [max(kernels.summarise(executions), key=lambda summary: summary.least) for executions in found]
    names = [name for name in longest[0].metrics if name in longest[1].metrics]
    rows = [[name, *(f"{summary.metrics[name]:.6g}" for summary in longest)] for name in names]
    return [table(("column of the longest kernel", "RUN", "OTHER"), rows)] if rows else []


def _write_csv(path: Path, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([head, *rows])
