"""Opens files that are written for their owner only, and never at the price of a chain."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import Final

HINT: Final = "give a path in a folder that exists and that you may write to"


def open_private(path: str, flags: int) -> int:
    """A descriptor of a file that only its owner may read; `flags` as for `os.open`.

    Raises `OSError`, or `ValueError` for a path that can be none.
    """
    # Not blocking: a pipe that nobody reads must hold up neither the start nor the chain.
    for name in ("O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY"):
        flags |= getattr(os, name, 0)
    fd = os.open(path, flags | os.O_CREAT, 0o600)
    if stat.S_ISREG(os.fstat(fd).st_mode) and hasattr(os, "fchmod"):
        with contextlib.suppress(PermissionError):  # another user's file that we may write to
            os.fchmod(fd, 0o600)
    return fd


def reason(error: Exception) -> str:
    """Why a file cannot be used, for people."""
    return getattr(error, "strerror", None) or str(error)
