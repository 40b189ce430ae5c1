"""How even plans are, and what a core reads again: python benchmarks/balance.py [--reads]

Makespan: cost of the busiest core and the longest merge after it. Bound: what no plan goes below, the even share of all
cores or the largest piece that cannot be cut. All costs are the model of metadata/cost.h.
"""

from __future__ import annotations

import argparse
import statistics

import greedy
import reads
import torch
import workloads
from qbsa import library, plan
from workloads import Workload

CORES = (28, 32, 36)
SHARE = 0.02  # the goal: this much above the bound, or one macro-block and the fixed cost of a task


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reads", action="store_true", help="only the table of what is read again")
    if parser.parse_args().reads:
        reads.print_table()
        return
    print_balance()
    print()
    print_gains()
    print()
    reads.print_table()


def bound(workload: Workload, cores: int, may_split: bool) -> int:
    costs = workload.costs
    piece = min(int(costs.max()), slack()) if may_split else int(costs.max())
    return max(-(-int(costs.sum()) // cores), piece)


def bound_of_whole_tasks(workload: Workload, cores: int) -> int:
    """What no plan of whole tasks goes below, contiguous or not: of the k * cores + 1 largest, some core has k + 1."""
    costs = workload.costs.sort(descending=True).values
    before = torch.cat([torch.zeros(1, dtype=torch.int64), costs.cumsum(0)])
    most = torch.arange(1, (len(costs) - 1) // cores + 1)
    smallest = before[most * cores + 1] - before[most * cores - most]
    return max(bound(workload, cores, False), *smallest.tolist(), 0)


def slack() -> int:
    """One macro-block and the fixed cost of its task."""
    cost = library.contract().costs
    return cost["kMacroBlock"] + cost["kTask"]


def meets_goal(makespan: int, lower: int) -> bool:
    return makespan - lower <= max(SHARE * lower, slack())


def print_balance() -> None:
    head = "| workload | tasks |" + "".join(f" {cores} cores: whole | split | pieces |" for cores in CORES)
    print(head + "\n|---|---|" + "---|---|---|" * len(CORES))
    missed, by_nature = {1: 0, 0: 0}, 0
    for workload in workloads.committed():
        cells = []
        for cores in CORES:
            for splits in (1, 0):
                metadata = workloads.make_plan(workload, cores, splits)
                made = plan.read_plan(metadata)
                lower = bound(workload, cores, splits == 0)
                good = meets_goal(made.max_cost, lower)
                missed[splits] += not good
                if splits == 1 and not good:
                    by_nature += meets_goal(made.max_cost, bound_of_whole_tasks(workload, cores))
                cells.append(f"{made.max_cost / lower - 1:.1%}{'' if good else ' (!)'}")
            cells.append(str(sum(split.pieces for split in made.splits)))
        print(f"| {workload.name} | {workload.tasks} | " + " | ".join(cells) + " |")
    total = len(workloads.committed()) * len(CORES)
    print(f"\nMakespan above its bound. Beyond the goal (!): whole {missed[1]}, split {missed[0]}, of {total} each.")
    print(f"Of the whole ones {by_nature} are within the goal of what whole tasks, in whatever order, can reach.")


def entries_of_cores(workload: Workload, made: plan.Plan) -> list[int]:
    entries = workload.entries.clamp(min=0)
    before = torch.cat([torch.zeros(1, dtype=torch.int64), entries.cumsum(0)]).tolist()

    def up_to(task: int, pair: int) -> int:
        return before[task] + (min(2 * pair, int(entries[task])) if pair else 0)

    return [up_to(*core.end) - up_to(*core.begin) for core in made.cores]


def print_gains() -> None:
    print("| workload, 32 cores | whole | split | whole, entries | split, entries | one section: whole | split |")
    print("|---|---|---|---|---|---|---|")
    columns: list[list[float]] = [[] for _ in range(6)]
    for workload in workloads.committed():
        theirs = greedy_makespans(workload, greedy.SECTION_BYTES)
        plans = [plan.read_plan(workloads.make_plan(workload, 32, splits)) for splits in (1, 0)]
        gains = [theirs[0] / made.max_cost for made in plans]
        gains += [theirs[1] / max(entries_of_cores(workload, made)) for made in plans]
        gains += [greedy_makespans(workload, None)[0] / made.max_cost for made in plans]
        for column, gain in zip(columns, gains):
            column.append(gain)
        print(f"| {workload.name} | " + " | ".join(f"{gain:.3f}" for gain in gains) + " |")
    for name, of in (("worst", min), ("median", statistics.median), ("largest", max)):
        print(f"| {name} | " + " | ".join(f"{of(column):.3f}" for column in columns) + " |")
    print("\nMakespan of the published rule / ours: in our unit of cost; in list entries, which is theirs; in our unit")
    print("against the rule without its sections, each of which is shared out alone.")


def greedy_makespans(workload: Workload, section_bytes: int | None) -> tuple[int, int]:
    """In our unit of cost, and in list entries."""
    rows = greedy.cores_of_rows(workload.lengths, 32, section_bytes)
    core = workload.in_task_order(rows.view(workload.lengths.shape))

    def busiest(values: torch.Tensor) -> int:
        return int(torch.zeros(32, dtype=torch.int64).index_add_(0, core, values.clamp(min=0)).max())

    return busiest(workload.costs), busiest(workload.entries)


if __name__ == "__main__":
    main()
