"""Prompts of the client that are held: accepted, and sent on once they are released, or once no
component has a turn in their session.

Neither the components nor the agent know of a held prompt. So a cancellation answers it here.
"""

from __future__ import annotations

from conductor.core.effects import Held
from conductor.core.jsonrpc import Params
from conductor.core.parts import Part, Parts
from conductor.core.policy.cancellations import REFUSED, turn_cancelled
from conductor.core.policy.headings import read_message, session_of
from conductor.core.policy.key_table import AFTER_PROMPTS, CLOSING, PROMPT
from conductor.core.session import Session
from conductor.core.state import Lane, Next, Visit, Waiting


class HeldPrompts(Part):
    """The part of a router that holds prompts of upstream. They stand in the records of their
    sessions; a prompt without a session stands in the record without a name."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._sessions: dict[Session, None] = {}
        """The sessions in which a request is held."""
        self.on = 0
        """How many reasons there are to hold all prompts."""

    @property
    def may_keep(self) -> bool:
        """Whether any prompt is to wait."""
        return self.on > 0 or bool(self._sessions) or self._parts.own_turns.queue.any

    @property
    def count(self) -> int:
        """How many requests are held and still waited for."""
        return sum(one.origin is not None for known in self._sessions for one in known.held)

    def keeps(self, lane: Lane, method: str, params: Params, pending: Visit) -> bool:
        """Whether a request waits for the release: a prompt, or a request that must not overtake a
        prompt. A request that closes a session goes on, and ends the session's held prompts."""
        if lane is not self._exchange.upstream.p:
            return False
        session = session_of(params)
        if method in CLOSING:
            self.stopped(session)
        known = self._exchange.sessions.get(session or "")
        if method == PROMPT:
            waits = self.on > 0 or bool(known.open)
        else:
            waits = bool(known.held) and method in AFTER_PROMPTS
        if waits:
            known = self._exchange.sessions.at(session or "")
            pending.names = session
            message = read_message(method, params, session)
            known.held[pending] = Waiting(Next.HELD, lane, pending, message)
            self._sessions[known] = None
            self._parts.own_turns.queue.limit(known)
            if method == PROMPT and self.on:
                self._exchange.emit(Held(session))
        return waits

    def stopped(self, session: str | None) -> None:
        """The client cancels the turns of a session: its held prompts are answered."""
        known = self._exchange.sessions.get(session or "")
        for pending, held in list(known.held.items()):
            if held.message.method == PROMPT and held.message.session == session:
                self._answer(known, pending, turn_cancelled(self._exchange.version))

    def cancelled(self, pending: Visit) -> None:
        """A request is cancelled by its id: if it is held, that is its answer."""
        known = self._exchange.sessions.get(pending.names or "")
        if pending in known.held:
            self._answer(known, pending, REFUSED)

    def _answer(self, known: Session, pending: Visit, answer: tuple[bytes, bytes]) -> None:
        del known.held[pending]
        if not known.held:
            del self._sessions[known]
        if pending.origin is not None:
            self._exchange.reply(pending, *answer)

    def release(self) -> None:
        """One reason to hold prompts is over: the requests that nothing holds any more go on."""
        self.on = max(0, self.on - 1)
        self._go_on([known for known in self._sessions if not known.open])
        for known in list(self._sessions) if not self.on else ():
            self._parts.own_turns.queue.limit(known)

    def turn_over(self, session: Session) -> None:
        """No component has a turn in a session any more: the requests that wait there go on."""
        if session.held:
            self._go_on([session])

    def _go_on(self, sessions: list[Session]) -> None:
        if self.on:
            return
        freed: list[Waiting] = []
        for known in sessions:
            held, known.held = known.held, {}
            freed += held.values()
            del self._sessions[known]
        for waiting in sorted(freed, key=_came):
            self._parts.waits.go_on(waiting)


def _came(held: Waiting) -> int:
    assert isinstance(held.of, Visit)
    return held.of.number
