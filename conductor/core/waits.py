"""Messages that wait, and deadlines. All messages go on at one place, whatever they have waited
for. The clock is outside: `Wake` asks the shell to call `Router.woken` later.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from conductor.core.effects import Wake
from conductor.core.parts import Part, Parts
from conductor.core.policy.entries import Notification, WaitingInOrder
from conductor.core.policy.states import State
from conductor.core.session import Limit, Session
from conductor.core.state import (
    Answer,
    Handshake,
    Lane,
    Next,
    Peer,
    Source,
    Visit,
    Waiting,
)

ROUND: Final = 1.0
"""Seconds that a program has to pass a message on, before messages that go past it may overtake."""

LOADING: Final = 600.0
"""Seconds that a host has to load its guests: more than compiling them may take."""


class Hold(msgspec.Struct):  # faster to make than a named tuple: each request has some
    """A component has a request, or its answer, in this state."""

    carried: Visit
    lane: Lane
    state: State
    retries: int


class Round(NamedTuple):
    """A component without rounds has some time for an entry: a notification, copies, a message that
    waits behind the component, or a prompt that waits for copies of set-ups."""

    lane: Lane
    """The lane by which the entry leaves the component."""
    entry: WaitingInOrder | Notification | list[Notification] | Visit


class FreePrompt(NamedTuple):
    """A component has spent a free prompt in a session."""

    component: str
    session: Session


class Initializing(NamedTuple):
    """A component is to take its role; with an answer, a policed proxy is to hand that back."""

    peer: Peer
    asked: Handshake | Visit
    """The handshake of a proxy; or the request by which an agent takes its role, or gets where it
    was."""
    answer: Answer | None = None


Due = Hold | Round | FreePrompt | Initializing | Limit | Visit | Peer
"""The subject of a deadline; its owner finds out whether the deadline still matters. A `Visit`:
the grace after its cancellation. A `Peer`: a host that loads its guests."""


class Deadlines:
    """The deadlines to come, by token."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._open: dict[int, Due] = {}
        self._unbegun: list[tuple[Peer, float, Due]] = []
        """Deadlines of hosts that still load their guests."""
        self._last = 0

    def held(self, peer: Peer, seconds: float, due: Due) -> None:
        """A component may hold a message for some time. A host that still loads its guests has not
        seen the message: the time starts when the guests are loaded. The host may load its guests
        for `LOADING` seconds."""
        if not peer.loading:
            self.after(seconds, due)
            return
        if all(host is not peer for host, _, _ in self._unbegun):
            self.after(LOADING, peer)
        self._unbegun.append((peer, seconds, due))

    def loaded(self, peer: Peer) -> None:
        """A host has loaded its guests."""
        peer.loading = False
        begins = [one for one in self._unbegun if one[0] is peer]
        self._unbegun = [one for one in self._unbegun if one[0] is not peer]
        for _, seconds, due in begins:
            self.after(seconds, due)

    def after(self, seconds: float, due: Due) -> None:
        """The time of `due` starts."""
        self._last += 1
        self._open[self._last] = due
        self._parts.exchange.emit(Wake(self._last, seconds))

    def round(self, lane: Lane, entry: WaitingInOrder | Notification | Visit) -> None:
        """A component that has no rounds, or none now, has the time of a round for an entry that
        leaves it by `lane`."""
        if not (lane.peer.policed.rounds and lane.peer.ready):
            self.after(ROUND, Round(lane, entry))

    def woken(self, token: int) -> None:
        """The time of a deadline is over."""
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
            case Visit():
                parts.cancellations.grace_over(due)
            case Peer():
                self.loaded(due)
            case Limit():
                parts.own_turns.queue.time_is_up(due)
            case _:
                assert due is None  # a wake of this token came earlier


class Waits(Part):
    """The part of a router that lets messages go on."""

    def release(self, lane: Lane) -> None:
        """Sends on, in order, messages behind the component at `lane` that need not wait any
        more."""
        in_flight = lane.in_flight
        if in_flight.releasing or not in_flight.waiting:
            return  # a loop that runs already sends those that become free meanwhile
        in_flight.releasing = True
        while in_flight.waiting and (waiting := in_flight.freed()) is not None:
            self.go_on(waiting)
        in_flight.releasing = False

    def ready(self, waiting: WaitingInOrder | None) -> None:
        """A message needs only its place in the order any more; None: there is no message."""
        if waiting is not None:
            assert isinstance(waiting, Waiting)
            waiting.ready = True
            self.release(waiting.lane)

    def resume(self, peer: Peer) -> None:
        """Sends on the messages that wait for a peer, in order, or puts them back."""
        for waiting in peer.take_backlog():
            self.go_on(waiting)

    def go_on(self, waiting: WaitingInOrder) -> None:
        """A message waits no longer. A request that nobody wants any more goes no further."""
        assert isinstance(waiting, Waiting)
        parts, lane, message, of = self._parts, waiting.lane, waiting.message, waiting.of
        match waiting.next, of:
            case Next.LEAVES, Source():
                parts.notifications.goes_past(lane, of, message)
            case Next.ANSWERS, Visit():
                if waiting.answer is None:
                    parts.policed.finish(of)
                else:
                    parts.policed.reply_in_order(of, *waiting.answer)
            case Next.UNCHANGED, Notification():
                parts.notifications.leave_unchanged(lane, of)
            case Next.GIVEN, (Source() as source, Notification() as notification):
                parts.notifications.send_late(lane, source, notification)
            case Next.GIVEN, Visit():
                parts.policed.send(of)
            case Next.COPY, (Visit() as copy, Visit() as original):
                parts.observers.give(lane, copy, original)
            case Next.COPY, None:
                parts.observers.notification(lane, message)
            case Next.ARRIVES, Source():
                parts.exchange.notify(lane, message.method, message.params, of)
            case Next.INITIALIZE | Next.AGAIN, Visit():
                if waiting.next is Next.INITIALIZE or of.origin is not None:
                    parts.initializer.deliver(lane, message.params, of)
            case _:
                assert isinstance(of, Visit)
                self._request_goes_on(waiting, of)

    def _request_goes_on(self, waiting: Waiting, pending: Visit) -> None:
        parts, lane, message = self._parts, waiting.lane, waiting.message
        if not pending.wanted:
            parts.exchange.drop(pending)
        elif waiting.next is Next.LEAVES:
            parts.policed.leave(lane, message, pending)
        elif waiting.next is Next.ARRIVES:
            parts.exchange.go(lane, message.method, message.params, pending)
        elif waiting.next is Next.HELD:
            parts.requests.send_on(lane, message.method, message.params, pending)
        elif waiting.next is Next.SENT:
            parts.requests.send_out(lane, message.method, message.params, pending)
        else:
            parts.policed.send_own(lane, message, pending)
