"""Truth in fp64. Everything else in the project is judged by this file.

`fp8_chain` is the declared arithmetic of the operator, `exact` is plain softmax attention over the selected keys. Both
take the public keyword arguments of `quant_block_sparse_attn`, tensors on the CPU; duplicates in a list count twice.

The chain, per (batch, query head, query block):
  - entries 2k and 2k + 1 of the list form a pair; an entry that is negative, past the page table, past kv_len or on a
    page that does not exist contributes no key, and nothing is re-paired;
  - the running maximum m moves once per pair; P = exp(s - (m - ln p_scale)) is rounded to e4m3 before it meets V;
  - the row sum takes the unrounded P, so p_scale cancels; v_descale is applied once;
  - a row without a visible key has out 0 and LSE -FLT_MAX.
All of it in fp64 except P and what decides the grid of P: s and m - ln p_scale are fp32 numbers. With |s| above 1e5 the
spacing of fp32 moves P by percents, in every row alike, and published results contain that.
P itself is rounded from fp64, once. A kernel rounds an fp32 P, so next to a tie it may take the neighbouring code;
qbsa.compare derives what that costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from types import SimpleNamespace

import torch
from qbsa.compare import E4M3, EMPTY_LSE, Truth

CAUSAL = 3  # mask_mode of the public contract
DEFAULTS = {"layout_q": "TND", "mask_mode": CAUSAL}
PAIR = 2  # list entries between two moves of the running maximum

_, _EXPONENT_OF_TINY = torch.frexp(torch.tensor(E4M3.smallest_normal, dtype=torch.float64))


@dataclass
class _Rounding:
    score: Callable[[torch.Tensor], torch.Tensor]
    p: Callable[[torch.Tensor], torch.Tensor]


def fp8_chain(*, select: Iterable[tuple[int, int, int]] | None = None, **inputs) -> Truth:
    """The declared FP8 chain; of the (batch, head, q_block) in `select`, or of every row of `out`."""
    return _rows(_Rounding(lambda s: s.float().double(), round_to_e4m3), select, SimpleNamespace(**DEFAULTS | inputs))


def exact(*, select: Iterable[tuple[int, int, int]] | None = None, **inputs) -> Truth:
    """Softmax attention on the dequantised inputs, fp64 throughout; arguments as in fp8_chain."""
    return _rows(_Rounding(lambda s: s, lambda p: p), select, SimpleNamespace(**DEFAULTS | inputs))


def round_to_e4m3(x: torch.Tensor) -> torch.Tensor:
    """fp64 -> nearest e4m3 value, ties to even, saturating; NaN stays NaN. The result is fp64."""
    _, exponent = torch.frexp(x)
    step = torch.ldexp(torch.full_like(x, E4M3.eps), exponent.clamp(min=_EXPONENT_OF_TINY) - 1)
    return (torch.round(x / step) * step).clamp(E4M3.min, E4M3.max)


def _rows(rounding: _Rounding, select: Iterable[tuple[int, int, int]] | None, args: SimpleNamespace) -> Truth:
    if args.layout_q == "NTD":
        args.query, args.q_descale = args.query.transpose(0, 1), args.q_descale.transpose(0, 1)
    args.k_descale = args.k_descale.expand(*args.key.shape[:-1], 1)
    tokens, heads, columns = args.query.shape
    batches, _, q_blocks, _ = args.sparse_indices.shape
    tasks = product(range(batches), range(heads), range(q_blocks)) if select is None else select

    done = torch.zeros(heads, tokens, dtype=torch.bool)
    parts = []  # (row id, out, lse, peak); row id = head * tokens + token
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the tensors are small: sharing them out costs more than it gains
    for batch, head, q_block in tasks:
        token, *result = _task(rounding, args, batch, head, q_block)
        done[head, token] = True
        parts.append((head * tokens + token, *result))
    torch.set_num_threads(threads)
    if select is None:  # rows of no task: tokens past the last sequence, or past the last query block
        alone = (~done).flatten().nonzero().flatten()
        zeros = torch.zeros(len(alone), columns + 1, dtype=torch.float64)
        parts.append((alone, zeros[:, :columns], zeros[:, 0] + EMPTY_LSE, zeros[:, 0]))
    row_id, out, lse, peak = (torch.cat(tensors) for tensors in zip(*parts))
    return Truth(row_id % tokens, row_id // tokens, out, lse, peak)


def _task(rounding, args, batch, head, q_block):
    """One query block: token int64 [rows], out [rows, 128], LSE [rows], peak [rows]."""
    q_begin, q_end = args.cu_seqlens_q[batch : batch + 2].tolist()
    q_len, kv_len = q_end - q_begin, int(args.seqused_kv[batch])
    row = torch.arange(q_len)[q_block * args.sparse_q_block_size : (q_block + 1) * args.sparse_q_block_size]
    token = row + q_begin
    kv_head = head // (args.query.shape[1] // args.key.shape[1])
    count = min(max(int(args.sparse_seq_len[batch, head, q_block]), 0), args.sparse_indices.shape[3])
    entries = args.sparse_indices[batch, head, q_block, :count].tolist()
    query = args.query[token, head].double()
    query_scale = args.q_descale[token, head].double()[:, None] * args.softmax_scale
    log_p_scale = torch.zeros(1) if args.p_scale is None else args.p_scale.double().log()

    running_max = torch.full((len(row),), EMPTY_LSE, dtype=torch.float64)
    row_sum = torch.zeros(len(row), dtype=torch.float64)
    acc = torch.zeros(len(row), query.shape[1], dtype=torch.float64)
    for first in range(0, count, PAIR):
        key, value, key_scale, position = _keys(args, batch, kv_head, kv_len, entries[first : first + PAIR])
        if len(position) == 0:
            continue
        visible = torch.ones(len(row), len(position), dtype=torch.bool)
        if args.mask_mode == CAUSAL:
            visible = position <= row[:, None] + kv_len - q_len
        scores = rounding.score(torch.where(visible, query @ key.T * query_scale * key_scale, -torch.inf))
        new_max = torch.maximum(running_max, scores.amax(1))
        alpha = torch.exp(running_max - new_max)
        shift = rounding.score(new_max - log_p_scale)
        p = torch.exp(scores - shift[:, None])
        row_sum = row_sum * alpha + p.sum(1)
        acc = acc * alpha[:, None] + _times_value(rounding.p(p), value, visible)
        running_max = new_max

    empty = row_sum == 0
    out = torch.where(empty[:, None], 0.0, acc / row_sum[:, None] * args.v_descale[kv_head].double())
    shift = rounding.score(running_max - log_p_scale)
    lse = torch.where(empty, EMPTY_LSE, torch.log(row_sum) + shift)
    return token, out, lse, torch.where(empty, 0.0, torch.exp(running_max - shift) / row_sum)


def _keys(args, batch, kv_head, kv_len, entries):
    """The keys of one pair: key and value [n, 128], key scale [n], position in the sequence [n]."""
    size = args.sparse_kv_block_size
    parts = []
    for entry in entries:
        used = min(size, kv_len - entry * size)
        page = int(args.block_table[batch, entry]) if 0 <= entry < args.block_table.shape[1] and used > 0 else -1
        if 0 <= page < args.key.shape[0]:
            slots = (page, kv_head, slice(0, used))
            position = torch.arange(entry * size, entry * size + used)
            parts.append((args.key[slots], args.value[slots], args.k_descale[slots].flatten(), position))
    if not parts:
        return (torch.empty(0),) * 4
    key, value, key_scale, position = (torch.cat(tensors) for tensors in zip(*parts))
    return key.double(), value.double(), key_scale.double(), position


def _times_value(p, value, visible):
    """P @ V, in which a NaN of V reaches the rows that see its key and no other."""
    if not value.isnan().any():
        return p @ value
    return (p @ value.nan_to_num(0.0)).masked_fill(visible.double() @ value.isnan().double() > 0, torch.nan)
