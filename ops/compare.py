"""Acceptance of a result against a truth in fp64. Every tolerance stands here and is derived here.

A truth comes from tests/reference.py or from a bundle.

Unit roundoffs: fp32 2^-24, bf16 2^-8 (out), e4m3 2^-4 (P). How a right kernel differs from fp8_chain:
  fp32    A score s takes about 2^3 roundings: a dot product of 128 exact products, two scalings, the difference to the
          maximum. So P has the relative error d = |s| * 2^-21, and one ulp of exp, 2^-23.
  flips   P within d of a tie takes the neighbouring e4m3 code. At a tie a step is at most 1/8.5 of P (between the codes
          8 and 9 of a binade), 1/11 on average, and ties lie a step apart: a share of 2 * 11 * d of all P flips.
          |s| = 10 gives d = 5e-6 and 1e-4 flips per key.
  bf16    out is rounded once.
The row sum takes the unrounded P, so LSE sees fp32 only. Against `exact`, P carries its rounding to e4m3 as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

EMPTY_LSE = -torch.finfo(torch.float32).max  # of a row without a visible key
E4M3 = torch.finfo(torch.float8_e4m3fn)

BF16_ROUNDOFF = 2**-8
STEP_AT_TIE = 1 / 8.5  # of P, at most

# |error| <= atol + rtol * |expected| with few misses, the gate of the public tests. rtol of out is two bf16 roundoffs.
# A flip of a key of weight w moves out by w / 11 of that key's V: a miss where |out| is below 12 w of it. That takes
# rows of fewer than 12^2 comparable keys; 144 keys * 1e-4 flips, and in such a row less than a third of the columns.
OUT_RTOL, OUT_ATOL = 2**-7, 1e-4
LSE_RTOL, LSE_ATOL = 5e-3, 2.5e-5
MAX_MISS_SHARE = 0.005

# Cap of every element of out, beyond its tolerance, in units of the largest dequantised |V| of the KV head: two flips
# of the heaviest key, but never more than all keys beside the maximum. The maximum does not flip: it and m - ln p_scale
# lie on the same fp32 grid, so an error of m leaves its P alone. Against `exact` every P is off, by half a step at
# most; as much again is for the few P below 2^-6, whose steps are larger.
FLIPS_IN_ONE_ROW = 2

# Cap of every element of LSE: 2^8 fp32 roundoffs of |LSE| + 2 * 16 (|maximum| and ln(row sum), up to e^16 keys). The
# score takes 2^3, of the sum of |q k|, which may be 2^5 times the maximum's |s|; the row sum is a chain of additions
# over 256 keys at worst.
LSE_CAP, LSE_CAP_OFFSET = 2**-16, 32.0

# Relative L2 of out, each row in units of its KV head's largest |V|. bf16 gives one roundoff at most and
# 2^-7 / sqrt(12) = 0.58 roundoffs over random mantissas; flips give sqrt(22 d) / 11, which fills the rest at d = 6e-5,
# |s| = 120. With larger scores the softmax is nearly one-hot, and the P that matters is the maximum's.
CHAIN_REL_L2 = BF16_ROUNDOFF

# The same against `exact`: P is off by at most half a step, uniform and independent per key: 2^-3 / sqrt(12) rms at the
# largest step of a binade. In every row alike, the maximum's P is off by the rounding of p_scale.
P_NOISE = E4M3.eps / 12**0.5


@dataclass
class Truth:
    """n rows of the right result. A row is one (token, query head)."""

    token: torch.Tensor  # int64 [n], index into the tokens of out
    head: torch.Tensor  # int64 [n]
    out: torch.Tensor  # fp64 [n, 128]
    lse: torch.Tensor  # fp64 [n]
    peak: torch.Tensor  # fp64 [n], softmax weight of the row's heaviest key; 0 in an empty row


@dataclass
class Values:
    """One tensor of a result beside its truth, by element: fp64 [n, columns], n as in Truth; LSE has 1 column."""

    name: str
    got: torch.Tensor
    want: torch.Tensor
    tolerance: torch.Tensor
    cap: torch.Tensor  # at least tolerance
    unit: torch.Tensor  # [n, 1] of the relative L2; 0 leaves the row out of it

    @property
    def error(self) -> torch.Tensor:
        """inf where one of both is NaN or inf and the other is something else."""
        same = (self.got == self.want) | (self.got.isnan() & self.want.isnan())
        return torch.where(same, 0.0, (self.got - self.want).abs().nan_to_num(torch.inf))


@dataclass
class Report:
    """One tensor of a result against its truth."""

    name: str
    elements: int
    misses: int  # elements outside atol + rtol * |expected|
    worst_error: float  # |error| of the element that comes closest to its cap, or is furthest beyond
    worst_share: float  # that error / cap
    where: str  # batch, head, row and column of that element, and both values
    cosine_distance: float
    rel_l2: float
    failures: list[str]

    def __str__(self) -> str:
        text = (
            f"{self.name}: {self.misses} of {self.elements} miss ({self.misses / max(1, self.elements):.3%}); "
            f"worst error {self.worst_error:.2e}, {self.worst_share:.0%} of its cap, {self.where}; "
            f"cosine distance {self.cosine_distance:.1e}, relative L2 {self.rel_l2:.2e}"
        )
        return text + "".join(f"\n    {failure}" for failure in self.failures)


def against_chain(out: torch.Tensor, lse: torch.Tensor | None, truth: Truth, inputs: dict[str, Any]) -> list[Report]:
    """Measures a result against fp8_chain: a report for out and, unless it is None, one for lse.

    out [T, heads_q, 128] and lse [heads_q, T] are the operator's, on the CPU; truth covers all of their rows or some;
    inputs are the keyword arguments that made both.
    """
    report = _check_out(_out_of_chain(out, truth, inputs), truth, inputs, CHAIN_REL_L2, MAX_MISS_SHARE)
    return [report] if lse is None else [report, _check_lse(lse, truth, inputs)]


def values_of_chain(out: torch.Tensor, lse: torch.Tensor | None, truth: Truth, inputs: dict[str, Any]) -> list[Values]:
    """What against_chain looks at, element by element."""
    values = _out_of_chain(out, truth, inputs)
    return [values] if lse is None else [values, _lse_values(lse, truth)]


def against_exact(out: torch.Tensor, lse: torch.Tensor | None, truth: Truth, inputs: dict[str, Any]) -> list[Report]:
    """Measures a result against `exact`: misses do not matter, relative L2 may reach the noise of P. See against_chain.

    For data whose weighty P are normal numbers of e4m3: any p_scale for short lists, 256 for long ones with sinks.
    """
    p_scale = torch.ones(1) if inputs["p_scale"] is None else inputs["p_scale"]
    of_maximum = float((p_scale.clamp(max=E4M3.max).to(torch.float8_e4m3fn).double() / p_scale - 1).abs())
    values = _out_values(out, truth, inputs, STEP_AT_TIE)
    report = _check_out(values, truth, inputs, P_NOISE + of_maximum + CHAIN_REL_L2, 1.0)
    return [report] if lse is None else [report, _check_lse(lse, truth, inputs)]


def check(reports: list[Report]) -> list[Report]:
    """AssertionError with all reports if one of them has failures."""
    if any(report.failures for report in reports):
        raise AssertionError("\n".join(map(str, reports)))
    return reports


def value_amax(inputs: dict[str, Any]) -> torch.Tensor:
    """Largest dequantised |value| of each query head's KV head, fp64 [heads_q]; over whole pages, NaN apart."""
    heads_q, heads_kv = inputs["sparse_indices"].shape[1], inputs["value"].shape[1]
    payload = inputs["value"].float().nan_to_num(0.0).abs().amax((0, 2, 3)).double()
    amax: torch.Tensor = payload * inputs["v_descale"].double()
    return amax.repeat_interleave(heads_q // heads_kv)


def places(truth: Truth, inputs: dict[str, Any]) -> torch.Tensor:
    """Sequence, query head, and row within the sequence, of each row of a truth: int64 [n, 3]."""
    begins = inputs["cu_seqlens_q"].to(truth.token.dtype)
    sequence = torch.searchsorted(begins, truth.token, right=True) - 1
    return torch.stack([sequence, truth.head, truth.token - begins[sequence]], 1)


def _out_of_chain(out: torch.Tensor, truth: Truth, inputs: dict[str, Any]) -> Values:
    flipping = torch.minimum(FLIPS_IN_ONE_ROW * truth.peak, 1 - truth.peak)[:, None]
    return _out_values(out, truth, inputs, flipping * STEP_AT_TIE)


def _out_values(out: torch.Tensor, truth: Truth, inputs: dict[str, Any], flipping: float | torch.Tensor) -> Values:
    unit = value_amax(inputs)[truth.head][:, None]
    tolerance = OUT_ATOL + OUT_RTOL * truth.out.abs()
    want = torch.where(truth.out.bfloat16().isfinite(), truth.out, truth.out.bfloat16().double())  # bf16 may overflow
    got = out[truth.token, truth.head].double()
    return Values("out", got, want, tolerance, tolerance + flipping * unit, unit)


def _lse_values(lse: torch.Tensor, truth: Truth) -> Values:
    got, want = lse[truth.head, truth.token][:, None].double(), truth.lse[:, None]
    tolerance, cap = LSE_ATOL + LSE_RTOL * want.abs(), LSE_CAP * (LSE_CAP_OFFSET + want.abs())
    return Values("LSE", got, want, tolerance, cap, (want != EMPTY_LSE).double())


def _check_out(
    values: Values, truth: Truth, inputs: dict[str, Any], max_rel_l2: float, max_miss_share: float
) -> Report:
    report = _measure(values, truth, inputs)
    if report.misses > max_miss_share * report.elements:
        report.failures.append(f"misses are more than {max_miss_share:.1%}")
    if report.rel_l2 > max_rel_l2:
        report.failures.append(f"relative L2 is above {max_rel_l2:.2e}")
    if report.cosine_distance > max_rel_l2**2 / 2:  # what two vectors at this relative distance can differ by
        report.failures.append(f"cosine distance is above {max_rel_l2**2 / 2:.1e}")
    if bool((values.got[truth.lse == EMPTY_LSE] != 0).any()):
        report.failures.append("a row without a visible key is not exactly 0")
    return report


def _check_lse(lse: torch.Tensor, truth: Truth, inputs: dict[str, Any]) -> Report:
    values = _lse_values(lse, truth)
    report = _measure(values, truth, inputs)
    if report.misses > MAX_MISS_SHARE * report.elements:
        report.failures.append(f"misses are more than {MAX_MISS_SHARE:.1%}")
    if not torch.equal(values.got == EMPTY_LSE, values.want == EMPTY_LSE):
        report.failures.append(f"rows with LSE {EMPTY_LSE} are not exactly those without a visible key")
    return report


def _measure(values: Values, truth: Truth, inputs: dict[str, Any]) -> Report:
    """Fails for values beyond cap and for NaN or inf in other places than wanted."""
    got, want, unit = values.got, values.want, values.unit
    finite = want.isfinite()
    error = torch.where(finite, (got - want).abs(), 0.0)
    share = torch.where(finite, error / values.cap, 0.0).nan_to_num(torch.inf)
    at = int(share.argmax()) if share.numel() else 0
    here = [float(tensor.flatten()[at]) if share.numel() else 0.0 for tensor in (error, share, got, want)]
    x, y = (torch.where(finite & (unit > 0), tensor / unit, 0.0).flatten() for tensor in (got, want))
    length = float(y.norm())
    report = Report(
        name=values.name,
        elements=got.numel(),
        misses=int((~(error <= values.tolerance) & finite).sum()),
        worst_error=here[0],
        worst_share=here[1],
        where=f"{_place(at, got.shape[1], truth, inputs)}: {here[2]:.6g}, expected {here[3]:.6g}",
        cosine_distance=1 - float(x @ y) / (float(x.norm()) * length)
        if length and x.norm()
        else float(x.norm() != length),
        rel_l2=float((x - y).norm()) / length if length else float(x.norm()),
        failures=[],
    )
    if not report.worst_share <= 1:
        report.failures.append(f"{int((~(share <= 1)).sum())} values are beyond their cap")
    if not torch.equal(got[~finite].nan_to_num(0.0, 1.0, -1.0), want[~finite].nan_to_num(0.0, 1.0, -1.0)):
        report.failures.append("NaN or inf is not where it is expected")
    return report


def _place(index: int, columns: int, truth: Truth, inputs: dict[str, Any]) -> str:
    if len(truth.token) == 0:
        return "nowhere"
    row, column = divmod(index, columns)
    text = "batch {}, head {}, row {}".format(*places(truth, inputs)[row].tolist())
    return f"{text}, column {column}" if columns > 1 else text
