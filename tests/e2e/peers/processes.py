"""Finding processes a test left behind, by a marker in their environment (Linux)."""

from __future__ import annotations

import os
import select
import sys
import time
from contextlib import suppress
from pathlib import Path

GRACE = 10.0
"""Seconds a process that is already on its way out may take to disappear."""


def outliving(marker: str) -> list[str]:
    """Command lines of processes with ``NAME=VALUE`` in their environment that do not end.

    Waits for their ends, at most `GRACE` seconds in all. Only Linux shows other processes'
    environments as files, so everywhere else the answer is an empty list.
    """
    if sys.platform != "linux":
        return []
    until = time.monotonic() + GRACE
    # Twice: a process may have been born of one that was still alive at the first look.
    for _ in range(2):
        for pid in _carrying(marker):
            _wait(pid, max(0.0, until - time.monotonic()))
    return [line for line in map(_command_line, _carrying(marker)) if line]


def _carrying(marker: str) -> list[int]:
    """Ids of the processes, other than this one, whose environment holds ``marker``."""
    wanted = marker.encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        # It ended while we looked, or belongs to somebody else: not ours either way.
        with suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def _wait(pid: int, seconds: float) -> None:
    """Return when the process has ended, or when the time is up."""
    if sys.platform != "linux":
        return
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        select.select([handle], [], [], seconds)
    finally:
        os.close(handle)


def _command_line(pid: int) -> str:
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ""
    return raw.replace(b"\0", b" ").decode(errors="replace").strip()
