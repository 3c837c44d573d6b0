"""What comes back for requests that components carry, and how it is over with each of them.

An answer goes to the component that passed the request on: to amend, or as a copy while it goes
past. A request that a component fails with goes on without it, as it was given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Final

from conductor.core.effects import Effect
from conductor.core.guards import Violation
from conductor.core.jsonrpc import Params
from conductor.core.policy import changes
from conductor.core.policy.checks import HOLD, IDENTITY, Checks, equal, error, lacks
from conductor.core.policy.deadlines import Deadlines
from conductor.core.policy.headings import Heading
from conductor.core.policy.key_table import AMEND, PROMPT, SETTINGS, SETUP, Direction
from conductor.core.policy.notifications import PolicedNotifications
from conductor.core.policy.observers import Observers, release
from conductor.core.policy.ordering import Excuse, Held
from conductor.core.policy.policy_state import PLACE
from conductor.core.policy.sessions import FOLLOWED
from conductor.core.policy.states import State
from conductor.core.policy.turns import Turns
from conductor.core.state import AnswerTo, Carried, PendingRequest, unread

if TYPE_CHECKING:
    from conductor.core.exchange import Exchange
    from conductor.core.policy.ownership import McpOwnership
    from conductor.core.policy.policy_state import PolicyState
    from conductor.core.state import Lane

HOLD_SETUP: Final = 60.0
"""Seconds that a component may hold a session's set-up, a setting or a list, or the answer."""

_BOUNDED: Final = frozenset({*SETUP, *SETTINGS, "session/list", "session/status"})
_MOST_CLOSED: Final = 256


class HeldRequests(ABC):
    """The half of `conductor.core.policy.requests` that begins when a component has a request."""

    def __init__(
        self,
        exchange: Exchange,
        checks: Checks,
        copies: Observers,
        mcp_ownership: McpOwnership,
        turns: Turns,
        deadlines: Deadlines,
        notifications: PolicedNotifications,
    ) -> None:
        self._exchange = exchange
        self._checks = checks
        self._observers = copies
        self._mcp_ownership = mcp_ownership
        self._turns = turns
        self._deadlines = deadlines
        self._notifications = notifications

    @abstractmethod
    def walk(
        self,
        lane: Lane,
        method: str,
        params: Params,
        found: Heading,
        pending: PendingRequest,
        out: list[Effect],
    ) -> None:
        """Walks a request on from `lane` until somebody carries it."""

    # -- answers ---------------------------------------------------------------------------------

    def _came_back(
        self,
        carried: Carried,
        pending: PendingRequest,
        member: bytes,
        body: bytes,
        out: list[Effect],
    ) -> None:
        """The answer to what a component passed on has come, and the component has got it: to
        amend, or as a copy."""
        carried.upstream = (member, body)
        carried.pending.followers = tuple(
            one for one in carried.pending.followers if one is not pending
        )
        if carried.state is not State.PASSED or carried.forwarded is not pending:
            return
        if not carried.rights & AMEND:
            self._reply_past(carried, out)
            return
        policy_state = carried.lane.peer.policy_state
        assert policy_state is not None
        carried.state, carried.round = State.RETURNED, policy_state.round
        carried.order = 0
        # Programs have no rounds, and an array's answer may be long in coming: what waits for these
        # might wait for ever.
        if policy_state.rounds and pending.batch is None and policy_state.enforced:
            carried.order = carried.lane.in_flight.comes()
            carried.lane.in_flight.queue.append(carried)
        self._limit(carried, out)

    def _reply_past(self, carried: Carried, out: list[Effect]) -> None:
        """An answer goes past the component that passed its request on: in its order."""
        in_flight, found = carried.lane.in_flight, Heading("", carried.heading.session)
        policy_state = carried.lane.peer.policy_state
        assert policy_state is not None
        # An array is written once all its answers are there: nothing may wait for a round with it.
        whole = carried.forwarded is not None and carried.forwarded.batch is not None
        up = carried.lane.direction is Direction.UP
        placed = bool(carried.rights & PLACE) and up and not whole
        if not placed and not in_flight.must_wait(found):
            changes.went_past(self._exchange, carried.lane, found.session)
            self._finish(carried, out)
            return
        held = Held(found, partial(self._finish, carried), policy_state.round, ready=not placed)
        carried.held = held
        in_flight.hold(held)
        self._deadlines.round(
            carried.lane.peer, partial(self._notifications.waited, carried.lane, held), out
        )

    def reply_in_order(
        self, pending: PendingRequest, member: bytes, body: bytes, out: list[Effect]
    ) -> None:
        """Answers a request. An answer that goes past components keeps its order: it waits for what
        they were given before, and where its place means something for their round with their copy
        of it."""
        while pending.bypassed:
            lane, found, copy = pending.bypassed[-1]
            pending.bypassed = pending.bypassed[:-1]
            policy_state, in_flight = lane.peer.policy_state, lane.in_flight
            assert policy_state is not None
            if lane.peer.closure is not None:
                continue
            placed = (
                copy is not None
                and any(one.origin is not None for one in copy.forwarded)
                and all(one.batch is None for one in copy.forwarded)
                and lane.direction is Direction.UP
                and bool(lane.rights_on(found) & PLACE)
            )
            place = Heading("", found.session)
            if not placed and not in_flight.must_wait(place):
                changes.went_past(self._exchange, lane, found.session)
                continue
            if placed and copy is not None:
                self._observers.answered(copy, member, body, out)
            resume = partial(self.reply_in_order, pending, member, body)
            held = Held(place, resume, policy_state.round, ready=not placed)
            if placed and copy is not None:
                copy.held = held
            in_flight.hold(held)
            self._deadlines.round(lane.peer, partial(self._notifications.waited, lane, held), out)
            return
        self._exchange.reply(pending, member, body, out)

    def _finish(self, carried: Carried, out: list[Effect]) -> None:
        """Answers a request as those after the component did."""
        assert carried.upstream is not None
        if carried.state is State.CLOSED:
            return
        pending, forwarded = carried.pending, carried.forwarded
        pending.answer_number = forwarded.answer_number if forwarded is not None else 0
        if pending.traced is not None:
            pending.traced.past = True
        self.over(carried, *carried.upstream, out)

    def answered(
        self,
        carried: Carried,
        pending: PendingRequest,
        member: bytes,
        body: bytes,
        out: list[Effect],
    ) -> None:
        """A component answers a request that it was given."""
        lane, policy_state = carried.lane, carried.lane.peer.policy_state
        direction = lane.other.direction
        assert policy_state is not None
        if carried.excused is not None and member == b"error" and policy_state.enforced:
            ends = carried.state is State.GIVEN and carried.excused is Excuse.ENDS
            if ends or not self.lost(carried, out):
                self._fail(carried, body, out)
            return
        match carried.state:
            case State.GIVEN | State.RETURNED:
                wrong = self._checks.answers(policy_state, carried, direction, member, body)
                if wrong is None:
                    self._noted(policy_state, carried, member, body)
                    changes.answer(self._exchange, carried, member, body, out)
                    if pending.traced is not None and carried.forwarded is not None:
                        pending.traced.answers = carried.forwarded.answer_number
                    self._notifications.leaves(lane, carried, out)
                    self.over(carried, member, body, out)
                    return
                self._checks.report(lane.peer, direction, carried.heading.key, wrong, out)
                if carried.state is State.RETURNED:
                    self._finish(carried, out)
                else:
                    self._without(carried, error(lane.peer, wrong), out)
            case State.PASSED:
                if carried.held is not None:  # the answer waits for just this
                    self.answered_past(carried, pending, member, body, out)
                    carried.held.ready = True
                    release(lane, out)
                    return
                wrong = Violation(
                    IDENTITY, f"answered `{carried.method}` that it had passed on, too early"
                )
                if policy_state.enforced:
                    self._checks.report(lane.peer, direction, carried.heading.key, wrong, out)
                    carried.rights &= ~AMEND
                else:
                    changes.answer(self._exchange, carried, member, body, out)
                    self.over(carried, member, body, out)
            case _:
                self._turns.end(carried, out)

    def _noted(
        self, policy_state: PolicyState, carried: Carried, member: bytes, body: bytes
    ) -> None:
        """Takes note of what an answer that goes on says of sessions."""
        if member != b"result" or carried.method not in FOLLOWED or not policy_state.enforced:
            return
        sessions = self._exchange.sessions
        if carried.upstream is None and carried.method in SETUP:
            sessions.set_up(carried.method, carried.params, body, policy_state.name)
        if policy_state.policy.grants.modes:
            sessions.added(policy_state.name, body, carried.heading.session)

    def answered_past(
        self,
        carried: Carried,
        pending: PendingRequest,
        member: bytes,
        body: bytes,
        out: list[Effect],
    ) -> None:
        """A component answers what has been answered past it: that is not sent, and if it says
        something else the component lacks a right."""
        upstream, lane = carried.upstream, carried.lane
        excused = carried.excused is not None and member == b"error"
        if upstream is None or excused or (upstream[0] == member and equal(upstream[1], body)):
            return
        direction = lane.other.direction
        wrong = lacks(AMEND, direction, carried.heading.key)
        self._checks.report(lane.peer, direction, carried.heading.key, wrong, out)

    def _answered_elsewhere(
        self, carried: Carried, member: bytes, body: bytes, out: list[Effect]
    ) -> None:
        """A request has its answer, from anybody: nothing waits for the component any more."""
        if carried.state is not State.CLOSED:
            self._close(carried)
            self._release(carried, out)

    # -- it is over with what a component was given ----------------------------------------------

    def _close(self, carried: Carried) -> None:
        """A request is not the component's any more; what it still says about it is known for what
        it is, for a while."""
        before, carried.state = carried.state, State.CLOSED
        carried.pending.carried = None
        lane = carried.lane
        lane.other.in_flight.leave(carried)
        lane.in_flight.leave(carried)
        if carried in lane.other.in_flight.queued:
            lane.other.in_flight.queued.remove(carried)
        if lane.requests.sent.get(carried.id) is carried.pending:
            leftover = unread(carried.method)
            if before is State.PASSED and carried.forwarded is not None:
                leftover.answer_to, leftover.subject = AnswerTo.CARRIED_BEFORE, carried
            leftover.target, leftover.target_id = lane, carried.id
            lane.requests.ignore(carried.id, leftover)
        self._forget(lane.other, carried)

    def over(self, carried: Carried, member: bytes, body: bytes, out: list[Effect]) -> None:
        """A request is answered, once those it went past before have no earlier word; and then goes
        what has waited for it."""
        self._close(carried)
        carried.pending.answer_to, carried.pending.subject = AnswerTo.ASKER, None
        self.reply_in_order(carried.pending, member, body, out)
        self._release(carried, out)

    @staticmethod
    def _release(carried: Carried, out: list[Effect]) -> None:
        """Sends on what has waited for a request, once that has gone on or is answered."""
        release(carried.lane.other, out)
        release(carried.lane, out)

    @staticmethod
    def _forget(lane: Lane, carried: Carried) -> None:
        """Forgets the oldest closed requests, once there are too many."""
        requests = lane.in_flight.requests
        if requests.get(carried.id) is carried:
            # To the end: so the oldest closed ones are met first.
            del requests[carried.id]
            requests[carried.id] = carried
        if len(requests) > 2 * _MOST_CLOSED:
            closed = [id_ for id_, one in requests.items() if one.state is State.CLOSED]
            for id_ in closed[:-_MOST_CLOSED]:
                del requests[id_]

    def _without(self, carried: Carried, failure: bytes, out: list[Effect]) -> None:
        """A component has failed with a request it was given: that goes on as it was given, or if
        it fails closed is answered with the failure."""
        policy_state = carried.lane.peer.policy_state
        assert policy_state is not None
        if policy_state.policy.fails == "closed":
            self._fail(carried, failure, out)
        else:
            self._goes_past(carried, out)

    def _goes_past(self, carried: Carried, out: list[Effect]) -> None:
        lane, pending = carried.lane, carried.pending
        self._close(carried)
        if carried.method == PROMPT:
            assert lane.peer.policy_state is not None
            self._turns.another(lane.peer.policy_state, carried.heading.session, pending)
        pending.answer_to, pending.subject, pending.target = AnswerTo.ASKER, None, None
        pending.bypassed = (*pending.bypassed, (lane, carried.heading, None))
        self._past(lane.other, carried.method, carried.params, carried.heading, pending, out)
        self._release(carried, out)

    def _fail(self, carried: Carried, failure: bytes, out: list[Effect]) -> None:
        carried.pending.answer_number = 0
        self.over(carried, b"error", failure, out)

    def _limit(self, carried: Carried, out: list[Effect]) -> None:
        """Has a component lose a request that it holds for too long."""
        policy_state = carried.lane.peer.policy_state
        assert policy_state is not None
        seconds = HOLD_SETUP if carried.method in _BOUNDED else None
        if carried.method == PROMPT:
            seconds = policy_state.policy.hold
        if seconds is not None and policy_state.enforced:
            unforwarded = partial(
                self._held_too_long, carried, carried.state, carried.retries, seconds
            )
            self._deadlines.after(seconds, unforwarded, out)

    def _held_too_long(
        self, carried: Carried, state: State, retries: int, seconds: float, out: list[Effect]
    ) -> None:
        if carried.state is not state or carried.retries != retries:
            return
        lane = carried.lane
        wrong = Violation(HOLD, f"held `{carried.method}` for more than {seconds:g} s")
        self._checks.report(lane.peer, lane.other.direction, carried.heading.key, wrong, out)
        if state is State.RETURNED:
            self._finish(carried, out)
        else:
            self._without(carried, error(lane.peer, wrong), out)

    # -- components that are gone, frames that are not taken --------------------------------------

    def lost(self, carried: Carried, out: list[Effect]) -> bool:
        """The component is gone, or cannot take the request. Whether that goes on all the same, or
        has its answer now."""
        policy_state = carried.lane.peer.policy_state
        assert policy_state is not None
        if not policy_state.enforced:
            return False
        match carried.state:
            case State.PASSED:
                carried.rights &= ~(AMEND | PLACE)  # its answer goes past
            case State.RETURNED:
                self._finish(carried, out)
            case State.STOPPED:
                self._turns.end(carried, out)
            case _:
                if policy_state.policy.fails == "closed":
                    return False
                self._goes_past(carried, out)
        return True

    def _past(
        self,
        onward: Lane,
        method: str,
        params: Params,
        found: Heading,
        pending: PendingRequest,
        out: list[Effect],
    ) -> None:
        assert onward.across is not None
        if pending.wanted:  # else: who asked is gone, or has been answered
            self.walk(onward.across, method, params, found, pending, out)
