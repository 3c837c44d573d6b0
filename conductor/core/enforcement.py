"""Enforces policies: what a component may see, change, answer and send, message by message.

A message enters here where it leaves a peer's lane, if that peer or the one across is policed.
First what a policed sender does is checked (does it forward what it was given, unchanged if it
must be; does it originate), then the message walks on: past components without a verb on it, as a
copy to those that observe, into the first that may change or answer it.

A violation changes nothing for the others: the conversation goes on as if the component had passed
the message through. Nor does what passes a component by overtake what it was given before, within
one session and direction.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from msgspec import Raw

from conductor.core import jsonrpc
from conductor.core.copies import Copies, nobodys
from conductor.core.dialects import CANCEL
from conductor.core.effects import Effect
from conductor.core.exchange import Exchange
from conductor.core.gate import MODIFY, OBSERVE, ORIGINATE, RELAY, THROUGH, Gate, verbs_on
from conductor.core.guards import Violation
from conductor.core.jsonrpc import INVALID_REQUEST
from conductor.core.link import Pending
from conductor.core.owners import Owners
from conductor.core.peer import Lane, Peer
from conductor.core.policed_initialize import PolicedInitialize
from conductor.core.policed_notifications import PolicedNotifications
from conductor.core.tokens import Held, Params, Token, Way, session_of
from conductor.core.verdicts import Verdicts, closure, lacks

__all__ = ["Enforcer", "closure"]

_OVER = "`{}` has been answered, or has gone on, without this"


class Enforcer:
    """The checks of one chain. Used only for lanes with a policed peer at one end.

    Requests are handled here, what else there is by the parts it has.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._verdicts = Verdicts(exchange)
        self.copies = Copies(exchange)
        self.owners = Owners(self._gates)
        self.notifications = PolicedNotifications(exchange, self._verdicts, self.copies)
        self.initialize = PolicedInitialize(self._verdicts)
        exchange.not_given = self.not_given
        exchange.outlives = self.outlives
        exchange.must_wait = self.must_wait

    def _gates(self) -> Iterator[Gate]:
        return (peer.gate for peer in self._exchange.peers.values() if peer.gate is not None)

    # -- a request leaves a peer -------------------------------------------------------------------

    def request(
        self, lane: Lane, method: str, params: Params, pending: Pending, out: list[Effect]
    ) -> None:
        """A request leaves `lane`; `pending` is what its answer will belong to."""
        gate = lane.peer.gate
        assert lane.across is not None
        if gate is None:
            self._ask(lane.across, method, params, pending, out)
            return
        verbs = verbs_on(lane.other, method)
        token, wrong = None, None
        if verbs & THROUGH:
            token, wrong = self._match(lane, gate, method, params)
        elif verbs & OBSERVE and self.copies.take_request(
            lane, verbs, method, params, pending, out
        ):
            return
        if token is not None and wrong is None:
            self._forward(token, lane, params if verbs & MODIFY else token.params, pending, out)
            return
        if token is None or token.session is None:
            verdict = self._verdicts.originates(gate, lane.direction, method, params)
            if verdict is None:
                self.owners.admitted(lane.peer, method, None, params, out)
                self._ask(lane.across, method, params, pending, out)
                return
            wrong = wrong or verdict
        assert wrong is not None
        if token is None and self._is_over(lane.way, method, params):
            error = jsonrpc.error_object(INVALID_REQUEST, _OVER.format(method))
            self._exchange.reply(pending, b"error", error, out)
            return
        self._verdicts.refuse(lane.peer, lane.direction, method, wrong, pending, out)
        if token is not None:
            self._go_without(token, out)

    def _match(
        self, lane: Lane, gate: Gate, method: str, params: Params
    ) -> tuple[Token | None, Violation | None]:
        """The token a request spends, and what is wrong with that."""
        token, fitting = lane.way.find(method, params)
        if token is not None:
            return token, None
        wrong: Violation | None = None
        for candidate in fitting:
            given = candidate.params
            verdict = self._verdicts.forwards(gate, lane.direction, method, given, params)
            if verdict is None:
                return candidate, None
            wrong = wrong or verdict
        return (fitting[0], wrong) if fitting else (None, None)

    def _forward(
        self, token: Token, lane: Lane, params: Params, pending: Pending, out: list[Effect]
    ) -> None:
        """A component sends on a request it was given."""
        gate, way, method = lane.peer.gate, lane.way, token.method
        assert gate is not None
        assert lane.across is not None
        if token.relay:
            self._keep_order(way, token.number, token.session, out)
        del way.asked[token.number]
        token.forwarded, pending.spends = pending, token
        if not verbs_on(lane, method) & MODIFY:
            token.ordered = gate.orders(lane.direction, method)
            token.straight = not token.ordered
        pending.watchers = (*pending.watchers, partial(self._came_back, token))
        self.owners.admitted(lane.peer, method, token.params, params, out)
        self._ask(lane.across, method, params, pending, out)
        if not verbs_on(lane.other, CANCEL) & MODIFY:
            self._follow(token, pending, out)
        if way.held:
            self._let_go(way, out)

    def _keep_order(self, way: Way, number: int, session: str | None, out: list[Effect]) -> None:
        """Sends on what a component was only shown before what it passes on now."""
        for at, token in way.shown():
            if at < number and token.session == session and token.round >= 0:
                self._pass_on(way, at, token, out)

    def _pass_on(self, way: Way, at: int, token: Token, out: list[Effect]) -> None:
        """Sends on what a component was only shown, unless that has happened meanwhile."""
        if at in way.owed:
            self._finish(token, out)
        elif at in way.asked:  # pragma: no branch - no way is known to have it settled by then
            self._go_without(token, out)

    def _follow(self, token: Token, pending: Pending, out: list[Effect]) -> None:
        """Has the forwarded request cancelled with the original, whatever the component does."""
        token.pending.followers = (*token.pending.followers, pending)
        if token.pending.cancelled:
            self._exchange.cancel(pending, out)

    @staticmethod
    def _is_over(way: Way, method: str, params: Params) -> bool:
        """Whether a request comes too late to be what the component was given."""
        key = (method, session_of(params))
        if key in way.over:
            way.over.remove(key)
            return True
        return False

    # -- a request arrives at the next peers -------------------------------------------------------

    def _ask(
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
                self.copies.request(lane, method, params, pending, out)
            assert onward.across is not None
            _goes_past(lane, pending, params)
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
        if pending.origin is not None:
            self._ask(lane, method, params, pending, out, number)

    def _ask_past(
        self, onward: Lane, method: str, params: Params, pending: Pending, out: list[Effect]
    ) -> None:
        assert onward.across is not None
        if pending.origin is not None:  # else: whoever asked is gone, or has been answered
            self._ask(onward.across, method, params, pending, out)

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
        pending.token, pending.hook = token, partial(self._answered, token)
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
            self._go_without(token, out)
        else:
            self._exchange.forward(token.lane, token.method, token.params, token.pending, out)

    def _closed(self, token: Token, member: bytes, body: bytes, out: list[Effect]) -> None:
        """A request has its answer, from whomever: nothing waits for the component any more."""
        if not token.settled:
            token.settled = True
            self._drop(token)
            self._let_go(token.lane.other.way, out)
            if token.lane.way.owed:
                self._give_back(token, out)

    def _give_back(self, token: Token, out: list[Effect]) -> None:
        """The component does not owe this answer any more."""
        way = token.lane.way
        for at in [at for at, one in way.owed.items() if one is token]:
            del way.owed[at]
            self._let_go(way, out)

    @staticmethod
    def _drop(token: Token) -> None:
        """Takes back a token: should the component still spend it, it is too late."""
        way = token.lane.other.way
        if way.asked.pop(token.number, None) is not None:
            way.over.append((token.method, token.session))

    def _let_go(self, way: Way, out: list[Effect]) -> None:
        """Sends on what need not wait any more, in order."""
        while way.held and (held := way.freed()) is not None:
            held.resume(out)

    # -- answers -----------------------------------------------------------------------------------

    def _came_back(self, token: Token, member: bytes, body: bytes, out: list[Effect]) -> None:
        """The answer to what a component forwarded has come."""
        token.upstream = (member, body)
        gate = token.lane.peer.gate
        assert gate is not None
        if token.settled:
            return
        if token.straight or token.apart:
            way = token.lane.way
            if way.busy and way.waits(token.session):
                finish = partial(self._finish, token)
                way.held.append(Held(gate.next(), token.session, finish))
            else:
                self._finish(token, out)
        elif token.ordered:
            token.round = gate.round
            token.lane.way.owed[gate.next()] = token

    def _finish(self, token: Token, out: list[Effect]) -> None:
        """Answers a request as the other side did; the component's own answer no longer counts."""
        assert token.upstream is not None
        assert token.forwarded is not None
        if token.settled:
            return
        self._loosen(token)
        token.settled = True
        token.pending.target = token.forwarded.target
        self._exchange.reply(token.pending, *token.upstream, out)
        self._give_back(token, out)

    @staticmethod
    def _loosen(token: Token) -> None:
        """Does not wait for ever for an answer that concerns nobody."""
        lane, pending = token.lane, token.pending
        assert lane.peer.gate is not None
        lane.peer.gate.loosen(lane.link, pending.target_id, pending)

    def _answered(
        self, token: Token, pending: Pending, member: bytes, body: bytes, out: list[Effect]
    ) -> None:
        """A component answers a request it was given."""
        if token.settled:
            return
        lane = token.lane
        gate, direction = lane.peer.gate, lane.other.direction
        assert gate is not None
        wrong = self._verdicts.answers(gate, token, direction, member, body)
        if wrong is None:
            upstream = token.upstream
            if (
                upstream is not None
                and upstream[1] != body
                and not gate.verbs(direction.opposite, token.method) & MODIFY
            ):
                member, body = upstream
            lane.other.way.asked.pop(token.number, None)
            if lane.way.owed:
                for at in [at for at, one in lane.way.owed.items() if one is token]:
                    self._keep_order(lane.way, at, token.session, out)
            self._exchange.reply(pending, member, body, out)
            return
        self._verdicts.report(lane.peer, direction, token.method, wrong, out)
        if token.upstream is not None:
            self._exchange.reply(pending, *token.upstream, out)
        elif token.forwarded is not None:
            token.apart = True  # the answer goes straight back when it comes
            self._follow(token, token.forwarded, out)
        else:
            self._go_without(token, out)

    def _go_without(self, token: Token, out: list[Effect]) -> None:
        """Sends the original on past the component; what it says to it no longer counts."""
        pending, lane, way = token.pending, token.lane, token.lane.other.way
        token.settled = True
        self._drop(token)
        if lane.link.sent.get(pending.target_id) is pending:
            leftover = nobodys(token.method)
            lane.link.sent[pending.target_id] = leftover
            assert lane.peer.gate is not None
            lane.peer.gate.loosen(lane.link, pending.target_id, leftover)
        pending.hook = pending.token = pending.target = None
        _goes_past(lane, pending, token.params)
        self._ask_past(lane.other, token.method, token.params, pending, out)
        self._let_go(way, out)

    # -- rounds, cancelling, frames that are not taken -----------------------------------------

    def heard(self, peer: Peer, out: list[Effect]) -> None:
        """A guest has been given everything written to it before its round began, and has said all
        it had to say to that."""
        gate = peer.gate
        assert gate is not None
        if gate.late:
            gate.late = False
        else:
            peer.forget_told()
        if gate.relays:
            self._relay_on(peer, gate, out)

    def _relay_on(self, peer: Peer, gate: Gate, out: list[Effect]) -> None:
        """Sends on what a guest was shown for its place in the order, and has not passed on."""
        for lane in (peer.p, peer.s):
            for at, token in lane.way.shown():
                if 0 <= token.round < gate.round:
                    self._pass_on(lane.way, at, token, out)

    def outlives(self, token: Token, out: list[Effect]) -> bool:
        """A component is gone that was given a request. Whether that goes on, as what it may
        neither change nor answer must."""
        if token.settled:
            return False
        if token.forwarded is None:
            if token.relay:
                self._go_without(token, out)
            return token.relay
        if token.upstream is not None:
            if token.ordered:
                self._finish(token, out)
            return token.ordered or token.goes_on
        token.apart = token.apart or token.ordered
        return token.goes_on

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

    def may_cancel(self, pending: Pending, out: list[Effect]) -> bool:
        """Whether a component may cancel a request it has made: its own, or one it has forwarded
        and whoever made it has cancelled."""
        token = pending.spends
        if token is None or token.pending.cancelled or token.pending.origin is None:
            return True
        peer, direction = token.lane.peer, token.lane.other.direction
        assert peer.gate is not None
        if peer.gate.verbs(direction, CANCEL) & ORIGINATE:
            return True
        self._verdicts.report(peer, direction, CANCEL, lacks(ORIGINATE, CANCEL), out)
        return False

    def not_given(self, pending: Pending, out: list[Effect]) -> bool:
        """A request did not fit a component. Whether it goes on without it, as what it may neither
        change nor answer must."""
        token = pending.token
        if token is None or token.settled:
            return False
        if token.relay:
            self._go_without(token, out)
            return True
        pending.hook = None  # the refusal is the conductor's, and no act of the component
        return False


def _goes_past(lane: Lane, pending: Pending, params: Params) -> None:
    """Takes note that a request passes a component by, whose other direction its answer must keep
    its place in."""
    assert lane.peer.gate is not None
    if lane.direction in lane.peer.gate.holds:
        pending.past = (*pending.past, (lane, session_of(params)))


def _can_hear(peer: Peer) -> bool:
    """Whether a peer is there, or will be."""
    return peer.ready or (peer.closure is None and peer.handshake is not None)
