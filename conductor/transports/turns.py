"""Whose bytes are looked at: in each turn of an event loop a few pieces of each principal's.

A piece costs some milliseconds at most, however its sender has cut it: so a flood of one principal,
over any number of connections, holds up nobody else for long. Knows no server and no transport.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

_EACH: Final = 2
"""Pieces of one principal in one turn."""


class Turns:
    """The turns of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._spent: dict[str, int] = {}
        self._waiting: dict[str, deque[Callable[[], object]]] = {}

    def may(self, principal: str) -> bool:
        """Whether another piece of a principal's may be looked at in this turn; it counts."""
        if not self._spent:
            self._loop.call_soon(self._next)
        spent = self._spent.get(principal, 0)
        self._spent[principal] = spent + 1
        return spent < _EACH

    def later(self, principal: str, go_on: Callable[[], object]) -> None:
        """Calls `go_on` in a later turn, when those of the principal's that came before are done:
        `may` has said no."""
        self._waiting.setdefault(principal, deque()).append(go_on)

    def _next(self) -> None:
        self._spent.clear()
        for principal, waiting in [*self._waiting.items()]:
            for _ in range(min(_EACH, len(waiting))):
                waiting.popleft()()
            if not waiting:
                del self._waiting[principal]
        if self._waiting and not self._spent:  # those that went on have ended meanwhile
            self._loop.call_soon(self._next)
