"""CPU time and memory of a process tree, read from Linux's /proc.

Elsewhere ``SUPPORTED`` is false and the figures are left out. Processes that end
while being looked at count as nothing.
"""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SUPPORTED = sys.platform == "linux"
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Usage:
    """The use of a tree, split into one program (the agent) and all others."""

    agent: float
    others: float


def parse_stat(text: str) -> tuple[int, int]:
    """Parent's pid and CPU ticks (user + system) of a ``/proc/PID/stat`` line.

    The command name may hold spaces and parentheses; fields count from its last ``)``.
    """
    fields = text[text.rindex(")") + 2 :].split()
    return int(fields[1]), int(fields[11]) + int(fields[12])


def parse_pss_kb(text: str) -> int:
    """The ``Pss:`` line of a ``smaps_rollup``, in KiB; 0 when there is none."""
    for line in text.splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


def descendants(root: int) -> list[int]:
    """All pids below ``root``, itself not among them."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        stat = _read(entry.name, "stat") if entry.name.isdigit() else ""
        if stat:
            children.setdefault(parse_stat(stat)[0], []).append(int(entry.name))
    found: list[int] = []
    waiting = [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def cpu_s(pid: int) -> float:
    """CPU seconds of a process with all its threads, those that ended too.

    The process's CPU clock is the same sum as utime + stime but in nanoseconds, where
    /proc rounds to ticks of 10 ms. The clock id is the kernel's own encoding of a pid.
    """
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        stat = _read(str(pid), "stat")
        return parse_stat(stat)[1] / os.sysconf("SC_CLK_TCK") if stat else 0.0


def cpu(root: int, agent: Path) -> Usage:
    """CPU seconds so far of everything below ``root``."""
    return _split(root, agent, cpu_s)


def pss_mb(root: int, agent: Path) -> Usage:
    """Proportional set size of everything below ``root``, in MB (10^6 bytes)."""
    return _split(root, agent, pss_of)


def pss_of(pid: int) -> float:
    """Proportional set size of one process, in MB (10^6 bytes)."""
    return parse_pss_kb(_read(str(pid), "smaps_rollup")) * 1024 / 1e6


def rss_mb(pid: int) -> float:
    """Resident set size of one process, in MB (10^6 bytes)."""
    fields = _read(str(pid), "statm").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6 if fields else 0.0


def _split(root: int, agent: Path, measure: Callable[[int], float]) -> Usage:
    sums = {True: 0.0, False: 0.0}
    for pid in descendants(root):
        sums[_is_running(pid, agent)] += measure(pid)
    return Usage(sums[True], sums[False])


def _is_running(pid: int, program: Path) -> bool:
    try:
        return (_PROC / str(pid) / "exe").samefile(program)
    except OSError:
        return False


def _read(pid: str, name: str) -> str:
    try:
        return (_PROC / pid / name).read_text(errors="replace")
    except OSError:
        return ""
