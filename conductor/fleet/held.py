"""A lease that a worker has, from the room that it takes to the one that it gives up or loses."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from conductor.fleet.room_outlet import RoomOutlet


class State(Enum):
    """Where a lease of this worker stands."""

    HELD = "held"
    """The room runs here."""
    MOVING = "moving"
    """No connection is opened any more; the room ends, and then the lease."""
    OVER = "over"
    """Somebody else may have the room."""


class Event(Enum):
    """What happens to a lease."""

    MOVE = "the room is to run elsewhere, or is empty"
    ENDED = "the room has ended here"
    LOST = "another worker has taken it over"


MOVES: Final = {
    (State.HELD, Event.MOVE): State.MOVING,
    (State.HELD, Event.LOST): State.OVER,
    (State.MOVING, Event.ENDED): State.OVER,
    (State.MOVING, Event.LOST): State.OVER,
}
"""Every move there is; any other event changes nothing."""


class Held:
    """A lease of this worker."""

    def __init__(self, principal: str, epoch: int, now: float) -> None:
        self.principal, self.epoch = principal, epoch
        self.state = State.HELD
        self.used = now
        """When the room was last seen to have something."""
        self.outlets: dict[str, RoomOutlet] = {}
        """By connection."""

    def moves(self, event: Event) -> bool:
        """Whether an event changes anything."""
        state = MOVES.get((self.state, event))
        if state is not None:
            self.state = state
        return state is not None
