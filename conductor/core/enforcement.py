"""Enforces policies: what a component may see, change, answer and send, message by message.

A message enters here where it leaves a peer's lane, if that peer or the one across is policed.
First what a policed sender does is checked (does it forward what it was given, unchanged if it
must be; does it originate), then the message walks on: past components without a verb on it, as a
copy to those that observe, into the first that may change or answer it.

A violation changes nothing for the others: the conversation goes on as if the component had passed
the message through.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from conductor.core import guards, jsonrpc
from conductor.core.dialects import INITIALIZE
from conductor.core.effects import Closure, Effect, Send, Violated
from conductor.core.exchange import Exchange
from conductor.core.gate import Gate, Params, Resume, Token, same, session_of
from conductor.core.guards.capabilities import PROMISES
from conductor.core.jsonrpc import INVALID_REQUEST
from conductor.core.link import Pending
from conductor.core.peer import Lane, Peer
from conductor.core.policy import SEES, SETUP, Direction, Verb
from conductor.core.topology import Role, Side

_OBSERVE: Final = Verb.OBSERVE.value
_MODIFY: Final = Verb.MODIFY.value
_ANSWER: Final = Verb.ANSWER.value
_ORIGINATE: Final = Verb.ORIGINATE.value
_SEES: Final = SEES.value

PROMISED: Final = frozenset(method for methods in PROMISES.values() for method in methods)
"""Methods that some agent capability promises an answer to."""

_RULES: Final = {
    _ORIGINATE: "may not send `{}` of its own",
    _MODIFY: "may not change `{}`",
    _ANSWER: "may not answer `{}`",
}


class Enforcer:
    """The checks of one chain. Used only for lanes with a policed peer at one end."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    # -- a message leaves a peer -----------------------------------------------------------------

    def notification(self, lane: Lane, method: str, params: Params, out: list[Effect]) -> None:
        """A notification leaves `lane`."""
        gate = lane.peer.gate
        direction = _direction(lane)
        if gate is not None:
            verdict = self._emitted(lane, gate, direction, method, params, out)
            if verdict is None:
                return
            params = verdict
        assert lane.across is not None
        self._deliver(lane.across, direction, method, params, None, out)

    def request(
        self, lane: Lane, method: str, params: Params, pending: Pending, out: list[Effect]
    ) -> None:
        """A request leaves `lane`; `pending` is what its answer will belong to."""
        gate = lane.peer.gate
        direction = _direction(lane)
        assert lane.across is not None
        if gate is None:
            self._deliver(lane.across, direction, method, params, pending, out)
            return
        token = gate.spend(direction, method, params, request=True)
        if token is None:
            wrong = self._originates(gate, direction, method, params)
            if wrong is not None:
                self._refuse(lane.peer, direction, method, wrong, pending, out)
                return
        else:
            if token.settled:  # only a copy: its answer comes when the original's does
                self.answer_copy(token, pending, out)
                return
            wrong = self._forwards(gate, direction, method, token.params, params)
            if wrong is not None:
                self._refuse(lane.peer, direction, method, wrong, pending, out)
                self._go_without(lane.peer, gate, token, out)
                return
            token.forwarded = pending
            pending.arriving = partial(self._upstream_answered, gate, token)
            self._admit(gate, method, token.params, params)
        self._deliver(lane.across, direction, method, params, pending, out)
        self._let_go(gate, direction, out)

    # -- a message arrives at the next peers -------------------------------------------------------

    def _deliver(
        self,
        lane: Lane,
        direction: Direction,
        method: str,
        params: Params,
        pending: Pending | None,
        out: list[Effect],
    ) -> None:
        """Walks a message on from `lane` until somebody takes it."""
        while (gate := lane.peer.gate) is not None:
            verbs = gate.verbs(direction, method)
            peer = lane.peer
            if verbs & _SEES:
                if method in SETUP:
                    gate.foreign |= guards.declared(method, params)
                token = Token(direction, method, params, pending)
                gate.mint(token)
                if pending is not None:
                    pending.hook = partial(self._answered, peer, gate, token)
                break
            if verbs & _OBSERVE and peer.closure is None:
                self._copy(lane, gate, direction, method, params, pending, out)
            ahead = _other(lane).across
            if ahead is None:
                break
            if gate.held[direction] or gate.tokens:
                session = session_of(params)
                if self._must_wait(gate, direction, session):
                    resume: Resume = partial(
                        self._resume, ahead, direction, method, params, pending
                    )
                    gate.held[direction].append((session, resume))
                    return
            lane = ahead
        if pending is not None:
            self._exchange.forward(lane, method, params, pending, out)
        else:
            self._exchange.notify(lane, method, params, out)

    def _resume(
        self,
        lane: Lane,
        direction: Direction,
        method: str,
        params: Params,
        pending: Pending | None,
        out: list[Effect],
    ) -> None:
        if pending is None or pending.origin is not None:
            self._deliver(lane, direction, method, params, pending, out)

    @staticmethod
    def _must_wait(gate: Gate, direction: Direction, session: str | None) -> bool:
        """Whether what the component was given before, and still has, must come first."""
        if any(held == session for held, _ in gate.held[direction]):
            return True
        return gate.busy(direction, session)

    def _let_go(self, gate: Gate, direction: Direction, out: list[Effect]) -> None:
        for resume in gate.release(direction):
            resume(out)

    # -- copies ------------------------------------------------------------------------------------

    def _copy(
        self,
        lane: Lane,
        gate: Gate,
        direction: Direction,
        method: str,
        params: Params,
        pending: Pending | None,
        out: list[Effect],
    ) -> None:
        """Gives an observer a copy. What it makes of it concerns nobody."""
        peer = lane.peer
        if not peer.ready:
            return
        if pending is None:
            token = Token(direction, method, params, None)
            token.settled = True
            gate.mint(token)
            frame = lane.writer.notification(method, params)
            out.append(Send(peer.name, frame, True))
            return
        link = lane.link
        shadow = Pending(None, b"null", b"null", method)
        shadow.hook = _ignore
        shadow.target, shadow.target_id = lane, link.fresh_id()
        link.sent[shadow.target_id] = shadow
        token = Token(direction, method, params, shadow)
        token.settled = True
        gate.mint(token)
        pending.watchers = (*pending.watchers, token)
        frame = lane.writer.request(shadow.target_id, method, params)
        out.append(Send(peer.name, frame, True))

    def answer_copy(self, token: Token, pending: Pending, out: list[Effect]) -> None:
        """An observer forwards a request it got a copy of: it is answered with the original's."""
        token.forwarded = pending
        if token.upstream is not None:
            self._exchange.reply(pending, *token.upstream, out)

    # -- what a component does ---------------------------------------------------------------------

    def _emitted(
        self,
        lane: Lane,
        gate: Gate,
        direction: Direction,
        method: str,
        params: Params,
        out: list[Effect],
    ) -> Params | None:
        """A notification as it may go on, or None if it may not."""
        token = gate.spend(direction, method, params, request=False)
        if token is None:
            wrong = self._originates(gate, direction, method, params)
            if wrong is None:
                return params
            self._report(lane.peer, direction, method, wrong, out)
            return None
        if token.settled:
            return None  # a copy came back: the original has gone on long ago
        wrong = self._forwards(gate, direction, method, token.params, params)
        if wrong is None:
            return params
        self._report(lane.peer, direction, method, wrong, out)
        return token.params

    def _originates(
        self, gate: Gate, direction: Direction, method: str, params: Params
    ) -> guards.Violation | None:
        if not gate.verbs(direction, method) & _ORIGINATE:
            return _lacks(_ORIGINATE, method)
        return guards.originated(self._context(gate), direction.value, method, params)

    def _forwards(
        self, gate: Gate, direction: Direction, method: str, original: Params, sent: Params
    ) -> guards.Violation | None:
        if same(original, sent):
            return None
        if not gate.verbs(direction, method) & _MODIFY:
            return _lacks(_MODIFY, method)
        return guards.forwarded(self._context(gate), direction.value, method, original, sent)

    def _admit(self, gate: Gate, method: str, original: Params, sent: Params) -> None:
        """Remembers the MCP servers it has just declared as its own."""
        if method in SETUP and not same(original, sent):
            gate.servers |= guards.declared(method, sent) - guards.declared(method, original)

    # -- initialize --------------------------------------------------------------------------------

    def initializing(self, peer: Peer, original: Params, sent: Params, out: list[Effect]) -> Params:
        """The `initialize` a component forwards, as it may go on."""
        assert peer.gate is not None
        wrong = self._forwards(peer.gate, Direction.DOWN, INITIALIZE, original, sent)
        if wrong is None:
            return sent
        self._report(peer, Direction.DOWN, INITIALIZE, wrong, out)
        return original

    def initialized(
        self, peer: Peer, params: Params, answer: tuple[bytes, bytes], out: list[Effect]
    ) -> tuple[bytes, bytes] | None:
        """A component's answer to `initialize` as it may go back; None: it may not answer."""
        gate = peer.gate
        assert gate is not None
        if peer.recorded is None:
            verbs, wrong = gate.verbs(Direction.DOWN, INITIALIZE), None
            if not verbs & _ANSWER:
                wrong = _lacks(_ANSWER, INITIALIZE)
        else:
            verbs, wrong = gate.verbs(Direction.UP, INITIALIZE), None
            if answer != peer.recorded and not verbs & _MODIFY:
                wrong = _lacks(_MODIFY, INITIALIZE)
        if wrong is None:
            wrong = guards.answered(
                self._context(gate), "down", INITIALIZE, params, *answer, peer.recorded
            )
        if wrong is None:
            return answer
        self._report(peer, Direction.DOWN, INITIALIZE, wrong, out)
        return peer.recorded

    # -- answers -----------------------------------------------------------------------------------

    def _upstream_answered(
        self, gate: Gate, token: Token, member: bytes, body: bytes, out: list[Effect]
    ) -> None:
        """The answer to what a component forwarded is about to reach it."""
        token.upstream = (member, body)
        changes = gate.verbs(token.direction.opposite, token.method) & _MODIFY
        if token.settled or not changes:
            self._settle(token, member, body, out)

    def _answered(
        self,
        peer: Peer,
        gate: Gate,
        token: Token,
        pending: Pending,
        member: bytes,
        body: bytes,
        out: list[Effect],
    ) -> None:
        """A component answers a request it was given."""
        if token.settled:
            return
        direction, method = token.direction, token.method
        wrong = None
        if token.upstream is None:
            if not gate.verbs(direction, method) & _ANSWER:
                wrong = _lacks(_ANSWER, method)
        elif token.upstream == (member, body):
            self._settle(token, member, body, out)
            return
        if wrong is None:
            wrong = guards.answered(
                self._context(gate),
                direction.value,
                method,
                token.params,
                member,
                body,
                token.upstream,
            )
        if wrong is None:
            gate.drop(token)
            self._settle(token, member, body, out)
            self._let_go(gate, direction, out)
            return
        self._report(peer, direction, method, wrong, out)
        if token.upstream is not None:
            self._settle(token, *token.upstream, out)
        elif token.forwarded is not None:
            token.settled = True  # its answer goes straight back when it comes
            self._detach(token)
        else:
            self._go_without(peer, gate, token, out)

    def _settle(self, token: Token, member: bytes, body: bytes, out: list[Effect]) -> None:
        token.settled = True
        if token.pending is not None:
            self._exchange.reply(token.pending, member, body, out)

    @staticmethod
    def _detach(token: Token) -> None:
        """The component has answered for itself: nothing is waited for from it any more."""
        if token.pending is not None:
            token.pending.hook = None

    def _go_without(self, peer: Peer, gate: Gate, token: Token, out: list[Effect]) -> None:
        """Sends the original on past the component; what it says to it no longer counts."""
        gate.drop(token)
        pending = token.pending
        assert pending is not None
        token.settled = True
        lane = pending.target
        if pending.target_id and lane is not None:
            # Its answer, should it still come, belongs to nothing.
            leftover = Pending(None, b"null", b"null", token.method)
            leftover.hook = _ignore
            leftover.target, leftover.target_id = lane, pending.target_id
            if pending.target_id in lane.link.sent:
                lane.link.sent[pending.target_id] = leftover
        pending.hook = None
        ahead = _other(_entry(peer, token.direction)).across
        assert ahead is not None
        self._deliver(ahead, token.direction, token.method, token.params, pending, out)
        self._let_go(gate, token.direction, out)

    # -- reports -----------------------------------------------------------------------------------

    def _refuse(
        self,
        peer: Peer,
        direction: Direction,
        method: str,
        wrong: guards.Violation,
        pending: Pending,
        out: list[Effect],
    ) -> None:
        """Tells a component which rule its request broke."""
        self._report(peer, direction, method, wrong, out)
        data = {"rule": wrong.guard, "pointer": wrong.pointer, "component": peer.name}
        text = f"{peer.label} {wrong.text}"
        body = jsonrpc.error_object(INVALID_REQUEST, text, data)
        self._exchange.reply(pending, b"error", body, out)

    def _report(
        self,
        peer: Peer,
        direction: Direction,
        method: str,
        wrong: guards.Violation,
        out: list[Effect],
    ) -> None:
        gate = peer.gate
        assert gate is not None
        fatal = gate.policy.on_violation == "fail"
        out.append(
            Violated(
                peer.name,
                wrong.guard,
                direction.value,
                method,
                wrong.pointer,
                f"{peer.label} {wrong.text}",
                fatal,
            )
        )

    def _context(self, gate: Gate) -> guards.Context:
        policy = gate.policy
        return guards.Context(
            self._exchange.version,
            policy.lifted,
            gate.servers,
            gate.foreign,
            frozenset(
                method for method in PROMISED if gate.verbs(Direction.DOWN, method) & _ANSWER
            ),
        )


def _direction(lane: Lane) -> Direction:
    """Which way a message goes that leaves on this lane."""
    role = lane.peer.role
    if lane.peer.launched_by is not None:
        return Direction.DOWN
    if role is Role.PROXY:
        return Direction.UP if lane.side is Side.P else Direction.DOWN
    if role is Role.AGENT:
        return Direction.UP
    return Direction.DOWN if lane.side is Side.P else Direction.UP


def _other(lane: Lane) -> Lane:
    """A peer's other lane."""
    return lane.peer.s if lane is lane.peer.p else lane.peer.p


def _entry(peer: Peer, direction: Direction) -> Lane:
    """The lane by which a message of this direction comes to a proxy."""
    return peer.p if direction is Direction.DOWN else peer.s


def _lacks(verb: int, method: str) -> guards.Violation:
    return guards.Violation("verbs", _RULES[verb].format(method), "")


def _ignore(pending: Pending, member: bytes, body: bytes, out: list[Effect]) -> None:
    """The answer to a copy, or one that comes too late: nobody reads it."""


def closure(violation: Violated) -> Closure:
    """Why a component is ended whose violations are not tolerated."""
    return Closure(
        violation.text,
        f"it broke the rule `{violation.rule}`; `conductor inspect` shows its policy",
        {"component": violation.peer, "rule": violation.rule},
    )
