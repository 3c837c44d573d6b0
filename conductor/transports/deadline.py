"""A time limit that is set anew far more often than it is reached."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Deadline:
    """A time of the event loop. Its timer is not set anew when the time is put off."""

    def __init__(self, expired: Callable[[], object]) -> None:
        """`expired` is called when the time has come."""
        self._loop = asyncio.get_running_loop()
        self._expired = expired
        self._at: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def set(self, at: float | None) -> None:
        """When it is; None: never."""
        self._at = at
        if at is not None and (self._timer is None or at < self._timer.when()):
            self._start(at)

    def stop(self) -> None:
        """The deadline never comes. Its owner is no longer in a cycle with it."""
        self._at = None
        self._expired = _nothing
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(at, self._look, at)

    def _look(self, now: float) -> None:
        self._timer, at = None, self._at
        if at is None:
            return
        if at > now:
            self._start(at)
        else:
            self._at = None
            self._expired()


def _nothing() -> None:
    """The action of a stopped deadline: nothing."""
