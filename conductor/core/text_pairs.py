"""Pairs texts by how much they share: which is a version of which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import AnyStr, Final

SIMILAR: Final = 0.5
"""Two texts are versions of one text if they share this part of the shorter."""


def align(before: Sequence[bytes], after: Sequence[bytes]) -> list[int | None]:
    """For each text of `after` the place of its former version in `before`, or None.

    In order, no place twice, and with the greatest similarity in all. Takes time in proportion to
    the product of both lengths.
    """
    if len(before) == len(after) and all(
        similarity(old, new) >= SIMILAR for old, new in zip(before, after, strict=True)
    ):
        return list(range(len(after)))
    best = [[0.0] * (len(before) + 1)]
    """The greatest similarity of the first so many of `after` and of `before`."""
    for text in after:
        above, row = best[-1], [0.0]
        for at, other in enumerate(before):
            share = similarity(other, text)
            together = above[at] + share if share >= SIMILAR else 0.0
            row.append(max(together, above[at + 1], row[at]))
        best.append(row)
    return _read_back(best)


def _read_back(best: list[list[float]]) -> list[int | None]:
    places: list[int | None] = [None] * (len(best) - 1)
    place, at = len(best) - 1, len(best[0]) - 1
    while place and at:
        if best[place][at] == best[place][at - 1]:
            at -= 1  # of several that are as similar, the first
        elif best[place][at] == best[place - 1][at]:
            place -= 1
        else:
            place, at = place - 1, at - 1
            places[place] = at
    return places


def similarity(text: AnyStr, other: AnyStr) -> float:
    """How much of the shorter text's beginning and end they share, from 0 to 1."""
    shorter = min(len(text), len(other))
    return sum(ends(text, other)) / shorter if shorter else 0.0


def ends(text: AnyStr, other: AnyStr) -> tuple[int, int]:
    """How many bytes or characters are equal at the beginning, and of the rest at the end."""
    most = min(len(text), len(other))
    head = _shared(text, other, most)
    return head, _shared(text[::-1], other[::-1], most - head)


def _shared(text: AnyStr, other: AnyStr, most: int) -> int:
    """How many bytes or characters are the same at the beginning, up to `most`."""
    low, high = 0, most
    while low < high:  # by halves: comparing slices is faster than a loop over characters
        middle = (low + high + 1) // 2
        if text[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
