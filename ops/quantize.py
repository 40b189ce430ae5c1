"""FP8 tensors, scales and a paged KV cache for quant_block_sparse_attn, from real-valued query, key and value.

    query8, q_descale = quantize_tokens(query)
    key8, k_descale = quantize_tokens(key)
    value8, v_descale = quantize_heads(value)
    cache = write_paged_cache(key8, value8, k_descale, kv_lens)
    quant_block_sparse_attn(query=query8, q_descale=q_descale, v_descale=v_descale, p_scale=default_p_scale(),
                            **cache._asdict(), ...)

A descale is amax / 448, so real value = FP8 value * descale and the largest value becomes 448. Where all values are 0
the descale is 0, which the operator takes. A NaN or inf makes all values that share its descale NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from . import library

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
    head, per "head", or with per="tensor" nowhere. ValueError for another per.
    """
    descale, payload = _quantize(x, per, ("token", "head", "tensor"))
    return payload, descale.squeeze(2).expand(x.shape[:2]).contiguous()


def quantize_heads(x: torch.Tensor, *, per: str = "head") -> tuple[torch.Tensor, torch.Tensor]:
    """Quantises value, [tokens, heads_kv, 128] of any float dtype, all sequences of the call together.

    Returns float8_e4m3fn of the same shape and its descale, float32 [heads_kv], which differs per "head", or with
    per="tensor" nowhere. ValueError for another per.
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

    Raises:
        ValueError: sizes do not fit together.
    """
    block = library.contract().constants["kBlockKeys"]
    lens = torch.tensor(kv_lens, dtype=torch.int64)
    blocks_of = (lens + block - 1) // block
    blocks = int(blocks_of.sum())
    pages = blocks if pages is None else pages
    if (
        key.dim() != 3
        or key.shape != value.shape
        or key.shape[:2] != k_descale.shape
        or key.shape[0] != int(lens.sum())
    ):
        raise ValueError(
            "key and value must be [tokens, heads_kv, columns] and k_descale [tokens, heads_kv] with tokens = "
            f"sum(kv_lens) = {int(lens.sum())}; got {list(key.shape)}, {list(value.shape)}, {list(k_descale.shape)}"
        )
    if page_ids is None:
        page_ids = torch.arange(blocks)
    elif isinstance(page_ids, torch.Generator):
        page_ids = torch.randperm(pages, generator=page_ids)[:blocks]
    page_ids = page_ids.to("cpu", torch.int64)
    if (
        page_ids.shape != (blocks,)
        or bool(((page_ids < 0) | (page_ids >= pages)).any())
        or len(page_ids.unique()) != blocks
    ):
        raise ValueError(
            f"page_ids must be {blocks} distinct pages in 0..{pages - 1}; got {list(page_ids.shape)} of {page_ids}"
        )

    sequence = torch.arange(len(lens)).repeat_interleave(lens)
    position = torch.arange(len(sequence)) - (lens.cumsum(0) - lens)[sequence]
    page = page_ids[(blocks_of.cumsum(0) - blocks_of)[sequence] + position // block].to(key.device)
    slot = (position % block).to(key.device)

    table = torch.full((len(lens), max([1, *blocks_of.tolist()])), -1, dtype=torch.int64)
    table[torch.arange(table.shape[1]) < blocks_of[:, None]] = page_ids
    shape = (pages, key.shape[1], block, key.shape[2])
    scales = torch.full((*shape[:3], 1), torch.nan if fill_nan else 0.0, device=key.device)
    scales[page, :, slot, 0] = k_descale.float()
    return PagedCache(
        key=_paged(key, shape, page, slot, fill_nan),
        value=_paged(value, shape, page, slot, fill_nan),
        k_descale=scales,
        block_table=table.to(key.device, torch.int32),
        seqused_kv=lens.to(key.device, torch.int32),
    )


def _quantize(x: torch.Tensor, per: str, allowed: tuple[str, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """(descale, payload); descale float32 with size 1 in the dimensions that share it."""
    if per not in allowed:
        raise ValueError(f"per must be one of {', '.join(allowed)}; got {per!r}")
    if x.dim() != 3:
        raise ValueError(f"expected [tokens, heads, columns]; got {list(x.shape)}")
    x = x.float()
    descale = x.abs().amax(_SHARED_BY[per], keepdim=True) / FP8_MAX
    scaled = torch.where(descale == 0, 0.0, x / descale)  # 0 / 0 of an all-zero row
    return descale, scaled.clamp(-FP8_MAX, FP8_MAX).to(FP8)


def _paged(
    tokens: torch.Tensor, shape: tuple[int, ...], page: torch.Tensor, slot: torch.Tensor, fill_nan: bool
) -> torch.Tensor:
    cache = torch.full(shape, NAN_CODE if fill_nan else 0, dtype=torch.uint8, device=tokens.device)
    cache[page, :, slot] = tokens.view(torch.uint8)
    return cache.view(FP8)
