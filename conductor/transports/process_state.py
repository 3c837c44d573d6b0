"""The state of a process on Linux; on other systems nothing is known."""

from __future__ import annotations

import os
import sys


def memory(pid: int) -> int | None:
    """Bytes of memory that a process has; None: this system does not say."""
    if sys.platform != "linux":
        return None
    pages = _read(pid, "statm").split()[1:2]
    return int(pages[0]) * os.sysconf("SC_PAGE_SIZE") if pages else None


def processor_time(pid: int) -> float | None:
    """Seconds of processor time that a process has used; None: this system does not say."""
    if sys.platform != "linux":
        return None
    # The name of the process, in brackets, may hold anything.
    fields = _read(pid, "stat").rpartition(b")")[2].split()[11:13]
    return sum(map(int, fields)) / os.sysconf("SC_CLK_TCK") if len(fields) == 2 else None


def is_stopped(pid: int) -> bool:
    """Whether a signal or a debugger has stopped a process; False: this system does not say."""
    return _read(pid, "stat").rpartition(b")")[2].split()[:1] in ([b"T"], [b"t"])


def words(pid: int) -> str:
    """The name of a process; empty: this system does not say."""
    return _read(pid, "comm").decode(errors="replace").strip()


def _read(pid: int, name: str) -> bytes:
    """A file of a process under `/proc`; empty: it cannot be read."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read(1024)
    except OSError:
        return b""
