"""The processes below a conductor: who may be killed or stopped, and who is left over (Linux)."""

import ctypes
import os
import select
import signal
import time
from contextlib import suppress
from pathlib import Path

from benchmarks import proctree

SUPPORTED = proctree.SUPPORTED
_PROC = Path("/proc")
_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2)."""


def adopt_orphans() -> None:
    """Makes this process the parent of whatever loses its own, so that nobody gets lost."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


def below(root: int, word: str) -> list[int]:
    """Processes below ``root`` with this text in their command line, oldest first."""
    return sorted(pid for pid in proctree.descendants(root) if word in " ".join(_words(pid)))


def kill(pid: int) -> int | None:
    """Kills it: a descriptor that becomes readable when it is gone; None if it was gone."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    try:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    except ProcessLookupError:
        os.close(handle)
        return None
    return handle


def gone(handle: int) -> bool:
    """Whether the process of this descriptor has ended."""
    return bool(select.select([handle], [], [], 0)[0])


def send(pid: int, number: int) -> bool:
    """Sends a signal; whether there was somebody to take it."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False


def left_over(seconds: float) -> list[str]:
    """Command lines of processes below this one that do not end in time; they are killed."""
    deadline = time.monotonic() + seconds
    while pids := _living():
        if time.monotonic() > deadline:
            left = [f"{pid}: {' '.join(_words(pid))[:200]}" for pid in pids]
            for pid in pids:
                send(pid, signal.SIGKILL)
            return left
        _wait_for(pids[0], deadline)
    return []


def pss_mb(pid: int) -> float:
    """Proportional set size of one process in MB (10^6 bytes); 0.0 when it is gone."""
    with suppress(OSError):
        text = (_PROC / str(pid) / "smaps_rollup").read_text()
        return proctree.parse_pss_kb(text) * 1024 / 1e6
    return 0.0


def _living() -> list[int]:
    """Descendants of this process, after ended ones were reaped."""
    pids = []
    for pid in proctree.descendants(os.getpid()):
        try:
            buried, _ = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:  # not a child of ours, but a grandchild
            buried = 0
        if not buried and (_PROC / str(pid)).exists():
            pids.append(pid)
    return pids


def _wait_for(pid: int, deadline: float) -> None:
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        select.select([handle], [], [], max(0.0, min(0.2, deadline - time.monotonic())))
        os.close(handle)


def _words(pid: int) -> list[str]:
    with suppress(OSError):
        return (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    return []
