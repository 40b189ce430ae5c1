"""What comes out for every value a tensor may hold: the table "Values on the device" of docs/design.md, row by row.

On the checked twin: no access outside a tensor, whatever the values say.
"""

import ctypes
import math

import cases
import pytest
import qbsa
import reference
import torch
from cases import Case
from qbsa import compare, library

INT32 = torch.iinfo(torch.int32)
FP32 = torch.finfo(torch.float32)
EMPTY_LSE = compare.EMPTY_LSE
NAN_CODE = 0x7F
ANY_INT32 = (INT32.min, INT32.min + 1, -129, -1, 0, 1, 127, 128, 129, 300, INT32.max - 127, INT32.max)


@pytest.fixture(autouse=True)
def checked():
    with library.mode("checked"):
        yield


def make(mask_mode=3, q_lens=(140, 40), kv_lens=(300, 131), pattern="dense"):
    return cases.make_inputs(Case("", (4, 2), q_lens, kv_lens, pattern, 0, mask_mode, table="sequential"))


def attend(inputs, **changes):
    return qbsa.quant_block_sparse_attn(**(inputs | changes))


def same(one, other):
    return all(torch.equal(x.view(torch.uint8), y.view(torch.uint8)) for x, y in zip(one, other, strict=True))


def check(inputs, **changes):
    out, lse = attend(inputs, **changes)
    compare.check(compare.against_chain(out, lse, reference.fp8_chain(**(inputs | changes)), inputs | changes))
    return out, lse


def is_empty(out, lse):
    return not out.any() and bool((lse == EMPTY_LSE).all())


def int32(*values):
    return torch.tensor(values, dtype=torch.int32)


# --- lengths, lists and pages ---


@pytest.mark.parametrize("tokens", [1, 63, 64, 65, 200])
def test_tokens_behind_the_last_sequence_are_empty(tokens):
    inputs = make()
    padded = {
        name: torch.cat([inputs[name], inputs[name][:1].expand(tokens, *inputs[name].shape[1:])])
        for name in ("query", "q_descale")
    }
    out, lse = attend(inputs, **padded)
    assert same((out[:180], lse[:, :180].contiguous()), attend(inputs)) and is_empty(out[180:], lse[:, 180:])


def test_tokens_before_the_first_sequence_are_empty():
    inputs = make()
    out, lse = check(inputs, cu_seqlens_q=int32(30, 140, 180))
    assert is_empty(out[:30], lse[:, :30])


def test_rows_past_the_last_query_block_are_empty():
    """Qb too small for q_len."""
    inputs = make()
    fewer = {name: inputs[name][:, :, :1] for name in ("sparse_indices", "sparse_seq_len")}
    out, lse = attend(inputs, **fewer)
    expected = attend(inputs)
    assert is_empty(out[128:140], lse[:, 128:140])
    for rows in (slice(0, 128), slice(140, 180)):
        assert torch.equal(out[rows], expected[0][rows]) and torch.equal(lse[:, rows], expected[1][:, rows])


@pytest.mark.parametrize("length", ANY_INT32)
def test_lengths_of_query_blocks_that_do_not_exist_are_ignored(length):
    inputs = make()
    lengths = inputs["sparse_seq_len"].clone()
    lengths[1, :, 1] = length  # the second sequence has one query block
    assert same(attend(inputs), attend(inputs, sparse_seq_len=lengths))


@pytest.mark.parametrize("length", ANY_INT32)
def test_list_lengths_are_clamped(length):
    inputs = make()
    capacity = inputs["sparse_indices"].shape[-1]
    lengths = inputs["sparse_seq_len"].clone()
    lengths[0, 1] = length
    clamped = lengths.clamp(0, capacity)
    assert same(attend(inputs, sparse_seq_len=lengths), attend(inputs, sparse_seq_len=clamped))


@pytest.mark.parametrize("mask_mode", [0, 3])
@pytest.mark.parametrize("entry", ANY_INT32)
def test_entries_that_name_no_block_contribute_nothing(entry, mask_mode):
    inputs = make(mask_mode)
    indices = inputs["sparse_indices"].clone()
    indices[0, :, :, 1] = entry
    check(inputs, sparse_indices=indices)


@pytest.mark.parametrize("page", ANY_INT32)
def test_pages_that_do_not_exist_contribute_nothing(page):
    inputs = make()
    table = inputs["block_table"].clone()
    table[0, 1] = page
    check(inputs, block_table=table)


@pytest.mark.parametrize("mask_mode", [0, 3])
@pytest.mark.parametrize("length", ANY_INT32)
def test_any_kv_length(length, mask_mode):
    """Negative is 0. Keys that the table does not hold contribute nothing, but causality counts them."""
    inputs = make(mask_mode)
    changed = inputs | {"seqused_kv": int32(length, 131)}
    if length < 0:
        assert same(attend(changed), attend(inputs, seqused_kv=int32(0, 131)))
    else:
        check(changed)


def test_a_table_of_any_width():
    """More columns than int64 has tokens for."""
    inputs = make(q_lens=(140,), kv_lens=(100,), pattern="empty")
    inputs["sparse_seq_len"] = torch.full_like(inputs["sparse_seq_len"], 1)
    inputs["sparse_indices"] = torch.zeros_like(inputs["sparse_indices"])
    expected = attend(inputs)
    wide = inputs["block_table"][:, :1].expand(1, 2**60)
    assert same(expected, attend(inputs, block_table=wide))
    indices = inputs["sparse_indices"][..., :1].expand(*inputs["sparse_indices"].shape[:3], 2**50)
    assert same(expected, attend(inputs, sparse_indices=indices))


@pytest.mark.parametrize(
    "ends",
    [
        *((0, end, 180) for end in ANY_INT32),
        *((begin, 140, 180) for begin in ANY_INT32),
        *((0, 140, end) for end in ANY_INT32),
        *((180, 140, 0), (180, 0, 180), (INT32.max, INT32.min, INT32.max), (INT32.min, INT32.max, INT32.min)),
    ],
)
def test_any_cu_seqlens(ends):
    """Clamped to 0..T and to what comes before; where they do not ascend, rows of several sequences are one of them."""
    inputs = make()
    out, lse = attend(inputs, cu_seqlens_q=int32(*ends))
    begins, stops = [min(max(end, 0), 180) for end in ends[:-1]], []
    stops = [min(max(end, begin), 180) for begin, end in zip(begins, ends[1:])]
    if stops[0] <= begins[1]:
        no_task = torch.ones(180, dtype=torch.bool)
        for begin, stop in zip(begins, stops):
            no_task[begin : min(stop, begin + inputs["sparse_indices"].shape[2] * 128)] = False
        assert is_empty(out[no_task], lse[:, no_task])
        for batch, (begin, stop) in enumerate(zip(begins, stops)):
            alone = {
                name: inputs[name][batch : batch + 1]
                for name in ("sparse_indices", "sparse_seq_len", "seqused_kv", "block_table")
            }
            one = attend(inputs, **alone, cu_seqlens_q=int32(begin, stop))
            assert torch.equal(out[begin:stop], one[0][begin:stop])


def test_any_change_of_a_plan_is_refused():
    """Header and records carry a hash. Records whose hash is right and whose ranges are not: fuzz.py."""
    inputs = make()
    for splits in (0, 1):
        plan = qbsa.quant_block_sparse_attn_metadata(inputs["sparse_seq_len"], 4, 2, 128, max_kv_splits=splits)
        records = library.contract().records
        used = ctypes.sizeof(records["PlanHeader"]) + 32 * ctypes.sizeof(records["CorePlan"])
        for word in (*range(0, used // 4, 37), ctypes.sizeof(records["PlanHeader"]) // 4):
            broken = plan.clone()
            broken[word] ^= 1 << (word % 31)
            with pytest.raises(RuntimeError, match="^metadata was made for other"):
                attend(inputs, metadata=broken)


# --- scales ---


def rows_of(inputs, heads):
    chosen = torch.zeros(inputs["query"].shape[:2], dtype=torch.bool)
    chosen[:, heads] = True
    return chosen


def check_spread(inputs, changed, reached):
    """Rows in `reached` [T, N1] are NaN throughout, all others have the bits they had."""
    before, after = attend(inputs), attend(inputs, **changed)
    out, lse = after[0], after[1].T
    assert bool(out[reached].isnan().all()) and bool(lse[reached].isnan().all())
    assert torch.equal(out[~reached], before[0][~reached]) and torch.equal(lse[~reached], before[1].T[~reached])


def seen_keys(inputs, batch, block, key):
    """Rows [T, N1] that see key `key` of block `block` in a dense call."""
    begin, end = inputs["cu_seqlens_q"][batch : batch + 2].tolist()
    q_len, kv_len = end - begin, int(inputs["seqused_kv"][batch])
    reached = torch.zeros(inputs["query"].shape[:2], dtype=torch.bool)
    rows = torch.arange(q_len)
    reached[begin:end] = ((block * 128 + key <= rows + kv_len - q_len) | (inputs["mask_mode"] == 0))[:, None]
    return reached


@pytest.mark.parametrize("scale", [float("nan"), float("inf"), float("-inf")])
def test_a_query_scale_spoils_its_row(scale):
    """A row of inf times scores of both signs holds +inf, so inf - inf."""
    inputs = make()
    scales = inputs["q_descale"].clone()
    scales[5, 2] = scale
    scales[170, 0] = scale
    reached = torch.zeros(180, 4, dtype=torch.bool)
    reached[5, 2] = reached[170, 0] = True
    check_spread(inputs, {"q_descale": scales}, reached)


@pytest.mark.parametrize("mask_mode", [0, 3])
@pytest.mark.parametrize(("block", "key"), [(0, 3), (1, 127), (2, 20), (2, 43)])
def test_a_key_scale_spoils_the_rows_that_see_it(block, key, mask_mode):
    inputs = make(mask_mode)
    scales = inputs["k_descale"].clone()
    scales[int(inputs["block_table"][0, block]), 1, key] = float("nan")
    check_spread(inputs, {"k_descale": scales}, seen_keys(inputs, 0, block, key) & rows_of(inputs, [2, 3]))


def test_an_infinite_key_scale_is_a_score_without_end():
    """+inf: the row is NaN, as inf - inf. -inf: the key has weight 0."""
    inputs = make()
    scales = inputs["k_descale"].clone()
    scales[int(inputs["block_table"][0, 0]), 0, 3] = float("inf")
    query = inputs["query"].clone()
    key = inputs["key"].clone()
    query[..., :], key[int(inputs["block_table"][0, 0]), 0, 3] = query.float().abs().to(query.dtype), 1.0
    positive = inputs | {"query": query, "key": key}
    check_spread(positive, {"k_descale": scales}, seen_keys(inputs, 0, 0, 3) & rows_of(inputs, [0, 1]))
    negative = positive | {"k_descale": scales.clone()}
    negative["k_descale"][int(inputs["block_table"][0, 0]), 0, 3] = float("-inf")
    check(negative)


@pytest.mark.parametrize("scale", [float("nan"), float("inf"), float("-inf"), -0.5, 0.0])
def test_a_value_scale_is_applied_as_it_is(scale):
    inputs = make()
    v_descale = inputs["v_descale"].clone()
    v_descale[1] = scale
    ones = v_descale.clone()
    ones[1] = 1.0
    out, lse = attend(inputs, v_descale=v_descale)
    expected = attend(inputs, v_descale=ones)
    assert torch.equal(out[:, :2], expected[0][:, :2]) and torch.equal(lse, expected[1])
    if scale == scale and abs(scale) != float("inf"):
        check(inputs, v_descale=v_descale)
    else:
        assert not out[:, 2:].isfinite().any()


@pytest.mark.parametrize("mask_mode", [0, 3])
def test_zero_scales_make_scores_of_zero(mask_mode):
    """As of an all-zero row or key: a query of scale 0 weighs all keys that it sees alike."""
    inputs = make(mask_mode)
    q_descale, k_descale = inputs["q_descale"].clone(), inputs["k_descale"].clone()
    q_descale[139, 1], k_descale[:, :, ::3] = 0.0, 0.0
    out, lse = check(inputs, q_descale=q_descale, k_descale=k_descale)
    seen = 300  # by the last row of the first sequence
    assert lse[1, 139] == pytest.approx(math.log(seen), abs=compare.LSE_CAP * compare.LSE_CAP_OFFSET)
    assert torch.equal(attend(inputs, q_descale=0 * q_descale)[1][1, 139], lse[1, 139])


def test_negative_scales_are_signs():
    inputs = make()
    check(inputs, q_descale=-inputs["q_descale"], k_descale=-inputs["k_descale"])
    check(inputs, q_descale=-inputs["q_descale"])


def test_scores_below_the_floor_of_the_maximum_are_no_keys():
    """Below -1e38 a score is as good as hidden."""
    inputs = make()
    query, key = (inputs[name].float().abs().to(torch.float8_e4m3fn) for name in ("query", "key"))
    query[..., 0], key[..., 0] = 1.0, 1.0
    out, lse = attend(inputs, query=query, key=key, k_descale=torch.full_like(inputs["k_descale"], -3.0e38))
    assert is_empty(out, lse)


@pytest.mark.parametrize("scale", [1e-42, FP32.tiny, 1e30, FP32.max])
def test_scales_at_the_ends_of_fp32(scale):
    inputs = make()
    for name in ("q_descale", "k_descale", "v_descale"):
        attend(inputs, **{name: torch.full_like(inputs[name], scale)})


@pytest.mark.parametrize("scale", [FP32.tiny, 1e-20, 1e3])
def test_softmax_scales(scale):
    check(make(), softmax_scale=scale)


# --- p_scale ---


@pytest.mark.parametrize("p_scale", [1e-20, 448.0, 449.0, 1e4, 1e30])
def test_p_scales_that_keep_lse(p_scale):
    """LSE takes the weights before they are rounded. A tiny p_scale rounds all of them to 0, and out with them; one
    above 448 cuts the large ones off, so that out is too small.
    """
    inputs = make()
    changed = inputs | {"p_scale": torch.tensor([p_scale])}
    out, lse = attend(changed)
    compare.check(compare.against_chain(out, lse, reference.fp8_chain(**changed), changed)[1:])
    assert bool(out.isfinite().all()) and bool(out.any()) == (p_scale > 1)
    if p_scale > 448:
        assert out.abs().double().sum() < attend(inputs)[0].abs().double().sum()


def test_a_p_scale_at_the_end_of_fp32_leaves_no_weight():
    """exp(s - m) * p_scale is below the smallest normal number of fp32 and counts as 0."""
    assert is_empty(*attend(make(), p_scale=torch.tensor([FP32.tiny])))


@pytest.mark.parametrize("mask_mode", [0, 3])
def test_a_p_scale_of_zero_leaves_no_weight(mask_mode):
    assert is_empty(*attend(make(mask_mode), p_scale=torch.zeros(1)))


@pytest.mark.parametrize("p_scale", [-1.0, float("nan"), float("-inf")])
def test_a_p_scale_without_logarithm_makes_all_tasks_nan(p_scale):
    """Tasks that see no key at all stay empty."""
    inputs = make()
    lengths = inputs["sparse_seq_len"].clone()
    lengths[1] = 0
    out, lse = attend(inputs, p_scale=torch.tensor([p_scale]), sparse_seq_len=lengths)
    assert bool(out[:140].isnan().all()) and bool(lse[:, :140].isnan().all())
    assert is_empty(out[140:], lse[:, 140:])


# --- data ---


def with_nan(tensor, *place, code=NAN_CODE):
    changed = tensor.clone()
    changed.view(torch.uint8)[place] = code
    return changed


@pytest.mark.parametrize("code", [0x7F, 0xFF])
def test_nan_in_a_query_row_spoils_that_row(code):
    inputs = make()
    reached = torch.zeros(180, 4, dtype=torch.bool)
    reached[7, 1] = True
    check_spread(inputs, {"query": with_nan(inputs["query"], 7, 1, 77, code=code)}, reached)


@pytest.mark.parametrize("mask_mode", [0, 3])
@pytest.mark.parametrize(("block", "key"), [(0, 3), (1, 127), (2, 20), (2, 43)])
def test_nan_in_a_key_spoils_the_rows_that_see_it(block, key, mask_mode):
    inputs = make(mask_mode)
    changed = {"key": with_nan(inputs["key"], int(inputs["block_table"][0, block]), 0, key, 5)}
    check_spread(inputs, changed, seen_keys(inputs, 0, block, key) & rows_of(inputs, [0, 1]))


@pytest.mark.parametrize("mask_mode", [0, 3])
def test_nan_in_a_value_spoils_its_column_for_the_query_blocks_that_hold_the_key(mask_mode):
    """Also rows that causality hides the key from, as long as a row of their query block sees its KV block."""
    inputs = make(mask_mode)
    page = int(inputs["block_table"][0, 2])
    out, lse = attend(inputs, value=with_nan(inputs["value"], page, 1, 20, 9))
    before = attend(inputs)
    assert torch.equal(lse, before[1])
    spoilt = torch.zeros_like(out, dtype=torch.bool)
    blocks = ([0, 140],) if mask_mode == 0 else ([0, 128], [128, 140])
    for begin, end in blocks:
        spoilt[begin:end, 2:, 9] = True
    assert bool(out[spoilt].isnan().all())
    assert torch.equal(out[~spoilt], before[0][~spoilt])


@pytest.mark.parametrize("mask_mode", [0, 3])
def test_nan_past_the_end_and_in_pages_nobody_names(mask_mode):
    inputs = make(mask_mode)
    key, value, scales = (inputs[name].clone() for name in ("key", "value", "k_descale"))
    page = int(inputs["block_table"][0, 2])  # 300 keys: 44 in this page
    for tensor in (key, value):
        tensor.view(torch.uint8)[page, :, 44:] = NAN_CODE
    scales[page, :, 44:] = float("nan")
    assert same(attend(inputs), attend(inputs, key=key, value=value, k_descale=scales))
