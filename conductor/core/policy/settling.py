"""Has sessions be set as they are to be: those of components as the agent begins them, and one that
becomes the user's as the user has chosen."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from conductor.core.guards.modes import Settings, Which, choice
from conductor.core.jsonrpc import read_error
from conductor.core.parts import Parts
from conductor.core.policy.headings import Message, read_message
from conductor.core.policy.key_table import SETTINGS
from conductor.core.state import AnswerTo, Lane, PendingRequest

_ROUNDS: Final = 3
"""How often the same session is set: one setting may change another."""

Leave = Callable[[Lane, Message, PendingRequest], None]
"""Sends a request out by a lane."""
Refused = dict[Which, str]
"""What the agent did not set, and why."""


class Settling:
    """The part of a router that sets what is to be set in a session."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._exchange = parts.exchange

    def now(self, lane: Lane, session: str) -> Settings:
        """What is set in a session that has this id where messages go down by `lane`."""
        return self._exchange.sessions.find(self._exchange.innermost(lane, session)).settings

    def bring(
        self,
        lane: Lane,
        session: str,
        wanted: Callable[[], Settings],
        then: Callable[[Refused], None],
    ) -> None:
        """Sets what is not as `wanted`, and goes on once the agent has answered all of that."""
        self._round(lane, session, wanted, then, {}, _ROUNDS)

    def _round(
        self,
        lane: Lane,
        session: str,
        wanted: Callable[[], Settings],
        then: Callable[[Refused], None],
        refused: Refused,
        rounds: int,
    ) -> None:
        has = self.now(lane, session)
        differs = {which: one for which, one in wanted().items() if has.get(which) != one}
        asks = [which for which in differs if which not in refused] if rounds else []
        asks.sort(key=lambda which: SETTINGS.index(which[0]))  # a mode or a model may set options
        if not asks:
            said = {which: refused.get(which, "it is set otherwise again") for which in differs}
            then(said)
            return
        open_ = set(asks)

        def answered(which: Which, member: bytes, body: bytes) -> None:
            open_.discard(which)
            if member == b"error":
                refused[which] = read_error(body).message
            if not open_:
                self._round(lane, session, wanted, then, refused, rounds - 1)

        for which in asks:
            self._ask(lane, session, which, differs[which], partial(answered, which))

    def _ask(
        self,
        lane: Lane,
        session: str,
        which: Which,
        value: object,
        answered: Callable[[bytes, bytes], None],
    ) -> None:
        method = which[0]
        params = choice(session, which, value, self._exchange.version)
        pending = self._exchange.own_request(method)
        self._exchange.follow(lane, method, params, pending)
        pending.answer_to = AnswerTo.SETTLING
        pending.watchers = (*pending.watchers, answered)
        self._parts.policed.leave(lane, read_message(method, params), pending)
