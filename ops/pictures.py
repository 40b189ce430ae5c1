"""What all pictures share: matplotlib, found or asked for in one place, and their look."""

from __future__ import annotations

from typing import Any

COLORS = ("#2f6f9f", "#c2703d", "#6a9955", "#8c6bb1", "#b5495b", "#cfae3a", "#8a8a8a")  # one per series
DOTS_PER_INCH = 130


def figure(width: float, height: float) -> Any:
    """An empty matplotlib Figure of that size in inches; needs no display. RuntimeError without matplotlib."""
    try:
        from matplotlib import figure as figures
    except ImportError:
        raise RuntimeError("drawing needs matplotlib: pip install 'qbsa[plot]'") from None
    return figures.Figure(figsize=(width, height), dpi=DOTS_PER_INCH, layout="constrained")


def number(value: float) -> str:
    """Three digits at least, no exponents: 1,234 or 12.3."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def quiet_axes(axes: Any) -> None:
    """Without the two spines that say nothing."""
    axes.spines[["top", "right"]].set_visible(False)
