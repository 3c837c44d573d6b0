"""Notifications where policies are: through the components that carry them, past all others."""

from __future__ import annotations

from typing import Final

from msgspec import Raw, UnsetType

from conductor.core import json_text
from conductor.core.jsonrpc import Params
from conductor.core.parts import Part
from conductor.core.policy import changes
from conductor.core.policy.checks import equal, lacks, passes, paused
from conductor.core.policy.entries import Notification, WaitingInOrder
from conductor.core.policy.headings import Heading, Message, read_message
from conductor.core.policy.headings import heading as read_heading
from conductor.core.policy.key_table import (
    CARRY,
    COPY,
    DROP,
    OPTIONS_KIND,
    ORIGINATE,
    PLACE,
    STATE_KIND,
    STOP,
    UPDATE,
    update,
)
from conductor.core.policy.policy_state import PolicyState
from conductor.core.policy.sessions import LEARNT_FROM
from conductor.core.state import Lane, Next, Peer, Source, Visit, Waiting
from conductor.core.waits import ROUND, Round

_STATE: Final = update(STATE_KIND)
_OPTIONS: Final = update(OPTIONS_KIND)
_MOST_QUEUED: Final = 8192
"""Entries of one queue; above it the oldest carried notification holds up nothing any more."""


class PolicedNotifications(Part):
    """The part of a router that handles notifications."""

    # -- a notification leaves a peer ------------------------------------------------------------

    def notify(self, lane: Lane, method: str, params: Params) -> None:
        """A notification leaves `lane`."""
        target = lane.across
        assert target is not None
        policy_state, beyond = lane.peer.policy_state, target.peer.policy_state
        if policy_state is None or not policy_state.enforced:
            learns = beyond is not None and beyond.enforced
            if learns or policy_state is None:
                message = read_message(method, params)
                if learns and message.heading.key in LEARNT_FROM:
                    self._exchange.sessions.learn(params)
                if policy_state is None:
                    if lane.renames is not None:
                        message = message.renamed(lane.renames)
                    self.route(target, Source(lane, self._exchange.number), message)
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
                self.passed_on(lane, first)
                return
        copy = lane.in_flight.copied_notifications.first()
        if copy and copy.params == params and copy.method == method and not copy.stale:
            self._copy_back(lane, copy)
            return
        self._identify(lane, method, params)

    def passed_on(self, lane: Lane, notification: Notification) -> None:
        """A component passes on, as it came, the notification that is the next to leave it."""
        lane.in_flight.queue.popleft()
        if self._exchange.audited:
            changes.notification(self._exchange, lane, notification, notification.params)
        source = Source(lane, self._exchange.number, notification.number)
        message = Message(notification.method, notification.params, notification.heading)
        self._leave(lane, source, message)
        if lane.in_flight.waiting:
            self._parts.waits.release(lane)

    def _identify(self, lane: Lane, method: str, params: Params) -> None:
        """A component sends a notification: a carried notification, a copy, or its own."""
        in_flight, policy_state = lane.in_flight, lane.peer.policed
        notification = in_flight.same(method, params)
        heading = read_heading(method, params) if notification is None else notification.heading
        rights = lane.other.rights_on(heading)
        if notification is None:
            notification = in_flight.oldest(heading)
        if notification is None:
            self._copy_or_own(lane, Message(method, params, heading), rights)
            return
        sent = self._allowed(lane, notification, params, rights)
        self.leaves(lane, notification)
        if sent is not None:
            self._learn(policy_state, notification.heading, sent)
            changes.notification(self._exchange, lane, notification, sent)
            source = Source(lane, self._exchange.number, notification.number)
            # A trusted component may well make another message of it, so its message is read anew.
            heading = notification.heading if policy_state.enforced else read_heading(method, sent)
            self._leave(lane, source, Message(method, sent, heading))
        else:
            changes.dropped(self._exchange, lane, notification)
        self._parts.waits.release(lane)

    def _allowed(
        self, lane: Lane, notification: Notification, params: Params, rights: int
    ) -> Params | None:
        """The params that go on, of a carried notification that a component passes on as `params`.

        If it breaks a rule, they are the params that it was given. None: it is too late for these,
        or the component fails closed and may drop the notification.
        """
        violation = self._parts.checks.forwards(lane, notification, params, rights)
        if violation is None:
            return passes(lane.peer.policed, notification.params, params, rights)
        self._parts.checks.report(lane, notification.heading, violation)
        if lane.peer.policed.policy.fails == "closed" and rights & DROP:
            return None
        return notification.params if notification in lane.in_flight.queue else None

    def _copy_back(self, lane: Lane, copy: Notification) -> None:
        """A component passes on a copy: the original has gone on."""
        lane.in_flight.copied_notifications.remove(copy)
        self._parts.waits.ready(copy.held)

    def _copy_or_own(self, lane: Lane, message: Message, rights: int) -> None:
        """A component passes on a copy, maybe changed, or sends a notification of its own."""
        policy_state, key = lane.peer.policed, message.key
        ends_own = message.method == STOP and policy_state.has_turn(message.session)
        rights |= ORIGINATE if ends_own else 0
        may_be_own = bool(rights & ORIGINATE)
        copies = lane.in_flight.copied_notifications
        copy = copies.same(message.method, message.params)
        if copy is None and not may_be_own:
            copy = copies.oldest(message.heading)
        if copy is not None:
            in_round = policy_state.rounds and policy_state.round <= copy.round + 1
            if in_round or not (may_be_own and copy.stale):
                if not equal(copy.params, message.params):
                    violation = lacks(policy_state, CARRY, lane.direction, key)
                    self._parts.checks.report(lane, message.heading, violation)
                self._copy_back(lane, copy)
                return
        if lane.muted(message.heading):
            self._exchange.log("debug", lane.peer, paused(lane.peer, message.method).text)
            return
        unfit = self._parts.checks.originates(lane, message, rights, is_request=False)
        if unfit is not None:
            self._parts.checks.report(lane, message.heading, unfit)
            return
        self._learn(policy_state, message.heading, message.params)
        if ends_own:
            self._parts.turns.stops_own(lane, message.session)
        changes.originated(self._exchange, lane, message)
        self._leave(lane, Source(lane, self._exchange.number), message)

    def _learn(self, policy_state: PolicyState, heading: Heading, params: Params) -> None:
        """Remembers the options that a component adds by an update."""
        adds = heading.key == _OPTIONS and policy_state.policy.grants.options
        if adds and not isinstance(params, UnsetType):
            self._exchange.sessions.added(policy_state.name, params, heading.session)

    def send_for(self, lane: Lane, method: str, params: Params) -> None:
        """The conductor sends a notification in the place of the peer of `lane`."""
        source = Source(lane, self._exchange.next_number(), own=True)
        if lane.port and lane.across is not None:  # no part of the chain's conversation
            self._exchange.notify(lane.across, method, params, source)
        else:
            self._leave(lane, source, read_message(method, params))

    def shows(self, peer: Peer, session: str, kind: str, **held: object) -> None:
        """The conductor sends an update of a session in the peer's place. `session`: the peer's id
        of it."""
        update = {"sessionUpdate": kind, **held}
        params = Raw(json_text.encode({"sessionId": session, "update": update}))
        self.send_for(peer.p, UPDATE, params)

    # -- a notification arrives at the next peers ------------------------------------------------

    def route(self, lane: Lane, source: Source, message: Message) -> None:
        """Routes a notification on from `lane` to the first component that carries it."""
        method, params, heading = message
        while (policy_state := lane.peer.policy_state) is not None:
            rights = lane.rights_now(heading)
            onward = lane.other
            renamed = lane.aliases is not None and policy_state.enforced
            if renamed and self._parts.names.is_set_aside(lane, heading.session):
                text = f"`{method}` dropped: the former session goes on as another"
                self._exchange.log("debug", lane.peer, text)
                return
            if method == STOP and policy_state.enforced:
                self._parts.cancellations.stopped(lane, message, rights)
            elif rights & CARRY and (lane.peer.ready or lane.peer.ready_some_time):
                self._give(lane, source, message)
                return
            elif rights & CARRY and not lane.peer.left_out:
                break
            elif policy_state.prompts and self._is_for_own_turn(lane, message, rights):
                self._parts.turns.withhold(policy_state, source, message)
                return
            else:
                if (rights & COPY or onward.in_flight.queue) and self._waits(
                    lane, source, message, rights
                ):
                    return
                if self._is_kept(onward, source, message):
                    return
                if self._exchange.audited:
                    changes.went_past(self._exchange, onward, heading.session)
            assert onward.across is not None
            if onward.renames is not None:
                message = message.renamed(onward.renames)
                method, params, heading = message
            lane = onward.across
        self._exchange.notify(lane, method, params, source)

    def _is_for_own_turn(self, lane: Lane, message: Message, rights: int) -> bool:
        """Whether a notification is about a turn of the component's own alone. The component gets a
        copy of it, and also copies of updates of such a turn that the client sees."""
        policy_state, turns = lane.peer.policed, self._parts.turns
        key, session = message.key, message.session
        alone = turns.heard_alone(policy_state, lane, message.heading)
        if not alone and turns.heard_too(policy_state, message.heading) and not rights & COPY:
            self._parts.observers.notification(lane, message, must=key == _STATE)
        own_session = turns.is_own_session(policy_state, session)
        # To the user, the user's turn runs on while one of the component's runs within it.
        within = (
            key == _STATE
            and bool(policy_state.policy.grants.turns)
            and turns.runs_within(policy_state, lane, session)
        )
        if key == _STATE and (own_session or policy_state.policy.grants.turns):
            turns.state_reported(policy_state, session, message.params)
        if own_session or within or alone:
            self._parts.observers.notification(lane, message, must=own_session or key == _STATE)
        elif policy_state.parts and turns.goes_on(policy_state, message):
            self.show_withheld(lane, session)
        return own_session or within or alone

    def show_withheld(self, lane: Lane, session: str | None) -> None:
        """Updates of tools in hidden turns of the component at `lane` go on past it, in this
        session (None: in any): the agent asks something there, or the component is gone."""
        for source, message in self._parts.turns.unhide(lane.peer.policed, session):
            if not self._waits(lane, source, message, 0):
                changes.went_past(self._exchange, lane.other, message.session)
                self._leave(lane.other, source, message)

    def _waits(self, lane: Lane, source: Source, message: Message, rights: int) -> bool:
        """Copies to a component a message that goes past it. Returns whether the message waits for
        those that the component was given before, or for its round with the copy."""
        onward = lane.other
        held: Waiting | None = None
        if rights & PLACE or onward.in_flight.must_wait(message.heading):
            held = Waiting(Next.LEAVES, onward, source, message, heading=message.heading)
            held.ready = not rights & PLACE
        if rights & COPY:
            self._parts.observers.notification(lane, message, held if rights & PLACE else None)
        if held is None or (held.ready and not onward.in_flight.must_wait(message.heading)):
            return False
        self.defer(held)
        return True

    def defer(self, waiting: Waiting) -> None:
        """Has a message wait before it leaves a component, no longer than a round."""
        waiting.round = waiting.lane.peer.policed.round
        waiting.lane.in_flight.hold(waiting)
        self._parts.deadlines.round(waiting.lane, waiting)

    def goes_past(self, onward: Lane, source: Source, message: Message) -> None:
        """A notification goes past a component, which it leaves by `onward`."""
        if not self._is_kept(onward, source, message):
            self._leave(onward, source, message)

    def _is_kept(self, onward: Lane, source: Source, message: Message) -> bool:
        """Whether a notification that goes past a component says, in version 2, that the turn is
        over in which a turn of the component nests: then it waits for the end of the nested
        turn."""
        policy_state = onward.peer.policed
        if message.key != _STATE or not policy_state.enforced:
            return False
        later = Waiting(Next.LEAVES, onward, source, message)
        return self._parts.own_turns.keeps_state(onward.peer, message.params, later)

    def _leave(self, lane: Lane, source: Source, message: Message) -> None:
        """A notification leaves a peer by `lane`."""
        assert lane.across is not None
        if lane.renames is not None:
            message = message.renamed(lane.renames)
        self.route(lane.across, source, message)

    def _give(self, lane: Lane, source: Source, message: Message) -> None:
        """Gives a component a notification to carry: now, or once it is ready for it."""
        peer, in_flight = lane.peer, lane.other.in_flight
        name, order = source.lane.peer.name, in_flight.comes()
        notification = Notification(*message, name, source.number, -1, order)
        in_flight.queue.append(notification)
        if len(in_flight.queue) > _MOST_QUEUED:
            oldest = next(entry for entry in in_flight.queue if type(entry) is Notification)
            self._time_is_up(lane.other, [oldest])
        if peer.ready:
            self._send(lane, source, notification)
        else:
            peer.backlog.append(Waiting(Next.GIVEN, lane, (source, notification)))

    def send_late(self, lane: Lane, source: Source, notification: Notification) -> None:
        """Sends a component a notification that has waited for it, if it is still carried."""
        peer, in_flight = lane.peer, lane.other.in_flight
        if not peer.ready:
            if peer.closure is None:
                peer.backlog.append(Waiting(Next.GIVEN, lane, (source, notification)))
        elif notification in in_flight.queue or notification in in_flight.unforwarded.items:
            self._send(lane, source, notification)

    def _send(self, lane: Lane, source: Source, notification: Notification) -> None:
        peer, exchange = lane.peer, self._exchange
        notification.round = peer.policed.round
        method, params = notification.method, notification.params
        frame = lane.writer.notification(method, params)
        if peer.returns and not method.startswith("_"):
            notification.frame = frame
        exchange.deliver(peer, frame, source.number)
        if exchange.logs:
            exchange.entries.notified(source, lane, method, params)
        if not lane.rights_on(notification.heading) & DROP:
            self._parts.deadlines.round(lane.other, notification)

    def user_goes_on(self, lane: Lane, copies: list[Notification]) -> None:
        """The user prompts again: a component may send cancellations of its own that equal copies
        it got before, and has not passed on by `lane` by the end of its round."""
        if lane.peer.policed.rounds:
            self.had_a_round(Round(lane, copies))
        else:
            self._parts.deadlines.after(ROUND, Round(lane, copies))

    def _time_is_up(self, lane: Lane, notifications: list[Notification]) -> None:
        """Sends on messages that have waited for carried notifications: these hold up nothing
        now."""
        for notification in notifications:
            self._treat_as_swallowed(lane, notification)
        self._parts.observers.prompts_go_on(lane)
        self._parts.waits.release(lane)

    # -- the order -------------------------------------------------------------------------------

    def leaves(self, lane: Lane, entry: Notification | Visit) -> None:
        """A component passes on an entry by `lane`.

        Its turn is over for messages that it was given before in the session: such notifications
        count as swallowed. Older unforwarded notifications of the same key are dropped.
        """
        in_flight = lane.in_flight
        if type(entry) is Notification and entry in in_flight.unforwarded.items:
            in_flight.unforwarded.remove(entry)
            return
        if in_flight.queue and in_flight.queue[0] is not entry and entry in in_flight.queue:
            self._leaves_before(lane, entry)
        if type(entry) is Notification and in_flight.unforwarded.items:
            for older in in_flight.unforwarded.of(entry.heading):
                in_flight.unforwarded.remove(older)
                changes.dropped(self._exchange, lane, older)
        in_flight.leave(entry)

    def _leaves_before(self, lane: Lane, entry: Notification | Visit) -> None:
        in_flight = lane.in_flight
        session = entry.heading.session
        for other in in_flight.before(entry):
            if other.heading.session != session:
                continue
            if type(other) is Notification:
                self._treat_as_swallowed(lane, other)
            elif type(other) is Visit:
                in_flight.leave(other)
        for other in in_flight.before(entry):
            # One that goes may let go those behind it.
            if (
                isinstance(other, WaitingInOrder)
                and other.heading.session == session
                and other in in_flight.queue
            ):
                in_flight.go(other)
                self._parts.waits.go_on(other)

    def round_over(self, peer: Peer) -> None:
        """A guest has been delivered everything that was written to it before its round began, and
        has returned all it had to send for that."""
        for lane in (peer.p, peer.s):
            if lane.in_flight.queue or lane.in_flight.set_ups:
                self._time_is_up(lane, lane.in_flight.had_round(peer.policed.round))

    def had_a_round(self, due: Round) -> None:
        """A component has had an entry, or copies, for the time of a round."""
        lane, entry = due
        if isinstance(entry, list):
            for copy in entry:
                copy.stale = True
        elif isinstance(entry, Visit):
            lane.in_flight.set_ups.clear()
            self._time_is_up(lane, [])
        elif entry not in lane.in_flight.queue:
            pass
        elif isinstance(entry, Notification) or lane.peer.ready:
            self._time_is_up(lane, lane.in_flight.until(entry))
        elif lane.in_flight.overtakes(entry):  # the entries before it are still to be delivered
            self._parts.waits.go_on(entry)

    def _treat_as_swallowed(self, lane: Lane, notification: Notification) -> None:
        """A carried notification holds up nothing any more. If the component may not drop it, it
        goes on unchanged, in its place."""
        in_flight = lane.in_flight
        if not lane.other.rights_on(notification.heading) & DROP:
            self._parts.checks.swallowed(lane, notification)
            self._continue_without(lane, notification)
            return
        in_flight.leave(notification)
        notification.frame = b""
        forgotten = in_flight.unforwarded.add(notification)
        if forgotten is not None:
            changes.dropped(self._exchange, lane, forgotten)

    def _continue_without(self, lane: Lane, notification: Notification) -> None:
        held = Waiting(Next.UNCHANGED, lane, notification, heading=notification.heading)
        held.round = notification.round
        lane.in_flight.stand_in(notification, held)

    def leave_unchanged(self, lane: Lane, notification: Notification) -> None:
        """A notification leaves a component that has not passed it on, as the component got it."""
        number = self._exchange.next_number()
        source = Source(lane, number, notification.number, own=True)
        self._leave(lane, source, notification.message)

    def gone(self, peer: Peer) -> None:
        """A component is gone: notifications that it carried are settled, and those that wait go
        on."""
        if peer.policy_state is not None:
            if peer.p.across is not None:
                self.show_withheld(peer.p.other, None)
            for lane in (peer.p, peer.p.other):
                self._lost(lane, settled=False)

    def settled(self, peer: Peer) -> None:
        """A component ends with its chain: it never passes on the notifications that it still
        has."""
        if peer.policy_state is not None:
            for lane in (peer.p, peer.p.other):
                self._lost(lane, settled=True)

    def _lost(self, lane: Lane, *, settled: bool) -> None:
        """A component has ended, and the notifications that it carried are lost with it.

        `settled`: its whole chain has ended, so that it never passes on the rest.
        """
        in_flight = lane.in_flight
        notifications = [entry for entry in in_flight.queue if type(entry) is Notification]
        for notification in (*in_flight.unforwarded.items, *(notifications if settled else ())):
            changes.dropped(self._exchange, lane, notification)
        if settled:
            in_flight.unforwarded.clear()
            return
        policy_state = lane.peer.policed
        for notification in notifications:
            lost = notification.round >= 0 or policy_state.policy.fails == "closed"
            if notification.round < 0 and lane.peer.closure is None:
                continue  # it is delivered once the component is back
            if lost and lane.other.rights_on(notification.heading) & DROP:
                in_flight.leave(notification)
                changes.dropped(self._exchange, lane, notification)
            else:
                self._continue_without(lane, notification)
        in_flight.clear()
        for entry in in_flight.queue:
            if isinstance(entry, WaitingInOrder):
                entry.ready = True
        self._parts.waits.release(lane)
