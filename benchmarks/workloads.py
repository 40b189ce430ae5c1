"""What the scheduler is judged on: list lengths of many kinds of calls, and plans for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import torch
from qbsa import library, sparsity

BLOCK = 128


@dataclasses.dataclass(frozen=True)
class Workload:
    """Lengths only, as the scheduler sees a call."""

    lengths: torch.Tensor  # int32 [batch, heads_q, q_blocks]
    heads_kv: int
    cu_seqlens_q: torch.Tensor | None = None  # int32 [batch + 1]; None: every query block is full
    name: str = ""

    @property
    def tasks(self) -> int:
        return self.lengths.numel()

    def in_task_order(self, values: torch.Tensor) -> torch.Tensor:
        """[batch, heads_q, q_blocks] -> [tasks], as plan.place numbers them."""
        batch, heads_q, q_blocks = values.shape
        return values.reshape(batch, self.heads_kv, heads_q // self.heads_kv, q_blocks).permute(2, 0, 1, 3).flatten()

    @property
    def entries(self) -> torch.Tensor:
        """Of each task; -1: the sequence does not have that query block. int64 [tasks]."""
        return self.in_task_order(torch.where(self._rows > 0, self.lengths.long().clamp(min=0), -1))

    @property
    def is_short(self) -> torch.Tensor:
        """Whether at most half of the rows of a task's query block exist; bool [tasks]."""
        return self.rows <= BLOCK // 2

    @property
    def rows(self) -> torch.Tensor:
        """Of each task's query block; int64 [tasks]."""
        return self.in_task_order(self._rows)

    @property
    def costs(self) -> torch.Tensor:
        """Of each task, in cycles of the scheduler's model; int64 [tasks]."""
        cost, entries, short = library.contract().costs, self.entries, self.is_short
        task, macro_block, single, lone, empty = (
            torch.where(short, cost[f"kShort{name}"], cost[f"k{name}"])
            for name in ("Task", "MacroBlock", "Single", "Lone", "Empty")
        )
        whole = torch.where(entries == 1, lone, task + entries // 2 * macro_block + entries % 2 * single)
        return torch.where(entries > 0, whole, torch.where(entries == 0, empty, 0))

    @property
    def _rows(self) -> torch.Tensor:
        batch, heads_q, q_blocks = self.lengths.shape
        rows = torch.full((batch,), q_blocks * BLOCK) if self.cu_seqlens_q is None else self.cu_seqlens_q.diff().long()
        of_block = (rows[:, None] - torch.arange(q_blocks) * BLOCK).clamp(0, BLOCK)
        return of_block[:, None].expand(-1, heads_q, -1)


def row_groups(rows: int) -> int:
    """Groups of eight rows that the busier vector core has of a query block of `rows` rows."""
    share = BLOCK // 4 if rows <= BLOCK // 2 else BLOCK // 2
    return -(-min(rows, share) // 8)


def merged_groups(rows: int, splits: int, cores: int) -> int:
    """Groups of eight rows of one split task among `splits` that a vector core merges."""
    return -(-row_groups(rows) // min(max(cores // splits, 1), 8))


def make_plan(workload: Workload, cores: int, max_kv_splits: int = 1) -> torch.Tensor:
    """The metadata tensor for `cores` cores; 0: the library's default."""
    plan = torch.zeros(library.plan_words(max_kv_splits), dtype=torch.int32)
    library.current().schedule(schedule_args(workload, cores, max_kv_splits, plan))
    return plan


def schedule_args(workload: Workload, cores: int, max_kv_splits: int, plan: torch.Tensor) -> dict[str, int]:
    """The fields of ScheduleArgs."""
    batch, heads_q, q_blocks = workload.lengths.shape
    strides = zip(("batch", "head", "block"), workload.lengths.stride(), strict=True)
    return {
        **{f"seq_len_{axis}_stride": stride for axis, stride in strides},
        **{"sparse_seq_len": workload.lengths.data_ptr(), "plan": plan.data_ptr()},
        "cu_seqlens_q": 0 if workload.cu_seqlens_q is None else workload.cu_seqlens_q.data_ptr(),
        **{"batch": batch, "heads_q": heads_q, "heads_kv": workload.heads_kv, "q_blocks": q_blocks},
        **{"cores": cores, "max_kv_splits": max_kv_splits},
    }


def committed() -> list[Workload]:
    """The set that docs/scheduler.md reports."""
    k = 1024
    return [
        *(dense(f"dense causal {s // k}K", (32, 4), [s], [s]) for s in (8 * k, 32 * k)),
        *(stem(f"stem {s // k}K", (32, 4), [s]) for s in (8 * k, 16 * k, 32 * k, 64 * k, 128 * k)),
        dense("dense 8 x 8K, 64 heads", (64, 8), [8 * k] * 8, [8 * k] * 8),
        dense("1 x 32K + 15 x 512", (32, 4), [32 * k] + [512] * 15, [32 * k] + [512] * 15),
        dense("1 x 16K + 63 x 200", (8, 1), [16 * k] + [200] * 63, [16 * k] + [200] * 63),
        *(dense(f"decode B {b}, kv 128K", (32, 4), [1] * b, [128 * k] * b) for b in (1, 4, 16, 64)),
        dense("decode 1 x 128K + 31 x 4K", (8, 1), [1] * 32, [128 * k] + [4 * k] * 31),
        dense("decode 33 random, 8 heads", (8, 1), [1] * 33, uniform(33, 1, 64 * k)),
        dense("chunk 512 on 64K", (32, 4), [512], [64 * k]),
        dense("chunk 2K on 128K, 8 heads", (8, 1), [2 * k], [128 * k]),
        dense("chunks 512 on 4..100K + decode", (32, 4), [512] * 3 + [1] * 29, uniform(32, 4 * k, 100 * k)),
        random_densities("head densities 1/1 .. 1/64", (32, 4), 16 * k, lambda head: 0.5 ** (head % 7)),
        random_densities("half of the heads empty", (32, 4), 8 * k, lambda head: 0.3 * (head % 2)),
        dense("8 tasks", (8, 1), [128], [8 * k]),
        dense("4 decode tasks, kv 128K", (4, 1), [1], [128 * k]),
        dense("1 task", (1, 1), [128], [128 * k]),
    ]


def dense(name: str, heads: tuple[int, int], q_lens: Sequence[int], kv_lens: Sequence[int]) -> Workload:
    """Every list holds all blocks that its query block sees."""
    return _workload(name, heads, q_lens, sparsity.visible_blocks(q_lens, kv_lens).sum(-1))


def stem(name: str, heads: tuple[int, int], lens: Sequence[int]) -> Workload:
    """Budgets as the published indexer gives them: 4 first, 4 last and k best blocks, k by the blocks of the prompt."""
    visible = sparsity.visible_blocks(lens, lens).sum(-1)
    budget = [_stem_budget((length + BLOCK - 1) // BLOCK) for length in lens]
    return _workload(name, heads, lens, torch.minimum(visible, torch.tensor(budget)[:, None] + 8))


def _stem_budget(blocks: int) -> int:
    if blocks < 56:
        return blocks
    return min(256, int(0.2 * blocks + 30) if blocks < 160 else int(0.1 * blocks + 30))


def random_densities(name: str, heads: tuple[int, int], length: int, share: Callable[[int], float]) -> Workload:
    """Each visible block with probability share(head)."""
    visible = sparsity.visible_blocks([length], [length]).sum(-1).double()
    shares = torch.tensor([share(head) for head in range(heads[0])], dtype=torch.float64)
    drawn = torch.binomial(
        visible[:, None].expand(-1, heads[0], -1).contiguous(),
        shares[None, :, None].expand(1, -1, visible.shape[1]).contiguous(),
        generator=torch.Generator().manual_seed(11),
    )
    return _workload(name, heads, [length], drawn)


def uniform(count: int, low: int, high: int) -> list[int]:
    return torch.randint(low, high, (count,), generator=torch.Generator().manual_seed(count)).tolist()


def _workload(name: str, heads: tuple[int, int], q_lens: Sequence[int], lengths: torch.Tensor) -> Workload:
    if lengths.dim() == 2:
        lengths = lengths[:, None].expand(-1, heads[0], -1)
    cu_seqlens_q = torch.tensor([0, *q_lens]).cumsum(0).to(torch.int32)
    return Workload(lengths.to(torch.int32).contiguous(), heads[1], cu_seqlens_q, name)
