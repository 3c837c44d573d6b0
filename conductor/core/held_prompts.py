"""Prompts of the client that are held: accepted, and sent on once they are released, or once no
component has a turn in their session.

Neither the components nor the agent know of a held prompt. So a cancellation answers it here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from conductor.core.effects import Held
from conductor.core.jsonrpc import Params
from conductor.core.parts import Parts
from conductor.core.policy.headings import session_of
from conductor.core.policy.key_table import AFTER_PROMPTS, CLOSING, PROMPT
from conductor.core.policy.turns import REFUSED, turn_cancelled
from conductor.core.state import Lane, PendingRequest


class HeldPrompt(NamedTuple):
    """A prompt that is held, or a setting that waits behind one of its session."""

    lane: Lane
    method: str
    params: Params
    pending: PendingRequest
    session: str | None


class HeldPrompts:
    """The part of a router that holds prompts of upstream."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._exchange = parts.exchange
        self._waiting: list[HeldPrompt] = []
        self.on = 0
        """How many hold all prompts; 0: nobody."""

    @property
    def may_keep(self) -> bool:
        """Whether any prompt is to wait."""
        return self.on > 0 or bool(self._waiting) or self._parts.own_turns.any

    @property
    def count(self) -> int:
        """How many requests are held and still waited for."""
        return sum(held.pending.origin is not None for held in self._waiting)

    def keeps(self, lane: Lane, method: str, params: Params, pending: PendingRequest) -> bool:
        """Whether a request waits for the release: a prompt, and what must not overtake one. A
        request that closes a session goes on, and ends the session's held prompts."""
        if lane is not self._exchange.upstream.p:
            return False
        session = session_of(params)
        if method in CLOSING:
            self.stopped(session)
        behind = any(held.session == session for held in self._waiting)
        if method == PROMPT:
            in_turn = self._parts.own_turns.queue.blocks(session)
            waits = self.on > 0 or in_turn
            if in_turn:
                self._parts.own_turns.client_waits(session)
        else:
            waits = behind and method in AFTER_PROMPTS
        if waits:
            self._waiting.append(HeldPrompt(lane, method, params, pending, session))
            if method == PROMPT and self.on:
                self._exchange.emit(Held(session))
        return waits

    def stopped(self, session: str | None) -> None:
        """The client cancels the turns of a session: its held prompts are answered."""
        stopped = [held for held in self._waiting if held.session == session]
        for held in stopped:
            if held.method == PROMPT:
                self._answer(held, turn_cancelled(self._exchange.version))

    def cancelled(self, pending: PendingRequest) -> None:
        """A request is cancelled by its id: if it is held, that is its answer."""
        for held in self._waiting:
            if held.pending is pending:
                self._answer(held, REFUSED)
                break

    def _answer(self, held: HeldPrompt, answer: tuple[bytes, bytes]) -> None:
        self._waiting.remove(held)
        if held.pending.origin is not None:
            self._exchange.reply(held.pending, *answer)

    def release(self) -> None:
        """One holds them no longer: what nobody holds any more, and somebody waits for, goes on."""
        self.on = max(0, self.on - 1)
        blocks = self._parts.own_turns.queue.blocks
        self._go_on(lambda session: not blocks(session))
        for held in self._waiting if not self.on else ():
            self._parts.own_turns.client_waits(held.session)

    def turn_over(self, session: str) -> None:
        """No component has a turn in a session any more: what waits there goes on."""
        self._go_on(lambda other: other == session)

    def _go_on(self, goes: Callable[[str | None], bool]) -> None:
        if self.on or not self._waiting:
            return
        freed = [held for held in self._waiting if goes(held.session)]
        self._waiting = [held for held in self._waiting if held not in freed]
        for held in [held for held in freed if held.pending.origin is not None]:
            self._parts.requests.released(held)
