"""A simple model of the L2: how often K and V are read from device memory. See balance.py --reads.

32 cores advance together, a macro-block each at a time; the L2 holds the blocks used last. K, V and scales of a block
of 128 keys are one item. Factor: items that miss the L2, over those that must be read once.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Iterable

import numpy as np
import workloads
from qbsa import plan
from workloads import BLOCK, Workload

CORES = 32
L2_BYTES = 128 * 2**20
ITEM_BYTES = 2 * BLOCK * 128 + 4 * BLOCK  # K and V in e4m3, scales of K in fp32
ROOM = L2_BYTES // ITEM_BYTES
PAIR = 2
SINKS = WINDOW = 4  # blocks that every list of the published indexer holds


def workloads_of_table() -> list[Workload]:
    k = 1024
    return [
        workloads.dense("dense 8 x 16K, 32/4 heads", (32, 4), [16 * k] * 8, [16 * k] * 8),
        workloads.dense("dense 8 x 16K, 64/8 heads", (64, 8), [16 * k] * 8, [16 * k] * 8),
        workloads.dense("dense 64K, 32/4 heads", (32, 4), [64 * k], [64 * k]),
        workloads.dense("dense 32K, 64/8 heads", (64, 8), [32 * k], [32 * k]),
        workloads.dense("dense 128K, 64/8 heads", (64, 8), [128 * k], [128 * k]),
        workloads.stem("stem 128K, 32/4 heads", (32, 4), [128 * k]),
        workloads.stem("stem 128K, 64/8 heads", (64, 8), [128 * k]),
        workloads.dense("decode B 64, kv 8K, 32/4 heads", (32, 4), [1] * 64, [8 * k] * 64),
        workloads.dense("decode B 64, kv 32K, 32/4 heads", (32, 4), [1] * 64, [32 * k] * 64),
    ]


def print_table() -> None:
    print("| workload, 32 cores | K and V, MiB | plan | heads in order | dealt out |\n|---|---|---|---|---|")
    for workload in workloads_of_table():
        ranges = _planned(workload)
        numbers = []
        for order, tasks in (
            (_group_rank_first, ranges),
            (_heads_in_order, ranges),
            (_heads_in_order, [range(core, workload.tasks, CORES) for core in range(CORES)]),
        ):
            read, unique = read_items(tasks, _item_lists(workload, functools.partial(order, workload)))
            numbers.append(f"{read / unique:.2f}")
        size = unique * ITEM_BYTES / 2**20
        print(f"| {workload.name} | {size:.0f} | " + " | ".join(numbers) + " |", flush=True)
    print(
        "\nHeads in order: the same ranges of tasks numbered by batch, head, query block. Dealt out: task t of those on"
    )
    print("core t mod 32, which keeps all cores closest together and is not balanced.")


def _planned(workload: Workload) -> list[range]:
    made = plan.read_plan(workloads.make_plan(workload, CORES))
    return [range(core.task_begin, core.task_end) for core in made.cores]


def _group_rank_first(workload: Workload, task: int) -> tuple[int, int, int]:
    batch, heads_q, q_blocks = workload.lengths.shape
    return plan.place(task, batch=batch, heads_q=heads_q, heads_kv=workload.heads_kv, q_blocks=q_blocks)


def _heads_in_order(workload: Workload, task: int) -> tuple[int, int, int]:
    _, heads_q, q_blocks = workload.lengths.shape
    return task // (heads_q * q_blocks), task // q_blocks % heads_q, task % q_blocks


def _item_lists(workload: Workload, order: Callable[[int], tuple[int, int, int]]) -> Callable[[int], np.ndarray]:
    """Task -> the items of its list, in order."""
    _, heads, q_blocks = workload.lengths.shape
    visible = max(q_blocks, int(workload.lengths.max()))
    generator = np.random.default_rng(1)

    def items(task: int) -> np.ndarray:
        sequence, head, block = order(task)
        kv_head = head // (heads // workload.heads_kv)
        count = int(workload.lengths[sequence, head, block])
        return (sequence * workload.heads_kv + kv_head) * visible + _blocks(count, block + 1, generator)

    return items


def _blocks(count: int, visible: int, generator: np.random.Generator) -> np.ndarray:
    """`count` blocks: all that are visible, or the first, the last and random ones between."""
    if count >= visible or visible <= SINKS + WINDOW:
        return np.arange(count)
    drawn = generator.random(visible)
    drawn[:SINKS] = drawn[visible - WINDOW :] = 2
    return np.sort(np.argpartition(-drawn, count - 1)[:count])


def read_items(tasks_of_core: Iterable[Iterable[int]], items: Callable[[int], np.ndarray]) -> tuple[int, int]:
    """Items that miss the L2, and different items."""
    streams = [_pairs([items(task) for task in tasks]) for tasks in tasks_of_core]
    steps = max(len(stream) for stream in streams)
    together = np.full((steps, len(streams), PAIR), -1)
    for core, stream in enumerate(streams):
        together[: len(stream), core] = stream
    order = together[together >= 0].tolist()
    cached: OrderedDict[int, None] = OrderedDict()
    misses = 0
    for item in order:
        if item in cached:
            cached.move_to_end(item)
            continue
        misses += 1
        cached[item] = None
        if len(cached) > ROOM:
            cached.popitem(last=False)
    return misses, len(set(order))


def _pairs(lists: list[np.ndarray]) -> np.ndarray:
    """The macro-blocks of lists, [n, 2]; -1 beside the last entry of an odd list."""
    padded = [np.append(entries, -1) if len(entries) % PAIR else entries for entries in lists]
    return np.concatenate([np.empty(0, np.int64), *padded]).reshape(-1, PAIR)
