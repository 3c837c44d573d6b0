"""Process groups: a component, and whatever it has started."""

from __future__ import annotations

import contextlib
import os
import signal as signals
import sys
import time
from typing import Final

_LOOK: Final = 0.01
"""Seconds between looks whether one is gone."""


def signal(group: int, number: int) -> None:
    """Sends a signal to all there is of it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def lives(group: int) -> bool:
    """Whether anything but its unreaped leader is left."""
    if sys.platform == "linux":
        return any(True for pid in _members(group) if pid != group)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, 0)
        return True
    return False


async def end(group: int, grace: float) -> None:
    """Ends what its leader has left behind: SIGTERM, and SIGKILL after `grace` seconds."""
    import asyncio

    for number in (signals.SIGTERM, signals.SIGKILL):
        if not lives(group):
            return
        signal(group, number)
        deadline = time.monotonic() + grace
        while lives(group) and time.monotonic() < deadline:
            await asyncio.sleep(_LOOK)


def _members(group: int) -> list[int]:
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError), open(f"{entry.path}/stat", "rb") as stat:
            fields = stat.read().rpartition(b")")[2].split()
            if int(fields[2]) == group and fields[0] != b"Z":
                found.append(int(entry.name))
    return found
