"""Vector instructions of each stage, counted by running it: the vector units bound this kernel, so its counts are kept.

COUNTS are the counts per call on full tiles (64 rows of one AIV).
"""

import cases
import pytest
import qbsa
import workloads
from qbsa import library

COUNTS = {
    "softmax<2, false>": 2330,
    "softmax<1, false>": 1207,
    "accumulate": 329,
    "finish<true, false>": 474,
    "finish<false, false>": 674,
    "begin_rows": 8,
    "fill_rows": 77,
}
SHORT_COUNTS = {"softmax<2, false>": 1178, "softmax<1, false>": 615, "accumulate": 165}  # at most 64 rows of a block
# Of half of an AIV's rows, two pieces.
MERGE_COUNTS = {"add_partial<true>": 133, "add_partial<false>": 165, "merged_to_bf16": 162, "merge_weights": 25}


def work(entries, mask_mode=0, rows=128, keys=1024, pieces=1):
    """Vector instructions per call of each vector function; the one list holds the first `entries` blocks."""
    inputs = cases.make_inputs(cases.Case("", (1, 1), (rows,), (keys,), "sequential", entries, mask_mode=mask_mode))
    inputs["metadata"] = workloads.make_plan(
        workloads.Workload(inputs["sparse_seq_len"], 1, inputs["cu_seqlens_q"]), pieces, pieces
    )
    with library.mode("checked"):
        qbsa.quant_block_sparse_attn(**inputs)
        functions = library.current().report()["vector_functions"]
    return {
        name.removeprefix("qbsa::"): sum(function["ops"].values()) / function["calls"]
        for name, function in functions.items()
    }


def test_counts_of_full_tiles():
    measured = work(1) | work(6)
    assert {name: measured[name] for name in COUNTS} == COUNTS


def test_a_single_entry_costs_little_more_than_half():
    assert COUNTS["softmax<1, false>"] <= 0.55 * COUNTS["softmax<2, false>"]


def test_short_query_blocks_cost_half():
    measured = work(1, rows=64) | work(6, rows=64)
    assert {name: measured[name] for name in SHORT_COUNTS} == SHORT_COUNTS


def test_counts_of_a_merge():
    measured = work(6, pieces=2)
    assert {name: measured[name] for name in MERGE_COUNTS} == MERGE_COUNTS


@pytest.mark.parametrize("mask_mode", [0, 3])
def test_only_the_end_of_the_sequence_takes_the_masked_function(mask_mode):
    """Causal, 1024 keys, last query block: eight visible blocks, of which the last holds the diagonal."""
    names = work(8, mask_mode=mask_mode)
    assert ("softmax<2, true>" in names) == (mask_mode == 3)
    assert "softmax<2, false>" in names


@pytest.mark.parametrize("change", [{"mask_mode": 3}, {"keys": 1019}])
def test_a_masked_macro_block_costs_two_percent_more_at_most(change):
    """Why cost.h has no weight for the diagonal and the end of a sequence."""
    assert work(8, **change)["softmax<2, true>"] <= 1.02 * COUNTS["softmax<2, false>"]
