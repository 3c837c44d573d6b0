"""The shared state of the makers of spans: rows of the picture, and finished spans."""

from __future__ import annotations

import heapq
from collections import defaultdict
from typing import Final

from conductor.telemetry.span import Context, Ids, Place, Span

TURNS: Final = "turns"
TOOLS: Final = "tools"
PASSED: Final = 100_000
"""The first row of notifications in each lane."""


class _Lane:
    """The rows of one lane: the lowest free row is taken."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self._count = 0
        self._ends: list[tuple[float, int]] = []
        """When each row of notifications is free again."""

    def take(self) -> int:
        if self._free:
            return heapq.heappop(self._free)
        self._count += 1
        return self._count - 1

    def give(self, row: int) -> None:
        heapq.heappush(self._free, row)

    def passed(self, start: float, end: float) -> int:
        """A row among those for notifications, whose beginning is known late; ends only grow."""
        if self._ends and self._ends[0][0] <= start:
            row = self._ends[0][1]
            heapq.heapreplace(self._ends, (end, row))
            return row
        row = PASSED + len(self._ends)
        heapq.heappush(self._ends, (end, row))
        return row


class Progress:
    """The progress of the translation of one trace."""

    def __init__(self, ids: Ids, links: tuple[Context, ...], *, content: bool) -> None:
        self.ids = ids
        self.links = links
        """Of each span that begins a trace."""
        self.content = content
        """Whether words of people and agents are exported."""
        self.at = 0.0
        """The time of the last event."""
        self._lanes: defaultdict[str, _Lane] = defaultdict(_Lane)
        self._done: list[Span] = []

    def place(self, lane: str) -> Place:
        """A place that no other span has until it is free."""
        return Place(lane, self._lanes[lane].take())

    def free(self, place: Place) -> None:
        """A span there has ended."""
        self._lanes[place.lane].give(place.row)

    def passed(self, lane: str, start: float, end: float) -> Place:
        """The place of a notification, whose beginning is known late."""
        return Place(lane, self._lanes[lane].passed(start, end))

    def finish(self, span: Span, at: float) -> None:
        """A span has ended."""
        span.end = max(at, span.start)
        self._done.append(span)

    def take(self) -> list[Span]:
        """The spans that have ended since the last call."""
        done, self._done = self._done, []
        return done
