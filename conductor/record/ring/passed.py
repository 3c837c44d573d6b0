"""Which message that a component got is on its way in one that it sent.

The rules are those of the router (docs/architecture.md, "Policy"), as far as lines show what they
ask for: a guest passes a request on under the id it came with; of a program it is the one with
equal params, else the oldest open one of that method and session.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import msgspec

from conductor.core import Trace
from conductor.record.ring.wire import Wire
from conductor.record.trace.hops import Departure

_MOST: Final = 1024
"""Messages of one method and session that a component got and may pass on still."""

ACROSS: Final = {"p": "s", "s": "p"}
"""The side on which a component got what it sends on another."""


class Hop(msgspec.Struct, eq=False):
    """An event to be written."""

    trace: Trace
    departure: Departure
    target: str
    at: float
    """In seconds since the trace began."""
    size: int


class Answer(msgspec.Struct):
    """An answer, as the component that had the request sent it."""

    wire: Wire
    number: int


class Sent(msgspec.Struct, eq=False):
    """A request or notification that a peer sent."""

    number: int
    """0: it stands for a copy that a component got."""
    wire: Wire
    source: str
    """Its sender, by its name in the trace."""
    place: int
    """Where the sender stands in the chain."""
    passes: Sent | None = None
    """What its sender passes on by it."""
    on: Sent | None = None
    """What passes it on."""
    target: int | None = None
    """Where its receiver stands; None: nobody has got it."""
    answer: Answer | None = None
    answered: int = 0
    """The number of the answer that its sender got, or that went past its sender."""
    is_copy: bool = False
    """It passes a copy on: the original has gone past its sender."""
    is_cancelled: bool = False
    """Whether its sender has cancelled it."""

    @property
    def is_open(self) -> bool:
        """Whether somebody has it, and has not answered it."""
        return self.target is not None and not self.answered and self.answer is None


class Got:
    """What one peer got on one side, and may pass on."""

    def __init__(self) -> None:
        self._open: dict[str, Sent] = {}
        """Requests, by the id under which it got them."""
        self._waiting: dict[tuple[str, str, bytes], deque[Sent]] = {}
        """By kind, method and session, the oldest first."""

    def put(self, wire: Wire, message: Sent) -> None:
        """It got a message."""
        if wire.kind == "request":
            self._open[wire.id] = message
        waiting = self._waiting.setdefault(
            (wire.kind, wire.call, wire.session), deque(maxlen=_MOST)
        )
        waiting.append(message)

    def take(self, wire: Wire) -> Sent | None:
        """The message that another one passes on, which then is no more to be passed on."""
        waiting = self._waiting.get((wire.kind, wire.call, wire.session))
        if not waiting:
            return None
        found = None
        if wire.tag and wire.kind == "request":
            found = self._open.get(wire.id)
            found = found if found in waiting else None
        if found is None:
            found = next((one for one in waiting if one.wire.says == wire.says), None)
        if found is None and not (wire.tag and wire.kind == "request"):
            found = next((one for one in waiting if one.is_open), None)
        if found is None:
            return None
        if wire.kind == "notification":
            while waiting.popleft() is not found:
                pass  # it has kept those before
        else:
            waiting.remove(found)
        return found
