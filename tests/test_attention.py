"""The operator against the truth: every edge of the contract.

Small calls run in every mode that checks, so each also asserts that no access leaves its buffer, no byte is read before
it is written, and flags alone order whatever touches the same bytes.
"""

import cases
import pytest
import reference
import torch
from cases import Case
from device import attend
from qbsa import compare, library, quantize, sparsity

INT32 = torch.iinfo(torch.int32)
TAILS = (1, 31, 32, 33, 63, 64, 65, 127, 128)


@pytest.fixture(params=["checked", "hostile", "race"])
def checked(request):
    """Every mode that checks."""
    with library.mode(request.param):
        yield


def check(inputs):
    """Runs the call, holds it against the declared chain and returns out and lse."""
    out, lse = attend(inputs)
    compare.check(compare.against_chain(out, lse, reference.fp8_chain(**inputs), inputs))
    return out, lse


def same_bits(one, other):
    """Two results (out, lse) are equal bit for bit."""
    return all(torch.equal(a.view(torch.uint8), b.view(torch.uint8)) for a, b in zip(one, other) if a is not None)


def one_list_per_head(inputs, lists, lengths=None):
    """inputs with list h for query head h, in every query block of every sequence."""
    batch, heads, q_blocks, _ = inputs["sparse_indices"].shape
    capacity = max(map(len, lists))
    rows = torch.tensor([[*entries, *[-1] * (capacity - len(entries))] for entries in lists], dtype=torch.int32)
    counts = torch.tensor([len(entries) for entries in lists] if lengths is None else lengths, dtype=torch.int32)
    assert heads == len(lists)
    return inputs | {
        "sparse_indices": rows[None, :, None].repeat(batch, 1, q_blocks, 1),
        "sparse_seq_len": counts[None, :, None].repeat(batch, 1, q_blocks),
    }


@pytest.mark.parametrize("mask_mode", [0, 3])
def test_kv_tails(checked, mask_mode):
    kv_lens = (*TAILS, *(128 + tail for tail in TAILS), *(256 + tail for tail in TAILS[:4]))
    check(cases.make_inputs(Case("", (2, 1), (3,) * len(kv_lens), kv_lens, "dense", 0, mask_mode)))


@pytest.mark.parametrize("mask_mode", [0, 3])
def test_q_tails(checked, mask_mode):
    q_lens = (*TAILS, 15, 16, 17, 96, 97, 129)
    check(cases.make_inputs(Case("", (2, 1), q_lens, (200,) * len(q_lens), "dense", 0, mask_mode)))


@pytest.mark.parametrize("offset", [-1, 0, 1, 31, 64, 127])
def test_the_diagonal_at_any_offset(checked, offset):
    check(cases.make_inputs(Case("", (2, 1), (140, 40), (140 + offset, 40 + offset), "dense", 0)))


@pytest.mark.parametrize("group", range(1, 17))
def test_every_group_size(checked, group):
    check(cases.make_inputs(Case("", (2 * group, 2), (5, 2), (140, 60), "random", 2)))


@pytest.mark.parametrize("mask_mode", [0, 3])
def test_more_queries_than_keys(checked, mask_mode):
    out, lse = check(cases.make_inputs(Case("", (2, 1), (300, 129, 20), (70, 1, 19), "dense", 0, mask_mode)))
    if mask_mode == 3:
        assert bool((out[: 300 - 70] == 0).all()) and bool((lse[:, : 300 - 70] == reference.EMPTY_LSE).all())


def test_sequences_of_length_zero(checked):
    out, lse = check(cases.make_inputs(Case("", (4, 2), (0, 5, 0, 130, 3, 0), (100, 0, 0, 129, 40, 7), "dense", 0)))
    assert bool((out[:5] == 0).all()) and bool((lse[:, :5] == reference.EMPTY_LSE).all())


@pytest.mark.parametrize("lens", [((0, 0), (5, 0)), ((3, 1), (0, 0))])
def test_a_batch_without_queries_or_without_keys(checked, lens):
    check(cases.make_inputs(Case("", (2, 1), *lens, "dense", 0)))


def test_empty_lists_beside_full_ones(checked):
    inputs = cases.make_inputs(Case("", (4, 2), (260, 30), (300, 200), "dense", 0))
    inputs["sparse_seq_len"][0, 1:3, :2] = 0
    inputs["sparse_seq_len"][1, 0] = 0
    check(inputs)


def test_a_list_of_hidden_blocks_only(checked):
    inputs = cases.make_inputs(Case("", (2, 1), (256,), (256,), "dense", 0))
    inputs["sparse_indices"][:, :, 0] = 1
    inputs["sparse_seq_len"][:, :, 0] = 1
    out, lse = check(inputs)
    assert bool((out[:128] == 0).all()) and bool((lse[:, :128] == reference.EMPTY_LSE).all())


# Blocks 0, 1, 2 hold keys, 2 the tail and the end of the diagonal; 3 lies past kv_len, the table has 5 columns.
LISTS = [
    *([0], [2], [3], [-1], [5], [0, 1], [1, 2], [0, 1, 2], [1, 0], [2, 1], [2, 0], [2, 1, 0]),
    *([-1, 1], [1, -1], [-1, -1, 2], [0, -1, 2], [2, 3, 0, 1], [3, 2], [5, 0], [0, 5], [99, 2, -7, 0]),
    *([INT32.min, 1], [1, INT32.max], [2, 2], [2, 2, 2], [2, 0, 2], [0, 0, 1, 1], [1, 2, 1, 2], [2, 2, 0, 0, 2]),
    *([3, -1, 99, 5, 0], [1, 3, -1, 2, 0], [0, 1, 2, 0, 1, 2]),
]


@pytest.mark.parametrize("mask_mode", [0, 3])
def test_any_entry_in_any_slot(checked, mask_mode):
    inputs = cases.make_inputs(Case("", (len(LISTS), 2), (140,), (300,), "empty", 0, mask_mode))
    inputs["block_table"] = torch.arange(5, dtype=torch.int32)[None] % inputs["key"].shape[0]
    check(one_list_per_head(inputs, LISTS))


def test_lengths_are_clamped(checked):
    inputs = cases.make_inputs(Case("", (4, 1), (140,), (300,), "empty", 0))
    lists = [[0, 1, 2]] * 4
    out, lse = attend(one_list_per_head(inputs, lists, [INT32.min, -1, 4, INT32.max]))
    assert same_bits((out, lse), attend(one_list_per_head(inputs, lists, [0, 0, 3, 3])))


def test_pages_that_do_not_exist_are_skipped(checked):
    inputs = cases.make_inputs(Case("", (len(LISTS), 2), (140,), (300,), "empty", 0))
    for page in (-1, INT32.min, inputs["key"].shape[0], INT32.max):
        table = torch.tensor([[0, page, 2, 1, page]], dtype=torch.int32)
        check(one_list_per_head(inputs | {"block_table": table}, LISTS))


def test_tokens_of_no_sequence_are_empty_rows(checked):
    inputs = cases.make_inputs(Case("", (4, 2), (70, 60), (90, 60), "dense", 0))
    inputs["cu_seqlens_q"] = torch.tensor([0, 70, 90], dtype=torch.int32)
    out, lse = check(inputs)
    assert bool((out[90:] == 0).all()) and bool((lse[:, 90:] == reference.EMPTY_LSE).all())


@pytest.mark.parametrize("name", ["q_descale", "k_descale", "v_descale"])
def test_scales_of_zero(checked, name):
    inputs = cases.make_inputs(Case("", (4, 2), (70,), (200,), "dense", 0))
    inputs[name][::2] = 0
    check(inputs)


@pytest.mark.parametrize("p_scale", [None, 0.3, 1.0, 2.0, 256.0, 448.0, 1e4])
def test_p_scales(checked, p_scale):
    inputs = cases.make_inputs(Case("", (4, 2), (70,), (300,), "dense", 0, p_scale=p_scale))
    result = check(inputs)
    if p_scale is None:
        assert same_bits(result, attend(inputs | {"p_scale": torch.ones(1)}))


def test_lse_is_independent_of_out(checked):
    inputs = cases.make_inputs(Case("", (4, 2), (140, 9), (200, 50), "dense", 0))
    out, lse = attend(inputs)
    alone, none = attend(inputs | {"return_softmax_lse": False})
    assert none is None and same_bits((out,), (alone,))


def test_a_mask_tensor_changes_nothing(checked):
    inputs = cases.make_inputs(Case("", (4, 2), (140, 9), (200, 50), "dense", 0))
    mask = torch.ones(2048, 2048, dtype=torch.uint8).triu()
    assert same_bits(attend(inputs), attend(inputs | {"atten_mask": mask}))


def cached_inputs(fill_nan):
    """A call whose cache comes from qbsa.quantize, with unused pages, page tails and scale slots."""
    generator = torch.Generator().manual_seed(5)
    q_lens, kv_lens, heads_q, heads_kv = [130, 20, 0, 1], [200, 90, 30, 257], 4, 2
    query, key, value = (
        torch.randn(sum(lens), heads, 128, generator=generator)
        for lens, heads in ((q_lens, heads_q), (kv_lens, heads_kv), (kv_lens, heads_kv))
    )
    query8, q_descale = quantize.quantize_tokens(query)
    key8, k_descale = quantize.quantize_tokens(key)
    value8, v_descale = quantize.quantize_heads(value)
    cache = quantize.write_paged_cache(
        key8, value8, k_descale, kv_lens, pages=11, page_ids=generator, fill_nan=fill_nan
    )
    dense = sparsity.all_visible(sparsity.visible_blocks(q_lens, kv_lens), heads_q)
    sparse_indices, sparse_seq_len = sparsity.mask_to_lists(dense)
    return {
        **cache._asdict(),
        **{"query": query8, "q_descale": q_descale, "v_descale": v_descale, "p_scale": quantize.default_p_scale()},
        **{"sparse_indices": sparse_indices, "sparse_seq_len": sparse_seq_len, "atten_mask": None},
        **{"softmax_scale": 128**-0.5, "sparse_q_block_size": 128, "sparse_kv_block_size": 128},
        **{"cu_seqlens_q": torch.tensor([0, *q_lens]).cumsum(0).int(), "return_softmax_lse": True},
    }


def test_bytes_that_are_not_data_change_nothing(checked):
    result = check(cached_inputs(fill_nan=True) | {"mask_mode": 3})
    assert same_bits(result, attend(cached_inputs(fill_nan=False)))
    zeros, nans = (attend(cached_inputs(fill_nan) | {"mask_mode": 0}) for fill_nan in (False, True))
    assert same_bits(zeros, nans)


def test_the_fast_and_the_checked_twin_agree():
    for case in (cases.DEFAULT[0], cases.DSL[1], Case("", (4, 1), (140,), (300,), "dense", 0, 0)):
        inputs = cases.make_inputs(case)
        with library.mode("fast"):
            fast = attend(inputs)
        with library.mode("checked"):
            assert same_bits(fast, attend(inputs))
