"""Notifications where policies are: through who carries them, past all others."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import UnsetType

from conductor.core.effects import Effect, Send
from conductor.core.policy import changes
from conductor.core.policy.checks import Verdicts, equal, lacks
from conductor.core.policy.gate import PLACE, Gate
from conductor.core.policy.keys import Heading, Params, heading
from conductor.core.policy.observers import Copies, release
from conductor.core.policy.ordering import Held, Note
from conductor.core.policy.rules import (
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
from conductor.core.policy.sessions import LEARNT_FROM
from conductor.core.state import Carried, Source

if TYPE_CHECKING:
    from conductor.core.exchange import Exchange
    from conductor.core.policy.timeouts import Wakes
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
        self, exchange: Exchange, verdicts: Verdicts, copies: Copies, turns: Turns, wakes: Wakes
    ) -> None:
        self._exchange = exchange
        self._verdicts = verdicts
        self._copies = copies
        self._turns = turns
        self._wakes = wakes

    def notify(self, lane: Lane, method: str, params: Params, out: list[Effect]) -> None:
        """A notification leaves `lane`."""
        target = lane.across
        assert target is not None
        gate, beyond = lane.peer.gate, target.peer.gate
        if gate is None or not gate.enforced:
            found = heading(method, params)
            if found.key in LEARNT_FROM and beyond is not None and beyond.enforced:
                self._exchange.sessions.learn(params)
        if gate is None:
            source = Source(lane, self._exchange.number)
            self._walk(target, source, method, params, found, out)
            return
        queue = lane.given.queue
        if queue:
            first = queue[0]
            if (
                type(first) is Note
                and first.params == params
                and first.method == method
                and not lane.given.late.items
            ):
                # The usual case: what a component carries leaves it as it came, in order.
                queue.popleft()
                if self._exchange.audited:
                    changes.notification(self._exchange, lane, first, params, out)
                if not self._fast(target, lane, first, out):
                    source = Source(lane, self._exchange.number, first.number)
                    self._walk(target, source, method, params, first.heading, out)
                if lane.given.waiting:
                    release(lane, out)
                return
        shown = lane.given.shown.first()
        if shown and shown.params == params and shown.method == method and not shown.stale:
            self._copy_back(lane, shown, out)
            return
        self._sent(lane, method, params, out)

    def _fast(self, lane: Lane, source: Lane, note: Note, out: list[Effect]) -> bool:
        """Has a notification that came through unchanged go on at once, where the next peer carries
        it too, or holds nothing at all; else nothing is done."""
        peer, exchange = lane.peer, self._exchange
        if exchange.tracing or exchange.audited or not peer.ready or peer.numbers is not None:
            return False
        gate = peer.gate
        if gate is not None:
            found, queue = note.heading, lane.other.given.queue
            drops = lane.rights.get(found.key, 0) & (CARRY | DROP) == CARRY | DROP
            if not drops or type(found.detail) is tuple:
                return False
            if len(queue) >= _MOST_QUEUED:
                return False
            note.source, note.number, note.round = source.peer.name, exchange.number, gate.round
            queue.append(note)
        out.append(Send(peer.name, lane.writer.notification(note.method, note.params)))
        return True

    # -- what a component sends ----------------------------------------------------------------

    def _sent(self, lane: Lane, method: str, params: Params, out: list[Effect]) -> None:
        """A component sends a notification: what it carries, a copy, or its own."""
        given, gate = lane.given, lane.peer.gate
        assert gate is not None
        note = given.same(method, params)
        found = heading(method, params) if note is None else note.heading
        rights = lane.other.rights_on(found)
        if note is None:
            note = given.oldest(found)
        if note is None:
            self._own(lane, method, params, found, rights, out)
            return
        sent = self._changed(gate, lane, note, params, rights, out)
        self.leaves(lane, note, out)
        if sent is not None:
            self._noted(gate, note.heading, sent)
            changes.notification(self._exchange, lane, note, sent, out)
            assert lane.across is not None
            source = Source(lane, self._exchange.number, note.number)
            # Who is trusted may well make another message of it.
            found = note.heading if gate.enforced else heading(method, sent)
            self._walk(lane.across, source, method, sent, found, out)
        else:
            changes.dropped(self._exchange, lane, note, out)
        release(lane, out)

    def _changed(
        self,
        gate: Gate,
        lane: Lane,
        note: Note,
        params: Params,
        rights: int,
        out: list[Effect],
    ) -> Params | None:
        """What goes on of a carried notification that a component passes on as `params`: where a
        rule is broken that as it was given, unless its turn is long over."""
        wrong = self._verdicts.forwards(
            gate, lane.direction, note.method, note.params, params, rights, note.heading
        )
        if wrong is None:
            return params
        self._verdicts.report(lane.peer, lane.direction, note.heading.key, wrong, out)
        return note.params if note in lane.given.queue else None

    def _copy_back(self, lane: Lane, note: Note, out: list[Effect]) -> None:
        """A copy comes back: the original has gone on."""
        lane.given.shown.remove(note)
        if note.held is not None:
            note.held.ready = True
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
        gate = lane.peer.gate
        assert gate is not None
        ends_own = method == STOP and gate.has_turn(found.session)
        may_be_own = ends_own or bool(rights & ORIGINATE)
        shown = lane.given.shown.same(method, params)
        if shown is None and not may_be_own:
            shown = lane.given.shown.oldest(found)
        in_round = shown is not None and gate.rounds and gate.round <= shown.round + 1
        if shown is not None and (in_round or not (may_be_own and shown.stale)):
            if not equal(shown.params, params):
                wrong = lacks(CARRY, lane.direction, found.key)
                self._verdicts.report(lane.peer, lane.direction, found.key, wrong, out)
            self._copy_back(lane, shown, out)
            return
        held = rights | (ORIGINATE if ends_own else 0)
        unfit = self._verdicts.originates(
            gate, lane.direction, method, params, held, found, asks=False
        )
        if unfit is not None:
            self._verdicts.report(lane.peer, lane.direction, found.key, unfit, out)
            return
        self._noted(gate, found, params)
        assert lane.across is not None
        changes.originated(self._exchange, lane, method, found.session, params, out)
        source = Source(lane, self._exchange.number)
        self._walk(lane.across, source, method, params, found, out)

    def _noted(self, gate: Gate, found: Heading, params: Params) -> None:
        """Takes note of the modes and options that a component adds by an update."""
        if found.key in _MODES and gate.policy.grants.modes and not isinstance(params, UnsetType):
            self._exchange.sessions.added(gate.name, params, found.session)

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
        while (gate := lane.peer.gate) is not None:
            rights = lane.rights_on(found)
            peer, onward = lane.peer, lane.other
            if method == STOP and gate.enforced:
                self._turns.stopped(lane, params, found, rights, out)
            elif rights & CARRY and peer.ready_some_time:
                self._give(lane, source, method, params, found, out)
                return
            elif rights & CARRY and not peer.left_out:
                break
            else:
                if found.key in _TEXT and self._turns.hidden(gate, found.session):
                    # What the agent says in a turn of the component's own is for that alone.
                    self._copies.notification(lane, method, params, found, out)
                    return
                if self._turns.is_its_own(gate, found.session):
                    if found.key == _STATE:
                        self._turns.told(gate, found.session, params)
                    self._copies.notification(lane, method, params, found, out, must=True)
                    return
                if found.key == _STATE and gate.policy.turns:
                    within = self._turns.runs_within(gate, lane, found.session)
                    self._turns.told(gate, found.session, params)
                    if within:
                        # To the user their own turn runs on: its end is told when that is over.
                        self._copies.notification(lane, method, params, found, out, must=True)
                        return
                if (rights & COPY or onward.given.queue) and self._waits(
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
        gate, onward = lane.peer.gate, lane.other
        assert gate is not None
        held: Held | None = None
        if rights & PLACE or onward.given.must_wait(found):
            resume = partial(self._past, onward, source, method, params, found)
            held = Held(found, resume, gate.round, ready=not rights & PLACE)
        if rights & COPY:
            waits_for = held if rights & PLACE else None
            self._copies.notification(lane, method, params, found, out, waits_for)
        if held is None or (held.ready and not onward.given.must_wait(found)):
            return False
        onward.given.hold(held)
        self._wakes.round(lane.peer, partial(self.waited, onward, held), out)
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
        peer, given = lane.peer, lane.other.given
        note = Note(method, params, found, source.lane.peer.name, source.number, -1)
        note.order = given.comes()
        given.queue.append(note)
        if len(given.queue) > _MOST_QUEUED:
            self._shorten(lane.other, out)
        if peer.ready:
            self._send(lane, source, note, out)
        else:
            peer.backlog.append(partial(self._send, lane, source, note))

    def _send(self, lane: Lane, source: Source, note: Note, out: list[Effect]) -> None:
        peer, given, exchange = lane.peer, lane.other.given, self._exchange
        assert peer.gate is not None
        if not peer.ready:
            if peer.closure is None:
                peer.backlog.append(partial(self._send, lane, source, note))
        elif note in given.queue or note in given.late.items:
            note.round = peer.gate.round
            frame = lane.writer.notification(note.method, note.params)
            exchange.write(peer, frame, source.number, out)
            if exchange.tracing:
                exchange.tracer.notified(source, lane, note.method, note.params, out)
            if not lane.rights_on(note.heading) & DROP:
                self._wakes.round(peer, partial(self._kept, lane.other, note), out)

    def another_turn(self, lane: Lane, session: str | None, out: list[Effect]) -> None:
        """The user goes on: what a component that passes on by `lane` was told of cancellations,
        and has not passed on by the end of its round, it may say of its own from now on."""
        notes = lane.given.shown.of(Heading(STOP, session))
        gate = lane.peer.gate
        assert gate is not None
        if gate.rounds:
            _age(notes, out)
        elif notes:
            self._wakes.round(lane.peer, partial(_age, notes), out)

    def _kept(self, lane: Lane, note: Note, out: list[Effect]) -> None:
        """A component without rounds has had long enough to pass on what it may not drop."""
        if note in lane.given.queue:
            for one in lane.given.until(note):
                self.had_say(lane, one, out)
            release(lane, out)

    def _shorten(self, lane: Lane, out: list[Effect]) -> None:
        first = next(entry for entry in lane.given.queue if type(entry) is Note)
        self.had_say(lane, first, out)
        release(lane, out)

    # -- the order -------------------------------------------------------------------------------

    def leaves(self, lane: Lane, entry: Note | Carried, out: list[Effect]) -> None:
        """A component passes on an entry by `lane`: it has had its say about what it was given
        before that in the session, and older notifications of the same key are dropped."""
        given = lane.given
        if type(entry) is Note and entry in given.late.items:
            given.late.remove(entry)
            return
        if given.queue and given.queue[0] is not entry and entry in given.queue:
            self._leaves_before(lane, entry, out)
        if type(entry) is Note and given.late.items:
            for late in given.late.of(entry.heading):
                given.late.remove(late)
                changes.dropped(self._exchange, lane, late, out)
        given.leave(entry)

    def _leaves_before(self, lane: Lane, entry: Note | Carried, out: list[Effect]) -> None:
        given = lane.given
        session = entry.heading.session
        for other in given.before(entry):
            if other.heading.session != session:
                continue
            if type(other) is Note:
                self.had_say(lane, other, out)
            elif type(other) is Carried:
                given.leave(other)
        for other in given.before(entry):
            # One that goes may let go those behind it.
            if type(other) is Held and other.heading.session == session and other in given.queue:
                given.go(other)
                other.resume(out)

    def heard(self, lane: Lane, round_: int, out: list[Effect]) -> None:
        """A guest has had a round: what it was given for that holds up nothing any more."""
        if lane.given.queue:
            for note in lane.given.had_round(round_):
                self.had_say(lane, note, out)
            release(lane, out)

    def waited(self, lane: Lane, held: Held, out: list[Effect]) -> None:
        """A message has waited for a component without rounds long enough."""
        if held not in lane.given.queue:
            return
        if lane.peer.ready:
            for note in lane.given.until(held):
                self.had_say(lane, note, out)
            release(lane, out)
        elif lane.given.overtakes(held):  # what stands before it is still to be given
            held.resume(out)

    def had_say(self, lane: Lane, note: Note, out: list[Effect]) -> None:
        """A carried notification holds up nothing any more; what may not be dropped goes on as it
        was given, in its place."""
        given = lane.given
        if lane.other.rights_on(note.heading) & DROP:
            given.leave(note)
            gone = given.late.add(note)
            if gone is not None:
                changes.dropped(self._exchange, lane, gone, out)
            return
        self._goes_past(lane, note)

    def _goes_past(self, lane: Lane, note: Note) -> None:
        resume, given = partial(self._as_given, lane, note), lane.given
        given.stand_in(note, Held(note.heading, resume, note.round, ready=True))

    def _as_given(self, lane: Lane, note: Note, out: list[Effect]) -> None:
        assert lane.across is not None
        source = Source(lane, self._exchange.next_number(), note.number, own=True)
        self._walk(lane.across, source, note.method, note.params, note.heading, out)

    def gone(self, lane: Lane, out: list[Effect], *, settled: bool) -> None:
        """A component has ended: what it carried is lost with it; `settled`: with its whole chain,
        so that what it has not passed on it never will."""
        given = lane.given
        notes = [entry for entry in given.queue if type(entry) is Note]
        for note in (*given.late.items, *(notes if settled else ())):
            changes.dropped(self._exchange, lane, note, out)
        if settled:
            given.late.clear()
            return
        gate = lane.peer.gate
        assert gate is not None
        for note in notes:
            lost = note.round >= 0 or gate.policy.fails == "closed"
            if note.round < 0 and lane.peer.closure is None:
                continue  # it will be given that when it is back
            if lost and lane.other.rights_on(note.heading) & DROP:
                given.leave(note)
                changes.dropped(self._exchange, lane, note, out)
            else:
                self._goes_past(lane, note)
        given.clear()
        for entry in given.queue:
            if type(entry) is Held:
                entry.ready = True
        release(lane, out)


def _age(notes: list[Note], out: list[Effect]) -> None:
    for note in notes:
        note.stale = True
