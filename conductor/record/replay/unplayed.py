"""The recorded messages that have not come again yet, to be found by their params."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable
from typing import Generic, TypeVar

import msgspec

from conductor.record import diff

Held = TypeVar("Held")


class _Entry(msgspec.Struct, Generic[Held]):
    held: Held
    is_taken: bool = False


class Unplayed(Generic[Held]):
    """Recorded messages, each kept once below its key and once below its key and its params.

    A message costs the same time whatever the number of others: a trace may be a stranger's.
    """

    def __init__(self) -> None:
        self._entries: dict[Hashable, deque[_Entry[Held]]] = defaultdict(deque)

    def add(self, key: Hashable, params: bytes, held: Held) -> None:
        """Adds a message behind those with the same key."""
        entry = _Entry(held)
        self._entries[key].append(entry)
        self._entries[key, diff.print_of(params)].append(entry)

    def equal(self, key: Hashable, params: bytes) -> Held | None:
        """Takes the oldest message with these params."""
        return self._take((key, diff.print_of(params)))

    def oldest(self, key: Hashable) -> Held | None:
        """Takes the oldest message with this key."""
        return self._take(key)

    def _take(self, key: Hashable) -> Held | None:
        entries = self._entries.get(key, deque())
        while entries:
            entry = entries.popleft()
            if not entry.is_taken:
                entry.is_taken = True
                return entry.held
        return None
