"""Requests where policies are: what a component sends on, asks of its own, answers and cancels."""

from __future__ import annotations

from functools import partial

from conductor.core import jsonrpc
from conductor.core.copies import Copies
from conductor.core.custody import Custody
from conductor.core.dialects import CANCEL
from conductor.core.effects import Effect
from conductor.core.exchange import Exchange
from conductor.core.gate import MODIFY, OBSERVE, ORIGINATE, THROUGH, Gate, verbs_on
from conductor.core.guards import Violation
from conductor.core.jsonrpc import INVALID_REQUEST
from conductor.core.link import Pending
from conductor.core.owners import Owners
from conductor.core.peer import Lane
from conductor.core.tokens import Params, Token
from conductor.core.verdicts import Verdicts, lacks
from conductor.core.way import Held

_OVER = "`{}` has been answered, or has gone on, without this"


class PolicedRequests:
    """The part of an enforcer that handles requests."""

    def __init__(
        self,
        exchange: Exchange,
        verdicts: Verdicts,
        copies: Copies,
        owners: Owners,
        custody: Custody,
    ) -> None:
        self._exchange = exchange
        self._verdicts = verdicts
        self._copies = copies
        self._owners = owners
        self._custody = custody
        custody.answered = self.answered

    # -- a request leaves a peer -------------------------------------------------------------------

    def ask(
        self, lane: Lane, method: str, params: Params, pending: Pending, out: list[Effect]
    ) -> None:
        """A request leaves `lane`; `pending` is what its answer will belong to."""
        gate = lane.peer.gate
        assert lane.across is not None
        if gate is None:
            self._custody.ask(lane.across, method, params, pending, out)
            return
        verbs = verbs_on(lane.other, method)
        token, wrong = None, None
        if verbs & THROUGH:
            token, wrong = self._match(lane, verbs, method, params)
        elif verbs & OBSERVE and self._copies.take_request(
            lane, verbs, method, params, pending, out
        ):
            return
        if token is not None and wrong is None:
            self._forward(token, lane, params if verbs & MODIFY else token.params, pending, out)
            return
        if token is None or token.session is None:
            verdict = self._verdicts.originates(gate, lane.direction, method, params)
            if verdict is None:
                self._owners.admitted(lane.peer, method, None, params, out)
                self._custody.ask(lane.across, method, params, pending, out)
                return
            wrong = wrong or verdict
        assert wrong is not None
        self._verdicts.refuse(lane.peer, lane.direction, method, wrong, pending, out)
        if token is not None:
            self._custody.go_without(token, out)

    def _match(
        self, lane: Lane, verbs: int, method: str, params: Params
    ) -> tuple[Token | None, Violation | None]:
        """The token a request spends, and what is wrong with that."""
        token, fitting = lane.way.find(method, params, own=bool(verbs & ORIGINATE))
        if token is not None:
            return token, None
        gate = lane.peer.gate
        assert gate is not None
        wrong: Violation | None = None
        for candidate in fitting:
            if candidate.number not in lane.way.asked:
                if wrong is None:  # else it rather is one that it still has
                    return candidate, None
                continue
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
        if token.number not in way.asked:
            self._too_late(token, pending, out)
            return
        if token.relay:
            self._custody.keep_order(way, token.number, token.session, out)
        del way.asked[token.number]
        token.forwarded, pending.spends = pending, token
        if not verbs_on(lane, method) & MODIFY:
            token.ordered = gate.orders(lane.direction, method)
            token.straight = not token.ordered
        pending.watchers = (*pending.watchers, partial(self._came_back, token))
        self._owners.admitted(lane.peer, method, token.params, params, out)
        self._custody.ask(lane.across, method, params, pending, out)
        if not verbs_on(lane.other, CANCEL) & MODIFY:
            self._custody.follow(token, pending, out)
        if way.held:
            self._custody.let_go(way, out)

    def _too_late(self, token: Token, pending: Pending, out: list[Effect]) -> None:
        """A component sends on what has been answered, or has gone on, without it."""
        token.lane.other.way.forget(token)
        token.forwarded, token.upstream = pending, token.late
        error = jsonrpc.error_object(INVALID_REQUEST, _OVER.format(token.method))
        self._exchange.reply(pending, *(token.late or (b"error", error)), out)

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
                finish = partial(self._custody.finish, token)
                way.held.append(Held(gate.next(), token.session, finish))
            else:
                self._custody.finish(token, out)
        elif token.ordered or _keeps_its_place(token, gate):
            token.round = gate.round
            token.place = gate.next()
            token.lane.way.owed[token.place] = token
            if not token.ordered:
                gate.owing, gate.quick = True, False

    def answered(
        self, token: Token, pending: Pending, member: bytes, body: bytes, out: list[Effect]
    ) -> None:
        """A component answers a request it was given."""
        lane = token.lane
        token.given_up = True
        if token.settled:
            return
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
            self._custody.answers_before(token, out)
            self._exchange.reply(pending, member, body, out)
            return
        self._verdicts.report(lane.peer, direction, token.method, wrong, out)
        if token.upstream is not None:
            self._custody.answers_before(token, out)
            self._exchange.reply(pending, *token.upstream, out)
        elif token.forwarded is not None:
            token.apart = True  # the answer goes straight back when it comes
            self._custody.follow(token, token.forwarded, out)
        elif token.late is not None:
            self._exchange.reply(pending, *token.late, out)
        else:
            self._custody.go_without(token, out)


def _keeps_its_place(token: Token, gate: Gate) -> bool:
    """Whether what comes after an answer that a component may change waits until it has had its
    say. Programs have no rounds to tell that by, and an answer in an array may be long in coming:
    what waits for these might wait for ever."""
    assert token.forwarded is not None
    return gate.round > 0 and token.forwarded.batch is None
