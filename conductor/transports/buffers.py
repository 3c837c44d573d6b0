"""Keeps large buffers' pages: a fresh megabyte costs more to be given than to be filled.

glibc hands every large block back to the system and asks for it anew, page fault by page fault.
Told to keep a few megabytes, a conductor passes large messages in half the time.
"""

from __future__ import annotations

import functools
import sys
from typing import Final

_KEPT: Final = 8 * 1024 * 1024
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
