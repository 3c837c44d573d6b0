"""Notifications where policies are: through who carries them, past all others."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import UnsetType

from conductor.core.effects import Effect, Send
from conductor.core.jsonrpc import Params
from conductor.core.policy import changes
from conductor.core.policy.checks import Checks, equal, lacks
from conductor.core.policy.headings import Heading, heading
from conductor.core.policy.key_table import (
    CARRY,
    COPY,
    DROP,
    MODE_KINDS,
    ORIGINATE,
    STATE_KIND,
    STOP,
    TEXT_KINDS,
    update,
)
from conductor.core.policy.observers import Observers, release
from conductor.core.policy.ordering import Held, Notification
from conductor.core.policy.policy_state import PLACE, PolicyState
from conductor.core.policy.sessions import LEARNT_FROM
from conductor.core.state import Carried, Source

if TYPE_CHECKING:
    from conductor.core.exchange import Exchange
    from conductor.core.policy.deadlines import Deadlines
    from conductor.core.policy.turns import Turns
    from conductor.core.state import Lane

_TEXT: Final = frozenset(map(update, TEXT_KINDS))
_STATE: Final = update(STATE_KIND)
_MODES: Final = frozenset(map(update, MODE_KINDS))
_MOST_QUEUED: Final = 8192
"""Entries of one queue; above it the oldest carried notification holds up nothing any more."""


class PolicedNotifications:
    """The part of an enforcer that handles notifications."""

    def __init__(
        self,
        exchange: Exchange,
        checks: Checks,
        copies: Observers,
        turns: Turns,
        deadlines: Deadlines,
    ) -> None:
        self._exchange = exchange
        self._checks = checks
        self._observers = copies
        self._turns = turns
        self._deadlines = deadlines

    def notify(self, lane: Lane, method: str, params: Params, out: list[Effect]) -> None:
        """A notification leaves `lane`."""
        target = lane.across
        assert target is not None
        policy_state, beyond = lane.peer.policy_state, target.peer.policy_state
        if policy_state is None or not policy_state.enforced:
            found = heading(method, params)
            if found.key in LEARNT_FROM and beyond is not None and beyond.enforced:
                self._exchange.sessions.learn(params)
        if policy_state is None:
            source = Source(lane, self._exchange.number)
            self._walk(target, source, method, params, found, out)
            return
        queue = lane.in_flight.queue
        if queue:
            first = queue[0]
            if (
                type(first) is Notification
                and first.params == params
                and first.method == method
                and not lane.in_flight.unforwarded.items
            ):
                # The usual case: what a component carries leaves it as it came, in order.
                queue.popleft()
                if self._exchange.audited:
                    changes.notification(self._exchange, lane, first, params, out)
                if not self._fast(target, lane, first, out):
                    source = Source(lane, self._exchange.number, first.number)
                    self._walk(target, source, method, params, first.heading, out)
                if lane.in_flight.waiting:
                    release(lane, out)
                return
        shown = lane.in_flight.copied_notifications.first()
        if shown and shown.params == params and shown.method == method and not shown.stale:
            self._copy_back(lane, shown, out)
            return
        self._sent(lane, method, params, out)

    def _fast(
        self, lane: Lane, source: Lane, notification: Notification, out: list[Effect]
    ) -> bool:
        """Has a notification that came through unchanged go on at once, where the next peer carries
        it too, or holds nothing at all; else nothing is done."""
        peer, exchange = lane.peer, self._exchange
        if exchange.tracing or exchange.audited or not peer.ready or peer.numbers is not None:
            return False
        policy_state = peer.policy_state
        if policy_state is not None:
            found, queue = notification.heading, lane.other.in_flight.queue
            drops = lane.rights.get(found.key, 0) & (CARRY | DROP) == CARRY | DROP
            if not drops or type(found.detail) is tuple:
                return False
            if len(queue) >= _MOST_QUEUED:
                return False
            notification.source, notification.number, notification.round = (
                source.peer.name,
                exchange.number,
                policy_state.round,
            )
            queue.append(notification)
        out.append(
            Send(peer.name, lane.writer.notification(notification.method, notification.params))
        )
        return True

    # -- what a component sends ----------------------------------------------------------------

    def _sent(self, lane: Lane, method: str, params: Params, out: list[Effect]) -> None:
        """A component sends a notification: what it carries, a copy, or its own."""
        in_flight, policy_state = lane.in_flight, lane.peer.policy_state
        assert policy_state is not None
        notification = in_flight.same(method, params)
        found = heading(method, params) if notification is None else notification.heading
        rights = lane.other.rights_on(found)
        if notification is None:
            notification = in_flight.oldest(found)
        if notification is None:
            self._own(lane, method, params, found, rights, out)
            return
        sent = self._changed(policy_state, lane, notification, params, rights, out)
        self.leaves(lane, notification, out)
        if sent is not None:
            self._noted(policy_state, notification.heading, sent)
            changes.notification(self._exchange, lane, notification, sent, out)
            assert lane.across is not None
            source = Source(lane, self._exchange.number, notification.number)
            # Who is trusted may well make another message of it.
            found = notification.heading if policy_state.enforced else heading(method, sent)
            self._walk(lane.across, source, method, sent, found, out)
        else:
            changes.dropped(self._exchange, lane, notification, out)
        release(lane, out)

    def _changed(
        self,
        policy_state: PolicyState,
        lane: Lane,
        notification: Notification,
        params: Params,
        rights: int,
        out: list[Effect],
    ) -> Params | None:
        """What goes on of a carried notification that a component passes on as `params`: where a
        rule is broken that as it was given, unless its turn is long over."""
        wrong = self._checks.forwards(
            policy_state,
            lane.direction,
            notification.method,
            notification.params,
            params,
            rights,
            notification.heading,
        )
        if wrong is None:
            return params
        self._checks.report(lane.peer, lane.direction, notification.heading.key, wrong, out)
        return notification.params if notification in lane.in_flight.queue else None

    def _copy_back(self, lane: Lane, notification: Notification, out: list[Effect]) -> None:
        """A copy comes back: the original has gone on."""
        lane.in_flight.copied_notifications.remove(notification)
        if notification.held is not None:
            notification.held.ready = True
            release(lane, out)

    def _own(
        self,
        lane: Lane,
        method: str,
        params: Params,
        found: Heading,
        rights: int,
        out: list[Effect],
    ) -> None:
        policy_state = lane.peer.policy_state
        assert policy_state is not None
        ends_own = method == STOP and policy_state.has_turn(found.session)
        may_be_own = ends_own or bool(rights & ORIGINATE)
        shown = lane.in_flight.copied_notifications.same(method, params)
        if shown is None and not may_be_own:
            shown = lane.in_flight.copied_notifications.oldest(found)
        in_round = (
            shown is not None and policy_state.rounds and policy_state.round <= shown.round + 1
        )
        if shown is not None and (in_round or not (may_be_own and shown.stale)):
            if not equal(shown.params, params):
                wrong = lacks(CARRY, lane.direction, found.key)
                self._checks.report(lane.peer, lane.direction, found.key, wrong, out)
            self._copy_back(lane, shown, out)
            return
        held = rights | (ORIGINATE if ends_own else 0)
        unfit = self._checks.originates(
            policy_state, lane.direction, method, params, held, found, asks=False
        )
        if unfit is not None:
            self._checks.report(lane.peer, lane.direction, found.key, unfit, out)
            return
        self._noted(policy_state, found, params)
        assert lane.across is not None
        changes.originated(self._exchange, lane, method, found.session, params, out)
        source = Source(lane, self._exchange.number)
        self._walk(lane.across, source, method, params, found, out)

    def _noted(self, policy_state: PolicyState, found: Heading, params: Params) -> None:
        """Takes note of the modes and options that a component adds by an update."""
        if (
            found.key in _MODES
            and policy_state.policy.grants.modes
            and not isinstance(params, UnsetType)
        ):
            self._exchange.sessions.added(policy_state.name, params, found.session)

    def says(self, lane: Lane, method: str, params: Params, out: list[Effect]) -> None:
        """The conductor says something in the place of the peer of `lane`."""
        source = Source(lane, self._exchange.next_number(), own=True)
        assert lane.across is not None
        self._walk(lane.across, source, method, params, heading(method, params), out)

    # -- what a component is given ---------------------------------------------------------------

    def _walk(
        self,
        lane: Lane,
        source: Source,
        method: str,
        params: Params,
        found: Heading,
        out: list[Effect],
    ) -> None:
        """Walks a notification of `source` on from `lane` until somebody carries it."""
        while (policy_state := lane.peer.policy_state) is not None:
            rights = lane.rights_on(found)
            peer, onward = lane.peer, lane.other
            if method == STOP and policy_state.enforced:
                self._turns.stopped(lane, params, found, rights, out)
            elif rights & CARRY and peer.ready_some_time:
                self._give(lane, source, method, params, found, out)
                return
            elif rights & CARRY and not peer.left_out:
                break
            else:
                if found.key in _TEXT and self._turns.hidden(policy_state, found.session):
                    # What the agent says in a turn of the component's own is for that alone.
                    self._observers.notification(lane, method, params, found, out)
                    return
                if self._turns.is_its_own(policy_state, found.session):
                    if found.key == _STATE:
                        self._turns.told(policy_state, found.session, params)
                    self._observers.notification(lane, method, params, found, out, must=True)
                    return
                if found.key == _STATE and policy_state.policy.turns:
                    within = self._turns.runs_within(policy_state, lane, found.session)
                    self._turns.told(policy_state, found.session, params)
                    if within:
                        # To the user their own turn runs on: its end is told when that is over.
                        self._observers.notification(lane, method, params, found, out, must=True)
                        return
                if (rights & COPY or onward.in_flight.queue) and self._waits(
                    lane, source, method, params, found, rights, out
                ):
                    return
                if self._exchange.audited:
                    changes.went_past(self._exchange, onward, found.session)
            assert onward.across is not None
            lane = onward.across
        self._exchange.notify(lane, method, params, source, out)

    def _waits(
        self,
        lane: Lane,
        source: Source,
        method: str,
        params: Params,
        found: Heading,
        rights: int,
        out: list[Effect],
    ) -> bool:
        """Shows a component what goes past it; whether that has to wait for what it was given
        before, or for its round with the copy."""
        policy_state, onward = lane.peer.policy_state, lane.other
        assert policy_state is not None
        held: Held | None = None
        if rights & PLACE or onward.in_flight.must_wait(found):
            resume = partial(self._past, onward, source, method, params, found)
            held = Held(found, resume, policy_state.round, ready=not rights & PLACE)
        if rights & COPY:
            waits_for = held if rights & PLACE else None
            self._observers.notification(lane, method, params, found, out, waits_for)
        if held is None or (held.ready and not onward.in_flight.must_wait(found)):
            return False
        onward.in_flight.hold(held)
        self._deadlines.round(lane.peer, partial(self.waited, onward, held), out)
        return True

    def _past(
        self,
        onward: Lane,
        source: Source,
        method: str,
        params: Params,
        found: Heading,
        out: list[Effect],
    ) -> None:
        assert onward.across is not None
        self._walk(onward.across, source, method, params, found, out)

    def _give(
        self,
        lane: Lane,
        source: Source,
        method: str,
        params: Params,
        found: Heading,
        out: list[Effect],
    ) -> None:
        """Gives a component a notification to carry: now, or once it is ready for it."""
        peer, in_flight = lane.peer, lane.other.in_flight
        notification = Notification(method, params, found, source.lane.peer.name, source.number, -1)
        notification.order = in_flight.comes()
        in_flight.queue.append(notification)
        if len(in_flight.queue) > _MOST_QUEUED:
            self._shorten(lane.other, out)
        if peer.ready:
            self._send(lane, source, notification, out)
        else:
            peer.backlog.append(partial(self._send, lane, source, notification))

    def _send(
        self, lane: Lane, source: Source, notification: Notification, out: list[Effect]
    ) -> None:
        peer, in_flight, exchange = lane.peer, lane.other.in_flight, self._exchange
        assert peer.policy_state is not None
        if not peer.ready:
            if peer.closure is None:
                peer.backlog.append(partial(self._send, lane, source, notification))
        elif notification in in_flight.queue or notification in in_flight.unforwarded.items:
            notification.round = peer.policy_state.round
            frame = lane.writer.notification(notification.method, notification.params)
            exchange.write(peer, frame, source.number, out)
            if exchange.tracing:
                exchange.tracer.notified(
                    source, lane, notification.method, notification.params, out
                )
            if not lane.rights_on(notification.heading) & DROP:
                self._deadlines.round(peer, partial(self._kept, lane.other, notification), out)

    def another_turn(self, lane: Lane, session: str | None, out: list[Effect]) -> None:
        """The user goes on: what a component that passes on by `lane` was told of cancellations,
        and has not passed on by the end of its round, it may say of its own from now on."""
        notifications = lane.in_flight.copied_notifications.of(Heading(STOP, session))
        policy_state = lane.peer.policy_state
        assert policy_state is not None
        if policy_state.rounds:
            _age(notifications, out)
        elif notifications:
            self._deadlines.round(lane.peer, partial(_age, notifications), out)

    def _kept(self, lane: Lane, notification: Notification, out: list[Effect]) -> None:
        """A component without rounds has had long enough to pass on what it may not drop."""
        if notification in lane.in_flight.queue:
            for one in lane.in_flight.until(notification):
                self.treat_as_swallowed(lane, one, out)
            release(lane, out)

    def _shorten(self, lane: Lane, out: list[Effect]) -> None:
        first = next(entry for entry in lane.in_flight.queue if type(entry) is Notification)
        self.treat_as_swallowed(lane, first, out)
        release(lane, out)

    # -- the order -------------------------------------------------------------------------------

    def leaves(self, lane: Lane, entry: Notification | Carried, out: list[Effect]) -> None:
        """A component passes on an entry by `lane`: it has had its say about what it was given
        before that in the session, and older notifications of the same key are dropped."""
        in_flight = lane.in_flight
        if type(entry) is Notification and entry in in_flight.unforwarded.items:
            in_flight.unforwarded.remove(entry)
            return
        if in_flight.queue and in_flight.queue[0] is not entry and entry in in_flight.queue:
            self._leaves_before(lane, entry, out)
        if type(entry) is Notification and in_flight.unforwarded.items:
            for unforwarded in in_flight.unforwarded.of(entry.heading):
                in_flight.unforwarded.remove(unforwarded)
                changes.dropped(self._exchange, lane, unforwarded, out)
        in_flight.leave(entry)

    def _leaves_before(self, lane: Lane, entry: Notification | Carried, out: list[Effect]) -> None:
        in_flight = lane.in_flight
        session = entry.heading.session
        for other in in_flight.before(entry):
            if other.heading.session != session:
                continue
            if type(other) is Notification:
                self.treat_as_swallowed(lane, other, out)
            elif type(other) is Carried:
                in_flight.leave(other)
        for other in in_flight.before(entry):
            # One that goes may let go those behind it.
            if (
                type(other) is Held
                and other.heading.session == session
                and other in in_flight.queue
            ):
                in_flight.go(other)
                other.resume(out)

    def heard(self, lane: Lane, round_: int, out: list[Effect]) -> None:
        """A guest has had a round: what it was given for that holds up nothing any more."""
        if lane.in_flight.queue:
            for notification in lane.in_flight.had_round(round_):
                self.treat_as_swallowed(lane, notification, out)
            release(lane, out)

    def waited(self, lane: Lane, held: Held, out: list[Effect]) -> None:
        """A message has waited for a component without rounds long enough."""
        if held not in lane.in_flight.queue:
            return
        if lane.peer.ready:
            for notification in lane.in_flight.until(held):
                self.treat_as_swallowed(lane, notification, out)
            release(lane, out)
        elif lane.in_flight.overtakes(held):  # what stands before it is still to be given
            held.resume(out)

    def treat_as_swallowed(self, lane: Lane, notification: Notification, out: list[Effect]) -> None:
        """A carried notification holds up nothing any more; what may not be dropped goes on as it
        was given, in its place."""
        in_flight = lane.in_flight
        if lane.other.rights_on(notification.heading) & DROP:
            in_flight.leave(notification)
            gone = in_flight.unforwarded.add(notification)
            if gone is not None:
                changes.dropped(self._exchange, lane, gone, out)
            return
        self._goes_past(lane, notification)

    def _goes_past(self, lane: Lane, notification: Notification) -> None:
        resume, in_flight = partial(self._as_given, lane, notification), lane.in_flight
        in_flight.stand_in(
            notification, Held(notification.heading, resume, notification.round, ready=True)
        )

    def _as_given(self, lane: Lane, notification: Notification, out: list[Effect]) -> None:
        assert lane.across is not None
        source = Source(lane, self._exchange.next_number(), notification.number, own=True)
        self._walk(
            lane.across, source, notification.method, notification.params, notification.heading, out
        )

    def gone(self, lane: Lane, out: list[Effect], *, settled: bool) -> None:
        """A component has ended: what it carried is lost with it; `settled`: with its whole chain,
        so that what it has not passed on it never will."""
        in_flight = lane.in_flight
        notifications = [entry for entry in in_flight.queue if type(entry) is Notification]
        for notification in (*in_flight.unforwarded.items, *(notifications if settled else ())):
            changes.dropped(self._exchange, lane, notification, out)
        if settled:
            in_flight.unforwarded.clear()
            return
        policy_state = lane.peer.policy_state
        assert policy_state is not None
        for notification in notifications:
            lost = notification.round >= 0 or policy_state.policy.fails == "closed"
            if notification.round < 0 and lane.peer.closure is None:
                continue  # it will be given that when it is back
            if lost and lane.other.rights_on(notification.heading) & DROP:
                in_flight.leave(notification)
                changes.dropped(self._exchange, lane, notification, out)
            else:
                self._goes_past(lane, notification)
        in_flight.clear()
        for entry in in_flight.queue:
            if type(entry) is Held:
                entry.ready = True
        release(lane, out)


def _age(notifications: list[Notification], out: list[Effect]) -> None:
    for notification in notifications:
        notification.stale = True
