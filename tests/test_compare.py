"""The judges are judged: a faithful fp32 computation passes, each typical mistake fails and is named."""

import cases
import pytest
import reference
import torch
from qbsa import compare
from qbsa.bundle import dense

CASE = cases.Case("mistakes", (4, 2), (200, 150), (600, 140), "random", 3)


@pytest.fixture(scope="module")
def call():
    inputs = cases.make_inputs(CASE)
    truth = reference.fp8_chain(**inputs)
    return inputs, truth, *dense(truth, inputs)


def expect_failure(message, out, lse, truth, inputs):
    with pytest.raises(AssertionError, match=message):
        compare.check(compare.against_chain(out, lse, truth, inputs))


def test_the_rounded_truth_passes(call):
    inputs, truth, out, lse = call
    report, lse_report = compare.check(compare.against_chain(out, lse, truth, inputs))
    assert report.misses == lse_report.misses == 0 and 0 < report.rel_l2 <= compare.BF16_ROUNDOFF
    compare.check(compare.against_exact(out, lse, reference.exact(**inputs), inputs))


def test_the_two_truths_differ_by_the_noise_of_p(call):
    inputs, truth, *_ = call
    exact = reference.exact(**inputs)
    distance = float((truth.out - exact.out).norm() / exact.out.norm())
    assert compare.P_NOISE / 3 < distance < compare.P_NOISE
    assert torch.allclose(truth.lse, exact.lse, rtol=1e-6, atol=1e-6)


def test_p_without_rounding_fails(call):
    inputs, truth, *_ = call
    expect_failure("misses are more than", *dense(reference.exact(**inputs), inputs), truth, inputs)


@pytest.mark.parametrize("pair", [1, 4])
def test_another_pairing_fails(call, pair, monkeypatch):
    inputs, truth, *_ = call
    monkeypatch.setattr(reference, "PAIR", pair)
    expect_failure("misses are more than", *dense(reference.fp8_chain(**inputs), inputs), truth, inputs)


@pytest.mark.parametrize("change", [{"mask_mode": 0}, {"p_scale": torch.tensor([300.0])}, {"softmax_scale": 0.0875}])
def test_another_mask_or_scale_fails(call, change):
    inputs, truth, *_ = call
    expect_failure("misses are more than", *dense(reference.fp8_chain(**inputs | change), inputs), truth, inputs)


def test_one_wrong_element_is_found_and_placed(call):
    inputs, truth, out, lse = call
    out = out.clone()
    out[203, 3, 77] = -out[203, 3, 77] + 1
    expect_failure(
        "out: 1 of .* batch 1, head 3, row 3, column 77: .*\n.*1 values are beyond their cap", out, lse, truth, inputs
    )


def test_a_common_factor_fails_by_relative_l2(call):
    inputs, truth, out, lse = call
    expect_failure("relative L2 is above", (out.float() * 1.006).bfloat16(), lse, truth, inputs)


def test_a_wrong_lse_is_found_and_placed(call):
    inputs, truth, out, lse = call
    lse = lse.clone()
    lse[2, 9] += 1e-2
    expect_failure("LSE: .* batch 0, head 2, row 9: .*\n.*1 values are beyond their cap", out, lse, truth, inputs)


def test_nan_must_be_where_it_is_expected(call):
    inputs, truth, out, lse = call
    broken = out.clone()
    broken[0, 0, 0] = torch.nan
    expect_failure("beyond their cap", broken, lse, truth, inputs)
    nan_truth = reference.Truth(truth.token, truth.head, truth.out.clone(), truth.lse, truth.peak)
    nan_truth.out[0] = torch.nan
    expect_failure("NaN or inf is not where", out, lse, nan_truth, inputs)


def test_empty_rows_are_exact(call):
    inputs, *_ = call
    inputs = inputs | {"sparse_seq_len": torch.zeros_like(inputs["sparse_seq_len"])}
    truth = reference.fp8_chain(**inputs)
    out, lse = dense(truth, inputs)
    compare.check(compare.against_chain(out, lse, truth, inputs))
    out[5, 1, 4] = 1e-30
    expect_failure("a row without a visible key is not exactly 0", out, lse, truth, inputs)
    out[5, 1, 4] = 0
    lse[1, 5] = torch.finfo(torch.float32).min * 0.99
    expect_failure("not exactly those without a visible key", out, lse, truth, inputs)


def test_e4m3_rounding_matches_every_code_and_tie():
    codes = torch.arange(0x7F, dtype=torch.uint8).view(torch.float8_e4m3fn).double()
    assert torch.equal(reference.round_to_e4m3(codes), codes)
    ties = (codes[1:] + codes[:-1]) / 2
    even = torch.where(torch.arange(len(ties)) % 2 == 0, codes[:-1], codes[1:])
    assert torch.equal(reference.round_to_e4m3(ties), even)
    assert torch.equal(reference.round_to_e4m3(torch.nextafter(ties, codes[1:])), codes[1:])
    assert torch.equal(reference.round_to_e4m3(torch.tensor([449.0, 1e300]).double()), torch.full((2,), 448.0).double())
