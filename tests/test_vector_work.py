"""Vector instructions of each stage, counted by running it: the vector units bound this kernel, so its counts are kept.

COUNTS are the counts per call on full tiles (64 rows of one AIV). metadata/cost.h is held against them.
"""

import re
from pathlib import Path

import cases
import pytest
import qbsa
from qbsa import library

ROOT = Path(__file__).resolve().parent.parent
COUNTS = {
    "softmax<2, false>": 2330,
    "softmax<1, false>": 1207,
    "accumulate": 329,
    "finish<true, false>": 474,
    "finish<false, false>": 674,
    "begin_rows": 8,
    "fill_rows": 77,
}


def work(entries, mask_mode=0, rows=128, kv_blocks=8):
    """Vector instructions per call of each vector function; every list holds the first `entries` blocks."""
    inputs = cases.make_inputs(
        cases.Case("", (1, 1), (rows,), (kv_blocks * 128,), "sequential", entries, mask_mode=mask_mode)
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
    assert work(6, rows=64)["softmax<2, false>"] < 0.51 * COUNTS["softmax<2, false>"]


@pytest.mark.parametrize("mask_mode", [0, 3])
def test_only_the_end_of_the_sequence_takes_the_masked_function(mask_mode):
    """Causal, 1024 keys, last query block: eight visible blocks, of which the last holds the diagonal."""
    names = work(8, mask_mode=mask_mode)
    assert ("softmax<2, true>" in names) == (mask_mode == 3)
    assert "softmax<2, false>" in names


def test_cost_weights_follow_the_counts():
    text = (ROOT / "metadata" / "cost.h").read_text()
    weight = {name: int(value) for name, value in re.findall(r"constexpr i64 k(\w+) = (\d+);", text)}
    stage = COUNTS
    expected = {
        "MacroBlock": stage["softmax<2, false>"] + stage["accumulate"],
        "Single": stage["softmax<1, false>"] + stage["accumulate"],
        # The first macro-block needs no accumulate, the last has finish in its place.
        "Task": stage["begin_rows"] + stage["finish<false, false>"] - 2 * stage["accumulate"],
        "EmptyTask": stage["fill_rows"],
    }
    assert {name: weight[name] for name in expected} == expected
