"""The truth of a call whose plan cuts lists."""

import reference
import torch
from qbsa import compare, plan

PAIR = 2  # list entries


def pieces_of(metadata):
    """Split task -> pair ranges of its pieces; the last one is open."""
    ranges = {}
    for core in plan.read_plan(metadata).cores:
        if core.pair_begin > 0:
            first, last = ranges[core.task_begin][-1]
            ranges[core.task_begin][-1] = (first, core.pair_begin)
            ranges[core.task_begin].append((core.pair_begin, None))
        if core.pair_end > 0 and core.task_end not in ranges:
            ranges[core.task_end] = [(0, None)]
    return ranges


def truth_of_plan(inputs, metadata):
    """The FP8 chain of each piece, joined in fp64: out by exp(LSE), LSE by logsumexp. Rows of no task are left out."""
    batches, heads, q_blocks = inputs["sparse_seq_len"].shape
    ranges = pieces_of(metadata)
    parts = []
    for task in range(batches * heads * q_blocks):
        heads_kv = inputs["key"].shape[1]
        place = plan.place(task, batch=batches, heads_q=heads, heads_kv=heads_kv, q_blocks=q_blocks)
        truths = []
        for first, last in ranges.get(task, [(0, None)]):
            lists = inputs["sparse_indices"].clone()
            lists[..., : PAIR * first] = -1
            lists[..., lists.shape[-1] if last is None else PAIR * last :] = -1
            truths.append(reference.fp8_chain(**inputs | {"sparse_indices": lists}, select=[place]))
        lse = torch.stack([truth.lse for truth in truths])
        weight = torch.softmax(lse, 0)
        joined = torch.where(lse.amax(0) == compare.EMPTY_LSE, compare.EMPTY_LSE, torch.logsumexp(lse, 0))
        out = sum(w[:, None] * truth.out for w, truth in zip(weight, truths, strict=True))
        peak = torch.stack([w * truth.peak for w, truth in zip(weight, truths, strict=True)]).amax(0)
        parts.append((truths[0].token, truths[0].head, out, joined, peak))
    return compare.Truth(*(torch.cat(tensors) for tensors in zip(*parts, strict=True)))
