"""Processes that leave their group (daemons): no component may outlive the chain that way.

On Linux this process can have orphans handed to it instead of to the system's first process; what
is left below it at the end is ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from typing import Final

_PR_SET_CHILD_SUBREAPER: Final = 36
_PATIENCE: Final = 2.0
_PAUSE: Final = 0.005


def adopt_orphans() -> None:
    """From now on orphans among our descendants become our children (Linux)."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_strays() -> None:
    """Ends every process below this one, and theirs as they come up; returns when none is left."""
    deadline = time.monotonic() + _PATIENCE
    while sys.platform == "linux" and time.monotonic() < deadline:
        for pid in _children():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            ended, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return  # only this says for sure that there are none: the list may miss some
        if not ended:
            time.sleep(_PAUSE)


def _children() -> list[int]:
    """The processes whose parent this one is."""
    found = []
    with contextlib.suppress(OSError):
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/children") as listed:
                found += [int(pid) for pid in listed.read().split()]
    return found
