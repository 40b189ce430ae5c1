"""Fits the scheduler's weights to the twin's clock: python benchmarks/fit_cost.py [SOC]. All figures are a model's.

First table: cycles of a core by least squares over small cases, its start taken apart, beside the weights of
metadata/cost.h, which count vector instructions. Second: what a plan says of whole calls, and what the clock says.
"""

from __future__ import annotations

import sys

import torch
import workloads
from qbsa import cases, library, plan, profile

ENTRIES = (1, 2, 3, 4, 7, 8, 12)
TASKS = (4, 8, 16)  # heads of one KV head: after the first, K and V come from the L2
ROWS = {False: 128, True: 32}  # of a task; short or not
CALLS = {
    "decode, 3 x 1 row on 16K, 16/2 heads, 60 blocks": cases.Case("", (16, 2), (1,) * 3, (16384,) * 3, 60),
    "chunk of 640 on 8K, 8/2 heads, all blocks": cases.Case("", (8, 2), (640,), (8192,)),
    "1 x 2K + 7 x 200, 8/2 heads, all blocks": cases.Case("", (8, 2), (2048,) + (200,) * 7, (2048,) + (200,) * 7),
}


def main() -> None:
    soc = sys.argv[1] if len(sys.argv) > 1 else "950PR"
    fitted = {short: fit(soc, short) for short in ROWS}
    print(f"| {soc}, model | cycles | of a macro-block | in cost.h |\n|---|---|---|---|")
    weight = library.contract().costs
    names = {False: ("kTask", "kMacroBlock", "kSingle"), True: ("kTask", "kShortMacroBlock", "kShortSingle")}
    base = fitted[False][0][1]
    for short, (cycles, residual) in fitted.items():
        for name, value in zip(names[short], cycles[:3]):
            print(f"| {name} | {value:.0f} | {value / base:.3f} | {weight[name] / weight['kMacroBlock']:.3f} |")
        print(f"| start of a core | {cycles[3]:.0f} | | |\n| largest residual | {residual:.1%} | | |")
    print("\n| call on 32 cores | plan, cycles | merge, of cost | clock | clock / plan |\n|---|---|---|---|---|")
    start = fitted[False][0][3]
    for name, case in CALLS.items():
        for splits in (1, 0):
            cycles, made = time_call(soc, cases.make_inputs(case), 32, splits)
            expected = start + made.max_cost / weight["kMacroBlock"] * base
            cells = (f"{expected:.0f}", str(made.merge_cost), str(cycles), f"{cycles / expected:.2f}")
            print(f"| {name}, {len(made.splits)} split | " + " | ".join(cells) + " |", flush=True)


def fit(soc: str, short: bool) -> tuple[list[float], float]:
    """Cycles of a task, a macro-block, a single entry and the start of a core; and the largest relative residual."""
    rows, measured = [], []
    for tasks in TASKS:
        for entries in ENTRIES:
            case = cases.Case("", (tasks, 1), (ROWS[short],), (16 * 128,), entries)
            rows.append([tasks, tasks * (entries // 2), tasks * (entries % 2), 1])
            measured.append(time_call(soc, cases.make_inputs(case), 1, 1)[0])
    design, cycles = torch.tensor(rows, dtype=torch.float64), torch.tensor(measured, dtype=torch.float64)
    solution = torch.linalg.lstsq(design, cycles[:, None]).solution[:, 0]
    residual = (design @ solution / cycles - 1).abs().max()
    return solution.tolist(), float(residual)


def time_call(soc: str, inputs: dict, cores: int, max_kv_splits: int) -> tuple[int, plan.Plan]:
    """Cycles of one call on the clock, and its plan."""
    workload = workloads.Workload(inputs["sparse_seq_len"], inputs["key"].shape[1], inputs["cu_seqlens_q"])
    metadata = workloads.make_plan(workload, cores, max_kv_splits)
    timed = profile.profile(inputs | {"metadata": metadata}, soc)
    return timed.report["cycles"], plan.read_plan(metadata)


if __name__ == "__main__":
    main()
