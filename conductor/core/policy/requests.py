"""Requests where policies are: who carries them, passes them on, answers, and sends their own."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from conductor.core.dialects import CANCEL
from conductor.core.effects import Effect
from conductor.core.guards import Violation
from conductor.core.link import Pending
from conductor.core.policy import changes
from conductor.core.policy.copies import Copies, nobodys, release
from conductor.core.policy.gate import PLACE, rights_on, without
from conductor.core.policy.given import Carried, Copied, Excuse, Held, meant
from conductor.core.policy.keys import Heading, Params, heading
from conductor.core.policy.moves import MOST_RETRIES, Event, State, to
from conductor.core.policy.notifications import PolicedNotifications
from conductor.core.policy.rights import (
    AMEND,
    ANSWER,
    CARRY,
    CLOSING,
    COPY,
    PROMPT,
    SETTINGS,
    SETUP,
    STOP,
    Direction,
)
from conductor.core.policy.turns import Turns
from conductor.core.policy.verdicts import HOLD, IDENTITY, RIGHTS, Verdicts, equal, error, lacks
from conductor.core.policy.wakes import Wakes

if TYPE_CHECKING:
    from conductor.core.exchange import Exchange
    from conductor.core.owners import Owners
    from conductor.core.peer import Lane

HOLD_SETUP: Final = 60.0
"""Seconds that a component may hold a session's set-up, a setting or a list, or the answer."""

_BOUNDED: Final = frozenset({*SETUP, *SETTINGS, "session/list", "session/status"})
_MOST_CLOSED: Final = 256
_ID_RULE: Final = (
    "a request is passed on under the id it came with ({}); any other id is a request of its own"
)
_HELD: Final = (State.GIVEN, State.STOPPED)


class PolicedRequests:
    """The part of an enforcer that handles requests."""

    def __init__(
        self,
        exchange: Exchange,
        verdicts: Verdicts,
        copies: Copies,
        owners: Owners,
        turns: Turns,
        wakes: Wakes,
        notifications: PolicedNotifications,
    ) -> None:
        self._exchange = exchange
        self._verdicts = verdicts
        self._copies = copies
        self._owners = owners
        self._turns = turns
        self._wakes = wakes
        self._notifications = notifications

    # -- a request leaves a peer -----------------------------------------------------------------

    def ask(
        self, lane: Lane, method: str, params: Params, pending: Pending, out: list[Effect]
    ) -> None:
        """A request leaves `lane`; `pending` is what its answer will belong to."""
        gate = lane.peer.gate
        assert lane.across is not None
        if gate is None:
            self.walk(lane.across, method, params, heading(method, params), pending, out)
            return
        carried = self._passed_on(lane, method, params, pending)
        if carried is not None:
            self._goes_on(carried, params, pending, out)
            return
        found = heading(method, params)
        copy = self._copies.take(lane, method, params, found, pending)
        if copy is not None:
            if not equal(copy.params, params):
                wrong = lacks(CARRY, lane.direction, copy.heading.key)
                self._verdicts.report(lane.peer, lane.direction, copy.heading.key, wrong, out)
            self._copies.passed_on(copy, pending, out)
            if copy.held is not None:
                copy.held.ready = True
                release(lane, out)
            return
        self._own(lane, method, params, found, pending, out)

    def _passed_on(
        self, lane: Lane, method: str, params: Params, pending: Pending
    ) -> Carried | None:
        """What a component's request passes on, by its id; of programs whose library chooses ids
        by fixed rules: equal params, else the oldest open one alike in key, session and address."""
        given, gate = lane.given, lane.peer.gate
        assert gate is not None
        if not given.requests:
            return None
        if lane.peer.sideband or gate.policy.ids == "kept":
            found = given.requests.get(pending.key)
            if found is None or found.method != method:
                return None
            # Who is trusted may use an id again for whatever it likes.
            again = to(found.state, Event.PASSED_ON) is not None and found.retries < MOST_RETRIES
            return found if gate.enforced or again else None
        return meant([one for one in given.requests.values() if one.state in _HELD], method, params)

    def _goes_on(
        self, carried: Carried, params: Params, pending: Pending, out: list[Effect]
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
        gate = lane.peer.gate
        assert gate is not None
        again = carried.state is State.RETURNED
        if after is None or (
            again and gate.enforced and not carried.turn.spend(gate, "again", MOST_RETRIES)
        ):
            wrong = Violation(IDENTITY, f"passed on `{carried.method}` once more, or too late")
            self._verdicts.refuse(
                lane.peer, lane.direction, carried.heading.key, wrong, pending, out
            )
            return
        sent = self._as_allowed(carried, params, pending, out)
        if sent is None:
            return
        params = sent
        self._notifications.leaves(lane, carried, out)
        if carried.method == PROMPT:
            self._turns.another(gate, carried.heading.session, pending)
        pending.turn = carried.turn
        carried.state, carried.forwarded = after, pending
        if pending.trail is not None:
            pending.trail.passes = carried.number
        carried.retries += again
        carried.upstream = None
        carried.lane.given.leave(carried)
        pending.watchers = (*pending.watchers, partial(self._came_back, carried, pending))
        self._owners.admitted(lane.peer, carried.method, carried.params, params, out)
        changes.request(self._exchange, carried, params, pending, out)
        if gate.enforced:
            pending.passes = carried
            # Cancelling the original reaches who has it now, whatever the component does.
            carried.pending.followers = (*carried.pending.followers, pending)
        assert lane.across is not None
        self.walk(lane.across, carried.method, params, carried.heading, pending, out)
        if carried.pending.cancelled and gate.enforced:
            self._exchange.cancel(pending, out, carried.pending.stopped)
        release(lane, out)

    def _as_allowed(
        self, carried: Carried, params: Params, pending: Pending, out: list[Effect]
    ) -> Params | None:
        """What goes on of a request that a component passes on as `params`: where a rule is broken
        that as it was given, or nothing where a gatekeeper fails."""
        lane, gate = carried.lane.other, carried.lane.peer.gate
        assert gate is not None
        wrong = self._verdicts.forwards(
            gate,
            lane.direction,
            carried.method,
            carried.params,
            params,
            carried.rights,
            carried.heading,
        )
        if wrong is None:
            return params
        if gate.policy.fails == "closed":
            self._verdicts.refuse(
                lane.peer, lane.direction, carried.heading.key, wrong, pending, out
            )
            self._fail(carried, error(lane.peer, wrong), out)
            return None
        self._verdicts.report(lane.peer, lane.direction, carried.heading.key, wrong, out)
        return carried.params

    def _own(
        self,
        lane: Lane,
        method: str,
        params: Params,
        found: Heading,
        pending: Pending,
        out: list[Effect],
    ) -> None:
        """A component sends a request of its own."""
        gate = lane.peer.gate
        assert gate is not None
        wrong = self._verdicts.originates(
            gate, lane.direction, method, params, rights_on(lane.other, found), found, asks=True
        )
        if (
            wrong is None
            and gate.enforced
            and method == PROMPT
            and lane.direction is Direction.DOWN
        ):
            wrong = self._turns.wrong(gate, lane, found.session, pending)
        if wrong is not None:
            wrong = _with_rule(lane, found, wrong)
            self._verdicts.refuse(lane.peer, lane.direction, found.key, wrong, pending, out)
            return
        pending.own = gate.enforced
        if gate.enforced and method == PROMPT and found.session is not None:
            self._turns.opened(gate, found.session, pending)
        self._owners.admitted(lane.peer, method, None, params, out)
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
        pending: Pending,
        out: list[Effect],
    ) -> None:
        """Walks a request on from `lane` until somebody carries it."""
        while lane.peer.gate is not None:
            rights, onward = rights_on(lane, found), lane.other
            if method == PROMPT:
                onward.given.shown.forget(Heading(STOP, found.session))  # of the turns before
            if rights & (CARRY | ANSWER) and lane.peer.ready_some_time:
                carried = Carried(lane, method, params, found, pending, rights, pending.number)
                self._give(carried, out)
                return
            if rights & (CARRY | ANSWER) and not without(lane.peer):
                break
            copy = None
            if rights & COPY:
                copy = self._copies.request(lane, method, params, found, pending, out)
            if method == PROMPT:
                self._turns.another(lane.peer.gate, found.session, pending)
            if method in CLOSING:
                self._turns.closing(lane, found, out)
            pending.past = (*pending.past, (lane, found, copy))
            waits = self._waits(lane, method, params, found, rights, copy, pending, out)
            if waits:
                return
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
        pending: Pending,
        out: list[Effect],
    ) -> bool:
        """Whether a request that goes past a component waits for what that was given before."""
        gate, onward = lane.peer.gate, lane.other
        assert gate is not None
        # What goes down waits for nothing that the component says: only what goes up has a place.
        placed = bool(rights & PLACE) and onward.direction is Direction.UP and lane.peer.ready
        if not placed and not onward.given.must_wait(found):
            return False
        if not placed and method in CLOSING:
            return False
        resume = partial(self._past, onward, method, params, found, pending)
        held = Held(found, resume, gate.round, ready=not placed)
        if placed and copy is not None:
            copy.held = held
        onward.given.hold(held)
        self._wakes.round(lane.peer, partial(self._notifications.waited, onward, held), out)
        return True

    def _past(
        self,
        onward: Lane,
        method: str,
        params: Params,
        found: Heading,
        pending: Pending,
        out: list[Effect],
    ) -> None:
        assert onward.across is not None
        if pending.wanted:  # else: who asked is gone, or has been answered
            self.walk(onward.across, method, params, found, pending, out)

    def _give(self, carried: Carried, out: list[Effect]) -> None:
        """Gives a component a request: now, or once it is ready for it."""
        peer, given = carried.lane.peer, carried.lane.other.given
        carried.pending.given = carried
        carried.pending.watchers = (
            *carried.pending.watchers,
            partial(self._answered_elsewhere, carried),
        )
        given.queue.append(carried)
        given.queued.append(carried)
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
            elif not (without(peer) and self.lost(carried, out)):
                self._exchange.forward(carried.lane, carried.method, carried.params, pending, out)
            return
        assert peer.gate is not None
        carried.lane.other.given.queued.remove(carried)
        carried.state, carried.round = State.GIVEN, peer.gate.round
        pending.hook = partial(self._answered, carried)
        self._exchange.send(carried.lane, carried.method, carried.params, pending, out)
        carried.id = pending.target_id
        carried.lane.other.given.requests[carried.id] = carried
        self._limit(carried, out)

    # -- answers ---------------------------------------------------------------------------------

    def _came_back(
        self, carried: Carried, pending: Pending, member: bytes, body: bytes, out: list[Effect]
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
        gate = carried.lane.peer.gate
        assert gate is not None
        carried.state, carried.round = State.RETURNED, gate.round
        # Programs have no rounds, and an array's answer may be long in coming: what waits for these
        # might wait for ever.
        if gate.rounds and pending.batch is None and gate.enforced:
            carried.lane.given.queue.append(carried)
        self._limit(carried, out)

    def _reply_past(self, carried: Carried, out: list[Effect]) -> None:
        """An answer goes past the component that passed its request on: in its order."""
        given, found = carried.lane.given, Heading("", carried.heading.session)
        gate = carried.lane.peer.gate
        assert gate is not None
        placed = bool(carried.rights & PLACE) and carried.lane.direction is Direction.UP
        if not placed and not given.must_wait(found):
            self._finish(carried, out)
            return
        held = Held(found, partial(self._finish, carried), gate.round, ready=not placed)
        carried.held = held
        given.hold(held)
        self._wakes.round(
            carried.lane.peer, partial(self._notifications.waited, carried.lane, held), out
        )

    def answer_waits(self, pending: Pending, member: bytes, body: bytes, out: list[Effect]) -> bool:
        """Keeps an answer that goes past components in its order: it waits for what they were given
        before, and where its place means something for their round with their copy of it."""
        while pending.past:
            lane, found, copy = pending.past[-1]
            pending.past = pending.past[:-1]
            gate, given = lane.peer.gate, lane.given
            assert gate is not None
            if lane.peer.closure is not None:
                continue
            placed = (
                copy is not None
                and any(one.origin is not None for one in copy.forwarded)
                and lane.direction is Direction.UP
                and bool(rights_on(lane, found) & PLACE)
            )
            place = Heading("", found.session)
            if not placed and not given.must_wait(place):
                continue
            if placed and copy is not None:
                self._copies.answered(copy, member, body, out)
            resume = partial(self._exchange.complete, pending, member, body)
            held = Held(place, resume, gate.round, ready=not placed)
            if placed and copy is not None:
                copy.held = held
            given.hold(held)
            self._wakes.round(lane.peer, partial(self._notifications.waited, lane, held), out)
            return True
        return False

    def _finish(self, carried: Carried, out: list[Effect]) -> None:
        """Answers a request as those after the component did."""
        assert carried.upstream is not None
        if carried.state is State.CLOSED:
            return
        pending, forwarded = carried.pending, carried.forwarded
        pending.answer = forwarded.answer if forwarded is not None else 0
        if pending.trail is not None:
            pending.trail.past = True
        self._exchange.reply(pending, *carried.upstream, out)

    def _answered(
        self, carried: Carried, pending: Pending, member: bytes, body: bytes, out: list[Effect]
    ) -> None:
        """A component answers a request that it was given."""
        lane, gate = carried.lane, carried.lane.peer.gate
        direction = lane.other.direction
        assert gate is not None
        if carried.excused is not None and member == b"error" and gate.enforced:
            ends = carried.state is State.GIVEN and carried.excused is Excuse.ENDS
            if ends or not self.lost(carried, out):
                self._fail(carried, body, out)
            return
        match carried.state:
            case State.GIVEN | State.RETURNED:
                wrong = self._verdicts.answers(gate, carried, direction, member, body)
                if wrong is None:
                    changes.answer(self._exchange, carried, member, body, out)
                    if pending.trail is not None and carried.forwarded is not None:
                        pending.trail.answers = carried.forwarded.answer
                    self._notifications.leaves(lane, carried, out)
                    self._exchange.reply(pending, member, body, out)
                    return
                self._verdicts.report(lane.peer, direction, carried.heading.key, wrong, out)
                if carried.state is State.RETURNED:
                    self._finish(carried, out)
                else:
                    self._without(carried, error(lane.peer, wrong), out)
            case State.PASSED:
                if carried.held is not None:  # the answer waits for just this
                    self._answers_past(carried, pending, member, body, out)
                    carried.held.ready = True
                    release(lane, out)
                    return
                wrong = Violation(
                    IDENTITY, f"answered `{carried.method}` that it had passed on, too early"
                )
                if gate.enforced:
                    self._verdicts.report(lane.peer, direction, carried.heading.key, wrong, out)
                    carried.rights &= ~AMEND
                else:
                    self._exchange.reply(pending, member, body, out)
            case State.STOPPED:
                self._turns.end(carried, out)
            case _:
                pass

    def _answers_past(
        self, carried: Carried, pending: Pending, member: bytes, body: bytes, out: list[Effect]
    ) -> None:
        """A component answers what has been answered past it: that is not sent, and if it says
        something else the component lacks a right."""
        upstream, lane = carried.upstream, carried.lane
        if upstream is None or (upstream[0] == member and equal(upstream[1], body)):
            return
        if carried.excused is not None and member == b"error":
            return
        direction = lane.other.direction
        wrong = lacks(AMEND, direction, carried.heading.key)
        self._verdicts.report(lane.peer, direction, carried.heading.key, wrong, out)

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
        carried.pending.given = None
        lane = carried.lane
        lane.other.given.leave(carried)
        lane.given.leave(carried)
        if carried in lane.other.given.queued:
            lane.other.given.queued.remove(carried)
        if lane.link.sent.get(carried.id) is carried.pending:
            leftover = nobodys(carried.method)
            if before is State.PASSED and carried.forwarded is not None:
                leftover.hook = partial(self._answers_past, carried)
            leftover.target, leftover.target_id = lane, carried.id
            lane.link.sent[carried.id] = leftover
            assert lane.peer.gate is not None
            lane.peer.gate.loosen(lane.link, carried.id, leftover)
        self._forget(lane.other, carried)

    @staticmethod
    def _release(carried: Carried, out: list[Effect]) -> None:
        """Sends on what has waited for a request, once that has gone on or is answered."""
        release(carried.lane.other, out)
        release(carried.lane, out)

    @staticmethod
    def _forget(lane: Lane, carried: Carried) -> None:
        """Forgets the oldest closed requests, once there are too many."""
        requests = lane.given.requests
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
        gate = carried.lane.peer.gate
        assert gate is not None
        if gate.policy.fails == "closed":
            self._fail(carried, failure, out)
        else:
            self._goes_past(carried, out)

    def _goes_past(self, carried: Carried, out: list[Effect]) -> None:
        lane, pending = carried.lane, carried.pending
        self._close(carried)
        pending.hook = pending.target = None
        pending.past = (*pending.past, (lane, carried.heading, None))
        self._past(lane.other, carried.method, carried.params, carried.heading, pending, out)
        self._release(carried, out)

    def _fail(self, carried: Carried, failure: bytes, out: list[Effect]) -> None:
        carried.pending.hook = None
        carried.pending.answer = 0
        self._exchange.reply(carried.pending, b"error", failure, out)

    def _limit(self, carried: Carried, out: list[Effect]) -> None:
        """Has a component lose a request that it holds for too long."""
        gate = carried.lane.peer.gate
        assert gate is not None
        seconds = HOLD_SETUP if carried.method in _BOUNDED else None
        if carried.method == PROMPT:
            seconds = gate.policy.hold
        if seconds is not None and gate.enforced:
            late = partial(self._late, carried, carried.state, carried.retries, seconds)
            self._wakes.after(seconds, late, out)

    def _late(
        self, carried: Carried, state: State, retries: int, seconds: float, out: list[Effect]
    ) -> None:
        if carried.state is not state or carried.retries != retries:
            return
        lane = carried.lane
        wrong = Violation(HOLD, f"held `{carried.method}` for more than {seconds:g} s")
        self._verdicts.report(lane.peer, lane.other.direction, carried.heading.key, wrong, out)
        if state is State.RETURNED:
            self._finish(carried, out)
        else:
            self._without(carried, error(lane.peer, wrong), out)

    # -- components that are gone, frames that are not taken --------------------------------------

    def lost(self, carried: Carried, out: list[Effect]) -> bool:
        """The component is gone, or cannot take the request. Whether that goes on all the same, or
        has its answer now."""
        gate = carried.lane.peer.gate
        assert gate is not None
        if not gate.enforced:
            return False
        match carried.state:
            case State.PASSED:
                carried.rights &= ~(AMEND | PLACE)  # its answer goes past
            case State.RETURNED:
                self._finish(carried, out)
            case State.STOPPED:
                self._turns.end(carried, out)
            case _:
                if gate.policy.fails == "closed":
                    return False
                self._goes_past(carried, out)
        return True

    def _enforced(self, carried: Carried) -> bool:
        gate = carried.lane.peer.gate
        assert gate is not None
        return gate.enforced

    def may_cancel(self, pending: Pending, out: list[Effect]) -> bool:
        """Whether a component may cancel a request it has sent: its own, or one it has passed on
        and whoever made it has cancelled."""
        carried = pending.passes
        if carried is None or not self._enforced(carried):
            return True
        if carried.pending.cancelled or carried.pending.origin is None:
            return True
        if carried.excused is not None:
            return False
        lane = carried.lane.other
        wrong = Violation(RIGHTS, f"may not cancel `{carried.method}` that it has passed on")
        self._verdicts.report(lane.peer, lane.direction, CANCEL, wrong, out)
        return False


def _with_rule(lane: Lane, found: Heading, wrong: Violation) -> Violation:
    """A refusal that tells the rule of ids, where a request like this one is open."""
    for carried in lane.given.requests.values():
        if carried.heading == found and carried.state is State.GIVEN:
            rule = _ID_RULE.format(carried.id.decode(errors="replace"))
            return Violation(wrong.guard, f"{wrong.text}\nhint: {rule}", wrong.pointer)
    return wrong
