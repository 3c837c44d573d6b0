"""Turns that are cancelled before the agent has heard of them.

`session/cancel` concerns a session's turns, and the prompts that are still on their way to the
agent. A component without a verb on it may be holding such a prompt: then the agent will never
know of the prompt, and the cancellation waits for nobody. So the prompt is answered here as the
agent would have, and who holds it is told of the cancellation. One that may answer prompts itself
is told and answers. Whoever sends the prompt on nevertheless gets that answer to it.
`session/close` and `session/delete` end a session's turns too, and wait for no such prompt either.
"""

from __future__ import annotations

from typing import Final

import msgspec

from conductor.core import jsonrpc
from conductor.core.copies import Copies
from conductor.core.custody import Custody, loosen
from conductor.core.effects import Effect
from conductor.core.exchange import Exchange
from conductor.core.gate import ANSWER, MODIFY, verbs_on
from conductor.core.jsonrpc import REQUEST_CANCELLED
from conductor.core.peer import Lane
from conductor.core.tokens import Params, Token, session_of
from conductor.core.way import Way

STOP: Final = "session/cancel"
_PROMPT: Final = "session/prompt"

_CANCELLED: Final = (b"result", b'{"stopReason":"cancelled"}')
_CANCELLED_V2: Final = (b"error", jsonrpc.error_object(REQUEST_CANCELLED, "Request cancelled"))
"""From version 2 on an answer says that the prompt is part of the conversation."""


class StoppedTurns:
    """The part of an enforcer that handles `session/cancel` where it passes a component by."""

    def __init__(self, exchange: Exchange, copies: Copies, custody: Custody) -> None:
        self._exchange = exchange
        self._copies = copies
        self._custody = custody
        custody.ends = self.ends

    def passes(self, lane: Lane, session: str, params: Params, out: list[Effect]) -> bool:
        """The cancellation of a session passes the component at `lane` by. Whether that was told
        of it."""
        way = lane.other.way
        told = False
        for token in list(way.asked.values()):
            if token.session == session and _is_held_prompt(token):
                told = token.round >= 0 or told
                self._stop(token, way, out)
        if told:
            self._copies.notice(lane, STOP, params, out)
        self._custody.let_go(way, out)
        self._custody.pass_on_shown(way, session, out)
        return told

    def ends(self, lane: Lane, params: Params, out: list[Effect]) -> None:
        """A request to close, or delete, a session passes the component at `lane` by: to what that
        holds it is a cancellation, unless cancellations are its own to pass on."""
        session = session_of(params)
        if session is not None and not verbs_on(lane, STOP) & MODIFY:
            named = msgspec.json.encode({"sessionId": session})
            self.passes(lane, session, msgspec.Raw(named), out)

    def given(self, lane: Lane, params: Params) -> None:
        """The component at `lane` is given a cancellation, which is its own to pass on: prompts
        that it holds it may end."""
        way = lane.other.way
        if way.asked:
            session = session_of(params)
            for token in way.asked.values():
                if token.session == session and _is_held_prompt(token):
                    token.late = self._answer

    @property
    def _answer(self) -> tuple[bytes, bytes]:
        """How a prompt is answered that is cancelled before it has begun: member and body."""
        return _CANCELLED_V2 if self._exchange.version == 2 else _CANCELLED

    def _stop(self, token: Token, way: Way, out: list[Effect]) -> None:
        way.take_back(token)
        token.late = self._answer
        if token.round >= 0:
            gate, direction = token.lane.peer.gate, token.lane.other.direction
            assert gate is not None
            if gate.verbs(direction, token.method) & ANSWER:
                return
            loosen(token)
        token.settled = True
        if self._exchange.ledger is not None:
            self._exchange.ledger.refused(token.pending)
        self._exchange.reply(token.pending, *token.late, out)


def _is_held_prompt(token: Token) -> bool:
    """Whether it is a prompt that the component may do more with than pass it on."""
    return token.method == _PROMPT and not token.relay
