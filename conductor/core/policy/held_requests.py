"""Requests that components carry: their answers, and how each of them ends.

An answer goes to the component that passed the request on: to amend, or as a copy while the answer
goes past. A request that a component fails with goes on without it, unchanged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from msgspec import UNSET, Raw

from conductor.core.guards import Violation
from conductor.core.jsonrpc import INTERNAL_ERROR, error_object, read_error
from conductor.core.parts import Part
from conductor.core.policy import changes
from conductor.core.policy.cancellations import GRACE
from conductor.core.policy.checks import HOLD, IDENTITY, RIGHTS, error, lacks, same_answer
from conductor.core.policy.entries import Excuse
from conductor.core.policy.headings import Heading, Message
from conductor.core.policy.key_table import (
    AMEND,
    LIST,
    PLACE,
    PROMPT,
    SETTINGS,
    SETUP,
    Direction,
)
from conductor.core.policy.own_answers import ending, plain, signed, unsigned
from conductor.core.policy.sessions import FOLLOWED
from conductor.core.policy.states import Event, State
from conductor.core.state import Lane, Next, Renamed, Visit, Waiting, unread
from conductor.core.waits import Hold

HOLD_SETUP: Final = 60.0
"""Seconds that a component may hold a session's set-up, a setting or a list, or the answer."""

_BOUNDED: Final = frozenset({*SETUP, *SETTINGS, LIST, "session/status"})


class HeldRequests(Part, ABC):
    """The requests that components hold; `PolicedRequests` adds how these come, and how they
    leave."""

    @abstractmethod
    def route(self, lane: Lane, message: Message, pending: Visit) -> None:
        """Routes a request on from `lane` to the first component that carries it."""

    # -- answers ---------------------------------------------------------------------------------

    def came_back(
        self, carried: Visit, pending: Visit, member: bytes, body: bytes, frame: bytes
    ) -> None:
        """The answer to a request that a component passed on is delivered to the component, as
        `frame`: to amend, or as a copy."""
        carried.upstream = (member, body)
        if carried.state is not State.PASSED or carried.forwarded is not pending:
            return
        lane = carried.lane
        if lane.peer.returns and pending.raw_id == carried.target_id:
            carried.frame, lane.in_flight.shown = frame, carried
        if not carried.rights & AMEND:
            self._reply_past(carried)
            return
        policy_state = carried.policy_state
        carried.moves(Event.CAME_BACK)
        carried.round, carried.order = policy_state.round, 0
        # Programs have no rounds, and an array's answer may be long in coming: messages that wait
        # for these might wait for ever.
        if policy_state.rounds and pending.batch is None and policy_state.enforced:
            carried.order = lane.in_flight.comes()
            lane.in_flight.queue.append(carried)
        self._limit(carried)

    def _reply_past(self, carried: Visit) -> None:
        """An answer goes past the component that passed its request on, in order."""
        lane, place = carried.lane, Heading("", carried.heading.session)
        # An array is written once all its answers are there: nothing may wait for a round with it.
        whole = carried.forwarded is not None and carried.forwarded.batch is not None
        placed = bool(carried.rights & PLACE) and lane.direction is Direction.UP and not whole
        if not placed and not lane.in_flight.must_wait(place):
            changes.went_past(self._exchange, lane, place.session)
            self.finish(carried)
            return
        carried.held = Waiting(Next.ANSWERS, lane, carried, heading=place, ready=not placed)
        self._parts.notifications.defer(carried.held)

    def reply_in_order(self, pending: Visit, member: bytes, body: bytes) -> None:
        """Answers a request in order. The answer waits for messages that the components which it
        goes past were given before; or for their round with their copy, where its place among texts
        means something."""
        while pending.bypassed:
            lane, heading, copy = pending.bypassed[-1]
            # Taken off before anything waits: then it goes on at the components further out.
            pending.bypassed = pending.bypassed[:-1]
            if lane.peer.closure is not None:
                continue
            placed = self._placed_copy(lane, heading, copy)
            place = Heading("", heading.session)
            if placed is None and not lane.in_flight.must_wait(place):
                changes.went_past(self._exchange, lane, heading.session)
                continue
            held = Waiting(Next.ANSWERS, lane, pending, answer=(member, body), heading=place)
            if placed is not None:
                held.ready = False
                self._parts.observers.answered(placed, member, body)
                placed.held = held
            self._parts.notifications.defer(held)
            return
        self._exchange.reply(pending, member, body)

    @staticmethod
    def _placed_copy(lane: Lane, heading: Heading, copy: Visit | None) -> Visit | None:
        """The copy, if a component must have had its round with the copy's answer; else None."""
        placed = (
            copy is not None
            and any(request.origin is not None for request in copy.passed_on_by)
            and all(request.batch is None for request in copy.passed_on_by)
            and lane.direction is Direction.UP
            and bool(lane.rights_on(heading) & PLACE)
        )
        return copy if placed else None

    def finish(self, carried: Visit) -> None:
        """Answers a request with the answer that came back from behind the component."""
        assert carried.upstream is not None
        if carried.state is State.CLOSED:
            return
        forwarded = carried.forwarded
        carried.answer_number = forwarded.answer_number if forwarded is not None else 0
        if carried.traced is not None:
            carried.traced.past = True
        self.over(carried, *carried.upstream)

    def answered(self, carried: Visit, member: bytes, body: bytes) -> None:
        """A component answers a request that it was given."""
        policy_state = carried.policy_state
        waited_for = carried.state is State.PASSED and carried.held is not None
        excused = carried.excused is not None and member == b"error" and not waited_for
        # The host of a failed guest answers in its place: no violation, and nothing to check.
        if excused and policy_state.enforced:
            ends = carried.state is State.GIVEN and carried.excused is Excuse.ENDS
            if ends or not self.lost(carried):
                self._fail(carried, plain(carried.lane.peer, body))
            return
        match carried.state:
            case State.GIVEN | State.RETURNED:
                self._answer_held(carried, member, body)
            case State.PASSED if carried.held is not None:  # the answer has waited for just this
                self.answered_past(carried, member, body)
                self._parts.waits.ready(carried.held)
            case State.PASSED if policy_state.enforced:
                text = f"answered `{carried.method}` that it had passed on, too early"
                self._report(carried, Violation(IDENTITY, text))
                carried.rights &= ~(AMEND | PLACE)  # it has no say any more, nor a round for one
            case State.PASSED:
                changes.answer(self._exchange, carried, member, body)
                self.over(carried, member, body)
            case _:
                self._parts.cancellations.end(carried)

    def _answer_held(self, carried: Visit, member: bytes, body: bytes) -> None:
        """A component answers a request that it holds, before or after the agent has answered."""
        lane, said = carried.lane, body
        body = unsigned(carried, member, said)
        violation = self._parts.checks.answers(carried, member, body)
        if violation is None and self._samples_too_often(carried, member, body):
            return
        if violation is None:
            if carried.upstream is not None and carried.policy_state.policy.watched:
                member, body = carried.upstream  # the same in another spelling
            elif carried.upstream != (member, body):
                body = ending(carried, self._exchange.version, member, body)
                body = signed(carried, member, body, said)
            self.hands_back(carried, member, body)
            return
        if violation.guard == RIGHTS and _is_failure(member, body):
            closed = self._fails_closed(carried)
            what = "who asked gets the error" if closed else "its message goes on as it came"
            self._failed(carried, what)
            self._give_up(carried, plain(lane.peer, body))
            return
        self._report(carried, violation)
        self._give_up(carried, error(lane.peer, violation))

    def hands_back(self, carried: Visit, member: bytes, body: bytes) -> None:
        """A component's answer goes on."""
        if carried.method in FOLLOWED:
            self._learn(carried, member, body)
        if self._exchange.audited:
            changes.answer(self._exchange, carried, member, body)
        if carried.traced is not None and carried.forwarded is not None:
            carried.traced.answers = carried.forwarded.answer_number
        if carried.lane.in_flight.queue:
            self._parts.notifications.leaves(carried.lane, carried)
        self.over(carried, member, body)

    def _samples_too_often(self, carried: Visit, member: bytes, body: bytes) -> bool:
        """Whether an answer asks the agent's model once too often; then that is the answer."""
        if type(carried.heading.detail) is not tuple or carried.upstream == (member, body):
            return False
        own_prompts = self._parts.own_turns.own_prompts
        wrong = own_prompts.samples(carried.lane, Raw(body), carried, here=True)
        if wrong is not None:
            self._fail(carried, error_object(wrong.code, wrong.text, wrong.data))
        return wrong is not None

    def _report(self, carried: Visit, violation: Violation) -> None:
        self._parts.checks.report(carried.lane.other, carried.heading, violation)

    @staticmethod
    def _fails_closed(carried: Visit) -> bool:
        """Whether a request that its component loses is answered with an error: the component
        fails closed, or nobody else can answer it."""
        peer, detail = carried.lane.peer, carried.heading.detail
        its_server = type(detail) is tuple and peer.policed.owns(detail)
        open_ = carried.state is State.RETURNED
        return not open_ and (its_server or peer.policed.policy.fails == "closed")

    def _give_up(self, carried: Visit, why: bytes) -> None:
        """A component loses a request by a violation, or since it failed.

        Its answer is the one that came back. A request that was not passed on goes on unchanged; if
        the component fails closed, or nobody else can answer it, its answer is the error `why`.
        """
        if carried.state is State.RETURNED:
            self.finish(carried)
        elif self._fails_closed(carried):
            self._fail(carried, why)
        else:
            self._continue_without(carried)

    def _learn(self, carried: Visit, member: bytes, body: bytes) -> None:
        """Remembers the facts about sessions in an answer that goes on."""
        policy_state = carried.policy_state
        if member != b"result" or not policy_state.enforced:
            return
        sessions = self._exchange.sessions
        if carried.upstream is None and carried.method in SETUP:
            sessions.set_up(carried.method, carried.params, body, policy_state.name)
        if policy_state.policy.grants.options:
            sessions.added(policy_state.name, body, carried.heading.session)

    def answered_past(self, carried: Visit, member: bytes, body: bytes) -> None:
        """A component answers a request after the answer has gone past it: its own answer is not
        sent. If the two differ, the component lacks a right; unless it has failed, say since it
        could not take its copy."""
        upstream = carried.upstream
        excused = carried.excused is not None and member == b"error"
        if upstream is None or excused or same_answer(upstream, member, body):
            return
        if _is_failure(member, body):
            self._failed(carried, "the answer has gone past it")
            return
        direction, key = carried.lane.other.direction, carried.heading.key
        self._report(carried, lacks(carried.policy_state, AMEND, direction, key))

    def _failed(self, carried: Visit, what: str) -> None:
        """A component breaks no rule: it has failed, and says so where it can do nothing else."""
        text = f"it failed at `{carried.method}`; {what}"
        self._exchange.log("warning", carried.lane.peer, text)

    def answered_elsewhere(self, carried: Visit) -> None:
        """A request has its answer, from any side: nothing waits for the component any more."""
        self._close(carried)
        self._release(carried.lane)

    # -- the end of a carried request --------------------------------------------------------------

    def _close(self, carried: Visit, *, goes_on: bool = False) -> None:
        """The component does not hold a request any more. For a while its messages about the
        request are still recognised, by the id; the params, perhaps megabytes, are not kept.
        `goes_on`: others get the request, and messages of the component are no part of it."""
        passed, lane, id_ = carried.state is State.PASSED, carried.lane, carried.target_id
        frame = carried.frame
        carried.closes()
        carried.params = UNSET
        lane.other.in_flight.close(carried)
        if lane.in_flight.queue:
            lane.in_flight.leave(carried)
        left, unanswered = carried, lane.requests.sent.get(id_) is carried
        if unanswered or goes_on:
            left = unread(carried.method)
            left.stands_for(carried, passed=passed)
            if passed and lane.in_flight.shown is carried:
                left.frame, lane.in_flight.shown = frame, left
        if unanswered:
            # The component may still answer: under this id that is no error.
            lane.requests.ignore(id_, left)
        lane.other.in_flight.keep(id_, carried, left)

    def over(self, carried: Visit, member: bytes, body: bytes) -> None:
        """Answers a request in order, and sends on messages that have waited for it."""
        # Closed before its answer: else `Exchange.reply` would close it (`answered_elsewhere`).
        self._close(carried)
        # The answer goes before the messages that have waited for it.
        if carried.bypassed:
            self.reply_in_order(carried, member, body)
        else:
            self._exchange.reply(carried, member, body)
        self._release(carried.lane)

    def _release(self, lane: Lane) -> None:
        """Sends on messages that have waited for a request of the component at `lane`."""
        for side in (lane.other, lane):
            if side.in_flight.waiting:
                self._parts.waits.release(side)

    def _continue_without(self, carried: Visit) -> None:
        """A request goes on unchanged, past the component that has lost it."""
        lane, message = carried.lane, carried.message
        self._close(carried, goes_on=True)
        if carried.method == PROMPT:
            self._parts.turns.prompt_passed(lane.peer.policed, carried.heading.session, carried)
        carried.target = None
        carried.bypassed = (*carried.bypassed, (lane, carried.heading, None))
        self._parts.waits.go_on(Waiting(Next.LEAVES, lane.other, carried, message))
        self._release(lane)

    def _fail(self, carried: Visit, failure: bytes) -> None:
        carried.answer_number = 0
        self.over(carried, b"error", failure)

    def _limit(self, carried: Visit) -> None:
        """Has a component lose a request that it holds for too long."""
        seconds = _longest(carried)
        if seconds is not None and carried.policy_state.enforced:
            due = Hold(carried, carried.lane, carried.state, carried.retries)
            self._parts.deadlines.held(carried.lane.peer, seconds, due)

    def held_too_long(self, hold: Hold) -> None:
        """A component has had the time that it may hold a request, or its answer."""
        carried = hold.carried
        if hold == Hold(carried, carried.lane, carried.state, carried.retries):
            text = f"held `{carried.method}` for more than {_longest(carried):g} s"
            self._report(carried, violation := Violation(HOLD, text))
            self._give_up(carried, error(carried.lane.peer, violation))

    # -- components that are gone, frames that are not taken --------------------------------------

    @staticmethod
    def answer_lost(lane: Lane, key: bytes) -> None:
        """A component cannot take the answer to the request that it has sent under this id. If it
        has passed a request on by that one, its error for the asker is not its own."""
        handshake = lane.peer.handshake
        onward = handshake.onward if handshake is not None else None
        if handshake is not None and onward is not None and onward.key == key:
            handshake.answer_goes_past = True
        for at in (lane, lane.other):
            for carried in at.in_flight.requests.values():
                if carried.forwarded is not None and carried.forwarded.key == key:
                    carried.excused = Excuse.GOES_ON

    def lost(self, carried: Visit) -> bool:
        """The component is gone, or cannot take the request. Returns whether the request goes on
        without the component, or has its answer now."""
        policy_state = carried.policy_state
        if not policy_state.enforced:
            return False
        match carried.state:
            case State.PASSED:
                carried.rights &= ~(AMEND | PLACE)  # its answer goes past
            case State.RETURNED:
                self.finish(carried)
            case State.STOPPED:
                self._parts.cancellations.end(carried)
            case _:
                if policy_state.policy.fails == "closed":
                    return False
                self._continue_without(carried)
        return True

    def leave(self, lane: Lane, message: Message, pending: Visit) -> None:
        """A request leaves a peer by `lane`."""
        assert lane.across is not None
        if pending.names is None:
            pending.names = message.session
        if lane.renames is not None:
            message = crossing(lane, message, pending)
        self.route(lane.across, message, pending)


def crossing(lane: Lane, message: Message, pending: Visit) -> Message:
    """A request as it leaves a peer by `lane`; its answer gets back the ids of the request now."""
    ids, across = lane.renames, lane.across
    assert ids is not None
    assert across is not None
    back = across.renames
    assert back is not None
    pending.rewriters = (*pending.rewriters, Renamed(back, lane))
    return message.renamed(ids)


def _longest(carried: Visit) -> float | None:
    """Seconds that a component may hold a request, or the answer to one; None: any time."""
    if carried.state is State.RETURNED and (carried.cancelled or carried.flow.whole.stopped):
        return GRACE  # it was cancelled after the component had passed it on
    if carried.policy_state.policy.watched:
        return HOLD_SETUP  # who is only watched is in nobody's way for long
    if carried.method == PROMPT:
        return carried.policy_state.policy.hold
    return HOLD_SETUP if carried.method in _BOUNDED else None


def _is_failure(member: bytes, body: bytes) -> bool:
    """Whether an answer says that its sender has failed, as the error of a handler does."""
    return member == b"error" and read_error(body).code == INTERNAL_ERROR
