"""What happens if something has not happened by a time: effects, with the clock outside.

`Wake` asks the shell to call `Router.woken` with a token after some seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from conductor.core.effects import Wake
from conductor.core.policy.entries import Held, Notification
from conductor.core.policy.states import State
from conductor.core.state import Answer, Handshake, Lane, Peer, PendingRequest
from conductor.core.turn_queue import Limit

if TYPE_CHECKING:
    from conductor.core.parts import Parts

ROUND: Final = 1.0
"""Seconds that a program has to pass on what it carries, before what goes past it may overtake."""

LOADING: Final = 600.0
"""Seconds that a host has to load its guests: more than compiling them may take."""


class Hold(NamedTuple):
    """A component has a request, or its answer, in this state."""

    carried: PendingRequest
    lane: Lane
    state: State
    retries: int


class Round(NamedTuple):
    """A component without rounds has this, or these copies, or that waits behind it."""

    lane: Lane
    """By which it leaves the component."""
    entry: Held | Notification | list[Notification]


class FreePrompt(NamedTuple):
    """A component has spent a free prompt in a session."""

    component: str
    session: str


class Initializing(NamedTuple):
    """A proxy has `initialize`, or the answer to what it passed on."""

    peer: Peer
    handshake: Handshake
    answer: Answer | None = None


Due = Hold | Round | FreePrompt | Initializing | Limit | PendingRequest | Peer
"""What a deadline is about; its owner finds out whether that still matters. Of a `PendingRequest`:
the grace since it was cancelled; of a `Peer`: a host loads its guests."""


class Deadlines:
    """What is still to be done, by token."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._open: dict[int, Due] = {}
        self._unbegun: list[tuple[Peer, float, Due]] = []
        """Deadlines of hosts that still load their guests."""
        self._last = 0

    def held(self, peer: Peer, seconds: float, due: Due) -> None:
        """A component holds something for some time at most. A host that still loads its guests has
        not seen it: the time begins when they are loaded. The host is believed for `LOADING` that
        they are not."""
        if not peer.loading:
            self.after(seconds, due)
            return
        if all(host is not peer for host, _, _ in self._unbegun):
            self.after(LOADING, peer)
        self._unbegun.append((peer, seconds, due))

    def loaded(self, peer: Peer) -> None:
        """A host has loaded its guests."""
        peer.loading = False
        unbegun, self._unbegun = self._unbegun, []
        for host, seconds, due in unbegun:
            if host is peer:
                self.after(seconds, due)
            else:
                self._unbegun.append((host, seconds, due))

    def after(self, seconds: float, due: Due) -> None:
        """The time of `due` begins."""
        self._last += 1
        self._open[self._last] = due
        self._parts.exchange.emit(Wake(self._last, seconds))

    def round(self, lane: Lane, entry: Held | Notification) -> None:
        """A component that has no rounds, or none now, has the time of a round for an entry that
        leaves it by `lane`."""
        if not (lane.peer.policed.rounds and lane.peer.ready):
            self.after(ROUND, Round(lane, entry))

    def woken(self, token: int) -> None:
        """A time is over."""
        parts, due = self._parts, self._open.pop(token, None)
        match due:
            case Hold():
                parts.policed.held_too_long(due)
            case Round():
                parts.notifications.had_a_round(due)
            case FreePrompt():
                parts.own_turns.own_prompts.another(due)
            case Initializing(_, _, None):
                parts.initializer.late(due)
            case Initializing():
                parts.initializer.answer_late(due)
            case PendingRequest():
                parts.turns.grace_over(due)
            case Peer():
                self.loaded(due)
            case Limit():
                parts.own_turns.time_is_up(due)
            case None:
                pass
