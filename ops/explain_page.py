"""The page of explain: one HTML file that holds its pictures."""

from __future__ import annotations

import base64
import html
import io
from pathlib import Path
from typing import Any

import torch

from . import __version__, explain, kernels, pictures
from .explain import Explanation, Timed

_HEADS_SHOWN = 8
_ZOOM = 12.0  # us of the second timeline
_BLUE, _ORANGE, _GREY = pictures.COLORS[0], pictures.COLORS[1], "#d9d9d9"

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1080px; margin: 2em auto; padding: 0 1em; color: #222; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; border-top: 1px solid #ddd; padding-top: 1em; }
pre { background: #f6f6f4; padding: .8em 1em; overflow-x: auto; font-size: 13px; }
img { max-width: 100%; } figcaption { color: #555; font-size: 13px; } figure { margin: 1em 0; }
"""


def write(explained: Explanation, path: Path) -> None:
    """Writes the page. RuntimeError without matplotlib."""
    drawn = {1: [(draw_map(explained), _MAP), (draw_density(explained), _DENSITY)], 2: [(draw_load(explained), _LOAD)]}
    if timed := explained.timed:
        drawn[3] = [(draw_pipes(timed), _PIPES), (draw_timeline(timed), _TIMELINE)]
    parts = [f"<h1>{html.escape(explained.name)}</h1><p>qbsa {__version__}. Times and loads are a model's.</p>"]
    for index, (head, body) in enumerate(explain.sections(explained)):
        parts.append(f"<h2>{html.escape(head)}</h2><pre>{html.escape(body)}</pre>")
        for figure, caption in drawn.get(index, ()):
            parts.append(f'<figure><img alt="{html.escape(caption)}" src="{_embedded(figure)}">')
            parts.append(f"<figcaption>{html.escape(caption)}</figcaption></figure>")
    title = f"<title>{html.escape(explained.name)}</title><style>{_STYLE}</style>"
    head = f'<!doctype html><html lang="en"><head><meta charset="utf-8">{title}</head>'
    path.write_text(f"{head}<body>{''.join(parts)}</body></html>\n", encoding="utf-8")


_MAP = (
    "Which KV blocks (right) each query block (down) selects, in the longest sequence. Large: share of the heads that "
    "select a block. Small: single heads. Grey: not visible. With one query block the rows are heads."
)
_DENSITY = (
    "Left: selected blocks of each head, as a share of the visible ones; the line is the mean. Right: list length by "
    "query block of the longest sequence, or by sequence in decode: all heads (band), their mean, and what is visible."
)
_LOAD = "Cost of each core by the plan, and where it was timed the cycles of the clock, both relative to their mean."
_PIPES = "Busy time of each pipe over the time of its cores. The longest bar decides how long the call takes."
_TIMELINE = "What the pipes of the busiest core group do: the whole call, and a few microseconds from its middle."


def draw_map(explained: Explanation) -> Any:
    lists, sequence = explained.lists, _longest(explained)
    mask, visible = lists.mask[sequence].float(), lists.visible[sequence]
    heads, q_blocks = mask.shape[:2]
    figure = pictures.figure(11, 4.6)
    if q_blocks == 1:
        axes = figure.subplots()
        _map(axes, mask[:, 0], visible.expand(heads, -1))
        axes.set(xlabel="KV block", ylabel="query head", title=f"sequence {sequence}")
        return figure
    left, right = figure.subfigures(1, 2, width_ratios=(1, 1.15))
    axes = left.subplots()
    image = _map(axes, mask.mean(0), visible)
    axes.set(xlabel="KV block", ylabel="query block", title=f"sequence {sequence}: share of {heads} heads")
    left.colorbar(image, ax=axes, fraction=0.05)
    shown = torch.linspace(0, heads - 1, min(_HEADS_SHOWN, heads)).long().tolist()
    grid = right.subplots(2, (len(shown) + 1) // 2, squeeze=False).flatten()
    for axes in grid[len(shown) :]:
        axes.set_axis_off()
    for head, axes in zip(shown, grid):
        _map(axes, mask[head], visible)
        axes.set_title(f"head {head}", fontsize=9)
        axes.set(xticks=[], yticks=[])
    return figure


def _map(axes: Any, share: torch.Tensor, visible: torch.Tensor) -> Any:
    from matplotlib import colormaps

    values = share.masked_fill(~visible & (share == 0), torch.nan)
    colors = colormaps["Blues"].with_extremes(bad=_GREY)
    return axes.imshow(values.numpy(), cmap=colors, vmin=0, vmax=1, aspect="auto", interpolation="nearest")


def draw_density(explained: Explanation) -> Any:
    lists = explained.lists
    per_head = (lists.density.per_head * 100).tolist()
    figure = pictures.figure(11, 3.2)
    left, right = figure.subplots(1, 2)
    left.bar(range(len(per_head)), per_head, color=_BLUE)
    left.axhline(lists.density.share * 100, color=_ORANGE, linewidth=1.2)
    left.set(xlabel="query head", ylabel="selected of visible (%)", ylim=(0, min(105.0, 1.15 * max([1.0, *per_head]))))
    _draw_lengths(right, explained)
    right.legend(frameon=False, fontsize=9)
    for axes in (left, right):
        axes.xaxis.get_major_locator().set_params(integer=True)
        pictures.quiet_axes(axes)
    return figure


def _draw_lengths(axes: Any, explained: Explanation) -> None:
    """By query block of the longest sequence, or by sequence where each has one query block."""
    lists, sequence = explained.lists, _longest(explained)
    by_sequence = lists.visible.shape[1] == 1
    counts = lists.mask[:, :, 0].sum(-1).T if by_sequence else lists.mask[sequence].sum(-1)  # [heads, x]
    seen = lists.visible[:, 0].sum(-1) if by_sequence else lists.visible[sequence].sum(-1)
    x, marker = range(len(seen)), "o" if len(seen) < 20 else None
    axes.plot(x, seen.tolist(), color="0.45", linewidth=1.2, marker=marker, label="visible")
    axes.fill_between(x, counts.amin(0).tolist(), counts.amax(0).tolist(), color=_BLUE, alpha=0.25, linewidth=0)
    axes.plot(x, counts.float().mean(0).tolist(), color=_BLUE, marker=marker, label="selected, mean of heads")
    label = "sequence" if by_sequence else f"query block of sequence {sequence}"
    axes.set(xlabel=label, ylabel="KV blocks", ylim=(0, None), xlim=(-0.5, len(seen) - 0.5))


def _longest(explained: Explanation) -> int:
    lens = explained.lists.kv_lens
    return max(range(len(lens)), key=lambda index: lens[index], default=0)


def draw_load(explained: Explanation) -> Any:
    costs = [core.cost for core in explained.plan.cores]
    figure = pictures.figure(11, 3.0)
    axes = figure.subplots()
    axes.bar(range(len(costs)), _relative(costs), color=_BLUE, label="cost by the plan")
    if explained.timed:
        cycles = {core["core"]: core["cycles"] for core in explained.timed.profile.report["cores"]}
        timed = [cycles.get(f"AIC {index}", 0) for index in range(len(costs))]
        axes.plot(range(len(costs)), _relative(timed), "o", color=_ORANGE, markersize=5, label="cycles by the clock")
    axes.axhline(1, color="0.3", linewidth=0.8, linestyle="--")
    axes.set(xlabel="core", ylabel="relative to the mean", xlim=(-0.8, len(costs) - 0.2))
    axes.set_ylim(0, axes.get_ylim()[1] * 1.25)
    axes.legend(frameon=False, fontsize=9, ncols=2, loc="upper right")
    pictures.quiet_axes(axes)
    return figure


def _relative(values: list[int]) -> list[float]:
    mean = sum(values) / max(1, len(values))
    return [value / mean if mean else 0.0 for value in values]


def draw_pipes(timed: Timed) -> Any:
    report = timed.profile.report
    ratios = kernels.pipe_ratios(report["columns"])
    figure = pictures.figure(11, 0.8 + 0.28 * len(ratios))
    axes = figure.subplots()
    busiest = max(ratios.values())
    colors = [_ORANGE if value == busiest else _BLUE for value in ratios.values()]
    axes.barh(range(len(ratios)), list(ratios.values()), color=colors)
    for row, value in enumerate(ratios.values()):
        axes.text(value + 0.005, row, f"{value:.2f}", va="center", fontsize=9)
    axes.set_yticks(range(len(ratios)), list(ratios))
    axes.invert_yaxis()
    axes.set(xlim=(0, 1.05), xlabel=f"busy / time of the core, {report['chip']}, model")
    pictures.quiet_axes(axes)
    return figure


def draw_timeline(timed: Timed) -> Any:
    rows = {name: spans for name, spans in timed.timeline.items() if spans}
    pipes = sorted({name.split()[-1] for name in rows}, key=lambda pipe: (pipe == "SCALAR", pipe))  # it gets the grey
    colors = [pictures.COLORS[pipes.index(name.split()[-1]) % len(pictures.COLORS)] for name in rows]
    figure = pictures.figure(11, 1.2 + 0.44 * len(rows))
    whole, zoom = figure.subplots(2, 1)
    end = max((start + duration for spans in rows.values() for start, duration in spans), default=0.0)
    middle = max(0.0, end / 2 - _ZOOM / 2)
    for axes in (whole, zoom):
        for row, spans in enumerate(rows.values()):
            axes.broken_barh(spans, (row - 0.4, 0.8), color=colors[row], linewidth=0)
        axes.set_yticks(range(len(rows)), list(rows), fontsize=8)
        axes.invert_yaxis()
        pictures.quiet_axes(axes)
    whole.set_xlim(0, end)
    whole.axvspan(middle, min(end, middle + _ZOOM), color=_GREY, alpha=0.5, zorder=0)
    zoom.set_xlim(middle, min(end, middle + _ZOOM))
    zoom.set_xlabel("us, model")
    return figure


def _embedded(figure: Any) -> str:
    """A PNG as a data URL."""
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
