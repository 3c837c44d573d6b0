"""What policed components have of other people's requests, and what must wait for that.

A request walks on from peer to peer until somebody takes it. One that a policed component takes is
in its custody, as a `Token`, until the component passes it on, answers it, or it goes on without
the component. What passes a component by meanwhile does not overtake what it has of the same
session.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec import Raw

from conductor.core.copies import Copies, nobodys
from conductor.core.effects import Effect
from conductor.core.exchange import Exchange
from conductor.core.gate import OBSERVE, RELAY, THROUGH, Gate, verbs_on
from conductor.core.link import Pending
from conductor.core.peer import Lane, Peer
from conductor.core.tokens import Params, Token, session_of
from conductor.core.way import Held, Way

_CLOSING: Final = frozenset({"session/close", "session/delete"})


class Custody:
    """The part of an enforcer that gives components requests, and takes them back."""

    def __init__(self, exchange: Exchange, copies: Copies) -> None:
        self._exchange = exchange
        self._copies = copies
        self.answered: Callable[[Token, Pending, bytes, bytes, list[Effect]], None]
        """Judges a component's answer to what it was given."""
        self.ends: Callable[[Lane, Params, list[Effect]], None]
        """Ends the prompts of a session that a component holds, which a request to close it passes
        by."""
        exchange.not_given = self.not_given
        exchange.outlives = self.outlives
        exchange.must_wait = self.must_wait

    # -- a request arrives at the next peers -------------------------------------------------------

    def ask(
        self,
        lane: Lane,
        method: str,
        params: Params,
        pending: Pending,
        out: list[Effect],
        number: int = 0,
    ) -> None:
        """Walks a request on from `lane` until somebody takes it.

        `number` is its place in the order of the component at `lane`, if it has waited for that.
        """
        while (gate := lane.peer.gate) is not None:
            verbs, onward = verbs_on(lane, method), lane.other
            way = onward.way
            if verbs & THROUGH and not (verbs & RELAY and not _can_hear(lane.peer)):
                if not number and verbs & RELAY and self._holds(way, params):
                    number = gate.next()
                    again = partial(self._ask_held, lane, method, params, pending, number)
                    way.held.append(Held(number, session_of(params), again))
                    return
                token = Token(lane, method, params, pending, number or gate.next())
                token.relay = bool(verbs & RELAY)
                self._give(token, out)
                return
            if verbs & OBSERVE:
                self._copies.request(lane, method, params, pending, out)
            assert onward.across is not None
            _goes_past(lane, pending, params)
            if way.asked and method in _CLOSING:
                self.ends(lane, params, out)
            if not number and self._holds(way, params):
                resume = partial(self._ask_past, onward, method, params, pending)
                way.held.append(Held(gate.next(), session_of(params), resume))
                return
            lane, number = onward.across, 0
        self._exchange.forward(lane, method, params, pending, out)

    def _ask_held(
        self,
        lane: Lane,
        method: str,
        params: Params,
        pending: Pending,
        number: int,
        out: list[Effect],
    ) -> None:
        if pending.wanted:
            self.ask(lane, method, params, pending, out, number)

    def _ask_past(
        self, onward: Lane, method: str, params: Params, pending: Pending, out: list[Effect]
    ) -> None:
        assert onward.across is not None
        if pending.wanted:  # else: whoever asked is gone, or has been answered
            self.ask(onward.across, method, params, pending, out)

    @staticmethod
    def _holds(way: Way, params: Params) -> bool:
        return way.busy and way.waits(session_of(params))

    def _give(self, token: Token, out: list[Effect]) -> None:
        """Gives a component a request: now, or once it is ready for it."""
        pending, peer, lane = token.pending, token.lane.peer, token.lane
        if not peer.ready and not _can_hear(peer):
            self._exchange.forward(lane, token.method, token.params, pending, out)  # refuses it
            return
        lane.other.way.asked[token.number] = token
        pending.token, pending.hook = token, partial(self.answered, token)
        pending.watchers = (*pending.watchers, partial(self._closed, token))
        self._send(token, out)

    def _send(self, token: Token, out: list[Effect]) -> None:
        peer = token.lane.peer
        if token.settled:
            return
        if peer.ready:
            assert peer.gate is not None
            token.round = peer.gate.round
            self._exchange.send(token.lane, token.method, token.params, token.pending, out)
        elif _can_hear(peer):
            peer.backlog.append(partial(self._send, token))
        elif token.relay:
            self.go_without(token, out)
        else:
            self._exchange.forward(token.lane, token.method, token.params, token.pending, out)

    # -- it is over with what it was given ---------------------------------------------------------

    def _closed(self, token: Token, member: bytes, body: bytes, out: list[Effect]) -> None:
        """A request has its answer, from whomever: nothing waits for the component any more."""
        if not token.settled:
            token.settled = True
            way = token.lane.other.way
            way.take_back(token)
            self.let_go(way, out)
            self._give_back(token, out)

    def go_without(self, token: Token, out: list[Effect]) -> None:
        """Sends the original on past the component; what it says to it no longer counts."""
        pending, lane, way = token.pending, token.lane, token.lane.other.way
        token.settled = True
        way.take_back(token)
        if lane.link.sent.get(pending.target_id) is pending:
            leftover = nobodys(token.method)
            leftover.hook = partial(_given_up, token)
            lane.link.sent[pending.target_id] = leftover
            assert lane.peer.gate is not None
            lane.peer.gate.loosen(lane.link, pending.target_id, leftover)
        pending.hook = pending.token = pending.target = None
        _goes_past(lane, pending, token.params)
        self._ask_past(lane.other, token.method, token.params, pending, out)
        self.let_go(way, out)

    def finish(self, token: Token, out: list[Effect]) -> None:
        """Answers a request as the other side did; the component's own answer no longer counts."""
        assert token.upstream is not None
        assert token.forwarded is not None
        if token.settled:
            return
        loosen(token)
        token.settled = True
        token.pending.target = token.forwarded.target
        self._exchange.reply(token.pending, *token.upstream, out)
        self._give_back(token, out)

    def _give_back(self, token: Token, out: list[Effect]) -> None:
        """Nothing waits for this answer any more."""
        if token.place:
            way = token.lane.way
            del way.owed[token.place]
            token.place = 0
            self.let_go(way, out)

    def follow(self, token: Token, pending: Pending, out: list[Effect]) -> None:
        """Has the forwarded request cancelled with the original, whatever the component does."""
        token.pending.followers = (*token.pending.followers, pending)
        if token.pending.cancelled:
            self._exchange.cancel(pending, out)

    # -- what waits for it -------------------------------------------------------------------------

    def let_go(self, way: Way, out: list[Effect]) -> None:
        """Sends on what need not wait any more, in order."""
        while way.held and (held := way.freed()) is not None:
            held.resume(out)

    def keep_order(self, way: Way, number: int, session: str | None, out: list[Effect]) -> None:
        """Sends on what a component was only shown before what it passes on now."""
        for at, token in way.shown():
            if at < number and token.session == session and token.round >= 0:
                self._pass_on(way, at, token, out)

    def answers_before(self, token: Token, out: list[Effect]) -> None:
        """The same for the answer to a request that keeps its place in the order."""
        way = token.lane.way
        if token.place and (way.asked or len(way.owed) > 1):
            self.keep_order(way, token.place, token.session, out)

    def pass_on_shown(self, way: Way, session: str | None, out: list[Effect]) -> None:
        """Sends on all of a session that a component was only shown."""
        while shown := [one for one in way.shown() if one[1].session == session]:
            for at, token in shown:
                self._pass_on(way, at, token, out)

    def relay_on(self, peer: Peer, gate: Gate, out: list[Effect]) -> None:
        """Sends on what a guest was shown for its place in the order, and has not passed on."""
        for lane in (peer.p, peer.s):
            for at, token in lane.way.shown():
                if 0 <= token.round < gate.round:
                    self._pass_on(lane.way, at, token, out)

    def give_up_places(self, peer: Peer, gate: Gate, out: list[Effect]) -> None:
        """Lets go what waits for answers that a guest may change and has not passed on: they are
        still its to change, but may take it as long as it likes."""
        gate.owing = False
        for lane in (peer.p, peer.s):
            for token in [one for one in lane.way.owed.values() if not one.ordered]:
                if token.round < gate.round:
                    self._give_back(token, out)
                else:
                    gate.owing, gate.quick = True, False

    def _pass_on(self, way: Way, at: int, token: Token, out: list[Effect]) -> None:
        """Sends on what a component was only shown, unless that has happened meanwhile."""
        if at in way.owed:
            self.finish(token, out)
        elif at in way.asked:  # pragma: no branch - no way is known to have it settled by then
            self.go_without(token, out)

    def must_wait(self, pending: Pending, member: bytes, body: bytes, out: list[Effect]) -> bool:
        """Keeps an answer that must not overtake what a component it passes by still has."""
        while pending.past:
            lane, session = pending.past[-1]
            pending.past = pending.past[:-1]
            if lane.way.busy and lane.way.waits(session):
                assert lane.peer.gate is not None
                resume = partial(self._exchange.complete, pending, member, Raw(body))
                lane.way.held.append(Held(lane.peer.gate.next(), session, resume))
                return True
        return False

    # -- components that are gone, frames that are not taken -------------------------------------

    def outlives(self, token: Token, out: list[Effect]) -> bool:
        """A component is gone that was given a request. Whether that goes on, as what it may
        neither change nor answer must, or has the answer of one that is cancelled."""
        if token.settled:
            return False
        if token.forwarded is None:
            if token.relay:
                self.go_without(token, out)
            elif token.late is not None:
                self._exchange.reply(token.pending, *token.late, out)
            return token.relay or token.late is not None
        if token.upstream is not None:
            if token.ordered:
                self.finish(token, out)
            return token.ordered or token.goes_on
        token.apart = token.apart or token.ordered
        if token.goes_on:
            self.follow(token, token.forwarded, out)
        return token.goes_on

    def not_given(self, pending: Pending, out: list[Effect]) -> bool:
        """A request did not fit a component. Whether it goes on without it, as what it may neither
        change nor answer must."""
        token = pending.token
        if token is None or token.settled:
            return False
        if token.relay:
            self.go_without(token, out)
            return True
        pending.hook = None  # the refusal is the conductor's, and no act of the component
        return False


def loosen(token: Token) -> None:
    """Does not wait for ever for an answer that concerns nobody."""
    lane, pending = token.lane, token.pending
    assert lane.peer.gate is not None
    lane.peer.gate.loosen(lane.link, pending.target_id, pending)


def _given_up(
    token: Token, pending: Pending, member: bytes, body: bytes, out: list[Effect]
) -> None:
    """A component answers a request that has gone on without it."""
    token.given_up = True


def _goes_past(lane: Lane, pending: Pending, params: Params) -> None:
    """Takes note that a request passes a component by, whose other direction its answer must keep
    its place in."""
    assert lane.peer.gate is not None
    if lane.direction in lane.peer.gate.holds:
        pending.past = (*pending.past, (lane, session_of(params)))


def _can_hear(peer: Peer) -> bool:
    """Whether a peer is there, or will be."""
    return peer.ready or (peer.closure is None and peer.handshake is not None)
