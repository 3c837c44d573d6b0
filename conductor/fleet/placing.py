"""A gateway's search for the worker that has a room. Pure: it gives the next question, and takes
the answer.

LOOK   which worker has the lease of the room?
PLACE  no worker has the lease, or it does not answer: which worker takes the room?
OPEN   the worker opens a connection
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec

MOST: Final = 8
"""Rounds until a gateway gives up: with the pauses between them about four seconds."""


class Step(Enum):
    """The next question."""

    LOOK = "look"
    PLACE = "place"
    OPEN = "open"
    DONE = "done"
    FAILED = "failed"


class Event(Enum):
    """The answer to a question."""

    HELD = "a worker has the lease"
    FREE = "no worker has it, or its worker is lost"
    OPENED = "the connection is open"
    GONE = "the worker does not have the room, or nobody takes it now"
    SILENT = "the worker does not answer"
    REFUSED = "no further try can help"


MOVES: Final = {
    (Step.LOOK, Event.HELD): Step.OPEN,
    (Step.LOOK, Event.FREE): Step.PLACE,
    (Step.LOOK, Event.REFUSED): Step.FAILED,
    (Step.PLACE, Event.HELD): Step.OPEN,
    (Step.PLACE, Event.GONE): Step.LOOK,
    (Step.PLACE, Event.REFUSED): Step.FAILED,
    (Step.OPEN, Event.OPENED): Step.DONE,
    (Step.OPEN, Event.GONE): Step.LOOK,
    (Step.OPEN, Event.SILENT): Step.LOOK,
    (Step.OPEN, Event.REFUSED): Step.FAILED,
}
"""Every move there is; any other event changes nothing."""

_AGAIN: Final = (Event.GONE, Event.SILENT)


class Lease(msgspec.Struct, frozen=True):
    """Which worker has a room, and since which epoch."""

    worker: str
    epoch: int


class Placing:
    """One search.

    Attributes:
        step: The next question.
        lost: The epoch whose worker does not answer; 0: none is known.
        lease: The lease under which the connection is opened, or is open.
        rounds: The number of failed searches.
    """

    def __init__(self, lost: int = 0) -> None:
        self.step = Step.LOOK
        self.lost = lost
        self.lease: Lease | None = None
        self.rounds = 0

    @property
    def is_over(self) -> bool:
        """Whether nothing is asked any more."""
        return self.step in (Step.DONE, Step.FAILED)

    def found(self, lease: Lease | None) -> None:
        """The lease of the room is that; None: there is none."""
        if lease is None or lease.epoch == self.lost:
            self._move(Event.FREE)
            return
        self.lease = lease
        self._move(Event.HELD)

    def placed(self, lease: Lease) -> None:
        """A worker has the room now."""
        self.lease = lease
        self._move(Event.HELD)

    def opened(self) -> None:
        """The worker has opened the connection."""
        self._move(Event.OPENED)

    def gone(self) -> None:
        """The worker does not have the room: its lease may be taken over; or nobody takes it."""
        if self.step is Step.OPEN and self.lease is not None:
            self.lost = self.lease.epoch
        self._move(Event.GONE)

    def silent(self) -> None:
        """The worker does not answer: its lease may be taken over."""
        if self.lease is not None:
            self.lost = self.lease.epoch
        self._move(Event.SILENT)

    def refused(self) -> None:
        """No further try can help."""
        self._move(Event.REFUSED)

    def _move(self, event: Event) -> None:
        step = MOVES.get((self.step, event))
        if step is None:
            return
        self.step = step
        if event in _AGAIN:
            self.rounds += 1
            if self.rounds >= MOST:
                self.step = Step.FAILED
