"""Vector instructions of each stage, counted by running it: the vector units bound this kernel, so its counts are kept.

COUNTS are the counts per call on full tiles (64 rows of one AIV).
"""

import cases
import pytest
import qbsa
import torch
import workloads
from qbsa import library

COUNTS = {
    "scale_whole<Scaling::kPerKey, true>": 1455,  # pass 1 of V1, and V2 of another macro-block
    "scale_whole<Scaling::kPerKey, false>": 1122,
    "exponentials<false>": 1200,
    "accumulate": 334,
    "finish<true, false>": 474,
    "finish<false, false>": 677,
    "begin_rows": 9,
    "fill_rows": 77,
}
SINGLE_COUNTS = {"scale_masked<Scaling::kPerKey, false>": 598, "exponentials<false>": 624}
TAIL_COUNTS = {"scale_masked<Scaling::kPerKey, false>": 326, "exponentials<false>": 336}  # at most 64 keys
ONE_SCALE_COUNTS = {
    "scale_whole<Scaling::kLater, true>": 775,
    "scale_whole<Scaling::kLater, false>": 442,
    "exponentials<true>": 1464,
}
# At most 64 rows of a block.
SHORT_COUNTS = {"scale_whole<Scaling::kPerKey, false>": 562, "exponentials<false>": 604, "accumulate": 170}
SHORT_SINGLE_COUNTS = {"scale_masked<Scaling::kPerKey, false>": 303, "exponentials<false>": 316}
PASS_1, FUSED = "scale_whole<Scaling::kPerKey, false>", "scale_whole<Scaling::kPerKey, true>"
V1 = COUNTS[PASS_1] + COUNTS["exponentials<false>"]
# Of half of an AIV's rows, two pieces.
MERGE_COUNTS = {"add_partial<true>": 133, "add_partial<false>": 165, "merged_to_bf16": 162, "merge_weights": 24}


def work(entries, mask_mode=0, rows=128, keys=1024, pieces=1, one_scale=False):
    """Vector instructions per call of each vector function; the one list holds the first `entries` blocks."""
    inputs = cases.make_inputs(cases.Case("", (1, 1), (rows,), (keys,), "sequential", entries, mask_mode=mask_mode))
    if one_scale:
        inputs["k_descale"] = torch.full((1,), 0.01)
    inputs["metadata"] = workloads.make_plan(
        workloads.Workload(inputs["sparse_seq_len"], 1, inputs["cu_seqlens_q"]), pieces, pieces
    )
    with library.mode("checked"):
        qbsa.quant_block_sparse_attn(**inputs)
        functions = library.current().report()["vector_functions"]
    return {
        name.replace("qbsa::", ""): sum(function["ops"].values()) / function["calls"]
        for name, function in functions.items()
    }


def holds(counts, measured):
    assert {name: measured[name] for name in counts} == counts


def test_counts_of_full_tiles():
    holds(COUNTS, work(1) | work(8))


def test_counts_with_one_key_scale():
    holds(ONE_SCALE_COUNTS, work(8, one_scale=True))


def test_a_single_entry_costs_little_more_than_half():
    holds(SINGLE_COUNTS, work(1))
    assert sum(SINGLE_COUNTS.values()) <= 0.55 * V1


def test_a_tail_costs_by_steps_of_64_keys():
    holds(TAIL_COUNTS, work(1, keys=64))
    assert sum(TAIL_COUNTS.values()) <= 0.3 * V1


def test_short_query_blocks_cost_half():
    holds(SHORT_COUNTS, work(8, rows=64))
    holds(SHORT_SINGLE_COUNTS, work(1, rows=64))


def test_counts_of_a_merge():
    measured = work(8, pieces=2)
    assert {name: measured[name] for name in MERGE_COUNTS} == MERGE_COUNTS


@pytest.mark.parametrize("mask_mode", [0, 3])
def test_only_the_end_of_the_sequence_takes_the_masked_function(mask_mode):
    """Causal, 1024 keys, last query block: eight visible blocks, of which the last holds the diagonal."""
    names = work(8, mask_mode=mask_mode)
    assert any(name.startswith("scale_masked") for name in names) == (mask_mode == 3)
    assert PASS_1 in names


@pytest.mark.parametrize("change", [{"mask_mode": 3}, {"mask_mode": 3, "rows": 93}, {"keys": 1019}, {"keys": 970}])
def test_a_masked_macro_block_costs_seven_percent_more_at_most(change):
    """Why cost.h has no weight for the diagonal and the end of a sequence. (The mean of both AIVs.)"""
    measured = work(8, **change)
    assert measured["scale_masked<Scaling::kPerKey, true>"] <= COUNTS[FUSED] + 0.07 * (V1 + COUNTS["accumulate"])
