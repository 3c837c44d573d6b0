"""Process groups: a component, and whatever it has started."""

from __future__ import annotations

import contextlib
import os
import sys


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
