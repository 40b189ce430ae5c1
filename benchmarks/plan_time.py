"""How long the scheduler takes on one core of this machine: python benchmarks/plan_time.py"""

from __future__ import annotations

import datetime
import functools
import platform
import statistics
import time

import torch
import workloads
from qbsa import library

REPEATS = 100


def main() -> None:
    print(f"{cpu()}, {library.current().path.name}, {datetime.date.today()}; microseconds, median (best)")
    print("| workload | tasks | whole | split allowed |\n|---|---|---|---|")
    for workload in workloads.committed():
        if workload.tasks >= 2048:
            cells = [microseconds(workload, max_kv_splits) for max_kv_splits in (1, 0)]
            print(f"| {workload.name} | {workload.tasks} | {cells[0]} | {cells[1]} |", flush=True)


def microseconds(workload: workloads.Workload, max_kv_splits: int) -> str:
    plan = torch.zeros(library.plan_words(max_kv_splits), dtype=torch.int32)
    args = workloads.schedule_args(workload, 32, max_kv_splits, plan)
    schedule = functools.partial(library.current().schedule, args)
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        schedule()
        times.append(1e6 * (time.perf_counter() - started))
    return f"{statistics.median(times):.0f} ({min(times):.0f})"


def cpu() -> str:
    with open("/proc/cpuinfo") as lines:
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


if __name__ == "__main__":
    main()
