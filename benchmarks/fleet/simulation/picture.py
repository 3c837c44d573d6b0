"""The findings as a picture: SVG, readable on light and on dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import log10
from typing import Final

from benchmarks.card import card
from benchmarks.fleet.simulation.findings import Row

_LEFT, _BAR, _RIGHT, _ROW = 310, 380, 250, 34
_WIDTH: Final = _LEFT + _BAR + _RIGHT

_BARS: Final = {"first": ("#9a6700", "#d29922"), "changed": ("#0969da", "#4493f8")}


def draw(steady: Sequence[Row], sudden: Sequence[Row], workers: int) -> str:
    """Where each part breaks, and how long storms make clients wait; both on scales of tens."""
    parts: list[str] = []
    y = _head(parts, 14, f"Holds up to so many workers; the mark is {workers:,}")
    for row in steady:
        first, changed = (_up_to(each) for each in (row.first_breaks, row.changed_breaks))
        mark = _scale(workers, 10, 1e6)
        y = _row(
            parts,
            y,
            row.name,
            (_reach(row.first_breaks), _reach(row.changed_breaks)),
            mark,
            f"{first}; changed: {changed}",
        )
    y = _head(
        parts, y + 10, f"With {workers:,} workers, 99 of 100 wait so long; the mark is the limit"
    )
    for row in sudden:
        shares = (_scale(row.first, 0.1, 1_000), _scale(row.changed, 0.1, 1_000))
        y = _row(
            parts,
            y,
            row.name,
            shares,
            _scale(row.limit, 0.1, 1_000),
            f"{row.first:.1f} s; changed: {row.changed:.1f} s",
        )
    foot = (
        "Upper bar: the first design; lower bar: the changed one."
        " Scales of tens: 10 to 1,000,000 workers, 0.1 to 1,000 s."
    )
    parts.append(f'<text class="foot" x="16" y="{y + 14}">{foot}</text>')
    title = "Where a fleet breaks first, before and after it is changed"
    return card(_WIDTH, y + 30, title, _told(steady, sudden), _BARS, parts)


def _told(steady: Sequence[Row], sudden: Sequence[Row]) -> str:
    lines = [
        f"{row.name}: up to {_up_to(row.first_breaks)} workers,"
        f" changed: {_up_to(row.changed_breaks)}"
        for row in steady
    ]
    lines += [f"{row.name}: {row.first:.1f} s, changed: {row.changed:.1f} s" for row in sudden]
    return "; ".join(lines)


def _scale(value: float, low: float, high: float) -> float:
    """Where a value stands on a scale of tens: 0 … 1."""
    return min(1.0, max(0.0, (log10(max(value, low)) - log10(low)) / (log10(high) - log10(low))))


def _reach(breaks: int | None) -> float:
    return 1.0 if breaks is None else _scale(breaks, 10, 1e6)


def _up_to(breaks: int | None) -> str:
    return "all" if breaks is None else f"{float(f'{breaks:.2g}'):,.0f}"


def _head(parts: list[str], y: int, words: str) -> int:
    parts.append(f'<text class="head" x="16" y="{y + 16}">{escape(words)}</text>')
    return y + 28


def _row(
    parts: list[str], y: int, name: str, shares: tuple[float, float], mark: float, words: str
) -> int:
    """A name, two bars, the mark and the words; where the next row begins."""
    middle = y + _ROW // 2
    parts.append(f'<text x="16" y="{middle + 4}">{escape(name.replace("`", ""))}</text>')
    for kind, share, top in zip(("first", "changed"), shares, (-11, 1), strict=True):
        parts.append(_box("track", middle + top, _BAR))
        parts.append(_box(kind, middle + top, max(1, round(share * _BAR))))
    parts.append(f'<path class="goal" d="M{_LEFT + round(mark * _BAR)} {middle - 14}v28"/>')
    parts.append(f'<text x="{_LEFT + _BAR + 12}" y="{middle + 4}">{escape(words)}</text>')
    return y + _ROW


def _box(kind: str, top: int, width: int) -> str:
    return f'<rect class="{kind}" x="{_LEFT}" y="{top}" width="{width}" height="10"/>'
