"""Pipes as large as the system lets them be: a 1 MB message then crosses in one go."""

from __future__ import annotations

import contextlib
import sys
from typing import Final

_BYTES: Final = 1024 * 1024


def enlarge_pipe(fd: int) -> None:
    """Makes the pipe behind `fd` hold 1 MiB, where that can be done."""
    if sys.platform == "linux":
        import fcntl

        with contextlib.suppress(OSError):  # over the user's quota: the default size does
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _BYTES)
