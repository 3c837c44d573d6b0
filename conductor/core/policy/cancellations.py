"""Turns and requests that are cancelled.

`session/cancel` always reaches the agent at once. A component may be holding the prompt of such a
turn: then the agent will never know of the prompt. The component hears of the cancellation and has
its grace to pass the prompt on, to answer it, or to end what it has begun. Then the asker gets the
answer of a cancelled turn, whatever the component answers, or the agent's answer if there is one.
`session/close` and `session/delete` end a session's turns too.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from conductor.core import json_text, jsonrpc
from conductor.core.dialects import CANCEL
from conductor.core.guards import Violation
from conductor.core.json_text import member_at
from conductor.core.jsonrpc import REQUEST_CANCELLED, Params
from conductor.core.parts import Part
from conductor.core.policy.checks import RIGHTS
from conductor.core.policy.headings import Heading, Message
from conductor.core.policy.key_table import (
    COPY,
    PROMPT,
    STOP,
)
from conductor.core.policy.policy_state import OwnTurn
from conductor.core.policy.states import IN_HAND, STOPPABLE, Event, State, to
from conductor.core.state import Lane, Source, Visit, Waiting

GRACE: Final = 2.0
"""Seconds that a component has for a request that was cancelled while the component held it."""

_CANCELLED: Final = (b"result", b'{"stopReason":"cancelled"}')
REFUSED: Final = (b"error", jsonrpc.error_object(REQUEST_CANCELLED, "Request cancelled"))
"""The answer to a cancelled request."""


def turn_cancelled(version: int | None) -> tuple[bytes, bytes]:
    """The answer to the prompt of a cancelled turn that the agent has not begun."""
    # In version 2 a result says that the prompt is part of the conversation.
    return REFUSED if version == 2 else _CANCELLED


class Cancellations(Part):
    """The part of a router that takes cancellations to all that have the cancelled request."""

    def stopped(self, lane: Lane, message: Message, rights: int) -> None:
        """The cancellation of a session's turns goes past the component at `lane`, which gets a
        copy if it holds that right, holds a prompt, or has a turn of its own open."""
        session = message.session
        held = self._parts.turns.held(lane.other, session, STOPPABLE)
        concerned = _seen(held) or lane.peer.policed.part(session).own is not OwnTurn.NONE
        if rights & COPY or concerned:
            self._parts.observers.notification(lane, message, must=concerned)
        self._cancelled(lane, session, held)

    def closing(self, lane: Lane, heading: Heading) -> None:
        """A request that ends a session goes past the component at `lane`."""
        session = heading.session
        held = self._parts.turns.held(lane.other, session, STOPPABLE)
        if _seen(held):
            params = Raw(json_text.encode({"sessionId": session}))
            message = Message(STOP, params, Heading(STOP, session))
            self._parts.observers.notification(lane, message, must=True)
        self._cancelled(lane, session, held)

    def _cancelled(self, lane: Lane, session: str | None, held: list[Visit]) -> None:
        """The turns of a session are cancelled. The requests of these turns that the component
        holds are answered as cancelled; it does not retry requests that it has passed on, and sends
        no prompts of its own within these turns."""
        answer, in_flight = turn_cancelled(self._exchange.version), lane.other.in_flight
        for carried in held:
            self.stop(carried, answer)
        if session is not None:
            for carried in in_flight.prompts(session):
                carried.flow.whole.stopped = True
        # The cancellation overtakes a prompt that goes past the component and waits in order.
        prompt = Heading(PROMPT, session)
        waits = [*in_flight.queue] if session in in_flight.waiting else []
        for entry in waits:
            of = entry.of if isinstance(entry, Waiting) else None
            if isinstance(of, Visit) and entry.heading == prompt:
                self._exchange.reply(of, *answer)

    def cancel_request(self, lane: Lane, params: Params) -> None:
        """`$/cancel_request`, which names the request by its id on this hop. A request that the
        conductor itself holds is answered at once."""
        raw = member_at(params, "requestId")
        key = jsonrpc.canonical_id(raw) if raw is not None else None
        pending = lane.requests.received.get(key) if key is not None else None
        if pending is not None and self._may_cancel(pending):
            self.cancel(pending, Source(lane, self._exchange.number))
            self._parts.held.cancelled(pending)
            self._parts.own_turns.cancelled(pending)

    def _may_cancel(self, pending: Visit) -> bool:
        """Whether a component may cancel a request that it has sent: its own, or one that it has
        passed on and whose asker has cancelled it."""
        carried = pending.given
        if carried is None or carried.cancelled or carried.origin is None:
            return True
        if carried.excused is None:
            lane, heading = carried.lane.other, Heading(CANCEL, carried.heading.session)
            text = f"may not cancel `{carried.method}` that it has passed on"
            self._parts.checks.report(lane, heading, Violation(RIGHTS, text))
        return False

    def cancel(self, pending: Visit, source: Source | None = None) -> None:
        """A request is cancelled: all that have it, or a copy of it, hear of the cancellation,
        once. If the request waits, the cancellation goes on with it (`Exchange.send`).

        Args:
            source: who cancels it; None: the conductor.
        """
        if pending.cancelled:
            return
        self._exchange.cancel_hop(pending, source)
        enforced = pending.state is not State.CLOSED and pending.policy_state.enforced
        if enforced and pending.state in STOPPABLE:
            self.stop(pending, REFUSED)
        for copy in pending.copies:
            self.cancel(copy, source)
        # The cancellation reaches the peer that has the request now, whatever the component does.
        if enforced and pending.state is State.PASSED:
            assert pending.forwarded is not None
            self.cancel(pending.forwarded, source)

    def passed_on(self, carried: Visit, pending: Visit) -> None:
        """A component passes a request on by `pending`. A request that was cancelled before the
        component got it goes on as cancelled."""
        if carried.cancelled and carried.policy_state.enforced:
            self.cancel(pending, carried.cancelled_by)

    def given(self, pending: Visit) -> None:
        """A request goes out that was cancelled before: a component that is to have it has its
        grace."""
        if pending.state is State.GIVEN and pending.policy_state.enforced:
            self._parts.deadlines.after(GRACE, pending)

    def stop(self, carried: Visit, answer: tuple[bytes, bytes]) -> None:
        """A request that a component has is cancelled. The component gets this answer, or the
        answer that has come back already."""
        before, after = carried.state, to(carried.state, Event.CANCELLED)
        assert after is not None
        if before is not State.RETURNED:
            carried.upstream = answer
        if after is State.CLOSED:
            self.end(carried)
        else:
            carried.moves(Event.CANCELLED)
            in_flight = carried.lane.other.in_flight
            in_flight.unpassed[carried] = None
            in_flight.leave(carried)
            self._parts.deadlines.after(GRACE, carried)

    def grace_over(self, carried: Visit) -> None:
        """The time of a component for a request that was cancelled is over."""
        if carried.state is State.GIVEN and carried.cancelled:  # before the component got it
            carried.upstream = REFUSED
            carried.moves(Event.CANCELLED)
        if to(carried.state, Event.GRACE_OVER) is not None:
            self.end(carried)

    def end(self, carried: Visit) -> None:
        """A cancelled request is answered; the component has no say about it any more."""
        assert carried.upstream is not None
        carried.answer_number = 0
        self._parts.policed.over(carried, *carried.upstream)


def _seen(held: list[Visit]) -> bool:
    """Whether a component has been given one of these requests."""
    return any(carried.state in IN_HAND for carried in held)
