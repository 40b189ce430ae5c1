"""Which KV blocks each query block of each head attends to: block masks, patterns, and the lists the operator takes.

A block mask is bool [batch, heads_q, q_blocks, kv_blocks]; blocks are of 128 tokens, counted within each sequence.
Lengths (q_lens, kv_lens) are the tokens of each sequence, any sequence of ints >= 0 or a 1-D integer tensor. All
functions raise TypeError or ValueError that names the argument, the rule and what was given.

    seen = visible_blocks(q_lens, kv_lens)
    scores = block_scores(query, key, q_lens, kv_lens)
    mask = sink_window_topk(scores, seen, sinks=1, window=2, topk=6)
    sparse_indices, sparse_seq_len = mask_to_lists(mask)
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from . import check, library

_VISIBLE = ("batch", "q_blocks", "kv_blocks")
_MASK = ("batch", "heads_q", "q_blocks", "kv_blocks")


@dataclass(frozen=True)
class Density:
    """Selected blocks against blocks that the query can see, over all sequences, heads and query blocks."""

    selected: int
    visible: int
    longest_list: int
    per_head: torch.Tensor  # float64 [heads_q]: selected / visible

    @property
    def share(self) -> float:
        return self.selected / self.visible if self.visible else 0.0

    def __str__(self) -> str:
        return (
            f"{self.selected} of {self.visible} visible blocks selected ({self.share:.1%}), per head "
            f"{self.per_head.min():.1%} to {self.per_head.max():.1%}, longest list {self.longest_list}"
        )


def visible_blocks(q_lens: Sequence[int], kv_lens: Sequence[int], *, causal: bool = True) -> torch.Tensor:
    """bool [batch, q_blocks, kv_blocks]: whether any row of the query block sees any key of the KV block.

    Causal as in mask_mode 3, counted in tokens: row i sees key j iff j <= i + kv_len - q_len, so the last row sees the
    last key. Otherwise as in mask_mode 0: every key of the sequence.
    """
    rows, keys = _block_sizes()
    q_lens, kv_lens = _both_lens(q_lens, kv_lens)
    check.flag("causal", causal)
    q_len, kv_len = (torch.tensor(lens, dtype=torch.int64)[:, None, None] for lens in (q_lens, kv_lens))
    first_row = torch.arange(_blocks(q_lens, rows))[None, :, None] * rows
    first_key = torch.arange(_blocks(kv_lens, keys))[None, None, :] * keys
    seen = (first_row < q_len) & (first_key < kv_len)
    if causal:
        last_row = torch.minimum(first_row + rows, q_len) - 1
        seen = seen & (first_key <= last_row + kv_len - q_len)
    return seen


def all_visible(visible: torch.Tensor, heads_q: int) -> torch.Tensor:
    """The dense mask: every visible block, for each of heads_q heads."""
    _check_visible(visible, heads_q)
    return visible[:, None].expand(-1, heads_q, -1, -1).clone()


def sink_window(visible: torch.Tensor, heads_q: int, *, sinks: int, window: int) -> torch.Tensor:
    """Of the visible blocks the first `sinks` and the last `window`, for each of heads_q heads."""
    _check_visible(visible, heads_q)
    return all_visible(_sink_window(visible, sinks, window), heads_q)


def sink_window_topk(
    scores: torch.Tensor, visible: torch.Tensor, *, sinks: int, window: int, topk: int
) -> torch.Tensor:
    """Of the visible blocks the first `sinks`, the last `window`, and the `topk` with the highest score among the rest.

    scores: float [batch, heads_q, q_blocks, kv_blocks], from block_scores or an indexer; visible: from visible_blocks.
    A query block that sees no more than sinks + window + topk blocks gets them all, but for those that score -inf.
    Equal scores: any of them. NaN among the rest: ValueError.
    """
    sizes = check.Sizes()
    sizes.tensor("scores", scores, check.FLOAT, _MASK)
    sizes.tensor("visible", visible, torch.bool, _VISIBLE)
    check.integer("topk", topk)
    seen, forced = visible[:, None], _sink_window(visible, sinks, window)[:, None]
    candidates = scores.float().masked_fill(~seen | forced, -torch.inf)
    if candidates.isnan().any():
        check.refuse(ValueError, "scores", "must not be NaN where a block is visible", "NaN")
    best = candidates.topk(min(topk, scores.shape[-1]), dim=-1).indices
    chosen = torch.zeros_like(candidates, dtype=torch.bool).scatter_(-1, best, True)
    return (chosen & (candidates > -torch.inf)) | forced


def random_blocks(
    visible: torch.Tensor, heads_q: int, density: float, generator: torch.Generator | None = None
) -> torch.Tensor:
    """Each visible block with probability `density`, 0..1, for each head alone."""
    _check_visible(visible, heads_q)
    if generator is not None:
        check.python_type("generator", generator, torch.Generator, "a torch.Generator or None")
    check.python_type("density", density, numbers.Real, "a float")
    if not 0 <= density <= 1:
        check.refuse(ValueError, "density", "must be in 0..1", density)
    shape = (visible.shape[0], heads_q, *visible.shape[1:])
    return (torch.rand(shape, generator=generator, device=visible.device) < density) & visible[:, None]


def block_scores(query: torch.Tensor, key: torch.Tensor, q_lens: Sequence[int], kv_lens: Sequence[int]) -> torch.Tensor:
    """float32 [batch, heads_q, q_blocks, kv_blocks]: mean query of the block . mean key of the block, per query head.

    query [tokens, heads_q, columns] and key [tokens, heads_kv, columns] real-valued, the sequences one after the other.
    Blocks past the end of a sequence score 0.
    """
    rows, keys = _block_sizes()
    q_lens, kv_lens = _both_lens(q_lens, kv_lens)
    sizes = check.Sizes({"sum(q_lens)": sum(q_lens), "sum(kv_lens)": sum(kv_lens)})
    sizes.tensor("query", query, check.FLOAT, ("sum(q_lens)", "heads_q", "columns"))
    sizes.tensor("key", key, check.FLOAT, ("sum(kv_lens)", "heads_kv", "columns"))
    if sizes["heads_kv"] < 1 or sizes["heads_q"] % sizes["heads_kv"] != 0:
        rule = "must have heads_q heads, a multiple of heads_kv (from key)"
        check.refuse(ValueError, "query", rule, f"heads_q = {sizes['heads_q']}, heads_kv = {sizes['heads_kv']}")
    pooled_query = _pool(query, q_lens, rows)
    pooled_key = _pool(key, kv_lens, keys).repeat_interleave(query.shape[1] // key.shape[1], dim=1)
    return pooled_query @ pooled_key.transpose(2, 3)


def mask_to_lists(
    mask: torch.Tensor, *, newest_first: bool = False, capacity: int | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """A block mask as sparse_indices int32 [batch, heads_q, q_blocks, capacity], tail -1, and sparse_seq_len.

    Blocks ascend, or with newest_first descend, which keeps small weights beside a sink alive (docs/numerics.md) and
    is the better order for long lists. capacity None is the length of the longest list, at least 1; ValueError
    if a list is longer than capacity.
    """
    check.Sizes().tensor("mask", mask, torch.bool, _MASK)
    check.flag("newest_first", newest_first)
    if capacity is not None:
        check.integer("capacity", capacity)
    lengths = mask.sum(-1, dtype=torch.int32)
    longest = int(lengths.max()) if lengths.numel() else 0
    capacity = max(1, longest) if capacity is None else capacity
    if longest > capacity:
        check.refuse(ValueError, "capacity", f"must be at least {longest}, the length of the longest list", capacity)
    blocks = torch.arange(mask.shape[-1], dtype=torch.int32, device=mask.device)
    if newest_first:
        mask, blocks = mask.flip(-1), blocks.flip(0)
    batch, head, q_block, at = torch.where(mask)
    place = (mask.cumsum(-1) - 1)[mask]
    indices = torch.full((*mask.shape[:3], capacity), -1, dtype=torch.int32, device=mask.device)
    indices[batch, head, q_block, place] = blocks[at]
    return indices, lengths


def lists_to_mask(sparse_indices: torch.Tensor, sparse_seq_len: torch.Tensor, kv_blocks: int) -> torch.Tensor:
    """The block mask of lists, bool [batch, heads_q, q_blocks, kv_blocks].

    Lists of any integer dtype. Entries outside 0..kv_blocks - 1 and past sparse_seq_len are left out; a mask does not
    tell duplicates or order.
    """
    sizes = check.Sizes()
    sizes.tensor("sparse_indices", sparse_indices, check.INTEGER, ("batch", "heads_q", "q_blocks", "capacity"))
    sizes.tensor("sparse_seq_len", sparse_seq_len, check.INTEGER, ("batch", "heads_q", "q_blocks"))
    check.integer("kv_blocks", kv_blocks)
    used = torch.arange(sparse_indices.shape[-1], device=sparse_indices.device) < sparse_seq_len[..., None]
    valid = used & (sparse_indices >= 0) & (sparse_indices < kv_blocks)
    mask = torch.zeros((*sparse_indices.shape[:3], kv_blocks), dtype=torch.bool, device=sparse_indices.device)
    batch, head, q_block, place = torch.where(valid)
    mask[batch, head, q_block, sparse_indices[batch, head, q_block, place].long()] = True
    return mask


def density(mask: torch.Tensor, visible: torch.Tensor) -> Density:
    """How much of what is visible a block mask selects."""
    sizes = check.Sizes()
    sizes.tensor("mask", mask, torch.bool, _MASK)
    sizes.tensor("visible", visible, torch.bool, _VISIBLE)
    check.integer("mask.shape[1], its heads,", mask.shape[1], least=1)
    selected = (mask & visible[:, None]).sum((0, 2, 3))
    each = int(visible.sum())
    return Density(
        selected=int(selected.sum()),
        visible=each * mask.shape[1],
        longest_list=int(mask.sum(-1).max()) if mask.numel() else 0,
        per_head=selected.double() / max(1, each),
    )


def _both_lens(q_lens: Sequence[int], kv_lens: Sequence[int]) -> tuple[list[int], list[int]]:
    q_lens, kv_lens = check.token_counts("q_lens", q_lens), check.token_counts("kv_lens", kv_lens)
    if len(q_lens) != len(kv_lens):
        rule = f"must name as many sequences as q_lens, {len(q_lens)}"
        check.refuse(ValueError, "kv_lens", rule, f"{len(kv_lens)} sequences")
    return q_lens, kv_lens


def _check_visible(visible: torch.Tensor, heads_q: int) -> None:
    check.Sizes().tensor("visible", visible, torch.bool, _VISIBLE)
    check.integer("heads_q", heads_q, least=1)


def _sink_window(visible: torch.Tensor, sinks: int, window: int) -> torch.Tensor:
    check.integer("sinks", sinks)
    check.integer("window", window)
    from_start = visible.cumsum(-1)  # 1 at the first visible block
    from_end = visible.flip(-1).cumsum(-1).flip(-1)
    return visible & ((from_start <= sinks) | (from_end <= window))


def _pool(tokens: torch.Tensor, lens: Sequence[int], block: int) -> torch.Tensor:
    """Mean over the tokens of each block: [batch, heads, blocks, columns], 0 where a sequence has no such block."""
    lengths = torch.tensor(lens, dtype=torch.int64)
    sequence = torch.arange(len(lengths)).repeat_interleave(lengths)
    position = torch.arange(len(sequence)) - (lengths.cumsum(0) - lengths)[sequence]
    blocks = _blocks(lens, block)
    group = (sequence * blocks + position // block).to(tokens.device)
    shape = (len(lengths) * blocks, *tokens.shape[1:])
    sums = torch.zeros(shape, device=tokens.device).index_add_(0, group, tokens.float())
    counts = torch.zeros(shape[0], device=tokens.device).index_add_(
        0, group, torch.ones(len(group), device=tokens.device)
    )
    means = sums / counts.clamp(min=1)[:, None, None]
    return means.reshape(len(lengths), blocks, *tokens.shape[1:]).transpose(1, 2)


def _blocks(lens: Sequence[int], block: int) -> int:
    """Blocks of the longest sequence, at least 1."""
    return max([1, *((length + block - 1) // block for length in lens)])


def _block_sizes() -> tuple[int, int]:
    constants = library.contract().constants
    return constants["kBlockRows"], constants["kBlockKeys"]
