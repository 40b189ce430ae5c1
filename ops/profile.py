"""Where the time of a call would go on a chip, by the clock of the twin. Every figure is a model, none a measurement.

profile() runs one call in mode "timed"; docs/clock.md has the model, its constants and how far it is off.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from . import cases, kernels, library, pictures


@dataclass(frozen=True)
class Profile:
    """What the clock says about one call.

    report["columns"] has the names of the profiler's columns; report["calls"] every call and wait with its place in the
    source, summed over the AICs or AIVs; report["cores"] the same for each core. Cycles unless a name says us.
    """

    case: str
    report: dict[str, Any]

    def busiest_pipe(self) -> tuple[str, float]:
        """Column name and ratio of the pipe that is busy most."""
        found = kernels.busiest_pipe(self.report["columns"])
        assert found, "the clock reports every pipe"
        return found

    def waits(self, kind: str) -> dict[str, list[tuple[str, float]]]:
        """Pipe -> (flag and place, share of the time of the cores of that kind), longest first; kind: AIC or AIV."""
        columns = self.report["columns"]
        total = columns["aic_total_cycles" if kind == "AIC" else "aiv_total_cycles"]
        found = defaultdict(list)
        for call in self.report["calls"]:
            if call["kind"] == kind and call["waited"] > 0:
                found[call["pipe"]].append((f"{call['call']} ({call['place']})", call["waited"] / total))
        return {pipe: sorted(waits, key=lambda wait: -wait[1]) for pipe, waits in found.items()}

    def table(self) -> str:
        """For people: totals, columns, longest waits."""
        report = self.report
        columns, total = report["columns"], report["l2_bytes"]
        hits = 1 - min(1.0, report["hbm_bytes"] / total) if total else 0.0
        pipe, ratio = self.busiest_pipe()
        lines = [
            f"{self.case} on {report['chip']}, {report['groups']} groups at {report['mhz']:g} MHz: model, not measured",
            f"duration(us)        {report['duration_us']:12.2f}   {report['cycles']} cycles",
            f"busiest pipe        {pipe:>12}   {ratio:.3f} of its time",
            f"L2, HBM (MB)        {total / 1e6:12.2f}   {report['hbm_bytes'] / 1e6:.2f}, {hits:.0%} from L2",
        ]
        lines += [f"{name:<20}{value:12.6g}" for name, value in columns.items()]
        for kind in ("AIC", "AIV"):
            for pipe, waits in sorted(self.waits(kind).items()):
                lines += [
                    f"{kind} {pipe:<7} waited {share:6.1%} for {name}" for name, share in waits[:3] if share >= 0.005
                ]
        return "\n".join(lines)


def profile(
    inputs: dict[str, Any], soc: str = "950PR", trace: Path | None = None, traced_groups: int = 1, case: str = "call"
) -> Profile:
    """Times one call of quant_block_sparse_attn on a chip.

    inputs: its keyword arguments, CPU tensors. trace: gets a Chrome trace (chrome://tracing, Perfetto) of the
    traced_groups groups that have most to do. ValueError for an unknown soc, otherwise what the call itself raises.
    """
    with library.clock(library.Clock(soc, trace, traced_groups)):
        torch.ops.qbsa.quant_block_sparse_attn(**inputs)
        twin = library.current()
        assert isinstance(twin, library.TimedTwin)
        return Profile(case, twin.clock_report())


def profile_case(name: str, soc: str = "950PR", trace: Path | None = None, traced_groups: int = 1) -> Profile:
    """Like profile, for the name of a case or the path of a bundle; ValueError if it names several or none."""
    source = cases.find_one(name)
    return profile(source.inputs(), soc, trace, traced_groups, source.name)


def timeline(trace: Path) -> dict[str, list[tuple[float, float]]]:
    """Of a Chrome trace of profile(): core and pipe -> (start, duration) in us of what it ran."""
    events = json.loads(trace.read_text())["traceEvents"]
    cores = {event["pid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    rows: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X" and event["cat"] == "run":
            rows[f"{cores[event['pid']]} {event['tid']}"].append((event["ts"], event["dur"]))
    return dict(rows)


def plot(trace: Path, png: Path, title: str = "") -> None:
    """Draws a Chrome trace of profile() as a timeline, one row a pipe. RuntimeError without matplotlib."""
    rows = timeline(trace)
    canvas = pictures.figure(14, 1 + 0.28 * len(rows))
    axes = canvas.subplots()
    for row, spans in enumerate(rows.values()):
        axes.broken_barh(spans, (row - 0.4, 0.8), color=f"C{row % 10}")
    axes.set_yticks(range(len(rows)), rows)
    axes.invert_yaxis()
    axes.set_xlabel("us (model)")
    axes.set_title(f"{title} (model, not measured)".strip())
    canvas.savefig(png)


@contextlib.contextmanager
def kept_or_temporary(trace: Path | None) -> Iterator[Path]:
    """`trace`, or a file that is gone afterwards."""
    if trace:
        yield trace
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "trace.json"
