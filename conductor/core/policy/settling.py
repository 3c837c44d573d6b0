"""Makes the settings of sessions: of components as the agent begins a session, and of one that
becomes the user's as the user has chosen."""

from __future__ import annotations

from conductor.core.guards.modes import Refused, Settings, choice
from conductor.core.jsonrpc import read_error
from conductor.core.parts import Part
from conductor.core.policy.headings import read_message
from conductor.core.policy.key_table import SETTINGS
from conductor.core.session import OwnPrompt, Rebind, Settled
from conductor.core.state import AnswerTo, Lane, Visit


class Settling(Part):
    """The part of a router that makes the settings of sessions."""

    def now(self, lane: Lane, session: str) -> Settings:
        """The settings of a session that has this id where messages go down by `lane`."""
        return self._exchange.sessions.find(self._parts.names.innermost(lane, session)).settings

    def bring(self, lane: Lane, session: str, waits: OwnPrompt | Rebind) -> None:
        """Makes the settings that are not as wanted; `waits` goes on once the agent has
        answered."""
        self._round(Settled(lane, session, waits))

    def _wanted(self, settled: Settled) -> Settings:
        """The settings that are wanted now."""
        waits = settled.waits
        if isinstance(waits, OwnPrompt):
            return waits.begins
        return self.now(settled.lane, waits.wanted.sessionId)

    def _goes_on(self, settled: Settled, refused: Refused) -> None:
        waits = settled.waits
        if isinstance(waits, OwnPrompt):
            self._parts.policed.settled(settled.lane, waits.message, waits.pending, refused)
        else:
            self._parts.rebinding.bind(waits, refused)

    def _round(self, settled: Settled) -> None:
        lane, session, refused = settled.lane, settled.session, settled.refused
        has = self.now(lane, session)
        differs = {
            which: one for which, one in self._wanted(settled).items() if has.get(which) != one
        }
        asks = [which for which in differs if which not in refused] if settled.rounds else []
        asks.sort(key=lambda which: SETTINGS.index(which[0]))  # a mode or a model may set options
        if not asks:
            said = {which: refused.get(which, "it is set otherwise again") for which in differs}
            self._goes_on(settled, said)
            return
        settled.open = {self._exchange.own_request(which[0]): which for which in asks}
        for pending, which in list(settled.open.items()):
            params = choice(session, which, differs[which], self._exchange.version)
            self._parts.names.follow(lane, which[0], params, pending)
            pending.answer_to = AnswerTo.CONDUCTOR
            pending.followers = (*pending.followers, settled)
            self._parts.policed.leave(lane, read_message(which[0], params), pending)

    def answered(self, settled: Settled, pending: Visit, member: bytes, body: bytes) -> None:
        """One setting is answered; after the last, all settings are compared again."""
        which = settled.open.pop(pending)
        if member == b"error":
            settled.refused[which] = read_error(body).message
        if not settled.open:
            settled.rounds -= 1
            self._round(settled)
