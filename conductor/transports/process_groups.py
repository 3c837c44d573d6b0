"""Process groups: a component and all processes that it has started. None may outlive the chain.

`signal` and `end` act on the group of one component. `Guardian` ends all groups if this process is
killed. `end_strays` ends processes that have left their group (daemons). `reaping` keeps ended
orphans of this process from staying as zombies.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal as signals
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from conductor.signals import call

if TYPE_CHECKING:
    import asyncio

_POLL: Final = 0.01
"""Seconds between two looks whether a process is gone."""

_STRAYS_SECONDS: Final = 2.0
"""Seconds that `end_strays` takes at most."""

_PR_SET_CHILD_SUBREAPER: Final = 36

_UNCLAIMED: Final = 1.0
"""Seconds after which an ended child that may be our own, and for which nobody waits, is an
orphan."""

_groups: set[int] = set()
"""The process groups that guardians watch over. Their leaders are reaped by who started them."""

# A constant text: no text of a user or component becomes part of it. A shell is the smallest
# process that every POSIX system has. It gets numbers on its standard input, and maybe a folder as
# its argument. It ignores the signals that a terminal sends to everybody, since it must be the last
# to end.
_SCRIPT: Final = """
trap '' HUP INT TERM
while read -r line; do groups=$line; done
test -n "$groups" || exit 0
for group in $groups; do kill -s TERM -- "-$group"; done 2>/dev/null
sleep 1
for group in $groups; do kill -s KILL -- "-$group"; done 2>/dev/null
test -z "$1" || rm -rf -- "$1"
"""


class Guardian:
    """Ends the process groups in its list if this process dies without calling `release`.

    A shell in a session of its own reads the list. When its input ends before the list is empty,
    the conductor is gone, and the shell ends the groups: also grandchildren behind `npx` or `uvx`.
    """

    def __init__(self, folder: str = "") -> None:
        """`folder`: is removed then; empty: none."""
        self._folder = folder
        self._groups: set[int] = set()
        self._shell: subprocess.Popen[bytes] | None = None

    def add(self, group: int) -> None:
        """Watches over another process group."""
        self._groups.add(group)
        _groups.add(group)
        self._send()

    def remove(self, group: int) -> None:
        """Forgets a group that has ended."""
        self._groups.discard(group)
        _groups.discard(group)
        self._send()

    def release(self) -> None:
        """Lets the shell end; it does not touch groups that are still listed."""
        shell, self._shell = self._shell, None
        if shell is not None:
            assert shell.stdin is not None
            with contextlib.suppress(OSError):
                shell.stdin.write(b"\n")
            shell.stdin.close()
            shell.wait()

    def _send(self) -> None:
        if self._shell is None:
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, "guardian", self._folder],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env={"PATH": "/usr/bin:/bin"},
                cwd="/",
                bufsize=0,
            )
        assert self._shell.stdin is not None
        line = " ".join(str(group) for group in sorted(self._groups))
        with contextlib.suppress(BrokenPipeError):  # somebody killed the shell: go on without it
            self._shell.stdin.write(line.encode() + b"\n")


def signal(group: int, number: int) -> None:
    """Sends a signal to every process of a group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def lives(group: int) -> bool:
    """Whether anything but the group's unreaped leader is left."""
    if sys.platform == "linux":
        return any(pid != group for pid in _members(group))
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, 0)
        return True
    return False


async def end(group: int, grace: float) -> None:
    """Ends the processes that a group's leader has left: SIGTERM, SIGKILL after `grace` seconds."""
    import asyncio  # not at the top: this module is loaded before the event loop's modules

    for number in (signals.SIGTERM, signals.SIGKILL):
        if not lives(group):
            return
        signal(group, number)
        deadline = time.monotonic() + grace
        while lives(group) and time.monotonic() < deadline:
            await asyncio.sleep(_POLL)


def _members(group: int) -> list[int]:
    """The processes of a group that are no zombies (Linux)."""
    members = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        pid = int(entry.name)
        with contextlib.suppress(OSError):
            # The group is asked first: to read the file of each process takes eight times as long.
            if os.getpgid(pid) == group and _stat(pid)[0] != b"Z":
                members.append(pid)
    return members


def _stat(pid: int) -> list[bytes]:
    """State, parent, group, session and more of a process (Linux). Raises `OSError`."""
    with open(f"/proc/{pid}/stat", "rb") as stat:
        # The name before the last `)` is the program's choice and may hold anything.
        return stat.read().rpartition(b")")[2].split()


@contextlib.contextmanager
def reaping(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """While the block lasts, orphans that were left to this process are reaped when they end
    (Linux): as the first process of a container it is the parent of all of them.

    Own children are left to the code that has started them. None of these may come from asyncio:
    then uvloop takes this signal for itself, and later drops it.
    """
    if sys.platform != "linux":
        yield
        return
    reaper = _Reaper(loop)
    # uvloop keeps this signal from its own handlers, and wakes for handlers of Python.
    call(loop, signals.SIGCHLD, reaper.look)
    try:
        reaper.look()
        yield
    finally:
        signals.signal(signals.SIGCHLD, signals.SIG_DFL)


class _Reaper:
    """Tells orphans from own children. An own child is in our session or leads one of its own, and
    somebody waits for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._held: dict[int, float] = {}
        """Ended children that may be our own, and since when they are left to who waits."""
        self._later: asyncio.TimerHandle | None = None

    def look(self) -> None:
        """Reaps orphans that have ended."""
        now, before, self._held = time.monotonic(), self._held, {}
        overdue = []
        for pid in _children():
            with contextlib.suppress(OSError):  # somebody has reaped it
                state, _, _, session, *_ = _stat(pid)
                if state != b"Z" or pid in _groups:
                    continue
                since = before.get(pid, now)
                if int(session) not in (pid, os.getsid(0)):
                    os.waitpid(pid, os.WNOHANG)
                elif now < since + _UNCLAIMED:
                    self._held[pid] = since
                else:
                    overdue.append(pid)
        waited = _waited() if overdue else ()
        for pid in overdue:
            if pid in waited:
                self._held[pid] = now
            else:
                with contextlib.suppress(OSError):
                    os.waitpid(pid, os.WNOHANG)
        if self._later is not None:
            self._later.cancel()
        self._later = self._loop.call_later(_UNCLAIMED, self.look) if self._held else None


def _waited() -> set[int]:
    """The children whose end some code still wants to know."""
    own = (one for one in gc.get_objects() if issubclass(type(one), subprocess.Popen))
    return {one.pid for one in own if getattr(one, "returncode", 0) is None}


def adopt_orphans() -> None:
    """Makes this process the parent of orphans among its descendants (Linux).

    Without that they would become children of the system's first process, where `end_strays` could
    not find them.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_strays() -> None:
    """Ends every process below this one, and their children too. Returns when none is left."""
    deadline = time.monotonic() + _STRAYS_SECONDS
    while sys.platform == "linux" and time.monotonic() < deadline:
        for pid in _children():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signals.SIGKILL)
        try:
            ended, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return  # only this says for sure that there are none: the list may miss some
        if not ended:
            time.sleep(_POLL / 2)


def _children() -> list[int]:
    """The processes whose parent this process is (Linux)."""
    children = []
    with contextlib.suppress(OSError):
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/children") as listed:
                children += [int(pid) for pid in listed.read().split()]
    return children
