"""Texts put in pairs by how much they share: which of these is a version of which of those."""

from __future__ import annotations

from collections.abc import Sequence
from typing import AnyStr, Final

ALIKE: Final = 0.5
"""Two are versions of one if they share so much of the shorter one."""


def align(before: Sequence[bytes], after: Sequence[bytes]) -> list[int | None]:
    """For each of `after` the place of the one of `before` that it is a version of, or None.

    In order, no place twice, and such that all together are as alike as can be. Takes time in
    proportion to the product of both lengths.
    """
    if len(before) == len(after) and all(
        likeness(one, other) >= ALIKE for one, other in zip(before, after, strict=True)
    ):
        return list(range(len(after)))
    best = [[0.0] * (len(before) + 1)]
    """How alike so many of `after` and of `before` are, at best."""
    for text in after:
        above, row = best[-1], [0.0]
        for at, other in enumerate(before):
            alike = likeness(other, text)
            together = above[at] + alike if alike >= ALIKE else 0.0
            row.append(max(together, above[at + 1], row[at]))
        best.append(row)
    return _read_back(best)


def _read_back(best: list[list[float]]) -> list[int | None]:
    found: list[int | None] = [None] * (len(best) - 1)
    place, at = len(best) - 1, len(best[0]) - 1
    while place and at:
        if best[place][at] == best[place][at - 1]:
            at -= 1  # of several that are as alike, the first
        elif best[place][at] == best[place - 1][at]:
            place -= 1
        else:
            place, at = place - 1, at - 1
            found[place] = at
    return found


def likeness(one: bytes, other: bytes) -> float:
    """How much of the shorter one's beginning and end they share, from 0 to 1."""
    shorter = min(len(one), len(other))
    if not shorter:
        return 0.0
    head = shared(one, other, shorter)
    tail = shared(one[::-1], other[::-1], shorter - head)
    return (head + tail) / shorter


def shared(one: AnyStr, other: AnyStr, most: int) -> int:
    """How many bytes or characters they share at the beginning, up to `most`."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
