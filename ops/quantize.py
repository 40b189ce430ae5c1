"""FP8 tensors, scales and a paged KV cache for quant_block_sparse_attn, from real-valued query, key and value.

    query8, q_descale = quantize_tokens(query)
    key8, k_descale = quantize_tokens(key)
    value8, v_descale = quantize_heads(value)
    cache = write_paged_cache(key8, value8, k_descale, kv_lens)
    quant_block_sparse_attn(query=query8, q_descale=q_descale, v_descale=v_descale, p_scale=default_p_scale(),
                            **cache._asdict(), ...)

A descale is amax / 448, so real value = FP8 value * descale and the largest value becomes 448. Where all values are 0,
or there are none, the descale is 0, which the operator takes. A NaN or inf makes all values that share its descale NaN.
All functions raise TypeError or ValueError that names the argument, the rule and what was given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from . import check, library

FP8 = torch.float8_e4m3fn
FP8_MAX = torch.finfo(FP8).max
NAN_CODE = 0x7F

# Softmax weights lie in 0..1, and e4m3 loses those below 2^-10. Times 256 they keep 2^-18 and the largest stays below
# 448: with one sink score 8 above a flat tail of 128K keys, p_scale 1 gives 2 % of the right value, 256 gives 99.9 %. A
# power of two, so that the largest weight is exact. It costs nothing and cancels from the result.
P_SCALE = 256.0

# Dimensions of [tokens, heads, columns] that share one scale.
_SHARED_BY = {"token": (2,), "head": (0, 2), "tensor": (0, 1, 2)}


class PagedCache(NamedTuple):
    """Arguments of quant_block_sparse_attn under their own names."""

    key: torch.Tensor  # float8_e4m3fn [pages, heads_kv, 128, 128]
    value: torch.Tensor  # float8_e4m3fn [pages, heads_kv, 128, 128]
    k_descale: torch.Tensor  # float32 [pages, heads_kv, 128, 1]
    block_table: torch.Tensor  # int32 [batch, blocks of the longest sequence], -1 where a sequence has no block
    seqused_kv: torch.Tensor  # int32 [batch]


def default_p_scale(device: torch.device | str | None = None) -> torch.Tensor:
    """P_SCALE as the argument p_scale, float32 [1]."""
    return torch.tensor([P_SCALE], device=device)


def quantize_tokens(x: torch.Tensor, *, per: str = "token") -> tuple[torch.Tensor, torch.Tensor]:
    """Quantises query or key, [tokens, heads, 128] of any float dtype.

    Returns float8_e4m3fn of the same shape and its descale, float32 [tokens, heads], which differs per "token" and
    head, per "head", or with per="tensor" nowhere.
    """
    descale, payload = _quantize(x, per, ("token", "head", "tensor"))
    return payload, descale.squeeze(2).expand(x.shape[:2]).contiguous()


def quantize_heads(x: torch.Tensor, *, per: str = "head") -> tuple[torch.Tensor, torch.Tensor]:
    """Quantises value, [tokens, heads_kv, 128] of any float dtype, all sequences of the call together.

    Returns float8_e4m3fn of the same shape and its descale, float32 [heads_kv], which differs per "head", or with
    per="tensor" nowhere.
    """
    descale, payload = _quantize(x, per, ("head", "tensor"))
    return payload, descale.flatten().expand(x.shape[1]).contiguous()


def write_paged_cache(
    key: torch.Tensor,
    value: torch.Tensor,
    k_descale: torch.Tensor,
    kv_lens: Sequence[int],
    *,
    pages: int | None = None,
    page_ids: torch.Tensor | torch.Generator | None = None,
    fill_nan: bool = False,
) -> PagedCache:
    """Lays the tokens of several sequences out in pages of 128.

    Args:
        key, value: float8_e4m3fn [tokens, heads_kv, 128], the sequences one after the other.
        k_descale: float32 [tokens, heads_kv].
        kv_lens: tokens of each sequence; their sum is `tokens`. A sequence takes ceil(kv_len / 128) pages.
        pages: pages of the cache; None for as many as the sequences take.
        page_ids: the page of each block, sequence after sequence: int [blocks], distinct; a CPU generator to draw them
            at random; None for 0, 1, 2, ...
        fill_nan: fill what no token occupies, scales included, with NaN instead of 0. The operator never reads it.
    """
    block = library.contract().constants["kBlockKeys"]
    counts = check.token_counts("kv_lens", kv_lens)
    sizes = check.Sizes({"sum(kv_lens)": sum(counts)})
    sizes.tensor("key", key, FP8, ("sum(kv_lens)", "heads_kv", "columns"))
    sizes.tensor("value", value, FP8, ("sum(kv_lens)", "heads_kv", "columns"))
    sizes.tensor("k_descale", k_descale, torch.float32, ("sum(kv_lens)", "heads_kv"))
    lens = torch.tensor(counts, dtype=torch.int64)
    blocks_of = (lens + block - 1) // block
    blocks = int(blocks_of.sum())
    pages = blocks if pages is None else pages
    check.integer("pages", pages)
    check.flag("fill_nan", fill_nan)
    if pages < blocks:
        check.refuse(ValueError, "pages", f"must be at least {blocks}, the blocks of the sequences", pages)
    page_ids = _page_ids(page_ids, blocks, pages)

    sequence = torch.arange(len(lens)).repeat_interleave(lens)
    position = torch.arange(len(sequence)) - (lens.cumsum(0) - lens)[sequence]
    page = page_ids[(blocks_of.cumsum(0) - blocks_of)[sequence] + position // block].to(key.device)
    slot = (position % block).to(key.device)

    table = torch.full((len(lens), max([1, *blocks_of.tolist()])), -1, dtype=torch.int64)
    table[torch.arange(table.shape[1]) < blocks_of[:, None]] = page_ids
    shape = (pages, key.shape[1], block, key.shape[2])
    scales = torch.full((*shape[:3], 1), torch.nan if fill_nan else 0.0, device=key.device)
    scales[page, :, slot, 0] = k_descale
    return PagedCache(
        key=_paged(key, shape, page, slot, fill_nan),
        value=_paged(value, shape, page, slot, fill_nan),
        k_descale=scales,
        block_table=table.to(key.device, torch.int32),
        seqused_kv=lens.to(key.device, torch.int32),
    )


def _page_ids(given: torch.Tensor | torch.Generator | None, blocks: int, pages: int) -> torch.Tensor:
    """int64 [blocks] on the CPU: distinct pages of a cache of `pages`, at least `blocks`."""
    if given is None:
        return torch.arange(blocks)
    if isinstance(given, torch.Generator):
        return torch.randperm(pages, generator=given)[:blocks]
    check.python_type("page_ids", given, torch.Tensor, "a torch.Tensor, a torch.Generator or None")
    check.Sizes({"blocks": blocks}).tensor("page_ids", given, check.INTEGER, ("blocks",))
    ids = given.to("cpu", torch.int64)
    outside = ids[(ids < 0) | (ids >= pages)]
    if len(outside):
        check.refuse(ValueError, "page_ids", f"must be in 0..{pages - 1}, the pages of the cache", int(outside[0]))
    distinct, uses = ids.unique(return_counts=True)
    if len(distinct) != blocks:
        check.refuse(ValueError, "page_ids", "must be distinct", f"page {distinct[uses.argmax()]} {uses.max()} times")
    return ids


def _quantize(x: torch.Tensor, per: str, allowed: tuple[str, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """(descale, payload); descale float32 with size 1 in the dimensions that share it."""
    check.one_of(ValueError, "per", per, allowed)
    check.Sizes().tensor("x", x, check.FLOAT, ("tokens", "heads", "columns"))
    x = x.float()
    reduced = [1 if dim in _SHARED_BY[per] else size for dim, size in enumerate(x.shape)]
    amax = x.abs().amax(_SHARED_BY[per], keepdim=True) if x.numel() else x.new_zeros(reduced)
    descale = amax / FP8_MAX
    scaled = torch.where(descale == 0, 0.0, x / descale)  # 0 / 0 of an all-zero row
    return descale, scaled.clamp(-FP8_MAX, FP8_MAX).to(FP8)


def _paged(
    tokens: torch.Tensor, shape: tuple[int, ...], page: torch.Tensor, slot: torch.Tensor, fill_nan: bool
) -> torch.Tensor:
    cache = torch.full(shape, NAN_CODE if fill_nan else 0, dtype=torch.uint8, device=tokens.device)
    cache[page, :, slot] = tokens.view(torch.uint8)
    return cache.view(FP8)
