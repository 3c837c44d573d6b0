"""Notifications where policies are: told to whoever may change them, past all others."""

from __future__ import annotations

from functools import partial

from conductor.core.copies import Copies
from conductor.core.effects import Effect, Send
from conductor.core.exchange import Exchange
from conductor.core.gate import MODIFY, OBSERVE, look_up, verbs_on
from conductor.core.guards import Violation
from conductor.core.peer import Lane
from conductor.core.stopped_turns import STOP, StoppedTurns
from conductor.core.tokens import HEAVY, Params, Told, session_of
from conductor.core.verdicts import Verdicts
from conductor.core.way import Held

_MOST = 4096


class PolicedNotifications:
    """The part of an enforcer that handles notifications."""

    def __init__(
        self, exchange: Exchange, verdicts: Verdicts, copies: Copies, stopped: StoppedTurns
    ) -> None:
        self._exchange = exchange
        self._verdicts = verdicts
        self._copies = copies
        self._stopped = stopped

    def notify(self, lane: Lane, method: str, params: Params, out: list[Effect]) -> None:
        """A notification leaves `lane`."""
        if lane.peer.gate is not None:
            given = lane.told.get(method)
            if given and given[0] == params:
                given.popleft()
            else:
                allowed = self._allowed(lane, method, params, out)
                if allowed is None:
                    return
                params = allowed
        target = lane.across
        assert target is not None
        # Whoever was told of this method before may change it: the usual case, looked up once.
        told = target.other.told.get(method)
        peer = target.peer
        if (
            told is not None and peer.ready and method != STOP
        ):  # as in `_told`, without the call: it is the usual way
            told.append(params)
            frame = target.writer.notification(method, params)
            if len(frame) > HEAVY or len(told) > _MOST:
                told.weigh(len(frame))
            out.append(Send(peer.name, frame))
            if self._exchange.tracing:
                self._exchange.trace(out, ("notification", lane, target), None, method, params)
        else:
            self._tell(target, lane, method, params, out)

    def _tell(
        self, lane: Lane, source: Lane, method: str, params: Params, out: list[Effect]
    ) -> None:
        """Walks a notification of `source` on from `lane` until somebody takes it."""
        while lane.peer.gate is not None:
            verbs = lane.verbs.get(method)
            if verbs is None:
                verbs = look_up(lane, method)
            peer, onward = lane.peer, lane.other
            if verbs & MODIFY:
                if not peer.ready:
                    if peer.closure is None and peer.handshake is not None:
                        again = partial(self._tell_late, lane, source, method, params)
                        peer.backlog.append(again)
                        return
                    break
                if method == STOP:
                    self._stopped.given(lane, params)
                given = onward.told.get(method)
                if given is None:
                    given = lane.peer.gate.told_of(onward.told, method)
                self._told(lane, given, source, method, params, out)
                return
            way = onward.way
            told = waits = False
            if way.busy:
                session = session_of(params)
                if method == STOP and session is not None:
                    told = self._stopped.passes(lane, session, params, out)
                    waits = way.has_waiting(session)
                else:
                    waits = way.waits(session)
            if verbs & OBSERVE and not told:
                self._copies.notification(lane, method, params, out)
            if waits:
                resume = partial(self._tell_held, onward, source, method, params)
                way.held.append(Held(lane.peer.gate.next(), session, resume))
                return
            assert onward.across is not None
            lane = onward.across
        self._exchange.notify(lane, method, params, source, out)

    def _told(
        self,
        lane: Lane,
        told: Told,
        source: Lane,
        method: str,
        params: Params,
        out: list[Effect],
    ) -> None:
        """Gives a component a notification, which it may then pass on."""
        told.append(params)
        frame = lane.writer.notification(method, params)
        size = len(frame)
        if size > HEAVY or len(told) > _MOST:
            told.weigh(size)
        out.append(Send(lane.peer.name, frame))
        if self._exchange.tracing:
            self._exchange.trace(out, ("notification", source, lane), None, method, params)

    def _tell_late(
        self, lane: Lane, source: Lane, method: str, params: Params, out: list[Effect]
    ) -> None:
        """Tells a component what has waited for it to be ready."""
        gate = lane.peer.gate
        assert gate is not None
        gate.late, gate.quick = True, False
        self._tell(lane, source, method, params, out)

    def _tell_held(
        self, onward: Lane, source: Lane, method: str, params: Params, out: list[Effect]
    ) -> None:
        assert onward.across is not None
        self._tell(onward.across, source, method, params, out)

    def _allowed(self, lane: Lane, method: str, params: Params, out: list[Effect]) -> Params | None:
        """A component's notification as it may go on; None if it may not."""
        gate, direction = lane.peer.gate, lane.direction
        assert gate is not None
        verbs = verbs_on(lane.other, method)
        given = lane.told.get(method)
        if given is None or not verbs & MODIFY:
            copied = verbs & OBSERVE or method == STOP
            if copied and self._copies.take_notification(lane, verbs, method, params):
                return None  # a copy came back: the original has gone on long ago
            given = Told()
        if given.take(params):
            return params
        fallback: tuple[int, Params] | None = None
        wrong: Violation | None = None
        for place, candidate in given.candidates(session_of(params)):
            verdict = self._verdicts.forwards(gate, direction, method, candidate, params)
            if verdict is None:
                given.spend(place)
                return params
            if wrong is None:
                fallback, wrong = (place, candidate), verdict
        verdict = self._verdicts.originates(gate, direction, method, params)
        if verdict is None:
            return params
        self._verdicts.report(lane.peer, direction, method, wrong or verdict, out)
        if fallback is None:
            return None
        given.spend(fallback[0])
        return fallback[1]
