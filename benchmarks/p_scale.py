"""What p_scale and the order of lists do to small weights beside an attention sink: python benchmarks/p_scale.py

One query row on 8K or 128K keys. Key 0, the sink, scores `gap` above the mean of all other keys, whose scores are
normal with standard deviation 0.25; V is ones, so the exact answer is 1. The printed values are means over heads.
"""

from __future__ import annotations

import time

import qbsa
import torch
from qbsa import sparsity

HEADS = 32
BLOCK = 128
TAIL_DEVIATION = 0.25
ROWS = [(8192, 6), (8192, 8), (8192, 10), (8192, 13), *((131072, gap) for gap in (6, 8, 10, 12, 13, 14))]
COLUMNS = [(False, 1.0), (False, 256.0), (True, 1.0), (True, 256.0)]  # newest first, p_scale


def main() -> None:
    started = time.perf_counter()
    print("| keys | sink gap |" + "".join(f" {order(newest)}, {p_scale:g} |" for newest, p_scale in COLUMNS))
    print("|---|---|" + "---|" * len(COLUMNS))
    worst_lse = 0.0
    for keys, gap in ROWS:
        scores = make_scores(keys, gap, HEADS)
        cells = []
        for newest_first, p_scale in COLUMNS:
            share, lse = run(make_call(scores, newest_first, p_scale))
            cells.append(f"{share.mean():.4f}")
            worst_lse = max(worst_lse, float((lse - scores.double().logsumexp(1)).abs().max()))
        print(f"| {keys // 1024}K | {gap} | " + " | ".join(cells) + " |", flush=True)
    print(f"\nLSE: at most {worst_lse:.1e} from exact in all of them. {time.perf_counter() - started:.0f} s")


def order(newest_first: bool) -> str:
    return "newest first" if newest_first else "oldest first"


def make_scores(keys: int, gap: float, heads: int) -> torch.Tensor:
    """float32 [heads, keys]: the score of every key."""
    scores = torch.randn(heads, keys, generator=torch.Generator().manual_seed(keys + round(gap))) * TAIL_DEVIATION
    scores[:, 0] = gap
    return scores


def make_call(scores: torch.Tensor, newest_first: bool, p_scale: float) -> dict:
    """The keyword arguments of a call with these scores: q . k is 1 for each key, k_descale is its score.

    V is ones. v_descale differs by head within a binade, so that the rounding of out to bfloat16 averages out.
    """
    heads, keys = scores.shape
    one = torch.zeros(1, heads, BLOCK, 128)
    one[..., 0] = 1
    blocks = keys // BLOCK  # all pages of keys and values are one page; scales have pages of their own
    key = one.to(torch.float8_e4m3fn).expand(blocks, -1, -1, -1)
    value = torch.ones_like(one).to(torch.float8_e4m3fn).expand(blocks, -1, -1, -1)
    visible = sparsity.visible_blocks([1], [keys])
    indices, lengths = sparsity.mask_to_lists(sparsity.all_visible(visible, heads), newest_first=newest_first)
    return {
        "query": one[:, :, 0].to(torch.float8_e4m3fn),
        "key": key,
        "value": value,
        "q_descale": torch.ones(1, heads),
        "k_descale": scores.reshape(heads, blocks, BLOCK, 1).transpose(0, 1).contiguous(),
        "v_descale": torch.linspace(1, 2, heads),
        "p_scale": torch.tensor([p_scale]),
        "sparse_indices": indices,
        "sparse_seq_len": lengths,
        "atten_mask": None,
        "softmax_scale": 1.0,
        "sparse_q_block_size": BLOCK,
        "sparse_kv_block_size": BLOCK,
        "cu_seqlens_q": torch.tensor([0, 1], dtype=torch.int32),
        "seqused_kv": torch.tensor([keys], dtype=torch.int32),
        "block_table": torch.arange(blocks, dtype=torch.int32)[None],
        "return_softmax_lse": True,
    }


def run(inputs: dict) -> tuple[torch.Tensor, torch.Tensor]:
    """Of each head: the mean of out as a share of the exact answer, and LSE; fp64 [heads]."""
    out, lse = qbsa.quant_block_sparse_attn(**inputs)
    return out[0].double().mean(1) / inputs["v_descale"].double(), lse[:, 0].double()


if __name__ == "__main__":
    main()
