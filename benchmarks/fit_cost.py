"""Fits the scheduler's weights to the twin's clock: python benchmarks/fit_cost.py [SOC]. All figures are a model's.

First table: cycles by least squares over small calls, beside the weights of metadata/cost.h, and how far the fit is off
those calls. Second: what a plan says of whole calls, and what the clock says.
"""

from __future__ import annotations

import dataclasses
import statistics
import sys
from collections.abc import Sequence

import torch
import workloads
from qbsa import cases, library, plan, profile

ENTRIES = (1, 2, 3, 4, 7, 8, 12)
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


def main() -> None:
    soc = sys.argv[1] if len(sys.argv) > 1 else "950PR"
    found = fit(soc)
    print(f"| {soc}, model | cycles | in cost.h |\n|---|---|---|")
    for name, weight in library.contract().costs.items():
        print(f"| {name} | {found.weights[name]} | {weight} |")
    off = f"{found.lists_off:.1%} of a list, {found.piece_off:.0f} cycles of a piece, {found.merge_off:.0f} of a merge"
    print(f"\nStart of a core: {found.start} cycles. Largest residuals: {off}.")
    print("\n| call on 32 cores | plan | merge, of it | clock | clock / plan |\n|---|---|---|---|---|")
    for name, case in CALLS.items():
        for splits in (1, 0):
            ends, made = time_call(soc, cases.make_inputs(case), 32, splits)
            expected = found.start + made.max_cost
            cells = (str(expected), str(made.merge_cost), str(ends[-1]), f"{ends[-1] / expected:.2f}")
            print(f"| {name}, {len(made.splits)} split | " + " | ".join(cells) + " |", flush=True)


@dataclasses.dataclass(frozen=True)
class Fit:
    """The weights of metadata/cost.h by name, the start of a core, and the largest residuals. Cycles; lists_off: 1."""

    weights: dict[str, int]
    start: int
    lists_off: float
    piece_off: float
    merge_off: float


def fit(soc: str) -> Fit:
    lists, start, lists_off = fit_lists(soc)
    splits, piece_off, merge_off = fit_splits(soc)
    return Fit(lists | splits, start, lists_off, piece_off, merge_off)


def fit_lists(soc: str) -> tuple[dict[str, int], int, float]:
    """What one more list takes on one core, by the relative error; the start of a core is what is left of a call."""
    names = [f"k{kind}{name}" for kind in ROWS for name in ("Task", "MacroBlock", "Single", "Lone")]
    lists, measured, starts, empty = [], [], [], {}
    for kind, counts in ROWS.items():
        found = [_one_more(soc, rows, 0)[0] for rows in counts]
        empty[f"k{kind}Empty"] = round(statistics.mean(found))
        for rows in counts:
            for entries in ENTRIES:
                one, start = _one_more(soc, rows, entries)
                lists.append([_of_list(kind, entries).get(name, 0) for name in names])
                measured.append(one)
                starts.append(start)
    weights, off = _least_squares(lists, measured, relative=True)
    return dict(zip(names, weights, strict=True)) | empty, round(statistics.mean(starts)), off


def _one_more(soc: str, rows: int, entries: int) -> tuple[float, float]:
    """Cycles of one more list in a call, and what is left of the call without any."""
    cycles = []
    for tasks in TASKS:
        inputs = cases.make_inputs(cases.Case("", (tasks, 1), (rows,), (16 * 128,), max(entries, 1)))
        inputs["sparse_seq_len"].fill_(entries)
        cycles.append(time_call(soc, inputs, 1, 1)[0][-1])
    one = (cycles[1] - cycles[0]) / (TASKS[1] - TASKS[0])
    return one, cycles[0] - TASKS[0] * one


def _of_list(kind: str, entries: int) -> dict[str, int]:
    if entries == 1:
        return {f"k{kind}Lone": 1}
    return {f"k{kind}Task": 1, f"k{kind}MacroBlock": entries // 2, f"k{kind}Single": entries % 2}


def fit_splits(soc: str) -> tuple[dict[str, int], float, float]:
    """Several cores: the first kernel against whole lists as long as the pieces, the second against one without work."""
    pieces, merges = ([], []), ([], [])
    for rows in (row for counts in ROWS.values() for row in counts):
        groups = -(-min(rows, 32 if rows <= 64 else 64) // 8)
        for tasks, cores in SPLITS:
            pairs = PIECE_PAIRS * cores if tasks == 1 else LIST_PAIRS
            (first, last), made = time_call(soc, _lists(tasks, rows, pairs), cores, 0)
            (first_whole, last_whole), _ = time_call(soc, _lists(cores, rows, PIECE_PAIRS), cores, 0)
            of_unit = -(-groups // max(1, min(8, cores // len(made.splits))))
            most = max(split.pieces for split in made.splits)
            merges[0].append([1, of_unit, most, most * of_unit])
            merges[1].append(last - first - (last_whole - first_whole))
            if tasks == 1:
                pieces[0].append([groups])
                pieces[1].append(first - first_whole)
    piece, piece_off = _least_squares(*pieces)
    merge, merge_off = _least_squares(*merges)
    names = ("kPieceGroup", "kMerge", "kMergeGroup", "kMergePiece", "kMergeTile")
    return dict(zip(names, piece + merge, strict=True)), piece_off, merge_off


def _lists(count: int, rows: int, pairs: int) -> dict:
    """One list of `pairs` pairs of its own keys for each of `count` sequences of `rows` rows."""
    return cases.make_inputs(cases.Case("", (1, 1), (rows,) * count, (2 * pairs * 128,) * count, 2 * pairs))


def _least_squares(rows: Sequence, measured: Sequence, relative: bool = False) -> tuple[list[int], float]:
    design, cycles = torch.tensor(rows, dtype=torch.float64), torch.tensor(measured, dtype=torch.float64)
    scale = cycles if relative else torch.ones_like(cycles)
    solution = torch.linalg.lstsq(design / scale[:, None], (cycles / scale)[:, None]).solution[:, 0].round()
    return [int(weight) for weight in solution], float(((design @ solution - cycles) / scale).abs().max())


def time_call(soc: str, inputs: dict, cores: int, max_kv_splits: int) -> tuple[list[int], plan.Plan]:
    """Cycles at the end of each kernel of one call on the clock, and its plan."""
    workload = workloads.Workload(inputs["sparse_seq_len"], inputs["key"].shape[1], inputs["cu_seqlens_q"])
    metadata = workloads.make_plan(workload, cores, max_kv_splits)
    timed = profile.profile(inputs | {"metadata": metadata}, soc)
    return timed.report["launch_ends"], plan.read_plan(metadata)


if __name__ == "__main__":
    main()
