"""How commands talk: the answer on stdout, as text or JSON; progress and notes on stderr. Needs no terminal.

With rich (qbsa[tools]) and a terminal, long work shows a bar; otherwise a line for each item.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

Item = TypeVar("Item")


@dataclasses.dataclass(frozen=True)
class Answer:
    """text: for people. data: the same for --json. failure: why the exit code is 1 although the command could run."""

    text: str
    data: Any
    failure: str = ""


@dataclasses.dataclass(frozen=True)
class Console:
    quiet: bool = False
    verbose: bool = False
    json: bool = False

    def say(self, text: str) -> None:
        """A part of the answer that is ready before the rest; nothing with --json or --quiet."""
        if not self.quiet and not self.json:
            print(text, flush=True)

    def note(self, text: str) -> None:
        """Unless quiet."""
        if not self.quiet:
            print(text, file=sys.stderr, flush=True)

    def detail(self, text: str) -> None:
        """With --verbose only."""
        if self.verbose:
            self.note(text)

    def progress(self, items: Sequence[Item], what: Callable[[Item], str]) -> Iterator[Item]:
        """The items, telling which one is at work and what(item) it is. A single item is not worth telling."""
        if self.quiet or len(items) < 2:
            yield from items
        elif (rich := _rich()) is not None and sys.stderr.isatty():
            yield from _bar(rich, items, what)
        else:
            yield from self._lines(items, what)

    def _lines(self, items: Sequence[Item], what: Callable[[Item], str]) -> Iterator[Item]:
        started = time.monotonic()
        for index, item in enumerate(items, 1):
            self.note(f"[{index}/{len(items)}, {time.monotonic() - started:.0f} s] {what(item)}")
            yield item


def table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Aligned columns, the first `left` and the last of them to the left."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]

    def cell(column: int, text: str) -> str:
        return text.ljust(widths[column]) if column < left or column == len(head) - 1 else text.rjust(widths[column])

    return "\n".join("  ".join(cell(*item) for item in enumerate(line)).rstrip() for line in lines)


def _rich() -> Any:
    try:
        import rich.console
        import rich.progress
    except ImportError:
        return None
    return rich


def _bar(rich: Any, items: Sequence[Item], what: Callable[[Item], str]) -> Iterator[Item]:
    parts = rich.progress
    columns = (parts.TextColumn("{task.description}"), parts.BarColumn(), parts.MofNCompleteColumn())
    times = (parts.TimeElapsedColumn(), parts.TimeRemainingColumn())
    with parts.Progress(*columns, *times, console=rich.console.Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=len(items))
        for item in items:
            bar.update(task, description=what(item))
            yield item
            bar.advance(task)
