"""Updates of a session that the client cannot know yet: they go behind the answer that names it.

Some agents send the commands of a session before they answer `session/new`; some editors drop
updates that come so early. So the updates wait at the client's end, whoever has sent them, and
other notifications of such a session wait with them. Updates of tools go on before a question of
the agent to the user: a permission may rest on them, say in a session of a sub-agent. The client
knows each session that it has named.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Final

from conductor.core.jsonrpc import Params
from conductor.core.parts import Part, Parts
from conductor.core.policy.headings import Message, read_message
from conductor.core.policy.withheld import TOOLS
from conductor.core.session import Standing
from conductor.core.state import Lane, Next, Source, Waiting

_MOST: Final = 1000
"""The most notifications that wait."""
_MOST_BYTES: Final = 1024 * 1024
"""The most bytes of their params. If there are more, all go on as they came."""


_UNHEARD: Final = (Standing.NAMED, Standing.SET_UP, Standing.CLOSED)
"""The standings of sessions that the client has not named."""


class EarlyUpdates(Part):
    """The notifications that wait while the client has asked for new sessions."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._client = parts.exchange.upstream
        self._sessions = parts.exchange.sessions
        self._opening = 0
        self.any = False
        """Whether a notification for the client may have to wait."""

    def opens(self) -> None:
        """The client asks for a new session."""
        self._opening += 1
        self.any = self._exchange.may_keep = True

    def opened(self) -> None:
        """The client has its answer: notifications of sessions that it knows now go on. With the
        last answer all go on."""
        self._opening -= 1
        self._go_on(lambda message: not self._opening or self._knows(message.session))
        self.any = self._opening > 0
        self._exchange.watch(mends=self._exchange.mends)

    def keeps(self, lane: Lane, method: str, params: Params, source: Source) -> bool:
        """Whether a notification waits."""
        if not self.any:
            return False
        message = read_message(method, params)
        if message.session is None or self._knows(message.session):
            return False
        if self._client.wait(Waiting(Next.ARRIVES, lane, source, message), (_MOST, _MOST_BYTES)):
            return True
        self.any = False
        self._go_on(lambda _: True)
        return False

    def _knows(self, session: str | None) -> bool:
        return self._sessions.get(session).standing not in _UNHEARD

    def answers(self, session: str | None) -> None:
        """The client gets an answer to a request in which it has named a session: notifications of
        that session which wait go on before."""
        if self.any:
            self._go_on(lambda message: message.session == session)

    def asked(self) -> None:
        """The agent asks the user something: updates of tools go on before, and with them earlier
        notifications of the same session."""
        told = [waiting.message for waiting in self._client.backlog]
        last = {message.session: at for at, message in enumerate(told) if message.key in TOOLS}
        place = count()
        self._go_on(lambda message: next(place) <= last.get(message.session, -1))

    def _go_on(self, goes: Callable[[Message], bool]) -> None:
        before, self.any = self.any, False  # notifications that go on now do not come back
        for waiting in self._client.take_backlog():
            if goes(waiting.message):
                self._parts.waits.go_on(waiting)
            else:
                self._client.wait(waiting)
        self.any = before
