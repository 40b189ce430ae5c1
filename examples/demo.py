"""The main job on a machine without an NPU: one batch of a long prefill and a chunk that continues a conversation.

Quantises random but structured data to FP8, selects KV blocks, plans, runs the attention operator on CPU tensors, and
holds sampled query blocks against the fp64 reference. Exit code 1 if the result is out of tolerance.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import qbsa
import torch
from qbsa import compare, library, quantize, sparsity

# The reference judges the package and is not part of it.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
import reference  # noqa: E402

Q_LENS = [8192, 1000]  # a prefill; a chunk of 1,000 tokens
KV_LENS = [8192, 6000]  # the chunk follows 5,000 tokens of history
HEADS_Q, HEADS_KV, HEAD_DIM, BLOCK = 32, 4, 128, 128
SINKS, WINDOW, TOPK = 1, 2, 6  # blocks per list
TOPICS = 12
SAMPLED_BLOCKS = 96  # per sequence
COPIES_PER_TASK = 4  # what the twin counts as progress: out and LSE, by each of two vector cores


def main() -> int:
    started = time.perf_counter()
    say = Lines()
    say("making queries, keys and values")
    query, key, value = make_data(torch.Generator().manual_seed(1))
    say("quantising to FP8, writing the paged cache, selecting blocks")
    inputs, density = make_call(query, key, value)
    del query, value
    out, lse, seconds = attend(inputs, say)
    chain, exact = judge(out, lse, inputs, say)
    print_table(inputs, density, seconds, time.perf_counter() - started, chain, exact)
    failures = [failure for report in (*chain, *exact) for failure in report.failures]
    print("\n".join(["out of tolerance", *map(str, (*chain, *exact))]) if failures else "within tolerance")
    return 1 if failures else 0


def make_data(generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """query [T, heads_q, 128], key and value [tokens, heads_kv, 128].

    Every 128 tokens have one of a few topics; a query looks for keys of its own topic, so that top-k has something to
    find, and for the first token, which serves as a sink.
    """

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    topic_of_block = torch.randint(TOPICS, (len(KV_LENS), max(KV_LENS) // BLOCK + 1), generator=generator)
    topic = torch.cat([topic_of_block[i].repeat_interleave(BLOCK)[:length] for i, length in enumerate(KV_LENS)])
    ends = torch.tensor(KV_LENS).cumsum(0).tolist()
    query_topic = torch.cat([topic[end - length : end] for end, length in zip(ends, Q_LENS)])
    directions, sink = normal(TOPICS, HEADS_KV, HEAD_DIM), normal(HEADS_KV, HEAD_DIM)
    key = normal(len(topic), HEADS_KV, HEAD_DIM) + 0.5 * directions[topic]
    for end, length in zip(ends, KV_LENS):
        key[end - length] += sink
    value = normal(len(topic), HEADS_KV, HEAD_DIM) + 0.5 * directions.roll(1, 0)[topic]
    query = normal(len(query_topic), HEADS_Q, HEAD_DIM)
    query += (0.5 * directions[query_topic] + 0.4 * sink).repeat_interleave(HEADS_Q // HEADS_KV, 1)
    return query, key, value


def make_call(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> tuple[dict, sparsity.Density]:
    """The keyword arguments of the attention operator, and how much of the visible blocks its lists select."""
    query8, q_descale = quantize.quantize_tokens(query)
    key8, k_descale = quantize.quantize_tokens(key)
    value8, v_descale = quantize.quantize_heads(value)
    shuffled = torch.Generator().manual_seed(2)
    cache = quantize.write_paged_cache(key8, value8, k_descale, KV_LENS, page_ids=shuffled)

    visible = sparsity.visible_blocks(Q_LENS, KV_LENS)
    scores = sparsity.block_scores(query, key, Q_LENS, KV_LENS)
    mask = sparsity.sink_window_topk(scores, visible, sinks=SINKS, window=WINDOW, topk=TOPK)
    sparse_indices, sparse_seq_len = sparsity.mask_to_lists(mask)
    return {
        **cache._asdict(),
        "query": query8,
        "q_descale": q_descale,
        "v_descale": v_descale,
        "p_scale": quantize.default_p_scale(),
        "sparse_indices": sparse_indices,
        "sparse_seq_len": sparse_seq_len,
        "atten_mask": None,
        "softmax_scale": HEAD_DIM**-0.5,
        "sparse_q_block_size": BLOCK,
        "sparse_kv_block_size": BLOCK,
        "cu_seqlens_q": torch.tensor([0, *Q_LENS]).cumsum(0).int(),
        "mask_mode": 3,
        "return_softmax_lse": True,
    }, sparsity.density(mask, visible)


def attend(inputs: dict, say: Lines) -> tuple[torch.Tensor, torch.Tensor, float]:
    """Plans and runs the operator; returns out, LSE and the seconds of the attention call."""
    metadata = torch.ops.qbsa.quant_block_sparse_attn_metadata(
        inputs["sparse_seq_len"], HEADS_Q, HEADS_KV, HEAD_DIM, cu_seqlens_q=inputs["cu_seqlens_q"]
    )
    say(f"plan: {qbsa.show_plan(metadata).splitlines()[1]}")
    twin = library.current()
    total = COPIES_PER_TASK * HEADS_Q * sum(-(-length // BLOCK) for length in Q_LENS)
    started = time.perf_counter()
    with Progress(say, "attention", twin.progress, total):
        out, lse = torch.ops.qbsa.quant_block_sparse_attn(**inputs, metadata=metadata)
    return out, lse, time.perf_counter() - started


def judge(out: torch.Tensor, lse: torch.Tensor, inputs: dict, say: Lines) -> tuple[list, list]:
    """Reports against the declared FP8 chain and against exact attention, on sampled query blocks."""
    generator = torch.Generator().manual_seed(3)
    sample = []
    for batch, length in enumerate(Q_LENS):
        tasks = HEADS_Q * -(-length // BLOCK)
        picks = torch.randperm(tasks, generator=generator)[:SAMPLED_BLOCKS].tolist()
        sample += [(batch, pick % HEADS_Q, pick // HEADS_Q) for pick in picks]
    done = [0]

    def counted():
        for task in sample:
            yield task
            done[0] += 1

    with Progress(say, f"fp64 reference of {len(sample)} query blocks", lambda: done[0], 2 * len(sample)):
        chain = compare.against_chain(out, lse, reference.fp8_chain(select=counted(), **inputs), inputs)
        exact = compare.against_exact(out, lse, reference.exact(select=counted(), **inputs), inputs)
    return chain, exact


def print_table(inputs, density, seconds, total_seconds, chain, exact) -> None:
    (of_out, of_lse), of_exact = chain, exact[0]
    blocks = [f"{q_len} queries on {kv_len} keys" for q_len, kv_len in zip(Q_LENS, KV_LENS)]
    rows = [
        ("batch", "; ".join(blocks)),
        ("heads", f"{HEADS_Q} query, {HEADS_KV} KV, dimension {HEAD_DIM}"),
        ("query", f"{list(inputs['query'].shape)} float8_e4m3fn"),
        ("key, value", f"{list(inputs['key'].shape)} float8_e4m3fn, pages in random order"),
        ("lists", f"{SINKS} sink + {WINDOW} window + {TOPK} top-k blocks, {list(inputs['sparse_indices'].shape)}"),
        ("density", f"{density.selected} of {density.visible} visible blocks = {density.share:.3f}"),
        ("attention", f"{seconds:.1f} s on the CPU, {total_seconds:.1f} s in all"),
        ("sampled", f"{of_lse.elements} rows, {of_out.elements} values"),
        ("misses", f"{of_out.misses} of out ({of_out.misses / of_out.elements:.4%}), {of_lse.misses} of LSE"),
        ("worst error", f"{of_out.worst_error:.2e} of out, {of_lse.worst_error:.2e} of LSE"),
        ("relative L2", f"{of_out.rel_l2:.2e} to the FP8 chain, {of_exact.rel_l2:.2e} to exact softmax"),
    ]
    print()
    for name, text in rows:
        print(f"  {name:<12} {text}")
    print()


class Lines:
    """Prints a line per step; on a terminal, `update` rewrites the last one."""

    def __init__(self):
        self.terminal = sys.stdout.isatty()
        self.started = time.perf_counter()

    def __call__(self, text: str) -> None:
        print(f"[{time.perf_counter() - self.started:5.1f} s] {text}", flush=True)

    def update(self, text: str) -> None:
        print(f"\r[{time.perf_counter() - self.started:5.1f} s] {text}", end="", flush=True)


class Progress:
    """Shows, while its body runs, how much of `total` read() has reached: on a terminal at once, else each tenth."""

    def __init__(self, say: Lines, name: str, read: Callable[[], int], total: int):
        self.say, self.name, self.read, self.total = say, name, read, total
        self.shown = -1  # tenths
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._poll, daemon=True)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *failure):
        self.over.set()
        self.thread.join()
        if failure[0] is None and (self.say.terminal or self.shown < 10):
            self._show(1.0)
        if self.say.terminal:
            print()

    def _poll(self) -> None:
        while not self.over.wait(0.5):
            share = min(1.0, self.read() / self.total)
            if self.say.terminal or int(10 * share) > self.shown:
                self.shown = int(10 * share)
                self._show(share)

    def _show(self, share: float) -> None:
        (self.say.update if self.say.terminal else self.say)(f"{self.name}: {share:.0%}")


if __name__ == "__main__":
    raise SystemExit(main())
