"""Where two results of one call differ: first and worst bad element, where bad ones lie, and a map of the errors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from . import compare, pictures
from .bundle import Bundle, truth

BLOCK = 128
_LEVELS = (0.0, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # of error / tolerance


@dataclass(frozen=True)
class Element:
    """One element of a result. row: within the sequence; column is 0 for LSE."""

    batch: int
    head: int
    row: int
    column: int
    got: float
    expected: float
    of_tolerance: float
    of_cap: float

    def __str__(self) -> str:
        place = f"batch {self.batch}, head {self.head}, row {self.row}, column {self.column}"
        values = f"{place}: {self.got:.6g}, expected {self.expected:.6g}"
        if math.isinf(self.of_cap):
            return f"{values}: only one of both is finite"
        return f"{values}, off by {self.of_tolerance:.3g} tolerances, {self.of_cap:.0%} of its cap"


@dataclass(frozen=True)
class Difference:
    """Of out or LSE. bad: elements beyond tolerance; beyond_cap: those that no right result may have.

    worst is by share of its cap, first in the order batch, head, row, column; heads and q_blocks: bad elements by each.
    """

    name: str
    elements: int
    not_equal: int
    bad: int
    beyond_cap: int
    first: Element | None
    worst: Element | None
    heads: dict[int, int]
    q_blocks: dict[int, int]

    def __str__(self) -> str:
        lines = [
            f"{self.name}: {self.not_equal} of {self.elements} elements differ, {self.bad} beyond tolerance, "
            f"{self.beyond_cap} beyond their cap"
        ]
        if self.worst:
            lines.append(f"  worst  {self.worst}")
        if self.first:
            lines.append(f"  first  {self.first}")
            for name, counts in (("heads", self.heads), ("query blocks", self.q_blocks)):
                most = sorted(counts.items(), key=lambda item: -item[1])
                shown = ", ".join(f"{index}: {count}" for index, count in most[:8])
                lines.append(f"  bad by {name}  {shown}{', ..' if len(most) > 8 else ''}")
        return "\n".join(lines)


def compare_results(golden: Bundle, out: torch.Tensor, lse: torch.Tensor | None) -> list[Difference]:
    """A result, on the CPU, against the expected values of a bundle: a difference for out and, if both have it, LSE."""
    rows = truth(golden)
    lse = None if golden.expected_lse is None else lse
    return [_difference(values, rows, golden.inputs) for values in _values(golden, rows, out, lse)]


def draw(golden: Bundle, out: torch.Tensor, path: Path) -> None:
    """Error / tolerance of out: the worst column of each row and head, and all columns of the worst query block."""
    rows = truth(golden)
    values = _values(golden, rows, out, None)[0]
    tokens, heads, columns = golden.expected.shape
    share = (values.error / values.tolerance).clamp(max=1e30).reshape(tokens, heads, columns)
    worst_token, worst_head, _ = (int(i) for i in torch.unravel_index(share.argmax(), share.shape))
    batch, _, row = compare.places(rows, golden.inputs)[worst_token * heads].tolist()
    first_token = worst_token - row % BLOCK
    figure = pictures.figure(11, 3.4 + 0.07 * min(heads, 64))
    above, below = figure.subplots(2, 1, height_ratios=(1, 1.4))
    image = _image(above, share.amax(-1).T)
    for end in golden.inputs["cu_seqlens_q"].tolist()[1:-1]:
        above.axvline(end - 0.5, color="#2f6f9f", linewidth=0.8)
    above.set(xlabel="token of the call (lines: a sequence begins)", ylabel="query head")
    above.set_title(f"{golden.case_id}: error / tolerance of out, the worst column of each row", fontsize=10)
    _image(below, share[first_token : first_token + BLOCK, worst_head].T, (row - row % BLOCK, columns))
    below.set(xlabel=f"row of sequence {batch}", ylabel="column")
    below.set_title(
        f"sequence {batch}, head {worst_head}, query block {row // BLOCK}: holds the worst element", fontsize=10
    )
    bar = figure.colorbar(image, ax=(above, below), extend="max", spacing="uniform", ticks=_LEVELS, format="%g")
    bar.set_label("error / tolerance; above 1 is bad")
    figure.savefig(path)


def _image(axes: Any, share: torch.Tensor, origin: tuple[int, int] | None = None) -> Any:
    """share [y, x]; origin: first x, and number of y."""
    from matplotlib import colors

    greys = ("#ffffff", "#ececec", "#d2d2d2", "#ababab")
    reds = ("#f4b183", "#e06c4e", "#b3262e", "#5c0011")
    norm = colors.BoundaryNorm(_LEVELS, len(_LEVELS) - 1)
    map_of_colors = colors.ListedColormap((*greys, *reds[:-1])).with_extremes(over=reds[-1])
    height, width = share.shape
    left = origin[0] if origin else 0
    extent = (left - 0.5, left + width - 0.5, height - 0.5, -0.5)
    return axes.imshow(
        share.numpy(), cmap=map_of_colors, norm=norm, aspect="auto", interpolation="nearest", extent=extent
    )


def _values(golden: Bundle, rows: compare.Truth, out: torch.Tensor, lse: torch.Tensor | None) -> list[compare.Values]:
    if out.shape != golden.expected.shape:
        raise ValueError(f"the results must have the same shape {list(golden.expected.shape)}; got {list(out.shape)}")
    return compare.values_of_chain(out, lse, rows, golden.inputs)


def _difference(values: compare.Values, rows: compare.Truth, inputs: dict[str, Any]) -> Difference:
    error = values.error
    bad, shares, places = error > values.tolerance, error / values.cap, compare.places(rows, inputs)
    of_row = bad.sum(1)

    def element(row: int, column: int) -> Element:
        figures = (tensor[row, column] for tensor in (values.got, values.want))
        ratios = (error[row, column] / limit[row, column] for limit in (values.tolerance, values.cap))
        batch, head, of_sequence = places[row].tolist()
        return Element(batch, head, of_sequence, column, *map(float, figures), *map(float, ratios))

    def counts(of: torch.Tensor) -> dict[int, int]:
        sums = torch.zeros(int(of.max()) + 1 if len(of) else 0, dtype=torch.int64).index_add_(0, of, of_row)
        return {index: count for index, count in enumerate(sums.tolist()) if count}

    first = worst = None
    if bad.any():
        candidates = of_row.nonzero().flatten()
        for digit in places.T:  # the least in the order of the columns
            found = digit[candidates]
            candidates = candidates[found == found.min()]
        first = element(int(candidates[0]), int(bad[candidates[0]].nonzero()[0]))
    if (error > 0).any():
        worst = element(*divmod(int(shares.argmax()), shares.shape[1]))
    return Difference(
        name=values.name,
        elements=error.numel(),
        not_equal=int((error > 0).sum()),
        bad=int(bad.sum()),
        beyond_cap=int((shares > 1).sum()),
        first=first,
        worst=worst,
        heads=counts(places[:, 1]),
        q_blocks=counts(places[:, 2] // BLOCK),
    )
