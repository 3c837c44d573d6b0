"""The states of a request that a component carries, and the table of its moves.

Every move that the table does not have is a violation, and changes nothing.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple


class State(Enum):
    """The state of a request with the component that carries it."""

    QUEUED = "queued"
    """The request waits until the component can be given it."""
    GIVEN = "given"
    """The component has it."""
    PASSED = "passed"
    """The peers behind the component have it."""
    RETURNED = "returned"
    """The component has the answer that came back."""
    STOPPED = "stopped"
    """The request was cancelled while the component had it, or its answer."""
    CLOSED = "closed"
    """No component has it: it has its answer, or goes its way without the component."""

    # Members are compared by identity. The hash of `Enum` is a call of a Python function for each
    # of the 16 look-ups that a prompt through four guests takes: 2 % of its time.
    __hash__ = object.__hash__


class Event(Enum):
    """The events of a carried request."""

    DELIVERED = "delivered to the component"
    PASSED_ON = "passed on under its id"
    ANSWERED = "answered by the component"
    CAME_BACK = "answered by those after it"
    WENT_PAST = "answered by those after it, and the component may not amend that"
    CANCELLED = "cancelled"
    GRACE_OVER = "its grace is over"
    LATE = "held for too long"
    LOST = "the component is gone, or cannot take it"

    __hash__ = object.__hash__  # as above


class Move(NamedTuple):
    """One row: a state, an event, the state after it, and the effect in words for people."""

    state: State
    event: Event
    to: State
    effect: str


_S, _E = State, Event

MOVES: Final[tuple[Move, ...]] = (
    Move(_S.QUEUED, _E.DELIVERED, _S.GIVEN, "the component gets it"),
    Move(_S.QUEUED, _E.CANCELLED, _S.CLOSED, "answered as cancelled; the component saw nothing"),
    Move(_S.QUEUED, _E.LOST, _S.CLOSED, "goes on as given; with `fails=closed` an error"),
    Move(
        _S.GIVEN,
        _E.PASSED_ON,
        _S.PASSED,
        "goes on; where its rule is broken, as it was given (a violation; with `fails=closed` an "
        "error)",
    ),
    Move(
        _S.GIVEN,
        _E.ANSWERED,
        _S.CLOSED,
        "replied, where the component may answer; else it goes on as given (a violation; with "
        "`fails=closed` an error)",
    ),
    Move(_S.GIVEN, _E.CANCELLED, _S.STOPPED, "the component hears of it and has its grace"),
    Move(
        _S.GIVEN, _E.LATE, _S.CLOSED, "goes on as given (a violation; with `fails=closed` an error)"
    ),
    Move(_S.GIVEN, _E.LOST, _S.CLOSED, "goes on as given; with `fails=closed` an error"),
    Move(
        _S.STOPPED,
        _E.PASSED_ON,
        _S.CLOSED,
        "answered as cancelled, or as it came if it had been answered; those after it see nothing",
    ),
    Move(_S.STOPPED, _E.ANSWERED, _S.CLOSED, "the same"),
    Move(_S.STOPPED, _E.GRACE_OVER, _S.CLOSED, "the same"),
    Move(_S.STOPPED, _E.LOST, _S.CLOSED, "the same"),
    Move(
        _S.PASSED,
        _E.CAME_BACK,
        _S.RETURNED,
        "the component gets the answer, to amend it",
    ),
    Move(_S.PASSED, _E.WENT_PAST, _S.CLOSED, "replied as it came; the component gets a copy"),
    Move(_S.PASSED, _E.CANCELLED, _S.PASSED, "the cancellation goes on"),
    Move(_S.PASSED, _E.LOST, _S.PASSED, "its answer goes past the component"),
    Move(
        _S.RETURNED,
        _E.PASSED_ON,
        _S.PASSED,
        "a retry, at most three times; a prompt with a command in it only after an error",
    ),
    Move(
        _S.RETURNED,
        _E.ANSWERED,
        _S.CLOSED,
        "replied; where its rule is broken, as it came (a violation)",
    ),
    Move(
        _S.RETURNED,
        _E.CANCELLED,
        _S.STOPPED,
        "the component hears of it and has its grace; it is then replied as it came",
    ),
    Move(_S.RETURNED, _E.LATE, _S.CLOSED, "replied as it came (a violation)"),
    Move(_S.RETURNED, _E.LOST, _S.CLOSED, "replied as it came"),
)
"""All moves there are; the tables of the docs are drawn from here."""

TABLE: Final = {(move.state, move.event): move.to for move in MOVES}

IN_HAND: Final = (State.GIVEN, State.RETURNED)
"""The component has the request, or its answer."""
IN_FRONT: Final = (State.QUEUED, State.GIVEN, State.STOPPED)
"""The peers behind the component have not got the request."""
STOPPABLE: Final = (State.QUEUED, State.GIVEN, State.RETURNED)
"""A cancellation concerns the component, and not only the peers behind it."""
ENDS: Final = frozenset(move.state for move in MOVES if move.to is State.CLOSED)
"""The states in which a request may have its answer, or go on without the component."""

MOST_RETRIES: Final = 3
"""How often a component may pass on again a request that it got the answer to."""


def to(state: State, event: Event) -> State | None:
    """The state after an event; None: there is no such move."""
    return TABLE.get((state, event))
