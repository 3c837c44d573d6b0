"""Keeps large buffers' pages: a fresh megabyte costs more to be given than to be filled.

glibc hands every large block back to the system and asks for it anew, page fault by page fault.
Told to keep a few megabytes, a conductor passes large messages in half the time.

What a flood leaves behind, in pieces between what is still in use, is given back in a quiet moment:
it is no leak, but whoever looks at the process sees one.
"""

from __future__ import annotations

import functools
import gc
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # the child that hosts guests has no event loop
    import asyncio

CHUNK: Final = 64 * 1024
"""Bytes read at once; who finds so many, or more, has something large before him."""

BIG_CHUNK: Final = 1024 * 1024
"""Bytes read at once while something large comes in."""

_KEPT: Final = 8 * 1024 * 1024
_LOOK: Final = 5.0
"""Seconds between two looks whether memory is to be given back."""

_BUSY: Final = 6
"""Looks in a row that find traffic, until memory is given back although it is not quiet."""

QUIET: Final = 0.03
"""Seconds without another large chunk after which what large ones took is given back: longer than
one takes to come back as the next, for getting the memory anew costs as much as the message."""

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3


@functools.cache
def keep_large() -> None:
    """Lets this process keep up to 8 MiB of freed memory; does nothing without glibc.

    Called when the first large chunk arrives: most sessions never need it.
    """
    if sys.platform != "linux":
        return
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _KEPT)
        mallopt(_M_TRIM_THRESHOLD, _KEPT)


def give_back() -> None:
    """Gives all freed memory back to the system, also between what is in use, and frees what only
    the collector can (a conductor rarely lets it run); about a millisecond for every 10 MB."""
    gc.collect()
    if sys.platform != "linux":
        return
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class Tidying:
    """Gives memory back in quiet moments of an event loop: soon after large messages, and now and
    then after others."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._passed = 0
        self._large_at = 0.0
        """When something large came last."""
        self._waiting: asyncio.TimerHandle | None = None
        """Waits until nothing large has come for a moment."""
        self._seen = self._given = self._busy = 0
        self._looking = loop.call_later(_LOOK, self._look)

    def passed(self, size: int) -> None:
        """So many bytes passed at once."""
        self._passed += 1
        if size >= CHUNK:
            self._large_at = self._loop.time()
            if self._waiting is None:
                self._waiting = self._loop.call_later(QUIET, self._quiet)

    def stop(self) -> None:
        """Nothing is given back any more."""
        self._looking.cancel()
        if self._waiting is not None:
            self._waiting.cancel()

    def _quiet(self) -> None:
        left = self._large_at + QUIET - self._loop.time()
        if left > 0:
            self._waiting = self._loop.call_later(left, self._quiet)
            return
        self._waiting = None
        self._give_back()

    def _look(self) -> None:
        self._looking = self._loop.call_later(_LOOK, self._look)
        moved, self._seen = self._passed != self._seen, self._passed
        self._busy = self._busy + 1 if moved else 0
        if self._passed != self._given and (not moved or self._busy >= _BUSY):
            self._give_back()

    def _give_back(self) -> None:
        self._given, self._busy = self._passed, 0
        give_back()
