"""Requests where policies are: who carries them, passes them on, answers, and sends their own."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from conductor.core.dialects import CANCEL
from conductor.core.effects import Effect
from conductor.core.guards import Violation
from conductor.core.guards.commands import asks_for_one
from conductor.core.jsonrpc import Params
from conductor.core.policy import changes
from conductor.core.policy.checks import IDENTITY, RIGHTS, equal, error, lacks
from conductor.core.policy.headings import Heading, heading
from conductor.core.policy.held_requests import HeldRequests
from conductor.core.policy.key_table import ANSWER, CARRY, CLOSING, COPY, PROMPT, Direction
from conductor.core.policy.observers import release
from conductor.core.policy.ordering import Held, meant
from conductor.core.policy.policy_state import PLACE, PolicyState
from conductor.core.policy.sessions import ENTERING, FOLLOWED
from conductor.core.policy.states import MOST_RETRIES, Event, State, to
from conductor.core.policy.turns import TURNS
from conductor.core.state import AnswerTo, Carried, Copied, PendingRequest

if TYPE_CHECKING:
    from conductor.core.state import Lane

_ID_RULE: Final = (
    "a request is passed on under the id it came with ({}); any other id is a request of its own"
)
_HELD: Final = (State.GIVEN, State.STOPPED)


class PolicedRequests(HeldRequests):
    """The part of an enforcer that handles requests."""

    # -- a request leaves a peer -----------------------------------------------------------------

    def ask(
        self, lane: Lane, method: str, params: Params, pending: PendingRequest, out: list[Effect]
    ) -> None:
        """A request leaves `lane`; `pending` is what its answer will belong to."""
        policy_state = lane.peer.policy_state
        assert lane.across is not None
        if policy_state is None:
            self.walk(lane.across, method, params, heading(method, params), pending, out)
            return
        carried = self._passed_on(lane, method, params, pending)
        if carried is not None:
            self._goes_on(carried, params, pending, out)
            return
        found = heading(method, params)
        copy = self._observers.take(lane, method, params, found, pending)
        if copy is not None:
            if not equal(copy.params, params):
                wrong = lacks(CARRY, lane.direction, copy.heading.key)
                self._checks.report(lane.peer, lane.direction, copy.heading.key, wrong, out)
            pending.traced = None  # what goes on is the original
            self._observers.passed_on(copy, pending, out)
            if copy.held is not None:
                copy.held.ready = True
                release(lane, out)
            return
        self._own(lane, method, params, found, pending, out)

    def _passed_on(
        self, lane: Lane, method: str, params: Params, pending: PendingRequest
    ) -> Carried | None:
        """What a component's request passes on, by its id; of programs whose library chooses ids
        by fixed rules: equal params, else the oldest open one alike in key, session and address."""
        in_flight, policy_state = lane.in_flight, lane.peer.policy_state
        assert policy_state is not None
        if not in_flight.requests:
            return None
        if lane.peer.sideband or policy_state.policy.ids == "kept":
            found = in_flight.requests.get(pending.key)
            if found is None or found.method != method:
                return None
            # Who is trusted may use an id again for whatever it likes.
            again = to(found.state, Event.PASSED_ON) is not None and found.retries < MOST_RETRIES
            return found if policy_state.enforced or again else None
        return meant(
            [one for one in in_flight.requests.values() if one.state in _HELD], method, params
        )

    def _goes_on(
        self, carried: Carried, params: Params, pending: PendingRequest, out: list[Effect]
    ) -> None:
        """A component passes on a request that it carries."""
        event = Event.PASSED_ON
        after = to(carried.state, event)
        lane = carried.lane.other
        if carried.state is State.STOPPED:
            assert carried.upstream is not None
            self._exchange.reply(pending, *carried.upstream, out)
            self._turns.end(carried, out)
            return
        policy_state = lane.peer.policy_state
        assert policy_state is not None
        again = carried.state is State.RETURNED
        once_more = again and policy_state.enforced
        if after is None or (once_more and not self._may_ask_again(carried, policy_state)):
            wrong = Violation(IDENTITY, f"passed on `{carried.method}` once more, or too late")
            self._checks.refuse(lane.peer, lane.direction, carried.heading.key, wrong, pending, out)
            return
        sent = self._as_allowed(carried, params, pending, out)
        if sent is None:
            return
        params = sent
        self._notifications.leaves(lane, carried, out)
        if carried.method == PROMPT:
            self._turns.another(policy_state, carried.heading.session, pending)
        pending.turn = carried.turn
        carried.state, carried.forwarded = after, pending
        if pending.traced is not None:
            pending.traced.passes = carried.number
        carried.retries += again
        carried.upstream = None
        carried.lane.in_flight.leave(carried)
        pending.watchers = (*pending.watchers, partial(self._came_back, carried, pending))
        self._mcp_ownership.admitted(lane.peer, carried.method, carried.params, params, out)
        changes.request(self._exchange, carried, params, pending, out)
        if policy_state.enforced:
            pending.forwards = carried
            if carried.method in FOLLOWED:
                self._exchange.sessions.follow(carried.method, params, pending)
            # Cancelling the original reaches who has it now, whatever the component does.
            carried.pending.followers = (*carried.pending.followers, pending)
        assert lane.across is not None
        # Who is trusted may well make another message of it.
        found = carried.heading if policy_state.enforced else heading(carried.method, params)
        self.walk(lane.across, carried.method, params, found, pending, out)
        if carried.pending.cancelled and policy_state.enforced:
            self._turns.cancel(pending, out, carried.pending.cancelled_by)
        release(lane, out)

    def _may_ask_again(self, carried: Carried, policy_state: PolicyState) -> bool:
        """Whether a component may pass on once more what it has the answer to: so many times, and
        no prompt that the user has cancelled, nor one with a command of the user's that the agent
        has run."""
        ran = carried.upstream is not None and carried.upstream[0] == b"result"
        if carried.method == PROMPT and ran:
            listed = self._exchange.sessions.find(carried.heading.session).commands
            if asks_for_one(carried.params, listed, policy_state.policy.grants):
                return False
        return not carried.turn.stopped and carried.turn.spend(policy_state, "again", MOST_RETRIES)

    def _as_allowed(
        self, carried: Carried, params: Params, pending: PendingRequest, out: list[Effect]
    ) -> Params | None:
        """What goes on of a request that a component passes on as `params`: where a rule is broken
        that as it was given, or nothing where a gatekeeper fails."""
        lane, policy_state = carried.lane.other, carried.lane.peer.policy_state
        assert policy_state is not None
        wrong = self._checks.forwards(
            policy_state,
            lane.direction,
            carried.method,
            carried.params,
            params,
            carried.rights,
            carried.heading,
        )
        if wrong is None:
            return params
        if policy_state.policy.fails == "closed":
            self._checks.refuse(lane.peer, lane.direction, carried.heading.key, wrong, pending, out)
            self._fail(carried, error(lane.peer, wrong), out)
            return None
        self._checks.report(lane.peer, lane.direction, carried.heading.key, wrong, out)
        return carried.params

    def _own(
        self,
        lane: Lane,
        method: str,
        params: Params,
        found: Heading,
        pending: PendingRequest,
        out: list[Effect],
    ) -> None:
        """A component sends a request of its own."""
        policy_state = lane.peer.policy_state
        assert policy_state is not None
        wrong = self._checks.originates(
            policy_state,
            lane.direction,
            method,
            params,
            lane.other.rights_on(found),
            found,
            asks=True,
        )
        if (
            wrong is None
            and policy_state.enforced
            and method == PROMPT
            and lane.direction is Direction.DOWN
        ):
            wrong = self._turns.wrong(policy_state, lane, found.session, pending)
        if wrong is not None:
            wrong = _with_rule(lane, found, wrong)
            self._checks.refuse(lane.peer, lane.direction, found.key, wrong, pending, out)
            return
        pending.originated = policy_state.enforced
        if policy_state.enforced and method in ENTERING:
            self._exchange.sessions.entered(found.session, policy_state.name)
        if policy_state.enforced and method in FOLLOWED:
            self._exchange.sessions.follow(method, params, pending)
        if policy_state.enforced and method == PROMPT and found.session is not None:
            self._turns.opened(policy_state, found.session, pending)
        self._mcp_ownership.admitted(lane.peer, method, None, params, out)
        changes.originated(self._exchange, lane, method, found.session, params, out, pending)
        assert lane.across is not None
        self.walk(lane.across, method, params, found, pending, out)

    # -- a request arrives at the next peers -------------------------------------------------------

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
        while lane.peer.policy_state is not None:
            rights, onward = lane.rights_on(found), lane.other
            if onward.direction is Direction.UP and self._turns.refuses(lane, found, pending, out):
                return
            if method == PROMPT:
                self._notifications.another_turn(onward, found.session, out)
            if rights & (CARRY | ANSWER) and lane.peer.ready_some_time:
                carried = Carried(lane, method, params, found, pending, rights, pending.number)
                self._give(carried, out)
                return
            if rights & (CARRY | ANSWER) and not lane.peer.left_out:
                break
            copy = None
            if rights & COPY:
                copy = self._observers.request(lane, method, params, found, pending, out)
            if method == PROMPT:
                self._turns.another(lane.peer.policy_state, found.session, pending)
            if method in CLOSING:
                self._turns.closing(lane, found, out)
            pending.bypassed = (*pending.bypassed, (lane, found, copy))
            waits = self._waits(lane, method, params, found, rights, copy, pending, out)
            if waits:
                return
            changes.went_past(self._exchange, onward, found.session)
            assert onward.across is not None
            lane = onward.across
        self._exchange.forward(lane, method, params, pending, out)

    def _waits(
        self,
        lane: Lane,
        method: str,
        params: Params,
        found: Heading,
        rights: int,
        copy: Copied | None,
        pending: PendingRequest,
        out: list[Effect],
    ) -> bool:
        """Whether a request that goes past a component waits for what that was given before."""
        policy_state, onward = lane.peer.policy_state, lane.other
        assert policy_state is not None
        # What goes down waits for nothing that the component says: only what goes up has a place.
        placed = bool(rights & PLACE) and onward.direction is Direction.UP and lane.peer.ready
        if not placed and not onward.in_flight.must_wait(found):
            return False
        resume = partial(self._past, onward, method, params, found, pending)
        held = Held(found, resume, policy_state.round, ready=not placed)
        if placed and copy is not None:
            copy.held = held
        onward.in_flight.hold(held)
        self._deadlines.round(lane.peer, partial(self._notifications.waited, onward, held), out)
        return True

    def _give(self, carried: Carried, out: list[Effect]) -> None:
        """Gives a component a request: now, or once it is ready for it."""
        peer, in_flight = carried.lane.peer, carried.lane.other.in_flight
        carried.pending.carried = carried
        carried.pending.watchers = (
            *carried.pending.watchers,
            partial(self._answered_elsewhere, carried),
        )
        carried.order = in_flight.comes()
        in_flight.queue.append(carried)
        in_flight.queued.append(carried)
        if peer.ready:
            self._send(carried, out)
        else:
            peer.backlog.append(partial(self._send, carried))

    def _send(self, carried: Carried, out: list[Effect]) -> None:
        if carried.state is not State.QUEUED:
            return
        peer, pending = carried.lane.peer, carried.pending
        if not pending.wanted:
            self._close(carried)
            self._release(carried, out)
            return
        if not peer.ready:
            if peer.ready_some_time:
                peer.backlog.append(partial(self._send, carried))
            elif not (peer.left_out and self.lost(carried, out)):
                self._exchange.forward(carried.lane, carried.method, carried.params, pending, out)
            return
        assert peer.policy_state is not None
        carried.lane.other.in_flight.queued.remove(carried)
        carried.state, carried.round = State.GIVEN, peer.policy_state.round
        pending.answer_to, pending.subject = AnswerTo.CARRIED, carried
        self._exchange.send(carried.lane, carried.method, carried.params, pending, out)
        carried.id = pending.target_id
        carried.lane.other.in_flight.requests[carried.id] = carried
        self._limit(carried, out)

    def _enforced(self, carried: Carried) -> bool:
        policy_state = carried.lane.peer.policy_state
        assert policy_state is not None
        return policy_state.enforced

    def may_cancel(self, pending: PendingRequest, out: list[Effect]) -> bool:
        """Whether a component may cancel a request it has sent: its own, or one it has passed on
        and whoever made it has cancelled."""
        carried = pending.forwards
        if carried is None or not self._enforced(carried):
            return True
        if carried.pending.cancelled or carried.pending.origin is None:
            return True
        if carried.excused is not None:
            return False
        lane = carried.lane.other
        wrong = Violation(RIGHTS, f"may not cancel `{carried.method}` that it has passed on")
        self._checks.report(lane.peer, lane.direction, CANCEL, wrong, out)
        return False


def _with_rule(lane: Lane, found: Heading, wrong: Violation) -> Violation:
    """A refusal that tells the rule of ids, where a request like this one is open."""
    if wrong.guard not in (RIGHTS, TURNS):
        return wrong
    for carried in lane.in_flight.requests.values():
        if carried.heading == found and carried.state is State.GIVEN:
            rule = _ID_RULE.format(carried.id.decode(errors="replace"))
            return Violation(wrong.guard, f"{wrong.text}\nhint: {rule}", wrong.pointer)
    return wrong
