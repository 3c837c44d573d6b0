"""The entries that the journal has not acknowledged: in order, bounded, sent again until it has.
Pure.

While the journal takes nothing, one entry a second asks whether it does again.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import msgspec

WINDOW: Final = 4 * 1024 * 1024
"""Bytes that are on their way at once, without an acknowledgement."""
FLIGHT: Final = 2048
"""The most entries that are on their way at once."""
PATIENCE: Final = 5.0
"""Seconds after which an entry without an acknowledgement is sent again."""
PROBE: Final = 1.0
"""Seconds between two questions whether the journal takes something again."""


class Entry(msgspec.Struct, gc=False):
    """One message for the journal."""

    subject: str
    headers: dict[str, str]
    payload: bytes
    since: float
    """When it was to be written."""
    sent: float | None = None
    """When the entry was sent last; None: it must be sent."""


class Unwritten:
    """Entries by number, the oldest first.

    Attributes:
        kept: Bytes of all of them.
        away: Whether the journal takes nothing now.
    """

    def __init__(self) -> None:
        self.kept = 0
        self.away = False
        self._entries: dict[int, Entry] = {}
        self._waiting: deque[int] = deque()
        """The entries that must be sent, in order."""
        self._flying = 0
        """The bytes on their way."""
        self._flight: dict[int, None] = {}
        """The entries on their way, in the order in which they were sent."""
        self._next = 0
        self._probe = 0.0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: Entry) -> None:
        """Takes another entry."""
        self._entries[self._next] = entry
        self._waiting.append(self._next)
        self._next += 1
        self.kept += len(entry.payload)

    def take(self, now: float) -> tuple[int, Entry] | None:
        """The entry to send now; None: there is none."""
        if not self._waiting:
            return None
        if self.away and (self._flight or now < self._probe):
            return None
        if self._flight and (self._flying >= WINDOW or len(self._flight) >= FLIGHT):
            return None
        number = self._waiting.popleft()
        entry = self._entries[number]
        entry.sent = now
        self._flight[number] = None
        self._flying += len(entry.payload)
        if self.away:
            self._probe = now + PROBE
        return number, entry

    def written(self, number: int) -> bool:
        """The journal has an entry; whether that is new."""
        entry = self._entries.pop(number, None)
        if entry is None:
            return False
        self.kept -= len(entry.payload)
        if number in self._flight:
            self._land(number, entry)
        else:
            self._waiting.remove(number)  # an answer that came late
        self.away = False
        return True

    def refused(self, number: int, now: float) -> None:
        """The journal takes an entry not now."""
        if number in self._flight:
            self.cut(now)

    def cut(self, now: float) -> None:
        """Nothing that is on its way may have come: it is sent again, in order."""
        again = [*self._flight]
        for number in again:
            self._land(number, self._entries[number])
            self._entries[number].sent = None
        self._waiting.extendleft(reversed(again))
        self.away = True
        self._probe = now + PROBE

    def look(self, now: float) -> bool:
        """Time has passed; whether the oldest entry on its way has waited too long."""
        first = next(iter(self._flight), None)
        if first is None:
            return False
        sent = self._entries[first].sent
        if sent is None or now - sent < PATIENCE:
            return False
        self.cut(now)
        return True

    def age(self, now: float) -> float:
        """Seconds that the oldest entry has waited."""
        oldest = next(iter(self._entries.values()), None)
        return now - oldest.since if oldest is not None else 0.0

    def _land(self, number: int, entry: Entry) -> None:
        del self._flight[number]
        self._flying -= len(entry.payload)
