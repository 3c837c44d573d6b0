"""Prompts of the client that are held: accepted, and sent on once they are released, or once no
component has a turn in their session.

Neither the components nor the agent know of a held prompt. So a cancellation answers it here.
"""

from __future__ import annotations

from collections.abc import Callable

from conductor.core.effects import Held
from conductor.core.jsonrpc import Params
from conductor.core.parts import Parts
from conductor.core.policy.headings import read_message, session_of
from conductor.core.policy.key_table import AFTER_PROMPTS, CLOSING, PROMPT
from conductor.core.policy.turns import REFUSED, turn_cancelled
from conductor.core.session import Session
from conductor.core.state import Lane, Next, Visit, Waiting


class HeldPrompts:
    """The part of a router that holds prompts of upstream."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._exchange = parts.exchange
        self._waiting: dict[Visit, Waiting] = {}
        """Prompts that are held, and settings that wait behind one of their session."""
        self.on = 0
        """How many hold all prompts; 0: nobody."""

    @property
    def may_keep(self) -> bool:
        """Whether any prompt is to wait."""
        return self.on > 0 or bool(self._waiting) or self._parts.own_turns.queue.any

    @property
    def count(self) -> int:
        """How many requests are held and still waited for."""
        return sum(pending.origin is not None for pending in self._waiting)

    def keeps(self, lane: Lane, method: str, params: Params, pending: Visit) -> bool:
        """Whether a request waits for the release: a prompt, and what must not overtake one. A
        request that closes a session goes on, and ends the session's held prompts."""
        if lane is not self._exchange.upstream.p:
            return False
        session = session_of(params)
        if method in CLOSING:
            self.stopped(session)
        behind = any(held.message.session == session for held in self._waiting.values())
        if method == PROMPT:
            known = self._exchange.sessions.get(session)
            waits = self.on > 0 or bool(known.open)
            if known.open:
                self._parts.own_turns.queue.client_waits(known)
        else:
            waits = behind and method in AFTER_PROMPTS
        if waits:
            message = read_message(method, params, session)
            self._waiting[pending] = Waiting(Next.HELD, lane, pending, message)
            if method == PROMPT and self.on:
                self._exchange.emit(Held(session))
        return waits

    def stopped(self, session: str | None) -> None:
        """The client cancels the turns of a session: its held prompts are answered."""
        for pending, held in list(self._waiting.items()):
            if held.message.session == session and held.message.method == PROMPT:
                self._answer(pending, turn_cancelled(self._exchange.version))

    def cancelled(self, pending: Visit) -> None:
        """A request is cancelled by its id: if it is held, that is its answer."""
        if pending in self._waiting:
            self._answer(pending, REFUSED)

    def _answer(self, pending: Visit, answer: tuple[bytes, bytes]) -> None:
        del self._waiting[pending]
        if pending.origin is not None:
            self._exchange.reply(pending, *answer)

    def release(self) -> None:
        """One holds them no longer: what nobody holds any more, and somebody waits for, goes on."""
        self.on, known = max(0, self.on - 1), self._exchange.sessions.get
        self._go_on(lambda session: not known(session).open)
        for held in list(self._waiting.values()) if not self.on else ():
            self._parts.own_turns.queue.client_waits(known(held.message.session))

    def turn_over(self, session: Session) -> None:
        """No component has a turn in a session any more: what waits there goes on."""
        self._go_on(lambda other: other == session.name)

    def _go_on(self, goes: Callable[[str | None], bool]) -> None:
        if self.on or not self._waiting:
            return
        freed = [one for one, held in self._waiting.items() if goes(held.message.session)]
        for held in [self._waiting.pop(one) for one in freed]:
            self._parts.waits.go_on(held)
