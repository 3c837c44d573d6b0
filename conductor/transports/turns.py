"""Gives principals their turns: in each turn of an event loop a few pieces of each principal's
bytes.

A piece costs a millisecond or so, however its sender has cut it: so a flood of one principal,
over any number of connections, holds up nobody else for long. Knows no server and no transport.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

_EACH: Final = 8
"""The most pieces of one principal in one turn. A turn has an end only once somebody has taken so
many: a client that sends one message after the other pays nothing for turns."""


class Turns:
    """The turns of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._spent: dict[str, int] = {}
        self._ends = False
        self._waiting: dict[str, deque[Callable[[], object]]] = {}

    def may(self, principal: str) -> bool:
        """Whether another piece of a principal's may be looked at in this turn; it counts."""
        spent = self._spent[principal] = self._spent.get(principal, 0) + 1
        if spent >= _EACH:
            self._end_soon()
        return spent <= _EACH

    def _end_soon(self) -> None:
        if not self._ends:
            self._ends = True
            self._loop.call_soon(self._next)

    def later(self, principal: str, go_on: Callable[[], object]) -> None:
        """Calls `go_on` in a later turn, behind earlier calls: `may` has said no."""
        self._waiting.setdefault(principal, deque()).append(go_on)

    def _next(self) -> None:
        self._ends = False
        self._spent.clear()
        for principal, waiting in [*self._waiting.items()]:
            # A connection without a turn stays ahead of one that goes on: those of one principal
            # alternate.
            while waiting and self._spent.get(principal, 0) < _EACH:
                waiting.popleft()()
            if not waiting:
                del self._waiting[principal]
        if self._waiting:
            self._end_soon()
