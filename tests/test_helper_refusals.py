"""qbsa.sparsity, qbsa.quantize and plans refuse bad input: one error with the argument, the rule and the value."""

import pytest
import qbsa
import torch
from qbsa import quantize, sparsity
from small_call import int32, metadata_arguments

SEEN = sparsity.visible_blocks([300], [300])  # [1, 3, 3]
MASK = SEEN[:, None].expand(1, 2, 3, 3)
INDICES = int32(1, 2, 3, 4)
SCORES = torch.zeros(1, 2, 3, 3)
REAL = torch.ones(3, 2, 128)
CACHE = {"key": REAL.to(torch.float8_e4m3fn), "value": REAL.to(torch.float8_e4m3fn), "k_descale": torch.ones(3, 2)}


def visible_blocks(q_lens=(300,), kv_lens=(300,), **options):
    return sparsity.visible_blocks(q_lens, kv_lens, **options)


def sink_window(visible=SEEN, heads_q=2, sinks=1, window=1):
    return sparsity.sink_window(visible, heads_q, sinks=sinks, window=window)


def sink_window_topk(scores=SCORES, visible=SEEN, sinks=1, window=1, topk=1):
    return sparsity.sink_window_topk(scores, visible, sinks=sinks, window=window, topk=topk)


def random_blocks(visible=SEEN, heads_q=2, density=0.5, generator=None):
    return sparsity.random_blocks(visible, heads_q, density, generator)


def block_scores(query=REAL, key=REAL, q_lens=(3,), kv_lens=(3,)):
    return sparsity.block_scores(query, key, q_lens, kv_lens)


def mask_to_lists(mask=MASK, **options):
    return sparsity.mask_to_lists(mask, **options)


def lists_to_mask(sparse_indices=INDICES, sparse_seq_len=INDICES[..., 0], kv_blocks=3):
    return sparsity.lists_to_mask(sparse_indices, sparse_seq_len, kv_blocks)


def density(mask=MASK, visible=SEEN):
    return sparsity.density(mask, visible)


def write_paged_cache(kv_lens=(1, 2), **changes):
    return quantize.write_paged_cache(**(CACHE | changes), kv_lens=kv_lens)


def show_plan(metadata=None):
    return qbsa.show_plan(metadata)


def check_plan(metadata=None, batch=2, heads_q=4, q_blocks=2):
    plan = qbsa.quant_block_sparse_attn_metadata(**metadata_arguments()) if metadata is None else metadata
    return qbsa.check_plan(plan, batch=batch, heads_q=heads_q, q_blocks=q_blocks)


LENGTH_FAULTS = [
    (5, TypeError, "{} must be a sequence of ints, the tokens of each sequence; got int 5"),
    ("3", TypeError, "{} must be a sequence of ints, the tokens of each sequence; got str '3'"),
    ([1.5], TypeError, "{}[0] must be an int; got float 1.5"),
    ([True], TypeError, "{}[0] must be an int; got bool True"),
    ([[3]], TypeError, "{}[0] must be an int; got list [3]"),
    ([3, -1], ValueError, "{}[1] must be in 0..2147483647; got -1"),
    (torch.tensor([2**31]), ValueError, "{}[0] must be in 0..2147483647; got 2147483648"),
]

# function, changes of its arguments, error, how the message begins
HELPER_REFUSALS = [
    *(
        (function, {name: bad}, error, text.format(name))
        for function, names in (
            (visible_blocks, ("q_lens", "kv_lens")),
            (block_scores, ("q_lens", "kv_lens")),
            (write_paged_cache, ("kv_lens",)),
        )
        for name in names
        for bad, error, text in LENGTH_FAULTS
    ),
    (visible_blocks, {"q_lens": [1, 2]}, ValueError, "kv_lens must name as many sequences as q_lens, 2; got 1 seq"),
    (visible_blocks, {"causal": 1}, TypeError, "causal must be a bool; got int 1"),
    (block_scores, {"kv_lens": [1, 2]}, ValueError, "kv_lens must name as many sequences as q_lens, 1; got 2 seq"),
    (block_scores, {"q_lens": [2]}, ValueError, "query must have shape [sum(q_lens), heads_q, columns] with "),
    (block_scores, {"kv_lens": [4]}, ValueError, "key must have shape [sum(kv_lens), heads_kv, columns] with sum(kv"),
    (block_scores, {"key": torch.ones(3, 3, 128)}, ValueError, "query must have heads_q heads, a multiple of heads_kv"),
    (block_scores, {"key": torch.ones(3, 0, 128)}, ValueError, "query must have heads_q heads, a multiple of heads_kv"),
    (block_scores, {"key": torch.ones(3, 2, 64)}, ValueError, "key must have shape [sum(kv_lens), heads_kv, columns]"),
    (
        block_scores,
        {"query": REAL.int()},
        ValueError,
        "query must have a floating-point dtype; got",
    ),
    (block_scores, {"query": None}, TypeError, "query must be a torch.Tensor; got None"),
    *(
        (function, {"visible": bad}, ValueError, f"visible must have {rule}")
        for function in (sink_window, sink_window_topk, random_blocks, density)
        for bad, rule in ((SEEN.int(), "dtype torch.bool; got torch.int32"), (SEEN[0], "3 dimensions [batch, q_blocks"))
    ),
    *(
        (function, {"heads_q": bad}, error, "heads_q must be ")
        for function in (sink_window, random_blocks)
        for bad, error in ((0, ValueError), (2.0, TypeError))
    ),
    *(
        (function, {name: bad}, error, f"{name} must be {rule}")
        for function, names in ((sink_window, ("sinks", "window")), (sink_window_topk, ("sinks", "window", "topk")))
        for name in names
        for bad, error, rule in ((-1, ValueError, "at least 0; got -1"), (1.5, TypeError, "an int; got float 1.5"))
    ),
    (sink_window_topk, {"scores": SCORES.int()}, ValueError, "scores must have a floating-point dtype; got"),
    (sink_window_topk, {"scores": SCORES[:, :, :, :2]}, ValueError, "visible must have shape [batch, q_blocks, kv_bl"),
    (
        sink_window_topk,
        {"scores": SCORES * torch.nan, "sinks": 0},
        ValueError,
        "scores must not be NaN where a",
    ),
    *(
        (random_blocks, {"density": bad}, ValueError, f"density must be in 0..1; got {bad}")
        for bad in (-0.1, 1.5, float("nan"))
    ),
    (random_blocks, {"density": "half"}, TypeError, "density must be a float; got str 'half'"),
    (random_blocks, {"generator": 1}, TypeError, "generator must be a torch.Generator or None; got int 1"),
    (mask_to_lists, {"mask": MASK.int()}, ValueError, "mask must have dtype torch.bool; got torch.int32"),
    (mask_to_lists, {"mask": SEEN}, ValueError, "mask must have 4 dimensions [batch, heads_q, q_blocks, kv_blocks]"),
    (mask_to_lists, {"capacity": 2}, ValueError, "capacity must be at least 3, the length of the longest list; got 2"),
    (mask_to_lists, {"capacity": 4.0}, TypeError, "capacity must be an int; got float 4.0"),
    (mask_to_lists, {"mask": MASK & False, "capacity": -1}, ValueError, "capacity must be at least 0; got -1"),
    (mask_to_lists, {"newest_first": "yes"}, TypeError, "newest_first must be a bool; got str 'yes'"),
    (
        lists_to_mask,
        {"sparse_indices": torch.ones(1, 2, 3, 4)},
        ValueError,
        "sparse_indices must have an integer",
    ),
    (
        lists_to_mask,
        {"sparse_seq_len": int32(1, 2, 4)},
        ValueError,
        "sparse_seq_len must have shape [batch, ",
    ),
    (lists_to_mask, {"kv_blocks": -1}, ValueError, "kv_blocks must be at least 0; got -1"),
    (density, {"mask": MASK.int()}, ValueError, "mask must have dtype torch.bool; got torch.int32"),
    (density, {"visible": SEEN[:, :2]}, ValueError, "visible must have shape [batch, q_blocks, kv_blocks] with batch"),
    (density, {"mask": MASK[:, :0]}, ValueError, "mask.shape[1], its heads, must be at least 1; got 0"),
    *(
        (function, {"x": bad}, error, f"x must {rule}")
        for function in (quantize.quantize_tokens, quantize.quantize_heads)
        for bad, error, rule in (
            ([1.0], TypeError, "be a torch.Tensor; got list [1.0]"),
            (REAL.int(), ValueError, "have a floating-point dtype; got torch.int32"),
            (REAL[0], ValueError, "have 3 dimensions [tokens, heads, columns]; got shape [2, 128]"),
        )
    ),
    (quantize.quantize_heads, {"x": REAL, "per": "token"}, ValueError, "per must be one of 'head', 'tensor'; got 'tok"),
    *(
        (write_paged_cache, {name: CACHE[name].bfloat16()}, ValueError, f"{name} must have dtype torch.float")
        for name in CACHE
    ),
    (
        write_paged_cache,
        {"value": CACHE["value"][:, :1]},
        ValueError,
        "value must have shape [sum(kv_lens), heads_kv",
    ),
    (write_paged_cache, {"k_descale": torch.ones(2, 3)}, ValueError, "k_descale must have shape [sum(kv_lens), heads_"),
    (write_paged_cache, {"kv_lens": [4]}, ValueError, "key must have shape [sum(kv_lens), heads_kv, columns] with sum"),
    (write_paged_cache, {"pages": 1}, ValueError, "pages must be at least 2, the blocks of the sequences; got 1"),
    (
        *(write_paged_cache, {"pages": 1, "page_ids": torch.Generator()}, ValueError),
        "pages must be at least 2, the blocks of the sequences; got 1",
    ),
    (write_paged_cache, {"pages": 2.0}, TypeError, "pages must be an int; got float 2.0"),
    (write_paged_cache, {"fill_nan": 0}, TypeError, "fill_nan must be a bool; got int 0"),
    *(
        (write_paged_cache, {"page_ids": bad}, error, f"page_ids must {rule}")
        for bad, error, rule in (
            ([0, 1], TypeError, "be a torch.Tensor, a torch.Generator or None; got list [0, 1]"),
            (torch.tensor([0.0, 1.0]), ValueError, "have an integer dtype; got torch.float32"),
            (torch.tensor([0]), ValueError, "have shape [blocks] with blocks = 2; got shape [1]"),
            (torch.tensor([0, 2]), ValueError, "be in 0..1, the pages of the cache; got 2"),
            (torch.tensor([1, 1]), ValueError, "be distinct; got page 1 2 times"),
        )
    ),
    *(
        (function, {"metadata": bad}, error, f"metadata must {rule}")
        for function in (show_plan, check_plan)
        for bad, error, rule in (
            ([1], TypeError, "be a torch.Tensor; got list [1]"),
            (torch.zeros(3), ValueError, "be int32 with 1 dimension; got torch.float32 [3]"),
            (int32(3), ValueError, "have "),
            (int32(3).to("meta"), ValueError, "have values; got a tensor on the device meta"),
        )
    ),
    (check_plan, {"batch": "2"}, TypeError, "batch must be an int; got str '2'"),
    (check_plan, {"batch": 3}, ValueError, "metadata header field batch must be 3; got 2"),
]


@pytest.mark.parametrize(("function", "changes", "error", "text"), HELPER_REFUSALS)
def test_helper_refuses(function, changes, error, text):
    with pytest.raises(error) as caught:
        function(**changes)
    assert type(caught.value) is error and str(caught.value).startswith(text), caught.value


def test_the_calls_that_the_helper_refusals_change_are_right():
    for function in {function for function, *_ in HELPER_REFUSALS} - {show_plan}:
        function(REAL) if function.__module__ == quantize.__name__ else function()
