"""The goals as a picture: SVG, readable on light and on dark pages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from benchmarks.card import card
from benchmarks.chains import Runner
from benchmarks.goals import GOALS, Goal
from benchmarks.history import HistoryError

_LEFT, _BAR, _RIGHT, _ROW = 330, 340, 220, 26
_WIDTH: Final = _LEFT + _BAR + _RIGHT

_BARS: Final = {"bar": ("#0969da", "#4493f8")}


@dataclass(frozen=True, slots=True)
class Bar:
    """One row: how much of the track is filled (0 … 1), where the goal's mark stands, the words."""

    label: str
    filled: float
    mark: float | None
    words: str


def bars(run: Mapping[str, Any]) -> tuple[list[Bar], list[Bar]]:
    """The goals of a run: against the reference, whose track is full; and for themselves.

    A stream is drawn by the time of an update, so that less is better everywhere. In the second
    list the goal stands in the middle of the track. Goals without a figure are left out.
    """
    ours = [goal for goal in GOALS if goal.against.runner is Runner.REFERENCE]
    compared = [
        _compared(goal, run["ratios"][goal.text])
        for goal in ours
        if not goal.absolute and goal.text in run["ratios"]
    ]
    absolute = [
        _absolute(goal, goal.bound, run["medians"][goal.text])
        for goal in ours
        if goal.absolute and goal.bound and goal.text in run["medians"]
    ]
    return compared, absolute


def draw(run: Mapping[str, Any]) -> str:
    """The picture of a run: a line of the history, or the output of ``--json``.

    Raises HistoryError where none of the goals was measured.
    """
    compared, absolute = bars(run)
    if not compared and not absolute:
        raise HistoryError("the run has none of the goals")
    parts: list[str] = []
    y = 14
    for head, rows in (
        (
            "Time, as a part of the Rust reference's (the whole track); the mark is the goal",
            compared,
        ),
        ("Figures of their own; the mark is the goal", absolute),
    ):
        if rows:
            y = _group(parts, y, head, rows)
    parts.append(f'<text class="foot" x="16" y="{y + 12}">{escape(_foot(run))}</text>')
    height = y + 28
    told = "; ".join(f"{bar.label}: {bar.words}" for bar in (*compared, *absolute))
    title = "The goals of conductor's speed, and what was measured"
    return card(_WIDTH, height, title, told, _BARS, parts)


def _compared(goal: Goal, ratio: float) -> Bar:
    more = goal.metric.higher_is_better
    part, mark = (1 / ratio, goal.bound and 1 / goal.bound) if more else (ratio, goal.bound)
    words = f"{ratio:.3g} x" if more else f"{ratio:.2f}"
    return Bar(goal.text, min(part, 1.0), mark, words + _verdict(goal, ratio))


def _absolute(goal: Goal, bound: float, value: float) -> Bar:
    words = f"{value:.{goal.metric.decimals}f} {goal.metric.unit}"
    return Bar(goal.text, min(value / bound / 2, 1.0), 0.5, words + _verdict(goal, value))


def _verdict(goal: Goal, figure: float) -> str:
    met = goal.met(figure)
    wish = goal.wish.removesuffix(" x")
    return "" if met is None else f" ({wish})" if met else f" ({wish}, missed)"


def _group(parts: list[str], y: int, head: str, rows: Sequence[Bar]) -> int:
    """Draws rows below a heading; where the next thing may begin."""
    parts.append(f'<text class="head" x="16" y="{y + 16}">{escape(head)}</text>')
    y += _ROW
    for row in rows:
        middle = y + _ROW // 2
        parts.append(f'<text x="16" y="{middle + 4}">{escape(row.label.replace("`", ""))}</text>')
        parts.append(_box("track", middle, _BAR))
        parts.append(_box("bar", middle, max(1, round(row.filled * _BAR))))
        if row.mark is not None:
            x = _LEFT + round(row.mark * _BAR)
            parts.append(f'<path class="goal" d="M{x} {middle - 9}v18"/>')
        parts.append(f'<text x="{_LEFT + _BAR + 12}" y="{middle + 4}">{escape(row.words)}</text>')
        y += _ROW
    return y + 8


def _box(kind: str, middle: int, width: int) -> str:
    return f'<rect class="{kind}" x="{_LEFT}" y="{middle - 6}" width="{width}" height="12"/>'


def _foot(run: Mapping[str, Any]) -> str:
    machine = run.get("machine", {})
    words = [
        f"revision {run.get('revision') or 'unknown'}",
        str(run["date"])[:10],
        f"medians of {run.get('rounds', '?')} rounds",
        str(machine.get("processor", "")),
        f"{machine.get('cpus', '?')} cores",
        f"Python {machine.get('python', '?')}",
    ]
    return ", ".join(word for word in words if word)
