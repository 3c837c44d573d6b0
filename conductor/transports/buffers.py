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
from typing import Final

_KEPT: Final = 8 * 1024 * 1024
_BUSY: Final = 6
"""Looks in a row that find traffic, until memory is given back although it is not quiet."""

TIDYING: Final = 5.0
"""Seconds between two looks whether memory is to be given back."""

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
    """Decides, from how much traffic there has been, whether to give memory back now."""

    def __init__(self) -> None:
        self._seen = self._given = self._busy = 0

    def due(self, traffic: int) -> bool:
        """Whether to do it; `traffic` counts up with everything that passes."""
        moved, self._seen = traffic != self._seen, traffic
        self._busy = self._busy + 1 if moved else 0
        if traffic == self._given or (moved and self._busy < _BUSY):
            return False
        self._given, self._busy = traffic, 0
        return True
