"""Counts the events of a component: how many it had, how many it changed, and for how long it had
each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from conductor.record.turns.line import CONDUCTOR, KINDS
from conductor.record.turns.model import Change, Row

PERCENTILES: Final = (50, 95, 99)

CHANGED: Final = {Change.CHANGED, Change.ANSWERED, Change.ORIGINATED}
"""The values of `Change` that count as a change of a message."""


def counts(row: Row) -> bool:
    """Whether an event is a message of a component, of the client or of the agent."""
    return row.kind in KINDS and row.source != CONDUCTOR


def time(row: Row) -> float | None:
    """For how many milliseconds its sender had it; None: it does not say. The time of a request
    that was passed on is in its response."""
    has_time = row.kind == "response" or (row.kind == "notification" and row.ms_in > 0)
    return row.ms_in if has_time else None


def percentile(times: Sequence[float], percent: int) -> float:
    """The smallest of some times, in order, that so many percent do not exceed; 0 of none."""
    return times[-(-len(times) * percent // 100) - 1] if times else 0.0
