"""Messages that were seen, kept for the messages that pass them on."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

from conductor.record.turns.open_turn import OpenTurn

_MOST_BODIES: Final = 1024 * 1024
"""Bytes of all bodies that are kept. Of other messages only hashes are known."""
_SMALLEST: Final = 256
"""The bytes that each message takes, roughly, however short it is."""


class Seen(msgspec.Struct, eq=False):
    """A message that was seen, kept for the message that passes it on."""

    event: int
    n: int
    """The message's number; 0: the trace has none."""
    at: float
    fingerprint: int
    hidden: str
    turn: OpenTurn
    maker: str
    """The component that made the message, before others passed it on."""
    body: msgspec.Raw | None = None
    """None: only its fingerprint is known."""


class Asked(Seen, kw_only=True, eq=False):
    """A request that was seen."""

    source: str
    target: str
    method: str
    protocol: str
    session: str
    is_open: bool = True
    """Whether it has no answer so far."""
    parent: Asked | None = None
    """The open request that its sender passes on by it."""
    changed: bool = False
    """Whether its receiver passed it on with another value."""
    since: float | None = None
    """The time since which components further down have the request; None: they do not have it."""
    outside: float = 0.0
    """The seconds that components further down had the request before."""
    answer: Seen | None = None
    """The last answer that the receiver got to the request that it passed on."""

    def came_back(self, answer: Seen) -> None:
        """The request that the receiver has passed on is answered."""
        self.answer = answer
        if self.since is not None:
            self.outside += max(answer.at - self.since, 0.0)
            self.since = None


class Bodies:
    """The messages that still have their bodies: messages that were passed on lose theirs first."""

    def __init__(self) -> None:
        self._seen: OrderedDict[int, Seen] = OrderedDict()
        """By event."""
        self._size = 0

    def keep(self, seen: Seen, body: msgspec.Raw) -> None:
        """Keeps the body of a message."""
        # A copy: a view would keep the whole line.
        seen.body = msgspec.Raw(bytes(body))
        self._seen[seen.event] = seen
        self._size += _SMALLEST + len(seen.body)
        while self._size > _MOST_BODIES and len(self._seen) > 1:
            oldest = self._seen.popitem(last=False)[1]
            self._size -= _SMALLEST + len(oldest.body or b"")
            oldest.body = None

    def passed_on(self, seen: Seen) -> None:
        """A message that has its body was passed on."""
        self._seen.move_to_end(seen.event, last=False)
