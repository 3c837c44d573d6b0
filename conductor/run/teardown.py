"""The end of a chain: what it still waits for, and how the end of a component is told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from conductor.core import UPSTREAM, Closure, Router
from conductor.transports.base import Ended

_KILLED_HINT: Final = "no guest can end its host: see whether the machine ran out of memory"

_LOOK: Final = 0.005
"""Seconds between looks whether everything is answered."""

_MOMENT: Final = 0.1
"""Seconds in which an observer says what it says to what it was shown last."""
_TAKES: Final = 5.0
"""Seconds in which an observer starts, or takes a copy, if it ever does."""


class Ending:
    """Hears what passes through a chain, so that its end comes when nothing is missed by it."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._heard = asyncio.Event()
        self._passed = 0
        self._stopped = False
        self._gone = False

    def passed(self, name: str, frames: Iterable[bytes], *, host: bool) -> None:
        """Lines of a peer have come. Once the client is gone, only those count by which a program
        works at what the client waits for: what guests send prolongs nothing, nor does a program
        that answers them."""
        if name == UPSTREAM:
            self._heard.set()
        if not host and (not self._gone or any(map(_calls, frames))):
            self._passed += 1

    def stop(self) -> None:
        """A signal came: nothing is waited for any more."""
        self._stopped = True
        self._heard.set()

    def client_gone(self) -> None:
        """Nothing will come from the client any more."""
        self._gone = True
        self._heard.set()

    async def first_request(self, seconds: float) -> None:
        """Gives the client time to ask what it will then be told: that the chain has failed.

        A component that ends at once is often gone before the client has said a word.
        """
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._heard.wait(), seconds)

    async def settled(self, quiet: float, most: float) -> None:
        """Waits until the client's requests are answered, or nobody has worked at them for `quiet`
        s; at most `most` s."""
        await self._quiet(lambda: quiet if self._router.pending() else 0.0, most)

    async def observed(self, most: float) -> None:
        """Waits until observers have taken what they were shown, and have said what they say to it;
        nothing else waits for them."""

        await self._quiet(lambda: _MOMENT if self._router.observed() else _TAKES, most)

    async def _quiet(self, patience: Callable[[], float], most: float) -> None:
        """Waits until nothing has moved for as long as there is patience now."""
        loop = asyncio.get_running_loop()
        seen, since = self._moved(), loop.time()
        end = since + most
        while loop.time() < min(end, since + patience()) and not self._stopped:
            await asyncio.sleep(_LOOK)
            if self._moved() != seen:
                seen, since = self._moved(), loop.time()

    def _moved(self) -> tuple[int, int]:
        """What changes when somebody works at what the client waits for."""
        return self._passed, self._router.pending()


class _Call(msgspec.Struct):
    method: str | None = None


def _calls(frame: bytes) -> bool:
    """Whether a line is a request or a notification, no answer."""
    try:
        return msgspec.json.decode(frame, type=_Call).method is not None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


def closure(name: str, label: str, how: Ended, *, host: bool) -> Closure:
    """Why the connection of a component is gone, in words; `host`: it is one of guests."""
    text = f"{label} {how.text}"
    tail = how.data.get("stderr") or []
    if tail:
        text += "; its last words: " + " | ".join(tail[-3:])
    hint = how.hint
    if not hint and "command" in how.data:
        hint = "run its command by itself to see what it says"
        if host:
            killed = str(how.data.get("exitCode")).startswith("-")
            hint = _KILLED_HINT if killed else "please report this"
    return Closure(text, hint, {"component": name, **how.data})
