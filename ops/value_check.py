"""QBSA_CHECK=1: reads the values of a call before it runs and names the first bad one by tensor and index.

The operators never read values (that would wait for the device); what is out of range is clamped or skipped, see
docs/design.md. This check finds the caller's mistake, so it also refuses what would merely contribute nothing, entries
listed twice, and p_scale above 448. It reads lists, lengths, the pages they name and all live data once, on the host
(tensors of an NPU are copied there). What costs most is sorting the lists (in memory, about four times those of one
sequence) and looking for NaN in the live data.

Blocks that causality hides are not refused: lists may be made without it.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import torch

from . import library, plan
from .validate import Problem

VARIABLE = "QBSA_CHECK"
P_SCALE_MAX = torch.finfo(torch.float8_e4m3fn).max
_NAN_CODE = 0x7F  # of e4m3, either sign


def enabled() -> bool:
    """Whether QBSA_CHECK asks for the check; ValueError if it is neither 0 nor 1."""
    value = os.environ.get(VARIABLE) or "0"
    if value not in ("0", "1"):
        raise ValueError(f"{VARIABLE} must be 0 or 1; got {value!r}")
    return value == "1"


def check_attention(problem: Problem) -> None:
    """ValueError for the first bad value of a call of quant_block_sparse_attn: tensor[index], rule, value."""
    problem = _on_host(problem)
    tensors, sizes = problem.tensors, problem.numbers
    tokens, width = sizes["tokens"], sizes["table_width"]
    block_keys = library.contract().constants["kBlockKeys"]
    _check_query_ends(tensors["cu_seqlens_q"], tokens)
    kv_lens = tensors["seqused_kv"]
    held = width * block_keys
    _refuse_where("seqused_kv", kv_lens, (kv_lens < 0) | (kv_lens > held), f"must be in 0..{held}: L = {width} pages")
    _check_list_lengths(problem, sizes["list_capacity"])
    live_keys = _check_lists(problem)
    if problem.plan is not None:
        plan.check_plan(problem.plan, **{name: sizes[name] for name in ("batch", "heads_q", "q_blocks")})

    if tensors["p_scale"] is not None:
        given = tensors["p_scale"]
        _refuse_where("p_scale", given, ~((given > 0) & (given <= P_SCALE_MAX)), f"must be > 0 and <= {P_SCALE_MAX:g}")
    last = int(tensors["cu_seqlens_q"][-1])
    token_dim = 0 if problem.layout_q == "TND" else 1
    of_sequences = torch.arange(tokens) < last
    of_sequences = of_sequences[:, None] if token_dim == 0 else of_sequences[None]
    live = torch.arange(block_keys) < live_keys[..., None]
    for name, rows in (("query", of_sequences), ("key", live), ("value", live)):
        _check_data(name, tensors[name], rows.expand(tensors[name].shape[:-1]))
    everywhere = torch.tensor(True)
    for name, rows in (("q_descale", of_sequences), ("k_descale", live[..., None]), ("v_descale", everywhere)):
        scales = tensors[name]
        _refuse_where(name, scales, (~(scales >= 0) | scales.isinf()) & rows, "must be finite and >= 0")


def check_metadata(problem: Problem) -> None:
    """The same for the values that quant_block_sparse_attn_metadata reads."""
    problem = _on_host(problem)
    if problem.tensors["cu_seqlens_q"] is not None:
        _check_query_ends(problem.tensors["cu_seqlens_q"], None)
    _check_list_lengths(problem, None)


def _on_host(problem: Problem) -> Problem:
    tensors = {name: None if tensor is None else tensor.cpu() for name, tensor in problem.tensors.items()}
    return dataclasses.replace(problem, tensors=tensors)


def _check_query_ends(ends: torch.Tensor, tokens: int | None) -> None:
    bad = torch.zeros_like(ends, dtype=torch.bool)
    bad[0] = ends[0] != 0
    bad[1:] = ends[1:] < ends[:-1]
    _refuse_where("cu_seqlens_q", ends, bad, "must begin with 0 and never descend")
    if tokens is not None:
        _refuse_where("cu_seqlens_q", ends, ends > tokens, f"must be at most T = {tokens}")


def _check_list_lengths(problem: Problem, capacity: int | None) -> None:
    lengths, ends = problem.tensors["sparse_seq_len"], problem.tensors["cu_seqlens_q"]
    if ends is not None:
        rows = library.contract().constants["kBlockRows"]
        q_lens, q_blocks = ends.diff(), lengths.shape[2]
        rule = f"must end a sequence of at most {q_blocks * rows} tokens: the lists have Qb = {q_blocks} query blocks"
        _refuse_where("cu_seqlens_q", ends, torch.cat([ends[:1] < 0, q_lens > q_blocks * rows]), rule)
        starts = torch.arange(q_blocks, device=lengths.device) * rows
        padding = (starts >= q_lens[:, None])[:, None].expand(lengths.shape)
        rule = "must be 0: the query block lies past the end of its sequence"
        _refuse_where("sparse_seq_len", lengths, padding & (lengths != 0), rule)
    if capacity is None:
        _refuse_where("sparse_seq_len", lengths, lengths < 0, "must be >= 0")
    else:
        bad = (lengths < 0) | (lengths > capacity)
        _refuse_where("sparse_seq_len", lengths, bad, f"must be in 0..Kb = {capacity}")


def _check_lists(problem: Problem) -> torch.Tensor:
    """Checks entries and their pages; returns how many keys of each page and KV head are live, int64 [P, N2]."""
    tensors, sizes = problem.tensors, problem.numbers
    block_keys = library.contract().constants["kBlockKeys"]
    heads_kv = torch.arange(sizes["heads_q"]) // (sizes["heads_q"] // sizes["heads_kv"])
    live_keys = torch.zeros((sizes["pages"], sizes["heads_kv"]), dtype=torch.int64)
    position = torch.arange(sizes["list_capacity"])
    for batch, kv_len in enumerate(tensors["seqused_kv"].tolist()):
        lists, table = tensors["sparse_indices"][batch], tensors["block_table"][batch]
        used = position < tensors["sparse_seq_len"][batch][..., None]
        blocks = -(-kv_len // block_keys)
        rule = f"must be in 0..{blocks - 1}, the KV blocks of seqused_kv = {kv_len}"
        bad = used & ((lists < 0) | (lists >= blocks))
        _refuse_where("sparse_indices", lists, bad, rule if blocks else "may not be used: seqused_kv = 0", batch)
        _refuse_duplicates(lists, used, batch)
        head, q_block, entry = used.nonzero(as_tuple=True)
        block = lists[head, q_block, entry].long()
        named = torch.zeros(len(table), dtype=torch.bool).index_fill(0, block, True)
        bad = named & ((table < 0) | (table >= sizes["pages"]))
        _refuse_where("block_table", table, bad, f"must be in 0..{sizes['pages'] - 1} (P = {sizes['pages']})", batch)
        place = table[block].long() * sizes["heads_kv"] + heads_kv[head]
        live_keys.view(-1).scatter_reduce_(0, place, (kv_len - block * block_keys).clamp(max=block_keys), "amax")
    return live_keys


def _refuse_duplicates(lists: torch.Tensor, used: torch.Tensor, batch: int) -> None:
    ordered = torch.where(used, lists, -1).sort(-1).values
    twice = ((ordered[..., 1:] == ordered[..., :-1]) & (ordered[..., 1:] >= 0)).any(-1)
    if not twice.any():
        return
    head, q_block = _first(twice)
    entries = lists[head, q_block][used[head, q_block]].tolist()
    index = next(index for index, block in enumerate(entries) if block in entries[:index])
    first = entries.index(entries[index])
    place = f"sparse_indices[{batch}, {head}, {q_block}, {index}]"
    raise ValueError(f"{place} must not repeat an entry; got {entries[index]}, as at index {first}")


def _check_data(name: str, data: torch.Tensor, rows: torch.Tensor) -> None:
    """Refuses NaN in the rows of data [..., 128] that are True in rows [...]."""
    places = rows.nonzero(as_tuple=True)
    codes = data.view(torch.uint8)[places]
    bad = (codes & _NAN_CODE) == _NAN_CODE
    if bad.any():
        row, column = _first(bad)
        place = [int(index[row]) for index in places]
        raise ValueError(f"{_element(name, [*place, column])} must not be NaN; got code {int(codes[row, column]):#x}")


def _refuse_where(name: str, tensor: torch.Tensor, bad: torch.Tensor, rule: str, *outer: int) -> None:
    """outer: indices of name in front of those of tensor."""
    if bad.any():
        place = _first(bad)
        raise ValueError(f"{_element(name, [*outer, *place])} {rule}; got {tensor[tuple(place)].item()}")


def _first(bad: torch.Tensor) -> list[int]:
    """Indices of the first True."""
    flat = int(bad.flatten().to(torch.uint8).argmax())
    indices = []
    for size in reversed(bad.shape):
        flat, index = divmod(flat, size)
        indices.append(index)
    return indices[::-1]


def _element(name: str, index: Sequence[Any]) -> str:
    return f"{name}[{', '.join(map(str, index))}]"
