"""The events of a trace that a person looks at: of one turn, of one component, by a filter.

A choice is kept as numbers of events, and is continued as the trace grows. So a page asks
only for the rows that come into its view, however long the trace is.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from bisect import bisect_left
from collections import OrderedDict
from typing import Final, NamedTuple

from conductor.record.turns import filter as filters
from conductor.record.turns.model import Row
from conductor.record.turns.reader import Reader

_KEPT: Final = 24
"""Choices that are kept: each has four bytes an event."""
_SLICE: Final = 0.02
"""Seconds of searching at a time: other requests are answered between."""


class Wanted(NamedTuple):
    """A person's choice of events."""

    filter: str = ""
    component: str = ""
    """Only events that this component sent, got or was refused; empty: events of all components."""
    turn: int | None = None
    """None: of all turns."""


class Choice:
    """The chosen events of one trace, in order."""

    def __init__(self, reader: Reader, wanted: Wanted) -> None:
        """Raises `UsageError` for a filter that cannot be read."""
        self._reader = reader
        self._wanted = wanted
        self._filter = filters.parse(wanted.filter)
        self._at = 0
        self._busy = asyncio.Lock()
        self.numbers = array("i")
        self.turns: dict[int, int] = {}
        """How many of them each turn has."""

    async def go_on(self) -> None:
        """Looks through the events that have come since it was last asked."""
        async with self._busy:
            first, behind = self._range()
            self._at = max(self._at, first)
            while self._at < behind:
                end = time.monotonic() + _SLICE
                while self._at < behind and time.monotonic() < end:
                    self._slice(min(self._at + 100, behind))
                await asyncio.sleep(0)

    def _range(self) -> tuple[int, int]:
        turn = self._wanted.turn
        if turn is None:
            return 0, len(self._reader)
        first, behind = self._reader.span(turn)
        return first, min(behind, len(self._reader))

    def _slice(self, behind: int) -> None:
        reader, turn = self._reader, self._wanted.turn
        for number in range(self._at, behind):
            its = reader.turn_of(number)
            if its >= 0 and (turn is None or its == turn) and self._is_wanted(number):
                self.numbers.append(number)
                self.turns[its] = self.turns.get(its, 0) + 1
        self._at = behind

    def _is_wanted(self, number: int) -> bool:
        component = self._wanted.component
        if not component and not self._filter.text.strip():
            return True
        row = self._reader.row(number)
        if row is None or (component and component not in (row.source, row.target)):
            return False
        return self._filter.matches(row, self._text)

    def _text(self, number: int) -> str:
        return self._reader.line(number).decode("utf-8", "replace")

    def rows(self, after: int, limit: int) -> list[Row | None]:
        """The rows from place `after` on; null in place of a line that is no event."""
        return [self._reader.row(number) for number in self.numbers[after : after + limit]]

    def place(self, number: int) -> int:
        """The place of an event among the chosen events, or of the next chosen event behind it."""
        return bisect_left(self.numbers, number)


class Choices:
    """The latest choices of one trace."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._held: OrderedDict[Wanted, Choice] = OrderedDict()

    async def of(self, wanted: Wanted) -> Choice:
        """The choice of wanted events, up to the last event so far. Raises `UsageError`, and
        `IndexError` for a turn that does not exist."""
        choice = self._held.get(wanted)
        if choice is None:
            choice = self._held[wanted] = Choice(self._reader, wanted)
            if len(self._held) > _KEPT:
                self._held.popitem(last=False)
        self._held.move_to_end(wanted)
        await choice.go_on()
        return choice
