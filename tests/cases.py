"""Cases of the public DSL test and the generator of the inputs of any case.

DSL holds its twelve generalized cases under their public ids, DEFAULT the four that it enables; `_ntd` is part of an id
only, the layout is chosen where a case is used. Ids give the longest sequences.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

BLOCK = 128
HEAD_DIM = 128
PITCH_LIMIT = 65535  # elements from row to row that Nd2Nz takes
E4M3_MAX = torch.finfo(torch.float8_e4m3fn).max


@dataclass(frozen=True)
class Case:
    id: str
    heads: tuple[int, int]  # query heads, KV heads
    q_lens: tuple[int, ...]
    kv_lens: tuple[int, ...]
    pattern: str  # a key of the table in _entries
    count: int  # entries wanted per list; a list never holds more than its query block can see
    mask_mode: int = 3
    p_scale: float | None = 256.0
    scales: str = "gradient"  # or amplitude, ones; see _tensor
    table: str = "random"  # sequential, reverse, shuffled, random (with replacement)
    pages: int = 0  # 0: one for each table entry
    lse: bool = True
    seed: int = 3
    sample: int = 0  # tasks to hold against the truth where all are too many; 0: all


# fmt: off
_PUBLISHED = {"scales": "amplitude"}  # the recipe of the public tests
DSL = [
    Case("qbsa_fp8_precision_repro_b1_n128_s1_s2_512", (128, 8), (1,), (1,), "dense", 1, 3, 16.0,
         table="sequential", pages=4, **_PUBLISHED),
    Case("gen_s127_255_b2_n16_sc2_rand_rand_grad_m1", (16, 2), (81, 73), (174, 159), "random", 2, 3, 0.8,
         pages=3, **_PUBLISHED),
    Case("gen_s129_257_b4_n24_sc2_sequ_rand_ones_m1_ntd", (24, 3), (129,) * 4, (257,) * 4, "sequential", 2, 0, 0.9,
         pages=5, **_PUBLISHED),
    Case("gen_s385_129_b2_n16_sc1_reve_reve_grad_m1", (16, 2), (385,) * 2, (129,) * 2, "reverse", 1, 0, 0.6,
         table="sequential", pages=4, **_PUBLISHED),
    Case("gen_dens_s669_346_b1_n16_sc2_dens_sequ_ones_m1_ntd", (16, 2), (669,), (346,), "dense", 3, 3, 0.9,
         table="sequential", pages=6, lse=False, **_PUBLISHED),
    Case("gen_tail_s1094_1059_b2_n32_sc6_tail_sequ_grad_m1", (32, 4), (942, 1028), (728, 903), "tail", 4, 3, 0.6,
         table="sequential", pages=18, **_PUBLISHED),
    Case("gen_etal_s693_580_b2_n16_sc4_etal_reve_grad_m1_ntd", (16, 2), (693,) * 2, (580,) * 2, "empty_tail", 4, 0, 0.9,
         table="sequential", pages=12, lse=False, **_PUBLISHED),
    Case("gen_empt_s711_647_b2_n16_sc4_empt_rand_ones_m1", (16, 2), (711,) * 2, (647,) * 2, "empty", 4, 0, 0.9,
         pages=12, **_PUBLISHED),
    Case("gen_s600_857_b2_n24_sc6_caus_rand_grad_m1", (24, 3), (542, 375), (502, 543), "causal", 4, 0, 0.5,
         pages=14, **_PUBLISHED),
    Case("gen_s503_301_b2_n16_sc4_sequ_sequ_grad_m1", (16, 8), (332, 405), (288, 231), "sequential", 2, 3, 0.6,
         table="sequential", pages=5, **_PUBLISHED),
    Case("gen_s499_303_b1_n16_sc8_rand_rand_grad_m1_ntd", (16, 1), (499,), (303,), "random", 2, 0, 0.6,
         pages=3, **_PUBLISHED),
    Case("gen_s1023_1023_b2_n16_sc8_rand_rand_grad_m1_ntd", (16, 2), (1023,) * 2, (1023,) * 2, "random", 5, 3, 0.6,
         pages=22, **_PUBLISHED),
]
DEFAULT = [DSL[0], DSL[2], DSL[5], DSL[11]]
# fmt: on


def make_inputs(case: Case, layout_q: str = "TND") -> dict:
    """The keyword arguments of quant_block_sparse_attn for `case`, on the CPU.

    Every slot of every page holds live random data, also those past kv_len.
    """
    generator = torch.Generator().manual_seed(case.seed)
    heads_q, heads_kv = case.heads
    batch, tokens = len(case.q_lens), sum(case.q_lens)
    table_width = max(1, *(_blocks(kv_len) for kv_len in case.kv_lens))
    pages = case.pages or batch * table_width

    query, q_descale = _tensor((tokens, heads_q, HEAD_DIM), case.scales, (2,), 0, 10.0, generator)
    key, k_descale = _tensor((pages, heads_kv, BLOCK, HEAD_DIM), case.scales, (3,), 2, 1.0, generator)
    value, v_descale = _tensor((pages, heads_kv, BLOCK, HEAD_DIM), case.scales, (0, 2, 3), 1, 1.0, generator)
    sparse_indices, sparse_seq_len = sparse_lists(case, generator)
    if layout_q == "NTD":
        query, q_descale = query.transpose(0, 1).contiguous(), q_descale.transpose(0, 1).contiguous()
    return {
        "query": query,
        "key": key,
        "value": value,
        "q_descale": q_descale.squeeze(2),
        "k_descale": k_descale,
        "v_descale": v_descale.flatten(),
        "p_scale": None if case.p_scale is None else torch.tensor([case.p_scale]),
        "sparse_indices": sparse_indices,
        "sparse_seq_len": sparse_seq_len,
        "atten_mask": None,
        "softmax_scale": 1 / math.sqrt(HEAD_DIM),
        "sparse_q_block_size": BLOCK,
        "sparse_kv_block_size": BLOCK,
        "cu_seqlens_q": torch.tensor([0, *case.q_lens]).cumsum(0).to(torch.int32),
        "seqused_kv": torch.tensor(case.kv_lens, dtype=torch.int32),
        "block_table": _block_table(case.table, batch, table_width, pages, generator),
        "layout_q": layout_q,
        "mask_mode": case.mask_mode,
        "return_softmax_lse": case.lse,
    }


def with_strides(tensor: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """The values of tensor in a buffer of NaN bytes (-1 as an integer), by the given strides in elements."""
    size = 1 + sum((length - 1) * stride for length, stride in zip(tensor.shape, strides))
    buffer = torch.full((size * tensor.element_size(),), 0xFF, dtype=torch.uint8).view(tensor.dtype)
    return fill(buffer.as_strided(tensor.shape, strides), tensor)


def fill(view: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """view, after the bits of tensor went into it."""
    integers = torch.uint8 if tensor.element_size() == 1 else torch.int32
    view.view(integers).copy_(tensor.view(integers))
    return view


def sparse_lists(case: Case, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """sparse_indices int32 [batch, heads_q, q_blocks, kv_blocks] with tail -1, and sparse_seq_len.

    A pattern chooses among the blocks that the query block can see. All heads get the same list, except that `random`
    draws one for each head.
    """
    heads = case.heads[0]
    q_blocks, kv_blocks = (max(1, *(_blocks(length) for length in lens)) for lens in (case.q_lens, case.kv_lens))
    indices = torch.full((len(case.q_lens), heads, q_blocks, kv_blocks), -1, dtype=torch.int32)
    lengths = torch.zeros(len(case.q_lens), heads, q_blocks, dtype=torch.int32)
    for batch, (q_len, kv_len) in enumerate(zip(case.q_lens, case.kv_lens)):
        for q_block in range(_blocks(q_len)):
            last_row = min((q_block + 1) * BLOCK, q_len) - 1
            visible = _blocks(kv_len if case.mask_mode == 0 else last_row + 1 + kv_len - q_len)
            pattern = "empty" if case.pattern == "empty_tail" and q_block == _blocks(q_len) - 1 else case.pattern
            for head in range(heads):
                if head == 0 or pattern == "random":
                    entries = _entries(pattern, case.count, visible, generator)
                lengths[batch, head, q_block] = len(entries)
                indices[batch, head, q_block, : len(entries)] = entries
    return indices, lengths


def _entries(pattern: str, count: int, visible: int, generator: torch.Generator) -> torch.Tensor:
    """One list of at most `count` of the blocks 0 .. visible - 1."""
    blocks = torch.arange(visible, dtype=torch.int32)
    count = min(count, visible)
    choose = {
        "empty": lambda: blocks[:0],
        "sequential": lambda: blocks[:count],
        "empty_tail": lambda: blocks[:count],
        "causal": lambda: blocks[visible - count :],
        "reverse": lambda: blocks.flip(0)[:count],
        "tail": lambda: torch.cat([blocks[: count - 1], blocks[visible - 1 :]]) if count else blocks[:0],
        "random": lambda: blocks[torch.randperm(visible, generator=generator)[:count]],
        "dense": lambda: blocks,
    }
    return choose[pattern]()


def _tensor(shape, scales: str, reduced: tuple[int, ...], along: int, low: float, generator) -> tuple:
    """e4m3 data of `shape` and its fp32 descale, which has size 1 in the dimensions `reduced`.

    scales "amplitude": uniform(-1, 1) times an amplitude, log-uniform in low .. 1000 for each descale, then quantised.
    "ones": uniform(-1, 1), descale 1. "gradient": uniform(-1, 1), descale rising from 0.5 to 2.5 in dimension `along`.
    """
    data = torch.empty(shape).uniform_(-1, 1, generator=generator)
    scale_shape = [1 if dim in reduced else size for dim, size in enumerate(shape)]
    descale = torch.ones(scale_shape)
    if scales == "amplitude":
        data *= 10 ** torch.empty(scale_shape).uniform_(math.log10(low), 3, generator=generator)
        descale = data.abs().amax(reduced, keepdim=True) / E4M3_MAX
        data = (data / descale).clamp(-E4M3_MAX, E4M3_MAX)
    elif scales == "gradient":
        ramp = torch.linspace(0.5, 2.5, shape[along])
        descale *= ramp.reshape([-1 if dim == along else 1 for dim in range(len(shape))])
    return data.to(torch.float8_e4m3fn), descale


def _block_table(order: str, batch: int, width: int, pages: int, generator: torch.Generator) -> torch.Tensor:
    entries = torch.arange(batch * width) % max(pages, 1)
    if order == "reverse":
        entries = entries.flip(0)
    elif order == "shuffled":
        entries = entries[torch.randperm(batch * width, generator=generator)]
    elif order == "random":
        entries = torch.randint(pages, (batch * width,), generator=generator)
    return entries.reshape(batch, width).to(torch.int32)


def _blocks(tokens: int) -> int:
    return max(0, math.ceil(tokens / BLOCK))
