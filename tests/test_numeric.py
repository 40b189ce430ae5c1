"""twin/numeric: e4m3, bf16, exp, ln, fma, div of the host's vectors."""

import ctypes

import numpy as np
import pytest
import torch
from host_library import address, build

NAN_BITS = 0x7FFFFFFF
F32_MIN_NORMAL = float(np.finfo(np.float32).tiny)
E4M3_MAX, E4M3_NAN = 0x7E, 0x7F
BF16_MAX, BF16_INF, BF16_NAN = 0x7F7F, 0x7F80, 0x7FFF

BASELINE = ("-O2",)
NATIVE = ("-O3", "-march=native")


def library(flags: tuple[str, ...] = BASELINE) -> ctypes.CDLL:
    return build("numeric_library.cpp", *flags)


def call(function, *inputs: np.ndarray, dtype=np.float32, extra: tuple[int, ...] = ()) -> np.ndarray:
    """Runs an exported function over float32 arrays of one size, padded to whole vectors."""
    count = inputs[0].size
    padded = [np.pad(x.astype(np.float32, copy=False).ravel(), (0, -count % 16)) for x in inputs]
    out = np.zeros(padded[0].size, dtype)
    function(address(out), *map(address, padded), ctypes.c_size_t(out.size), *map(ctypes.c_uint32, extra))
    return out[:count]


def sweep() -> np.ndarray:
    """Every 257th fp32 pattern: all exponents, both signs, NaNs and infinities."""
    return np.arange(0, 1 << 32, 257, dtype=np.uint64).astype(np.uint32).view(np.float32)


def rounding_probes() -> np.ndarray:
    """Every upper half of an fp32 pattern with lower halves around 0, a tie of bf16, and the next upper half.

    All inputs of a conversion to bf16 or e4m3: both keep and tie within the upper half and its next bit, so of a lower
    half only matters whether it is zero, below the tie, the tie or above it.
    """
    low = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    return ((np.arange(1 << 16, dtype=np.uint32) << 16)[:, None] | low).view(np.float32).ravel()


def ulps(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Distance in units of the last place of fp32 at `exact` (finite, float64)."""
    exponent = np.maximum(np.frexp(exact)[1], -125)
    return np.abs(got.astype(np.float64) - exact) / np.ldexp(1.0, exponent - 24)


def test_e4m3_values():
    out = np.zeros(256, np.float32)
    library().e4m3_values(address(out))
    expected = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float().numpy()
    assert np.array_equal(out, expected, equal_nan=True)
    assert np.array_equal(np.signbit(out[~np.isnan(out)]), np.signbit(expected[~np.isnan(out)]))


@pytest.mark.parametrize(("name", "dtype"), [("fp16_values", torch.float16), ("bf16_values", torch.bfloat16)])
def test_16_bit_values(name, dtype):
    codes = np.arange(1 << 16, dtype=np.uint16)
    out = np.zeros(codes.size, np.float32)
    getattr(library(), name)(address(out))
    expected = torch.from_numpy(codes.view(np.int16)).view(dtype).float().numpy()
    number = ~np.isnan(expected)
    assert np.array_equal(out.view(np.uint32)[number], expected.view(np.uint32)[number])
    assert np.all(np.isnan(out[~number]))


def test_e4m3_encode_without_saturation():
    x = rounding_probes()
    got = call(library().e4m3_of, x, dtype=np.uint32, extra=(E4M3_NAN, E4M3_NAN))
    # 464, the tie of 448 and what would be 480, goes to 448; what torch makes of larger ones depends on its version.
    fits = np.abs(x) <= 464
    expected = torch.from_numpy(x[fits]).to(torch.float8_e4m3fn).view(torch.uint8).numpy()
    assert np.array_equal(got[fits], expected)
    assert np.array_equal(got[~fits], np.where(np.signbit(x) & ~np.isnan(x), 0x80, 0)[~fits] | E4M3_NAN)


def test_e4m3_encode_saturates():
    x = rounding_probes()
    got = call(library().e4m3_of, x, dtype=np.uint32, extra=(E4M3_MAX, 0))
    clamped = torch.from_numpy(np.clip(x, -448, 448)).to(torch.float8_e4m3fn).view(torch.uint8).numpy()
    assert np.array_equal(got, np.where(np.isnan(x), 0, clamped))


@pytest.mark.parametrize(("overflow", "nan"), [(BF16_INF, BF16_NAN), (BF16_MAX, 0)])
def test_bf16_encode(overflow, nan):
    x = rounding_probes()
    got = call(library().bf16_of, x, dtype=np.uint32, extra=(overflow, nan))
    expected = torch.from_numpy(x).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16).astype(np.uint32)
    expected = np.where(expected & 0x7FFF == BF16_INF, expected & 0x8000 | overflow, expected)
    assert np.array_equal(got, np.where(np.isnan(x), nan, expected))


def test_exp_within_one_ulp():
    x = sweep()
    got = call(library().exp_of, x)
    assert np.all(got.view(np.uint32)[np.isnan(x)] == NAN_BITS)
    x, got = x[~np.isnan(x)], got[~np.isnan(x)]
    with np.errstate(over="ignore", under="ignore"):
        exact = np.exp(x.astype(np.float64))
        overflow = np.isinf(exact.astype(np.float32))
    below = exact < F32_MIN_NORMAL * (1 - 2**-24)
    at_edge = ~below & (exact < F32_MIN_NORMAL * (1 + 2**-23))
    assert np.all(np.isposinf(got[overflow]))
    assert np.all(got[below] == 0)
    assert np.all((got[at_edge] == 0) | (got[at_edge] >= F32_MIN_NORMAL))
    inside = ~overflow & ~below & ~at_edge
    assert ulps(got[inside], exact[inside]).max() <= 1


def test_exp_of_special_values():
    x = np.array([-np.inf, np.inf, 0.0, -0.0, 1e-45, -3e38, 88.72283, 88.72284], np.float32)
    got = call(library().exp_of, x)
    assert got[:6].tolist() == [0, np.inf, 1, 1, 1, 0]
    assert np.isfinite(got[6]) and np.isposinf(got[7])


def test_ln_within_one_ulp():
    x = sweep()
    got = call(library().ln_of, x)
    subnormal = np.abs(x) < F32_MIN_NORMAL
    nan = np.isnan(x) | ((x < 0) & ~subnormal)
    assert np.all(got.view(np.uint32)[nan] == NAN_BITS)
    assert np.all(np.isneginf(got[subnormal]))
    inside = ~nan & ~subnormal & np.isfinite(x)
    assert ulps(got[inside], np.log(x[inside].astype(np.float64))).max() <= 1
    special = call(library().ln_of, np.array([1, np.inf, 0, -0.0], np.float32))
    assert special.tolist() == [0, np.inf, -np.inf, -np.inf]


def test_fma_rounds_once():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 4096)).astype(np.float32)
    # c cancels most of the product, so a product rounded on its own shows.
    c = -(a.astype(np.float64) * b).astype(np.float32)
    got = call(library().fma_of, a, b, c)
    assert np.array_equal(got, (a.astype(np.float64) * b + c).astype(np.float32))
    assert np.any(got != a * b + c)


def test_div_flushes_subnormals():
    tiny = np.float32(1e-39)
    a = np.array([1, tiny, 1, -1, tiny, 0, 6, F32_MIN_NORMAL, -F32_MIN_NORMAL], np.float32)
    b = np.array([-tiny, 2, 3, 0, tiny, 0, 3, 2, 2], np.float32)
    got = call(library().div_of, a, b)
    expected = np.array([-np.inf, 0, np.float32(1) / np.float32(3), -np.inf, np.nan, np.nan, 2, 0, -0.0], np.float32)
    assert np.array_equal(got, expected, equal_nan=True)
    assert np.all(got.view(np.uint32)[np.isnan(got)] == NAN_BITS)
    assert np.signbit(got[8])


@pytest.mark.parametrize("name", ["exp_of", "ln_of"])
def test_bits_do_not_depend_on_the_instruction_set(name):
    x = sweep()
    baseline, native = (call(getattr(library(flags), name), x) for flags in (BASELINE, NATIVE))
    assert np.array_equal(baseline.view(np.uint32), native.view(np.uint32))
