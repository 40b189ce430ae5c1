"""The published way to share out rows, from its description: the baseline that the scheduler is compared with.

A row is a (batch, query head, query block), its cost the length of its list. Heads are gathered into sections by their
share of the L2; within a section each core in turn takes rows up to what is left for it on average.
"""

from __future__ import annotations

import torch

SECTION_BYTES = 120 * 2**20
BLOCK = HEAD_DIM = 128
BYTES_PER_ELEMENT = 2


def cores_of_rows(lengths: torch.Tensor, cores: int, section_bytes: int | None = SECTION_BYTES) -> torch.Tensor:
    """lengths [batch, heads, q_blocks] -> the core of each row, int64 [rows]; section_bytes None: one section."""
    heads = lengths.clamp(min=0).flatten(0, 1).tolist()
    result: list[int] = []
    for first, last in _sections(heads, section_bytes):
        result += _section(heads[first:last], cores)
    return torch.tensor(result)


def _sections(heads: list[list[int]], section_bytes: int | None) -> list[tuple[int, int]]:
    if section_bytes is None:
        return [(0, len(heads))]
    borders, running = [0], 0
    for index, rows in enumerate(heads):
        tokens = (sum(length > 0 for length in rows) + max(rows)) * BLOCK
        running += tokens * HEAD_DIM * BYTES_PER_ELEMENT
        if running > section_bytes and borders[-1] < index:
            borders.append(index)
            running = tokens * HEAD_DIM * BYTES_PER_ELEMENT
    return list(zip(borders, [*borders[1:], len(heads)]))


def _section(heads: list[list[int]], cores: int) -> list[int]:
    rows = [length for head in heads for length in head]
    width = len(heads[0])
    prefix = [0]
    for length in rows:
        prefix.append(prefix[-1] + length)
    result: list[int] = []
    at = 0
    for core in range(cores):
        begin = at
        if core + 1 == cores:
            at = len(rows)
        elif at < len(rows):
            limit = max(-(-(prefix[-1] - prefix[at]) // (cores - core)), rows[at])
            at += 1
            while at < len(rows):
                unit_end = at + width
                whole_unit = at % width == 0 and prefix[unit_end] - prefix[begin] <= limit + rows[unit_end - 1] / 2
                if not whole_unit and prefix[at + 1] - prefix[begin] > limit + rows[at] / 2:
                    break
                at = unit_end if whole_unit else at + 1
        result += [core] * (at - begin)
    return result
