"""Block masks, patterns and lists, against loops over tokens and blocks."""

import itertools

import pytest
import torch
from qbsa import sparsity

Q_LENS, KV_LENS = [300, 1, 200, 0, 140], [300, 500, 70, 40, 0]


def token_rule(q_len, kv_len, q_block, kv_block, causal):
    rows = range(q_block * 128, min((q_block + 1) * 128, q_len))
    keys = range(kv_block * 128, min((kv_block + 1) * 128, kv_len))
    return any(not causal or key <= row + kv_len - q_len for row in rows for key in keys)


@pytest.mark.parametrize("causal", [True, False])
def test_a_block_is_visible_iff_one_of_its_tokens_is(causal):
    seen = sparsity.visible_blocks(Q_LENS, KV_LENS, causal=causal)
    assert seen.shape == (5, 3, 4)
    for batch, (q_len, kv_len) in enumerate(zip(Q_LENS, KV_LENS)):
        for q_block in range(3):
            for kv_block in range(4):
                assert seen[batch, q_block, kv_block] == token_rule(q_len, kv_len, q_block, kv_block, causal)


def test_lengths_may_be_tensors():
    lens = (torch.tensor(Q_LENS, dtype=torch.int32), torch.tensor(KV_LENS))
    assert torch.equal(sparsity.visible_blocks(*lens), sparsity.visible_blocks(Q_LENS, KV_LENS))


def test_visibility_counts_tokens_where_lengths_differ_by_no_block():
    assert sparsity.visible_blocks([129], [256])[0].tolist() == [[True, True], [True, True]]
    assert sparsity.visible_blocks([128 + 127], [256])[0].tolist() == [[True, True], [True, True]]
    assert sparsity.visible_blocks([256], [256])[0].tolist() == [[True, False], [True, True]]


@pytest.mark.parametrize("newest_first", [False, True])
def test_masks_survive_lists(newest_first):
    mask = torch.rand(2, 3, 4, 9, generator=torch.Generator().manual_seed(0)) < 0.4
    mask[1, 2, 3] = False
    indices, lengths = sparsity.mask_to_lists(mask, newest_first=newest_first, capacity=9)
    assert indices.dtype == lengths.dtype == torch.int32 and indices.shape == mask.shape
    for batch in range(2):
        for head in range(3):
            for q_block in range(4):
                expected = mask[batch, head, q_block].nonzero().flatten().tolist()
                if newest_first:
                    expected = expected[::-1]
                assert lengths[batch, head, q_block] == len(expected)
                assert indices[batch, head, q_block].tolist() == expected + [-1] * (9 - len(expected))
    assert torch.equal(sparsity.lists_to_mask(indices, lengths, 9), mask)


def test_capacity_is_the_longest_list_unless_given():
    mask = torch.zeros(1, 2, 2, 5, dtype=torch.bool)
    assert sparsity.mask_to_lists(mask)[0].shape == (1, 2, 2, 1)
    mask[0, 0, 0, :3] = True
    assert sparsity.mask_to_lists(mask)[0].shape == (1, 2, 2, 3)


def test_lists_to_mask_leaves_out_what_names_no_block():
    indices = torch.tensor([[[[2, -1, 9, 2, 0]]]], dtype=torch.int32)
    assert sparsity.lists_to_mask(indices, torch.tensor([[[4]]]), 4).flatten().tolist() == [False, False, True, False]


def test_sink_window_topk_takes_the_best_of_the_rest():
    seen = sparsity.visible_blocks(Q_LENS, KV_LENS)
    seen = torch.cat([seen, sparsity.visible_blocks([384] * 5, [384 * 3] * 5)], dim=2)  # rows with many visible blocks
    scores = torch.randn(5, 2, 3, seen.shape[2], generator=torch.Generator().manual_seed(1))
    mask = sparsity.sink_window_topk(scores, seen, sinks=1, window=2, topk=3)
    for batch in range(5):
        for head in range(2):
            for q_block in range(3):
                blocks = seen[batch, q_block].nonzero().flatten().tolist()
                forced = {*blocks[:1], *blocks[max(0, len(blocks) - 2) :]}
                rest = sorted(set(blocks) - forced, key=lambda block: -scores[batch, head, q_block, block])
                chosen = mask[batch, head, q_block].nonzero().flatten().tolist()
                assert chosen == sorted(forced | set(rest[:3]))


def test_sink_window_is_top_k_of_nothing():
    seen = sparsity.visible_blocks(Q_LENS, KV_LENS)
    scores = torch.zeros(5, 4, *seen.shape[1:])
    for sinks, window in ((0, 0), (1, 0), (0, 2), (1, 2), (9, 9)):
        mask = sparsity.sink_window(seen, 4, sinks=sinks, window=window)
        assert torch.equal(mask, sparsity.sink_window_topk(scores, seen, sinks=sinks, window=window, topk=0))
    assert torch.equal(mask, sparsity.all_visible(seen, 4))


def test_every_pattern_survives_lists_in_both_orders():
    seen = sparsity.visible_blocks(Q_LENS, KV_LENS)
    scores = torch.randn(5, 4, *seen.shape[1:], generator=torch.Generator().manual_seed(4))
    patterns = [
        sparsity.all_visible(seen, 4),
        sparsity.sink_window(seen, 4, sinks=1, window=1),
        sparsity.sink_window_topk(scores, seen, sinks=1, window=1, topk=1),
        sparsity.random_blocks(seen, 4, 0.5, torch.Generator().manual_seed(5)),
    ]
    for mask, newest_first in itertools.product(patterns, (False, True)):
        indices, lengths = sparsity.mask_to_lists(mask, newest_first=newest_first)
        assert torch.equal(sparsity.lists_to_mask(indices, lengths, seen.shape[2]), mask)
        steps = indices[..., 1:] - indices[..., :-1]
        assert bool(((steps < 0) == newest_first)[indices[..., 1:] >= 0].all())


def test_random_blocks_are_visible_and_near_their_density():
    seen = sparsity.visible_blocks([4096], [4096])
    mask = sparsity.random_blocks(seen, 8, 0.3, torch.Generator().manual_seed(2))
    report = sparsity.density(mask, seen)
    assert not (mask & ~seen[:, None]).any()
    assert abs(report.share - 0.3) < 5 * (0.3 * 0.7 / report.visible) ** 0.5  # five standard deviations
    assert not torch.equal(mask[0, 0], mask[0, 1])


def test_density_counts_visible_blocks_only():
    seen = sparsity.visible_blocks([256, 128], [256, 384])
    dense = sparsity.all_visible(seen, 4)
    report = sparsity.density(dense, seen)
    assert (report.selected, report.visible, report.longest_list, report.share) == (24, 24, 3, 1.0)
    dense[:, 1] = False
    assert sparsity.density(dense, seen).per_head.tolist() == [1, 0, 1, 1]
    assert sparsity.density(torch.ones_like(dense), seen).selected == 24


def test_block_scores_are_products_of_means():
    generator = torch.Generator().manual_seed(3)
    query, key = torch.randn(641, 4, 128, generator=generator), torch.randn(910, 2, 128, generator=generator)
    scores = sparsity.block_scores(query, key, Q_LENS, KV_LENS)
    assert scores.shape == (5, 4, 3, 4)
    for batch, head, q_block, kv_block in ((0, 1, 2, 1), (1, 3, 0, 3), (2, 0, 1, 0), (0, 2, 0, 0)):
        q_begin, k_begin = sum(Q_LENS[:batch]), sum(KV_LENS[:batch])
        rows = query[q_begin : q_begin + Q_LENS[batch], head][q_block * 128 : (q_block + 1) * 128]
        keys = key[k_begin : k_begin + KV_LENS[batch], head // 2][kv_block * 128 : (kv_block + 1) * 128]
        assert torch.allclose(scores[batch, head, q_block, kv_block], rows.mean(0) @ keys.mean(0), rtol=1e-4, atol=1e-5)
    assert bool((scores[3] == 0).all())
