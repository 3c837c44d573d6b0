"""The process table: who descends from whom, what is left, what it uses (Linux's /proc)."""

import contextlib
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from tests.places import DEADLINE

SUPPORTED: Final = sys.platform == "linux"
needs_proc = pytest.mark.skipif(not SUPPORTED, reason="only Linux shows processes in /proc")
MARKER: Final = "CONDUCTOR_E2E_RUN"
"""Environment variable that everything a test starts inherits (sandboxed hosts do not)."""

LEFT: Final = """
setsid sh -c 'echo $$ > left; while test ! -e end; do sleep 0.05; done' &
exec "$@"
"""
"""A script: its arguments have a child from before they began, until there is a file `end`."""
_PROC: Final = Path("/proc")


def descendants(root: int) -> list[int]:
    """All living processes below `root`, itself not among them."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (parent := _parent(entry)) is not None:
            children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    waiting = [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


class Kin:
    """Processes held by descriptor, so that a number used anew is never taken for an old one."""

    def __init__(self, root: int) -> None:
        """Holds `root`'s descendants as they are now; `look` adds later ones."""
        self._root = root
        self._held: dict[int, int] = {}
        self.look()

    def look(self) -> None:
        """Adds who is there now, but for the process whose copies tests run."""
        for pid in descendants(self._root):
            if pid not in self._held and "tests.harness.process.forks" not in command_line(pid):
                with contextlib.suppress(ProcessLookupError):
                    self._held[pid] = os.pidfd_open(pid)

    @property
    def pids(self) -> list[int]:
        """Everybody held."""
        return list(self._held)

    def named(self, text: str) -> list[int]:
        """The processes whose command line holds `text`."""
        return [pid for pid in self._held if text in command_line(pid)]

    def hosts(self) -> list[int]:
        """The hosts of guests. What compiles better code for one is its child and has its command
        line."""
        found = sorted(self.named("conductor.run.segment"))
        return [pid for pid in found if _parent(_PROC / str(pid)) not in found]

    def handle(self, pid: int) -> int:
        """The descriptor that stands for one of them."""
        return self._held[pid]

    def leftovers(self, seconds: float = DEADLINE) -> list[str]:
        """Command lines of those that do not end within `seconds` in all."""
        deadline = time.monotonic() + seconds
        left = []
        for pid, handle in self._held.items():
            if not select.select([handle], [], [], max(0.0, deadline - time.monotonic()))[0]:
                left.append(f"{pid}: {command_line(pid)}")
        return left

    def close(self) -> None:
        """Ends whoever is left and lets go of all."""
        for handle in self._held.values():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)
        self._held.clear()


def children(text: str) -> list[int]:
    """The living children of this process whose command line holds `text`."""
    pids = [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]
    ours = [pid for pid in pids if _parent(_PROC / str(pid)) == os.getpid()]
    return [pid for pid in ours if text in command_line(pid)]


def marked(token: str) -> list[int]:
    """Processes with this marker in their environment, wherever they hang in the tree."""
    wanted = f"{MARKER}={token}".encode()
    found = []
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def outliving(token: str, seconds: float = DEADLINE) -> list[str]:
    """Command lines of marked processes that do not end within `seconds`; only Linux tells."""
    deadline = time.monotonic() + seconds
    stray = [
        pid
        for pid in (marked(token) if SUPPORTED else [])
        if not wait_gone(pid, max(0.0, deadline - time.monotonic()))
    ]
    return [f"{pid}: {command_line(pid)}" for pid in stray]


def wait_gone(pid: int, seconds: float) -> bool:
    """Whether the process ends within `seconds`."""
    if not SUPPORTED:
        return _wait_unknown(pid, seconds)
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], seconds)[0])
    finally:
        os.close(handle)


def wait_reaped(pid: int, seconds: float) -> bool:
    """Whether the process is no zombie any more within `seconds` (Linux)."""
    deadline = time.monotonic() + seconds
    while (left := (_PROC / str(pid)).exists()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not left


def _wait_unknown(pid: int, seconds: float) -> bool:
    """As `wait_gone`, where the system has no descriptors of processes."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


def command_line(pid: int) -> str:
    """The command line of a process; empty when it is gone."""
    try:
        raw = (_PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return ""
    return raw.replace(b"\0", b" ").decode(errors="replace").strip()


def chars_read(pid: int) -> int:
    """Bytes the process has read so far, by whatever system call; 0 when it is gone."""
    try:
        return _io(pid, "rchar")
    except (FileNotFoundError, ProcessLookupError):
        return 0


def chars_written(pid: int) -> int:
    """Bytes the process has written so far."""
    return _io(pid, "wchar")


def pss_mib(pids: list[int]) -> float:
    """Proportional set size of these processes together, in MiB."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in (_PROC / str(pid) / "smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
    return total / 1024


def _io(pid: int, name: str) -> int:
    for line in (_PROC / str(pid) / "io").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value)
    raise AssertionError(f"no {name} in the io file of {pid}")


def _parent(entry: Path) -> int | None:
    try:
        text = (entry / "stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return int(fields[1]) if fields[0] != "Z" else None
