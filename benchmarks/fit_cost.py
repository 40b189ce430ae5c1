"""Fits the scheduler's weights to the twin's clock: python benchmarks/fit_cost.py [SOC]. All figures are a model's.

First table: cycles by least squares over small calls, beside the weights of metadata/cost.h, and how far the fit is off
those calls. Second: what a plan says of whole calls, and what the clock says.
"""

from __future__ import annotations

import dataclasses
import itertools
import statistics
import sys
from collections.abc import Mapping

import torch
import workloads
from qbsa import cases, library, plan, profile

ENTRIES = (1, 2, 3, 4, 8, 16, 31, 32, 63, 64)
LONGEST = max(ENTRIES)
TASKS = (8, 16)  # heads of one KV head: after the first, K and V come from the L2
ROWS = {"": (128, 72), "Short": (64, 1)}  # of a query block, by the kind in the names of weights
# Lists and cores: one list in many pieces, and several cut once or more.
SPLITS = ((1, 2), (1, 3), (1, 4), (1, 8), (1, 16), (3, 4), (7, 8), (8, 16), (4, 16))
PIECE_PAIRS = 8
LIST_PAIRS = 32  # where several lists are cut
CALLS = {
    "decode, 3 x 1 row on 16K, 16/2 heads, 60 blocks": cases.Case("", (16, 2), (1,) * 3, (16384,) * 3, 60),
    "chunk of 640 on 8K, 8/2 heads, all blocks": cases.Case("", (8, 2), (640,), (8192,)),
    "1 x 2K + 7 x 200, 8/2 heads, all blocks": cases.Case("", (8, 2), (2048,) + (200,) * 7, (2048,) + (200,) * 7),
}


@dataclasses.dataclass(frozen=True)
class Points:
    """What the clock measured: row k of the design holds how often each weight counts in measurement k."""

    names: tuple[str, ...]
    design: list[list[int]]
    cycles: list[float]
    relative: bool = False  # errors in parts of the measurement, not in cycles

    def fit(self) -> dict[str, int]:
        """The weights by least squares."""
        design, cycles, scale = self._tensors()
        solution = torch.linalg.lstsq(design / scale[:, None], (cycles / scale)[:, None]).solution[:, 0]
        return {name: round(weight) for name, weight in zip(self.names, solution.tolist(), strict=True)}

    def largest_error(self, weights: Mapping[str, int]) -> float:
        design, cycles, scale = self._tensors()
        sums = design @ torch.tensor([weights[name] for name in self.names], dtype=torch.float64)
        return float(((sums - cycles) / scale).abs().max())

    def _tensors(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        design, cycles = (torch.tensor(x, dtype=torch.float64) for x in (self.design, self.cycles))
        return design, cycles, cycles if self.relative else torch.ones_like(cycles)


def main() -> None:
    soc = sys.argv[1] if len(sys.argv) > 1 else "950PR"
    weights = library.contract().costs
    lists, start = measure_lists(soc)
    print(f"| {soc}, model | cycles | in cost.h |\n|---|---|---|")
    errors = []
    for name, points in {"lists": lists, "empty lists": measure_empty_lists(soc), **measure_splits(soc)}.items():
        fitted = points.fit()
        for weight, cycles in fitted.items():
            print(f"| {weight} | {cycles} | {weights[weight]} |")
        error = points.largest_error(fitted)
        errors.append(f"{name} {error:.1%}" if points.relative else f"{name} {error:.0f} cycles")
    print(f"\nStart of a core: {start} cycles. Largest errors of the fit: {', '.join(errors)}.")
    print("\n| call on 32 cores | plan | merge, of it | clock | clock / plan |\n|---|---|---|---|---|")
    for name, case in CALLS.items():
        for splits in (1, 0):
            ends, made = time_call(soc, cases.make_inputs(case), 32, splits)
            expected = start + made.max_cost
            cells = (str(expected), str(made.merge_cost), str(ends[-1]), f"{ends[-1] / expected:.2f}")
            print(f"| {name}, {len(made.splits)} split | " + " | ".join(cells) + " |", flush=True)


def measure_lists(soc: str) -> tuple[Points, int]:
    """One more list on one core, and the start of a core, which is what is left of a call."""
    names = tuple(f"k{kind}{name}" for kind in ROWS for name in ("Task", "MacroBlock", "Single", "Lone"))
    points, starts = Points(names, [], [], relative=True), []
    for kind, counts in ROWS.items():
        for rows, entries in itertools.product(counts, ENTRIES):
            one, start = _one_more(soc, rows, entries)
            points.design.append([_of_list(kind, entries).get(name, 0) for name in names])
            points.cycles.append(one)
            starts.append(start)
    return points, round(statistics.mean(starts))


def measure_empty_lists(soc: str) -> Points:
    points = Points(tuple(f"k{kind}Empty" for kind in ROWS), [], [], relative=True)
    for kind, counts in ROWS.items():
        for rows in counts:
            points.design.append([int(kind == other) for other in ROWS])
            points.cycles.append(_one_more(soc, rows, 0)[0])
    return points


def _one_more(soc: str, rows: int, entries: int) -> tuple[float, float]:
    """Cycles of one more list in a call, and what is left of the call without any."""
    cycles = []
    for tasks in TASKS:
        inputs = cases.make_inputs(cases.Case("", (tasks, 1), (rows,), (LONGEST * 128,), max(entries, 1)))
        inputs["sparse_seq_len"].fill_(entries)
        cycles.append(time_call(soc, inputs, 1, 1)[0][-1])
    one = (cycles[1] - cycles[0]) / (TASKS[1] - TASKS[0])
    return one, cycles[0] - TASKS[0] * one


def _of_list(kind: str, entries: int) -> dict[str, int]:
    if entries == 1:
        return {f"k{kind}Lone": 1}
    return {f"k{kind}Task": 1, f"k{kind}MacroBlock": entries // 2, f"k{kind}Single": entries % 2}


def measure_splits(soc: str) -> dict[str, Points]:
    """Several cores: the first kernel against whole lists as long as the pieces, the second against none to merge."""
    pieces = Points(("kPieceGroup",), [], [])
    merges = Points(("kMerge", "kMergeGroup", "kMergePiece", "kMergeTile"), [], [])
    for rows, (tasks, cores) in itertools.product((rows for counts in ROWS.values() for rows in counts), SPLITS):
        pairs = PIECE_PAIRS * cores if tasks == 1 else LIST_PAIRS
        (first, last), made = time_call(soc, _lists(tasks, rows, pairs), cores, 0)
        (first_whole, last_whole), _ = time_call(soc, _lists(cores, rows, PIECE_PAIRS), cores, 0)
        groups = workloads.merged_groups(rows, len(made.splits), cores)
        most = max(split.pieces for split in made.splits)
        merges.design.append([1, groups, most, most * groups])
        merges.cycles.append(last - first - (last_whole - first_whole))
        if tasks == 1:
            pieces.design.append([workloads.row_groups(rows)])
            pieces.cycles.append(first - first_whole)
    return {"pieces": pieces, "merges": merges}


def _lists(count: int, rows: int, pairs: int) -> dict:
    """One list of `pairs` pairs of its own keys for each of `count` sequences of `rows` rows."""
    return cases.make_inputs(cases.Case("", (1, 1), (rows,) * count, (2 * pairs * 128,) * count, 2 * pairs))


def time_call(soc: str, inputs: dict, cores: int, max_kv_splits: int) -> tuple[list[int], plan.Plan]:
    """Cycles at the end of each kernel of one call on the clock, and its plan."""
    workload = workloads.Workload(inputs["sparse_seq_len"], inputs["key"].shape[1], inputs["cu_seqlens_q"])
    metadata = workloads.make_plan(workload, cores, max_kv_splits)
    timed = profile.profile(inputs | {"metadata": metadata}, soc)
    return timed.report["launch_ends"], plan.read_plan(metadata)


if __name__ == "__main__":
    main()
