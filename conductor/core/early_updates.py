"""Updates of a session that the client cannot know yet: they go behind the answer that names it.

Some agents send the commands of a session before they answer `session/new`; some editors drop what
comes so early. Whoever has sent the updates, they wait at the client's end; but for what tools do,
since the agent may ask for a permission that rests on that, say in a session of a sub-agent. Other
notifications of such a session wait with them.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Final

from conductor.core.jsonrpc import Params
from conductor.core.policy.headings import heading, size_of
from conductor.core.policy.withheld import TOOLS

_MOST: Final = 1000
"""Notifications that wait, at most …"""
_MOST_BYTES: Final = 1024 * 1024
"""… and their bytes. If there are more, all go on as they came."""


class EarlyUpdates:
    """What waits while the client has asked for new sessions."""

    def __init__(self, known: Container[str]) -> None:
        """`known`: the sessions of the client."""
        self._known = known
        self._opening = 0
        self.any = False
        """Whether a notification for the client may have to wait."""
        self._waiting: list[tuple[str, Callable[[], None], bool, int]] = []
        """Their sessions, what sends them on, whether they say what tools do, and their bytes."""
        self._bytes = 0

    def opens(self) -> None:
        """The client asks for a new session."""
        self._opening += 1
        self.any = True

    def opened(self) -> None:
        """It has its answer: what is of sessions that it knows now goes on; all, with the last."""
        self._opening -= 1
        self._go_on(all_=not self._opening)
        self.any = self._opening > 0

    def keeps(self, method: str, params: Params, later: Callable[[], None]) -> bool:
        """Whether a notification waits; `later` sends it on."""
        key, session, _ = heading(method, params)
        if not self.any or session is None or session in self._known:
            return False
        size = size_of(params)
        if len(self._waiting) >= _MOST or self._bytes + size > _MOST_BYTES:
            self.any = False
            self._go_on(all_=True)
            return False
        self._bytes += size
        self._waiting.append((session, later, key in TOOLS, size))
        return True

    def asked(self) -> None:
        """The agent asks the user something: what tools do goes on before."""
        self._go_on(all_=False, tools=True)

    def _go_on(self, *, all_: bool, tools: bool = False) -> None:
        waiting, self._waiting = self._waiting, []
        before, self.any = self.any, False  # what goes on now does not come back
        for session, later, of_tools, size in waiting:
            if all_ or session in self._known or (tools and of_tools):
                self._bytes -= size
                later()
            else:
                self._waiting.append((session, later, of_tools, size))
        self.any = before
