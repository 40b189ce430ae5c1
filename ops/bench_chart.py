"""Draws the results of bench as bars, with ratios over them."""

from __future__ import annotations

from pathlib import Path

from . import pictures
from .bench import Result


def draw(ours: Result, other: Result | None, path: Path) -> None:
    """One group of bars a case, on a logarithmic axis; over them its time (~: an estimate), and how many times as long
    the other takes.

    Cases that were not timed are left out. RuntimeError without matplotlib, or if nothing was timed.
    """
    timed = [timing.case for timing in ours.timings if timing.us is not None]
    if not timed:
        raise RuntimeError("there is nothing to draw: no case was timed")
    results = [ours] if other is None else [ours, other]
    figure = pictures.figure(width=max(6.0, 2.6 + 1.1 * len(timed)), height=4.6)
    axes = figure.subplots()
    width = 0.8 / len(results)
    for index, result in enumerate(results):
        offset = (index - (len(results) - 1) / 2) * width
        shown = [(at + offset, case, us) for at, case in enumerate(timed) if (us := result.us_of(case))]
        color = pictures.COLORS[index]
        label = f"{result.name}: {result.source}, {result.device}, {result.date}"
        axes.bar([x for x, *_ in shown], [us for *_, us in shown], 0.92 * width, color=color, label=label)
        for x, case, us in shown:
            text = ("~" if result.is_estimate(case) else "") + pictures.number(us)
            axes.text(x, us, text, ha="center", va="bottom", fontsize=8, color="0.25")
    for at, case in enumerate(timed):
        mine, theirs = ours.us_of(case), other.us_of(case) if other else None
        if mine and theirs:
            axes.text(at, max(mine, theirs) * 1.35, f"{theirs / mine:.2f}x", ha="center", va="bottom", weight="bold")
    axes.set_yscale("log")
    times = [item.us for result in results for item in result.timings if item.us]
    axes.set_ylim(min(times) / 4, max(times) * 6)
    axes.yaxis.set_major_formatter(lambda value, _: pictures.number(value))
    pictures.quiet_axes(axes)
    axes.set_xticks(range(len(timed)), timed, rotation=20, ha="right")
    axes.set_ylabel("time of a call (us), logarithmic")
    if other:
        axes.set_title(f"how many times as long {other.name} takes as {ours.name}", fontsize=10)
    axes.legend(loc="upper left", fontsize=8, frameon=False)
    figure.savefig(path)
