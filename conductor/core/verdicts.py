"""Whether a policed component may do what it does: its verbs first, then the guards."""

from __future__ import annotations

from typing import Final

from conductor.core import guards, jsonrpc
from conductor.core.effects import Closure, Effect, Violated
from conductor.core.exchange import Exchange
from conductor.core.gate import ANSWER, MODIFY, ORIGINATE, Gate
from conductor.core.guards import Violation
from conductor.core.jsonrpc import INVALID_REQUEST
from conductor.core.link import Pending
from conductor.core.peer import Peer
from conductor.core.policy import Direction
from conductor.core.tokens import Params, Token, equal

_RULES: Final = {
    ORIGINATE: "may not send `{}` of its own",
    MODIFY: "may not change `{}`",
    ANSWER: "may not answer `{}`",
}

VERBS: Final = "verbs"
"""The rule that is broken where a verb is missing; all others are guards."""


class Verdicts:
    """The checks, and how their outcome is told."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def originates(
        self, gate: Gate, direction: Direction, method: str, params: Params
    ) -> Violation | None:
        """What is wrong with a message of the component's own."""
        if not gate.verbs(direction, method) & ORIGINATE:
            return lacks(ORIGINATE, method)
        return guards.originated(self._context(gate), direction.value, method, params)

    def forwards(
        self, gate: Gate, direction: Direction, method: str, given: Params, sent: Params
    ) -> Violation | None:
        """What is wrong with a message it was given going on as `sent`.

        What it may not change goes on as it was given, so only what says something else is wrong.
        """
        if given == sent:
            return None
        if not gate.verbs(direction, method) & MODIFY:
            return None if equal(given, sent) else lacks(MODIFY, method)
        return guards.forwarded(self._context(gate), direction.value, method, given, sent)

    def answers(
        self, gate: Gate, token: Token, direction: Direction, member: bytes, body: bytes
    ) -> Violation | None:
        """What is wrong with its answer to a request, of which `token.upstream` came back."""
        method, upstream = token.method, token.upstream
        if upstream is None:
            if (token.pending.cancelled or token.late is not None) and member == b"error":
                return None  # nobody wants it any more
            if token.late is not None and equal(body, token.late[1]):
                return None
            if not gate.verbs(direction, method) & ANSWER:
                return lacks(ANSWER, method)
        elif member == upstream[0] and body == upstream[1]:
            return None
        elif not gate.verbs(direction.opposite, method) & MODIFY:
            same = member == upstream[0] and equal(body, upstream[1])
            return None if same else lacks(MODIFY, method)
        return guards.answered(
            self._context(gate), direction.value, method, token.params, member, body, upstream
        )

    def initialized(
        self,
        gate: Gate,
        params: Params,
        answer: tuple[bytes, bytes],
        upstream: tuple[bytes, bytes] | None,
    ) -> Violation | None:
        """What is wrong with its answer to `initialize`, given as it leaves the component."""
        if upstream == answer:
            return None
        if upstream is None:
            if not gate.verbs(Direction.DOWN, "initialize") & ANSWER:
                return lacks(ANSWER, "initialize")
        elif not gate.verbs(Direction.UP, "initialize") & MODIFY:
            same = answer[0] == upstream[0] and equal(answer[1], upstream[1])
            return None if same else lacks(MODIFY, "initialize")
        return guards.answered(self._context(gate), "down", "initialize", params, *answer, upstream)

    # -- reports ---------------------------------------------------------------------------------

    def refuse(
        self,
        peer: Peer,
        direction: Direction,
        method: str,
        wrong: Violation,
        pending: Pending,
        out: list[Effect],
    ) -> None:
        """Reports a violation, and tells the component which rule its request broke."""
        self.report(peer, direction, method, wrong, out)
        owner = peer.launched_by or peer
        data = {"rule": wrong.guard, "pointer": wrong.pointer, "component": owner.name}
        body = jsonrpc.error_object(INVALID_REQUEST, _sentence(owner, wrong), data)
        self._exchange.reply(pending, b"error", body, out)

    @staticmethod
    def report(
        peer: Peer, direction: Direction, method: str, wrong: Violation, out: list[Effect]
    ) -> None:
        """Reports a violation."""
        owner = peer.launched_by or peer
        fatal = peer.gate is not None and peer.gate.policy.on_violation == "fail"
        text, way = _sentence(owner, wrong), direction.value
        out.append(Violated(owner.name, wrong.guard, way, method, wrong.pointer, text, fatal))

    def _context(self, gate: Gate) -> guards.Context:
        return guards.Context(
            self._exchange.version, gate.policy.lifted, gate.servers, gate.foreign, gate.answerable
        )


def lacks(verb: int, method: str) -> Violation:
    """A missing verb as a violation."""
    return Violation(VERBS, _RULES[verb].format(method), "")


def _sentence(peer: Peer, wrong: Violation) -> str:
    joint = " " if wrong.guard == VERBS else ": "
    return f"{peer.label}{joint}{wrong.text}"


def closure(violation: Violated) -> Closure:
    """Why a component is ended whose violations are not tolerated."""
    return Closure(
        violation.text,
        f"it broke the rule `{violation.rule}`; `conductor inspect` shows its policy",
        {"component": violation.peer, "rule": violation.rule},
    )
