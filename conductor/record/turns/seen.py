"""Messages that were seen, for what passes them on."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

from conductor.record.turns.open_turn import OpenTurn

_MOST_BODIES: Final = 1024 * 1024
"""Bytes of all bodies that are kept. Of other messages only hashes are known."""
_SMALLEST: Final = 256
"""Bytes that each of those takes, roughly, however short it is."""


class Seen(msgspec.Struct, eq=False):
    """A message that was seen, for what passes it on."""

    event: int
    n: int
    """Its number; 0: the trace has none."""
    at: float
    fingerprint: int
    hidden: str
    turn: OpenTurn
    maker: str
    """Who has made it, before others passed it on."""
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
    """Since when those further down have it; None: they do not …"""
    outside: float = 0.0
    """… and for how many seconds they had it before."""
    answer: Seen | None = None
    """The last answer that its receiver got to what passes it on."""

    def came_back(self, answer: Seen) -> None:
        """What its receiver has passed on is answered."""
        self.answer = answer
        if self.since is not None:
            self.outside += max(answer.at - self.since, 0.0)
            self.since = None


class Bodies:
    """The messages that have their bodies still: those that were passed on lose them first."""

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
