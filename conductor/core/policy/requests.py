"""Requests where policies are: components carry, pass on and answer them, and send their own."""

from __future__ import annotations

from functools import cached_property
from typing import Final

from conductor.core.guards import Violation
from conductor.core.guards.modes import Refused
from conductor.core.jsonrpc import Params
from conductor.core.policy import changes, own_terminals
from conductor.core.policy.checks import (
    IDENTITY,
    OWN_SESSIONS,
    RIGHTS,
    WATCH,
    equal,
    error,
    lacks,
    passes,
    paused,
)
from conductor.core.policy.entries import Notification, meant
from conductor.core.policy.headings import Heading, Message, read_message
from conductor.core.policy.held_requests import HeldRequests, crossing
from conductor.core.policy.key_table import (
    AMEND,
    ANSWER,
    CARRY,
    CLOSING,
    COPY,
    MCP_FAMILIES,
    NO_QUESTIONS,
    PLACE,
    PROMPT,
    STOP,
    Direction,
)
from conductor.core.policy.policy_state import PolicyState
from conductor.core.policy.sessions import ENTERING, FOLLOWED, MAKES_ONE
from conductor.core.policy.settling import Settling
from conductor.core.policy.states import MOST_RETRIES, Event, State, to
from conductor.core.policy.turns import TURNS
from conductor.core.session import OwnPrompt
from conductor.core.state import Lane, Next, Peer, Visit, Waiting

_ID_RULE: Final = (
    "a request is passed on under the id it came with ({}); any other id is a request of its own"
)
SETTINGS_RULE: Final = "session-mode"
"""The guard whose rule is also broken by a prompt in a session of a component's own that has other
settings than a new session."""
_NOT_SETTLED: Final = (
    "a session of its own is in the mode, and has the options, that the agent begins one with; "
    "this one does not: {}\nhint: open another by `session/new`"
)
_NO_DEFAULT: Final = "which those are is unknown, since no session was begun by `session/new`"
_NOT_BEGUN_WITH: Final = "by `{}` something is set that the agent begins none with"


class PolicedRequests(HeldRequests):
    """The part of a router that handles requests on their way."""

    @cached_property
    def settling(self) -> Settling:
        """The part that makes the settings of sessions."""
        return Settling(self._parts)

    # -- a request leaves a peer -----------------------------------------------------------------

    def ask(self, lane: Lane, method: str, params: Params, pending: Visit) -> None:
        """A request leaves `lane`; `pending` gets its answer."""
        if lane.peer.policy_state is None:
            self.leave(lane, read_message(method, params, pending.names), pending)
            return
        carried = self._forwarded_by(lane, method, params, pending)
        if carried is not None:
            self._forward(carried, params, pending)
            return
        message = read_message(method, params)
        copy = self._parts.observers.take(lane, message, pending)
        if copy is None:
            self._originate(lane, message, pending)
            return
        if not equal(copy.params, params):
            violation = lacks(lane.peer.policed, CARRY, lane.direction, copy.heading.key)
            self._parts.checks.report(lane, copy.heading, violation)
        pending.traced = None  # the original goes on
        self._parts.observers.passed_on(copy, pending)

    def _forwarded_by(
        self, lane: Lane, method: str, params: Params, pending: Visit
    ) -> Visit | None:
        """The carried request that a component's request passes on, by its id.

        In some programs a library chooses ids. There it is the request of equal params, else the
        oldest open request with the same key, session and address.
        """
        in_flight, policy_state = lane.in_flight, lane.peer.policed
        if not in_flight.requests:
            return None
        if lane.peer.sideband or policy_state.policy.ids == "kept":
            carried = in_flight.requests.get(pending.key)
            if carried is None or carried.method != method:
                return None
            # A trusted component may use an id again for any request of its own.
            event, retries = Event.PASSED_ON, carried.retries
            again = to(carried.state, event) is not None and retries < MOST_RETRIES
            return carried if policy_state.enforced or again else None
        return meant(in_flight.unpassed, method, params)

    def _forward(self, carried: Visit, params: Params, pending: Visit) -> None:
        """A component passes on a request that it carries."""
        lane = carried.lane.other
        if carried.state is State.STOPPED:
            assert carried.upstream is not None
            self._exchange.reply(pending, *carried.upstream)
            self._parts.cancellations.end(carried)
            return
        policy_state = lane.peer.policed
        retries = carried.state is State.RETURNED
        may = to(carried.state, Event.PASSED_ON) is not None
        if not may or (retries and not self._may_retry(carried, policy_state)):
            violation = Violation(IDENTITY, f"passed on `{carried.method}` once more, or too late")
        elif retries and policy_state.policy.watched:
            violation = Violation(WATCH, f"would send `{carried.method}` once more")
        else:
            violation = None
        if violation is not None:
            self._parts.checks.refuse(lane, carried.heading, violation, pending)
            return
        allowed = self._allowed(carried, params, pending)
        if allowed is None:
            return
        self._parts.notifications.leaves(lane, carried)
        carried.retries += retries
        self.goes_on(carried, allowed, pending)

    def goes_on(self, carried: Visit, params: Params, pending: Visit) -> None:
        """A request that a component carries goes on as `pending`, with these params."""
        lane, policy_state, method = carried.lane.other, carried.policy_state, carried.method
        if policy_state.prompts and method == PROMPT:
            self._parts.turns.prompt_passed(policy_state, carried.heading.session, pending)
        carried.moves(Event.PASSED_ON)
        lane.in_flight.unpassed.pop(carried, None)
        carried.forwarded, carried.upstream, carried.frame = pending, None, b""
        pending.passes_on = carried
        if carried.lane.in_flight.queue:
            carried.lane.in_flight.leave(carried)
        if pending.traced is not None:
            pending.traced.passes = carried.number
        message = Message(method, params, carried.heading)
        if policy_state.enforced:
            pending.flow = carried.flow
            if method in FOLLOWED:
                self._parts.names.follow(lane, method, params, pending)
        else:
            if pending.flow is not carried.flow:
                pending.flow.within = carried.flow.whole
            message = read_message(method, params)  # a trusted component may change it
        if params is not carried.params:
            self._parts.mcp_ownership.admitted(lane.peer, method, carried.params, params)
        if self._exchange.audited:
            changes.request(self._exchange, carried, params, pending)
        self.leave(lane, message, pending)
        self._parts.cancellations.passed_on(carried, pending)
        if lane.in_flight.waiting:
            self._parts.waits.release(lane)

    def _may_retry(self, carried: Visit, policy_state: PolicyState) -> bool:
        """Whether a component may pass on again a request that it has the answer to: a few times,
        but no prompt that the user has cancelled, nor a prompt with a command of the user's that
        ran."""
        if not policy_state.enforced:
            return True
        ran = carried.upstream is not None and carried.upstream[0] == b"result"
        if carried.method == PROMPT and ran:
            from conductor.core.guards.commands import asks_for_one  # few components retry

            listed = self._exchange.sessions.find(carried.heading.session).commands
            if asks_for_one(carried.params, listed, policy_state.policy.grants):
                return False
        return carried.flow.may_retry(policy_state)

    def _allowed(self, carried: Visit, params: Params, pending: Visit) -> Params | None:
        """The params that go on, of a request that a component passes on as `params`.

        If it breaks a rule, they are the params that it was given. None: it fails closed.
        """
        lane, policy_state = carried.lane.other, carried.policy_state
        violation = self._parts.checks.forwards(lane, carried, params, carried.rights)
        if violation is None:
            return passes(policy_state, carried.params, params, carried.rights)
        if policy_state.policy.fails == "closed":
            self._parts.checks.refuse(lane, carried.heading, violation, pending)
            self._fail(carried, error(lane.peer, violation))
            return None
        self._parts.checks.report(lane, carried.heading, violation)
        return carried.params

    def _originate(self, lane: Lane, message: Message, pending: Visit) -> None:
        """A component sends a request of its own."""
        policy_state, rights = lane.peer.policed, lane.other.rights_on(message.heading)
        if lane.muted(message.heading):
            self._exchange.refuse(pending, paused(lane.peer, message.method))
            return
        enforced, is_prompt = policy_state.enforced, message.method == PROMPT
        violation = self._parts.checks.originates(lane, message, rights, is_request=True)
        if violation is None and enforced and is_prompt and lane.direction is Direction.DOWN:
            violation = self._parts.turns.violation(policy_state, lane, message.session, pending)
        if violation is None and enforced and message.method in MAKES_ONE:
            violation = self._opened_too_many(lane.peer)
        if violation is not None:
            violation = _with_rule(lane, message.heading, violation)
            self._parts.checks.refuse(lane, message.heading, violation, pending)
            return
        if enforced and message.method.startswith(MCP_FAMILIES):
            wrong = self._parts.own_turns.own_prompts.samples(lane, message.params, pending)
            if wrong is not None:
                self._exchange.refuse(pending, wrong)
                return
        if enforced and is_prompt and lane.direction is Direction.DOWN:
            pending.names = message.session
            send = Waiting(Next.SENT_OWN, lane, pending, message)
            self._parts.own_turns.prompts(lane, pending, send)
        else:
            self.send_own(lane, message, pending)

    def send_own(self, lane: Lane, message: Message, pending: Visit) -> None:
        """A request of a component's own leaves it by `lane`."""
        policy_state = lane.peer.policed
        enforced, is_prompt = policy_state.enforced, message.method == PROMPT
        pending.flow.own |= enforced
        if enforced and message.method in ENTERING:
            self._exchange.sessions.entered(message.session, policy_state.name)
        if enforced and message.method in FOLLOWED:
            self._parts.names.follow(lane, message.method, message.params, pending)
        if enforced and message.method in CLOSING:
            self._exchange.sessions.closes(message.session, pending)
            policy_state.closes(message.session or "")
        if enforced and message.method in own_terminals.FOLLOWED:
            own_terminals.asked(self._parts, lane, message.method, message.params, pending)
        if enforced and is_prompt and message.session is not None:
            self._parts.turns.opened(policy_state, message.session, pending)
            if self._parts.turns.is_own_session(policy_state, message.session):
                self._settle(lane, message, pending)
                return
        self._own_leaves(lane, message, pending)

    def _settle(self, lane: Lane, message: Message, pending: Visit) -> None:
        """A prompt in a session of the component's own waits until the session has the settings of
        a new one, whatever it was before: a fork of the user's, or the user's own for a while."""
        session = message.session
        assert session is not None
        known = self._exchange.sessions.find(self._parts.names.innermost(lane, session))
        begins = known.default
        more = known.settings.keys() - begins if known.change and begins is not None else set()
        if begins is None or more:
            why = _NO_DEFAULT if begins is None else _NOT_BEGUN_WITH.format(min(more)[0])
            self.settled(lane, message, pending, {("", ""): why})
            return
        self.settling.bring(lane, session, OwnPrompt(message, pending, begins))

    def settled(self, lane: Lane, message: Message, pending: Visit, refused: Refused) -> None:
        """A prompt goes on in a session of its component's own, which has its settings now; or it
        is refused."""
        if refused:
            text = _NOT_SETTLED.format("; ".join(refused.values()))
            violation = Violation(SETTINGS_RULE, text)
            self._parts.checks.refuse(lane, message.heading, violation, pending)
        elif pending.wanted:
            self._own_leaves(lane, message, pending)
        else:
            self._exchange.drop(pending)

    def _own_leaves(self, lane: Lane, message: Message, pending: Visit) -> None:
        self._parts.mcp_ownership.admitted(lane.peer, message.method, None, message.params)
        changes.originated(self._exchange, lane, message, pending)
        self.leave(lane, message, pending)

    def _opened_too_many(self, peer: Peer) -> Violation | None:
        """The violation of one more session of a component's own; None: there is none."""
        most = peer.component.allowance.own_sessions
        if self._exchange.sessions.opened(peer.name) < most:
            return None
        text = f"may have at most {most} sessions of its own open at a time"
        return Violation(
            OWN_SESSIONS, f"{text}\nhint: end those that are not needed: `session/close`"
        )

    # -- a request arrives at the next peers -------------------------------------------------------

    @staticmethod
    def _stops(lane: Lane, session: str | None) -> list[Notification]:
        """Copies of cancellations that a component has not passed on by `lane`."""
        copied = lane.in_flight.copied_notifications
        return copied.of(Heading(STOP, session)) if copied.items else []

    def route(self, lane: Lane, message: Message, pending: Visit) -> None:
        """Routes a request on from `lane` to the first component that carries it."""
        while (policy_state := lane.peer.policy_state) is not None:
            rights, onward = lane.rights_now(message.heading), lane.other
            upwards = onward.direction is Direction.UP
            if upwards:
                if self._parts.turns.refuses(lane, message, pending):
                    return
                if policy_state.prompts and not message.method.startswith(NO_QUESTIONS):
                    self._parts.notifications.show_withheld(lane, message.session)
            if message.method == PROMPT and (stops := self._stops(onward, message.session)):
                self._parts.notifications.user_goes_on(onward, stops)
            if rights & (CARRY | ANSWER | AMEND) and lane.peer.ready_some_time:
                pending.carry(lane, message, rights)
                self._give(pending)
                return
            if rights & (CARRY | ANSWER | AMEND) and not lane.peer.left_out:
                break
            copy = None
            if rights & COPY:
                copy = self._parts.observers.request(lane, message, pending)
            if message.method == PROMPT:
                self._parts.turns.prompt_passed(policy_state, message.session, pending)
            if message.method in CLOSING:
                self._parts.cancellations.closing(lane, message.heading)
            pending.bypassed = (*pending.bypassed, (lane, message.heading, copy))
            if self._waits(lane, message, rights, copy, pending):
                return
            changes.went_past(self._exchange, onward, message.session)
            assert onward.across is not None
            if onward.renames is not None:
                message = crossing(onward, message, pending)
            lane = onward.across
        self._exchange.forward(lane, message.method, message.params, pending)

    def _waits(
        self,
        lane: Lane,
        message: Message,
        rights: int,
        copy: Visit | None,
        pending: Visit,
    ) -> bool:
        """Whether a request that goes past a component waits for messages that it was given
        before."""
        # Only messages that go up have a place among the texts of a turn.
        upwards = lane.other.direction is Direction.UP
        placed = bool(rights & PLACE) and upwards and lane.peer.ready
        if not placed and not lane.other.in_flight.must_wait(message.heading):
            return False
        held = Waiting(Next.LEAVES, lane.other, pending, message, heading=message.heading)
        held.ready = not placed
        if placed and copy is not None:
            copy.held = held
        self._parts.notifications.defer(held)
        return True

    def _give(self, carried: Visit) -> None:
        """Gives a component a request: now, or once it is ready for it."""
        peer, in_flight = carried.lane.peer, carried.lane.other.in_flight
        in_flight.carry(carried)
        if peer.ready:
            self.send(carried)
        else:
            peer.backlog.append(Waiting(Next.GIVEN, carried.lane, carried))

    def send(self, carried: Visit) -> None:
        """Sends a component a request that it carries, if the request still waits."""
        if carried.state is not State.QUEUED:
            return
        peer = carried.lane.peer
        if carried.origin is None and not carried.wanted:
            self._close(carried)
            self._release(carried.lane)
            self._exchange.drop(carried)
            return
        if not peer.ready:
            if peer.ready_some_time:
                peer.backlog.append(Waiting(Next.GIVEN, carried.lane, carried))
            elif not (peer.left_out and self.lost(carried)):
                self._exchange.forward(carried.lane, carried.method, carried.params, carried)
            return
        if carried.method == PROMPT and carried.lane.other.in_flight.set_ups:
            self._parts.observers.sees_first(carried)
            return
        carried.moves(Event.DELIVERED)
        carried.round = peer.policed.round
        frame = self._exchange.send(carried.lane, carried.method, carried.params, carried)
        if peer.returns and not carried.method.startswith("_"):
            carried.frame = frame
        in_flight = carried.lane.other.in_flight
        in_flight.requests[carried.target_id] = carried
        in_flight.unpassed[carried] = None
        self._limit(carried)


def _with_rule(lane: Lane, heading: Heading, violation: Violation) -> Violation:
    """A refusal that names the rule of ids, where a request like this one is open."""
    if violation.guard not in (RIGHTS, TURNS):
        return violation
    for carried in lane.in_flight.requests.values():
        if carried.heading == heading and carried.state is State.GIVEN:
            rule = _ID_RULE.format(carried.target_id.decode())
            return Violation(violation.guard, f"{violation.text}\nhint: {rule}", violation.pointer)
    return violation
