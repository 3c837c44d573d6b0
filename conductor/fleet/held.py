"""A lease of a worker, from taking the room to giving it up or losing it."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from conductor.fleet import names

if TYPE_CHECKING:
    from conductor.fleet.room_outlet import RoomOutlet


class State(Enum):
    """The state of a lease of this worker."""

    HELD = "held"
    """The room runs here."""
    ASKING = "asking"
    """The room's clients are told to wait: if nothing runs then, the room may move."""
    MOVING = "moving"
    """No connection is opened any more; the room ends, and then the lease."""
    OVER = "over"
    """Somebody else may have the room."""


class Event(Enum):
    """The events of a lease."""

    ASK = "the room is to run elsewhere, or is empty, and nothing runs in it"
    STAY = "something has begun in it meanwhile"
    MOVE = "it moves"
    ENDED = "the room has ended here"
    LOST = "another worker has taken it over"


MOVES: Final = {
    (State.HELD, Event.ASK): State.ASKING,
    (State.HELD, Event.MOVE): State.MOVING,
    (State.HELD, Event.LOST): State.OVER,
    (State.ASKING, Event.STAY): State.HELD,
    (State.ASKING, Event.MOVE): State.MOVING,
    (State.ASKING, Event.LOST): State.OVER,
    (State.MOVING, Event.ENDED): State.OVER,
    (State.MOVING, Event.LOST): State.OVER,
}
"""Every move there is; any other event changes nothing."""


class Held:
    """A lease of this worker."""

    def __init__(self, principal: str, lease: bytes, revision: int, now: float) -> None:
        self.principal, self.lease, self.revision = principal, lease, revision
        self.state = State.HELD
        self.used = now
        """When the room was last seen to have something."""
        self.outlets: dict[str, RoomOutlet] = {}
        """By connection."""

    @property
    def epoch(self) -> int:
        """The epoch of the lease."""
        return names.epoch(self.lease, self.revision)

    def moves(self, event: Event) -> bool:
        """Whether an event changes anything."""
        state = MOVES.get((self.state, event))
        if state is not None:
            self.state = state
        return state is not None
