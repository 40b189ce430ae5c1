"""Quantisers and the writer of the paged cache."""

import pytest
import torch
from qbsa import quantize
from reference import E4M3

TOKENS, HEADS = 300, 3


def real_data(seed=0):
    generator = torch.Generator().manual_seed(seed)
    amplitude = 10 ** torch.empty(TOKENS, HEADS, 1).uniform_(-6, 4, generator=generator)
    return torch.randn(TOKENS, HEADS, 128, generator=generator) * amplitude


def assert_rounded(payload, descale, real):
    """Within half a step of e4m3: 2^-4 of a normal number, half the smallest subnormal below."""
    half_step = torch.maximum(real.abs() / descale * 2**-4, torch.tensor(E4M3.smallest_normal * E4M3.eps / 2))
    error = (payload.float() - real / descale).abs()
    assert bool((error <= half_step * (1 + 2**-20)).all())  # real / descale is itself a rounded fp32


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tokens_have_a_scale_per_token_and_head(dtype):
    real = real_data().to(dtype)
    payload, descale = quantize.quantize_tokens(real)
    assert payload.dtype == torch.float8_e4m3fn and payload.shape == real.shape
    assert descale.dtype == torch.float32 and descale.shape == (TOKENS, HEADS)
    assert bool((payload.float().abs().amax(2) == E4M3.max).all())
    assert_rounded(payload, descale[..., None], real.float())


def test_values_have_a_scale_per_head():
    real = real_data() * torch.tensor([1.0, 50.0, 1e-3])[:, None]
    payload, descale = quantize.quantize_heads(real)
    assert descale.shape == (HEADS,) and bool((payload.float().abs().amax((0, 2)) == E4M3.max).all())
    assert_rounded(payload, descale[:, None], real)


@pytest.mark.parametrize(
    ("function", "shape"), [(quantize.quantize_tokens, (TOKENS, HEADS)), (quantize.quantize_heads, (HEADS,))]
)
def test_coarser_scales_keep_their_shape(function, shape):
    real = real_data()
    for per, amax in (("head", real.abs().amax((0, 2))), ("tensor", real.abs().max())):
        payload, descale = function(real, per=per)
        assert descale.shape == shape and descale.is_contiguous()
        assert bool((descale == amax / E4M3.max).all())
        assert_rounded(payload, descale.expand(TOKENS, HEADS)[..., None], real)


def test_what_was_quantised_is_quantised_to_itself():
    payload, descale = quantize.quantize_tokens(real_data())
    again, descale_again = quantize.quantize_tokens(payload.float() * descale[..., None])
    assert torch.allclose(descale_again, descale, rtol=2**-23, atol=0)
    assert torch.equal(again.view(torch.uint8), payload.view(torch.uint8))


def test_a_row_of_zeros_has_descale_0_and_no_nan():
    real = real_data()
    real[7, 1] = 0
    payload, descale = quantize.quantize_tokens(real)
    assert descale[7, 1] == 0 and bool((payload[7, 1].view(torch.uint8) == 0).all())
    assert not payload.isnan().any()


def test_a_nan_or_inf_spoils_exactly_what_shares_its_scale():
    real = real_data()
    real[3, 0, 5], real[4, 1, 6] = torch.nan, torch.inf
    payload, descale = quantize.quantize_tokens(real)
    spoilt = (payload.float() * descale[..., None]).isnan().all(2)
    assert spoilt.nonzero().tolist() == [[3, 0], [4, 1]]
    assert not (payload.float() * descale[..., None])[~spoilt].isnan().any()


@pytest.mark.parametrize("order", ["given", "drawn", "ascending"])
@pytest.mark.parametrize("fill_nan", [False, True])
def test_every_token_is_found_through_the_block_table(order, fill_nan):
    kv_lens = [130, 0, 1, 128, 41]
    payload, descale = quantize.quantize_tokens(real_data())
    value, _ = quantize.quantize_heads(real_data(1))
    page_ids = {"given": torch.tensor([6, 0, 3, 2, 5]), "drawn": torch.Generator().manual_seed(2), "ascending": None}[
        order
    ]
    cache = quantize.write_paged_cache(payload, value, descale, kv_lens, pages=7, page_ids=page_ids, fill_nan=fill_nan)
    assert cache.seqused_kv.tolist() == kv_lens and cache.block_table.shape == (5, 2)
    assert cache.block_table[1].tolist() == [-1, -1] and cache.block_table[2, 1] == -1
    unused = torch.ones(7, 128, dtype=torch.bool)
    token = 0
    for sequence, length in enumerate(kv_lens):
        for position in range(length):
            page, slot = int(cache.block_table[sequence, position // 128]), position % 128
            assert torch.equal(cache.key[page, :, slot].view(torch.uint8), payload[token].view(torch.uint8))
            assert torch.equal(cache.value[page, :, slot].view(torch.uint8), value[token].view(torch.uint8))
            assert torch.equal(cache.k_descale[page, :, slot, 0], descale[token])
            unused[page, slot] = False
            token += 1
    for tensor in cache[:3]:
        rest = tensor.float().transpose(1, 2)[unused]
        assert bool(rest.isnan().all() if fill_nan else (rest == 0).all())


def test_nothing_to_quantise_or_write():
    nothing = torch.zeros(0, HEADS, 128)
    for per in ("token", "head", "tensor"):
        payload, descale = quantize.quantize_tokens(nothing, per=per)
        assert payload.shape == nothing.shape and descale.shape == (0, HEADS)
    for per in ("head", "tensor"):
        value, v_descale = quantize.quantize_heads(nothing, per=per)
        assert value.shape == nothing.shape and v_descale.tolist() == [0.0] * HEADS
    cache = quantize.write_paged_cache(payload, value, descale, [0, 0])
    assert cache.key.shape == (0, HEADS, 128, 128) and cache.seqused_kv.tolist() == [0, 0]
    assert cache.block_table.tolist() == [[-1], [-1]]
