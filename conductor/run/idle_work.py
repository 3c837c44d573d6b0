"""Work that waits until nothing else is to be done.

While messages pass, it takes a tenth of the time at most: so they hardly wait for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

Later = Callable[[float, Callable[[], None]], object]
"""Calls a function after so many seconds."""

_BUSY: Final = 0.001
"""Seconds of a turn while messages pass …"""
_PAUSE: Final = 9
"""… and how many times as long the next one waits. The first is at once."""
_QUIET: Final = 0.003
"""Seconds of a turn if nothing has passed since the one before."""


class IdleWork:
    """Does work in turns."""

    def __init__(
        self,
        step: Callable[[], bool],
        later: Later,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`step` does a little; False: there is nothing that can be done now."""
        self._step = step
        self._later = later
        self._clock = clock
        self._is_scheduled = self._passed = False

    def passed(self) -> None:
        """Messages have passed, and may have left something to do."""
        self._passed = True
        if not self._is_scheduled:
            self._schedule(0.0)

    def do(self, seconds: float) -> bool:
        """Works for about so many seconds; whether anything is left that can be done now."""
        until = self._clock() + seconds
        while self._step():
            if self._clock() >= until:
                return True
        return False

    def _schedule(self, seconds: float) -> None:
        self._is_scheduled = True
        self._later(seconds, self._turn)

    def _turn(self) -> None:
        self._is_scheduled = False
        passed, self._passed = self._passed, False
        began = self._clock()
        left = self.do(_BUSY if passed else _QUIET)
        if passed:
            # A step may take longer than its turn.
            self._schedule(_PAUSE * max(_BUSY, self._clock() - began))
        elif left:
            self._schedule(0.0)
