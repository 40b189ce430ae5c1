"""Families of data that random tests do not contain, each against the truth, and each scale tensor moved alone."""

import math

import pytest
import reference
import torch
from device import attend
from qbsa import compare, quantize, sparsity

Q_LENS, KV_LENS = [130, 40], [700, 300]
HEADS_Q, HEADS_KV = 4, 2
E4M3 = torch.finfo(torch.float8_e4m3fn)
SOFTMAX_SCALE = 128**-0.5


def normal(seed=0):
    """query, key and value as normal data, [tokens, heads, 128]."""
    generator = torch.Generator().manual_seed(seed)
    shapes = ((sum(Q_LENS), HEADS_Q), (sum(KV_LENS), HEADS_KV), (sum(KV_LENS), HEADS_KV))
    return [torch.randn(*shape, 128, generator=generator) for shape in shapes]


def call(query, key, value, newest_first=False, **changes):
    """The keyword arguments of a dense causal call, from real data or from pairs of codes and descales."""
    query8, q_descale = query if isinstance(query, tuple) else quantize.quantize_tokens(query)
    key8, k_descale = key if isinstance(key, tuple) else quantize.quantize_tokens(key)
    value8, v_descale = value if isinstance(value, tuple) else quantize.quantize_heads(value)
    cache = quantize.write_paged_cache(key8, value8, k_descale, KV_LENS, page_ids=torch.Generator().manual_seed(1))
    dense = sparsity.all_visible(sparsity.visible_blocks(Q_LENS, KV_LENS), HEADS_Q)
    indices, lengths = sparsity.mask_to_lists(dense, newest_first=newest_first)
    return {
        **cache._asdict(),
        "query": query8,
        "q_descale": q_descale,
        "v_descale": v_descale,
        "p_scale": quantize.default_p_scale(),
        "sparse_indices": indices,
        "sparse_seq_len": lengths,
        "atten_mask": None,
        "softmax_scale": SOFTMAX_SCALE,
        "sparse_q_block_size": 128,
        "sparse_kv_block_size": 128,
        "cu_seqlens_q": torch.tensor([0, *Q_LENS]).cumsum(0).int(),
        "return_softmax_lse": True,
    } | changes


def check(inputs, exact=True):
    """Runs the call and holds it against the chain, and against exact attention where that bounds P's rounding."""
    out, lse = attend(inputs)
    compare.check(compare.against_chain(out, lse, reference.fp8_chain(**inputs), inputs))
    if exact:
        compare.check(compare.against_exact(out, lse, reference.exact(**inputs), inputs))
    return out, lse


def bits(tensor):
    return tensor.view(torch.int16 if tensor.element_size() == 2 else torch.int32)


def visible_keys():
    """For each query token the key tokens that it sees, as a range of the packed keys."""
    ends = torch.tensor(KV_LENS).cumsum(0).tolist()
    return [
        range(end - kv_len, end - q_len + row + 1)
        for q_len, kv_len, end in zip(Q_LENS, KV_LENS, ends)
        for row in range(q_len)
    ]


def one_hot():
    """query and key such that each row's softmax is on one visible key alone; and that key, [tokens, heads_q]."""
    generator = torch.Generator().manual_seed(7)
    signs = torch.randint(0, 2, (sum(KV_LENS), HEADS_KV, 128), generator=generator) * 2.0 - 1
    picks = [
        [seen[int(i)] for i in torch.randint(len(seen), (HEADS_Q,), generator=generator)] for seen in visible_keys()
    ]
    target = torch.tensor(picks)
    kv_head = torch.arange(HEADS_Q) // (HEADS_Q // HEADS_KV)
    # The target scores 4 * 128 / sqrt(128) = 45; another key 4 * 11.3 standard normal / sqrt(128), so about 4 +- 4.
    return 4 * signs[target, kv_head], signs, target


@pytest.mark.parametrize("spread", [0.25, 0.5, 1, 2, 4])
@pytest.mark.parametrize("newest_first", [False, True])
def test_logit_spread(spread, newest_first):
    query, key, value = normal()
    inputs = call(query * spread, key, value, newest_first)
    check(inputs)


def test_one_hot_returns_the_value_of_its_key():
    query, key, target = one_hot()
    inputs = call(query, key, normal()[2])
    out, lse = check(inputs)
    value8, v_descale = quantize.quantize_heads(normal()[2])
    kv_head = torch.arange(HEADS_Q) // (HEADS_Q // HEADS_KV)
    expected = (value8.float() * v_descale[:, None])[target, kv_head]
    # The rest weighs less than 700 e^(4 + 6 * 4 - 45) = 3e-5 of the largest value.
    assert bool(((out.float() - expected).abs() <= expected.abs() * 2**-8 + 3e-5 * expected.abs().max()).all())


def test_values_that_spell_their_index_show_which_key_was_read():
    query, key, target = one_hot()
    tokens = torch.arange(sum(KV_LENS))
    spelt = ((tokens[:, None] >> torch.arange(128) % 16) & 1) * 2.0 - 1  # 16 bits, eight times
    value = spelt[:, None].expand(-1, HEADS_KV, -1).contiguous()
    out, _ = check(call(query, key, value))
    read = ((out[..., :16] > 0).long() << torch.arange(16)).sum(2)
    assert torch.equal(read, target)


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("direction", [1, -1])
def test_maxima_that_rise_or_fall_all_the_way(direction, newest_first):
    """Scores from -12 to 12 along the sequence, set by k_descale, and a little noise."""
    _, _, value = normal()
    ramp = torch.cat([torch.linspace(-12, 12, kv_len) for kv_len in KV_LENS])[:, None].expand(-1, HEADS_KV)
    scores = direction * ramp + torch.randn(ramp.shape, generator=torch.Generator().manual_seed(2)) / 4
    ones_q, ones_k = (torch.zeros(n, heads, 128) for n, heads in ((sum(Q_LENS), HEADS_Q), (sum(KV_LENS), HEADS_KV)))
    ones_q[..., 3], ones_k[..., 3] = 1, 1
    query = ones_q.to(torch.float8_e4m3fn), torch.ones(sum(Q_LENS), HEADS_Q)
    key = ones_k.to(torch.float8_e4m3fn), scores
    check(call(query, key, value, newest_first, softmax_scale=1.0))


@pytest.mark.parametrize("factor", [30.0, 300.0])
def test_outlier_channels(factor):
    query, key, value = normal()
    for tensor, channel in ((query, 5), (key, 77), (value, 20)):
        tensor[..., channel] *= factor
    check(call(query, key, value))


@pytest.mark.parametrize("spread", [0.25, 1, 4])
def test_values_of_one_return_one(spread):
    query, key, value = normal()
    out, _ = check(call(query * spread, key, torch.ones_like(value)))
    # Every weight is off by at most half a step of e4m3, those below 2^-6 / 256 of the maximum by their own size.
    assert bool(((out.float() - 1).abs() <= E4M3.eps / 2 + 2**-8).all())


CODES = {
    "subnormal": [0x01, 0x02, 0x03, 0x07, 0x81, 0x84, 0x87, 0x00, 0x80],
    "largest": [0x7E, 0xFE],
    "smallest and largest": [0x01, 0x81, 0x7E, 0xFE],
    "every finite code": [code for code in range(256) if code & 0x7F != 0x7F],
}


@pytest.mark.parametrize("tensor", ["query", "key", "value", "all"])
@pytest.mark.parametrize("codes", CODES)
def test_special_codes(codes, tensor):
    generator = torch.Generator().manual_seed(3)
    arguments = {}
    for name, real in zip(("query", "key", "value"), normal()):
        if tensor not in (name, "all"):
            arguments[name] = real
            continue
        pick = torch.randint(len(CODES[codes]), real.shape, generator=generator)
        payload = torch.tensor(CODES[codes], dtype=torch.uint8)[pick].view(torch.float8_e4m3fn)
        descale = 1 / payload.float().square().mean().sqrt()  # real values of size 1
        arguments[name] = payload, descale.expand(real.shape[1:2] if name == "value" else real.shape[:2]).contiguous()
    check(call(**arguments))


def test_scales_that_are_no_powers_of_two():
    query, key, value = (quantize.quantize_tokens(x)[0] for x in normal())
    third, tenth, pi = (torch.tensor(x) for x in (1 / 3, 0.1, math.pi))
    query = query, (tenth * third / 3).expand(sum(Q_LENS), HEADS_Q).contiguous()
    key = key, (pi * third / 100).expand(sum(KV_LENS), HEADS_KV).contiguous()
    for p_scale in (100.3, 255.9, 7 / 3):
        check(call(query, key, (value, torch.tensor([1 / 3, math.pi])), p_scale=torch.tensor([p_scale])), exact=False)


@pytest.mark.parametrize("amplitude", [2**-15, 2**-8, 1e-2, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("tensor", [0, 1, 2])
def test_amplitudes(tensor, amplitude):
    data = normal()
    data[tensor] = data[tensor] * amplitude
    check(call(*data))


def factors(shape, seed=5):
    """Random factors around 1 with all bits of fp32."""
    return torch.empty(shape).uniform_(0.5, 2, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", ["q_descale", "k_descale", "v_descale", "p_scale", "softmax_scale"])
def test_a_scale_varied_alone_moves_out_as_the_reference(name):
    inputs = call(*normal())
    before, lse_before = check(inputs)
    scale = inputs[name]
    varied = scale * 0.613 if name == "softmax_scale" else scale * factors(scale.shape)
    out, lse = check(inputs | {name: varied}, exact=name != "p_scale")
    moved, moved_lse = (bits(x) != bits(y) for x, y in ((out, before), (lse, lse_before)))
    if name in ("q_descale", "k_descale", "softmax_scale"):
        assert moved_lse.float().mean() > 0.99 and moved.float().mean() > 0.9
    if name == "v_descale":
        assert not moved_lse.any() and moved.float().mean() > 0.9
    if name == "p_scale":  # another grid of P, the same sums
        assert moved.any() and torch.allclose(lse, lse_before, rtol=2**-20, atol=2**-20)


def test_powers_of_two_move_between_scales_without_a_trace():
    inputs = call(*normal())
    out, lse = attend(inputs)
    for name, other, factor in (("q_descale", "softmax_scale", 4), ("k_descale", "q_descale", 0.125)):
        moved = inputs | {name: inputs[name] * factor, other: inputs[other] / factor}
        assert all(torch.equal(bits(x), bits(y)) for x, y in zip(attend(moved), (out, lse)))
    doubled, lse_doubled = attend(inputs | {"v_descale": inputs["v_descale"] * 2})
    assert torch.equal(bits(doubled), bits(out * 2)) and torch.equal(bits(lse_doubled), bits(lse))


def test_one_scale_moves_only_the_rows_that_use_it():
    inputs = call(*normal())
    before = attend(inputs)
    token, position, head, kv_head, sequence = 33, 650, 2, 1, 0
    page, slot = int(inputs["block_table"][sequence, position // 128]), position % 128
    sees = torch.tensor([position in seen for seen in visible_keys()])  # sequence 0 has the first tokens
    in_group = torch.arange(HEADS_Q) // (HEADS_Q // HEADS_KV) == kv_head
    everywhere = torch.ones(len(sees), dtype=torch.bool)
    only = {
        "q_descale": ((token, head), torch.arange(len(sees)) == token, torch.arange(HEADS_Q) == head),
        "k_descale": ((page, kv_head, slot), sees, in_group),
        "v_descale": ((kv_head,), everywhere, in_group),
    }
    for name, (index, rows, heads) in only.items():
        scale = inputs[name].clone()
        scale[index] *= 3
        out, lse = check(inputs | {name: scale})
        moved = (bits(out) != bits(before[0])).any(2)
        assert torch.equal(moved, rows[:, None] & heads), name
        if name == "v_descale":
            assert torch.equal(bits(lse), bits(before[1]))
        else:
            assert not (bits(lse) != bits(before[1])).T[~(rows[:, None] & heads)].any()
