"""The P-scale experiment of docs/numerics.md, small: what an attention sink does to the keys behind it."""

import p_scale
import pytest
import qbsa
import reference
import torch
from qbsa import compare

KEYS, HEADS = 2048, 4
NORMAL, TINIEST = 2**-6, 2**-10  # of e4m3: smallest normal number; what is not above this rounds to 0
HALF_STEP = 2**-4  # of a normal number, relative


def shares(gap, newest_first, scale):
    """Per head: out as a share of the exact answer; and the softmax weight of the sink."""
    scores = p_scale.make_scores(KEYS, gap, HEADS)
    inputs = p_scale.make_call(scores, newest_first, scale)
    out, lse = qbsa.quant_block_sparse_attn(**inputs)
    compare.check(compare.against_chain(out, lse, reference.fp8_chain(**inputs), inputs))
    share, lse = p_scale.run(inputs)
    exact_lse = scores.double().logsumexp(1)
    assert bool(((lse - exact_lse).abs() <= compare.LSE_CAP * (compare.LSE_CAP_OFFSET + exact_lse.abs())).all())
    return share, (scores[:, 0].double() - exact_lse).exp()


def largest_and_smallest_tail(gap):
    tail = p_scale.make_scores(KEYS, gap, HEADS)[:, 1:]
    return float(tail.max()), float(tail.min())


@pytest.mark.parametrize(("gap", "scale"), [(9, 1.0), (10, 1.0), (14, 256.0), (15, 256.0)])
def test_oldest_first_the_whole_tail_is_lost(gap, scale):
    """Every weight beside the sink rounds to 0, so out is the weight of the sink."""
    largest, _ = largest_and_smallest_tail(gap)
    assert scale * torch.tensor(largest - gap).exp() < TINIEST
    share, sink = shares(gap, newest_first=False, scale=scale)
    assert bool(((share / sink - 1).abs() <= compare.BF16_ROUNDOFF).all())


@pytest.mark.parametrize("gap", [6, 7, 8])
def test_oldest_first_a_scale_of_256_keeps_the_tail(gap):
    """Every weight stays a normal number, so none is off by more than half a step; scale 1 loses more than that."""
    _, smallest = largest_and_smallest_tail(gap)
    assert p_scale.COLUMNS[1] == (False, 256.0) and 256 * torch.tensor(smallest - gap).exp() > NORMAL
    share, sink = shares(gap, newest_first=False, scale=256.0)
    assert bool(((share - 1).abs() <= (1 - sink) * HALF_STEP + compare.BF16_ROUNDOFF).all())
    alone, _ = shares(gap, newest_first=False, scale=1.0)
    assert bool((alone < share).all())


@pytest.mark.parametrize("scale", [1.0, 256.0])
@pytest.mark.parametrize("gap", [6, 10, 14])
def test_newest_first_only_the_neighbours_of_the_sink_can_be_lost(gap, scale):
    """Tail weights are normal numbers beside the maximum of the tail, whatever the sink scores."""
    largest, smallest = largest_and_smallest_tail(gap)
    assert scale * torch.tensor(smallest - largest).exp() > NORMAL
    share, sink = shares(gap, newest_first=True, scale=scale)
    tail = p_scale.make_scores(KEYS, gap, HEADS)[:, 1:].double().exp()
    neighbours = tail[:, : 2 * p_scale.BLOCK - 1].sum(1) / tail.sum(1)  # the sink's macro-block
    bound = (1 - sink) * (HALF_STEP + neighbours) + compare.BF16_ROUNDOFF
    assert bool(((share - 1).abs() <= bound).all())


def test_the_scale_does_not_reach_lse():
    inputs = p_scale.make_call(p_scale.make_scores(KEYS, 8, HEADS), False, 1.0)
    results = [p_scale.run(inputs | {"p_scale": torch.tensor([scale])})[1] for scale in (0.1, 1.0, 256.0, 448.0)]
    for lse in results[1:]:
        assert bool(((lse - results[0]).abs() <= compare.LSE_CAP * (compare.LSE_CAP_OFFSET + lse.abs())).all())
