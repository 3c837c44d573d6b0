"""A control group of its own for the process that hosts guests, where the user may make one.

Limits of a process count what it maps itself, by the calls they know. A group counts whatever the
kernel gives its processes, and their number. It is made beside the group this process is in
(cgroup v2, as systemd delegates it to users); nothing is made where that takes more rights.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from wasm_host.harden import kernel
from wasm_host.harden.kernel import Unsupported

_ROOT: Final = Path("/sys/fs/cgroup")
_SELF: Final = Path("/proc/self/cgroup")
_NAME: Final = "conductor-host-"

_TASKS: Final = 64
"""Processes and threads in the group; a host has a few threads, one more for each WASI command."""


def enter(memory: int | None, root: Path = _ROOT, current: Path = _SELF) -> str:
    """Make a group and move this process into it; what it holds.

    Groups that ended hosts have left are removed.

    Raises:
        Unsupported: this system has no such groups, or this user may make none.
        OSError: the kernel refused.
    """
    if not kernel.LINUX:
        raise Unsupported("only Linux has it")
    beside = root / _own(current).lstrip("/")
    parent = beside.parent
    try:
        given = set((parent / "cgroup.subtree_control").read_text().split())
    except OSError:
        raise Unsupported("no cgroup v2 whose parent can be read") from None
    if not {"memory", "pids"} <= given or beside == root:
        raise Unsupported("no cgroup v2 with memory and pids is delegated to this user")
    for left in parent.glob(f"{_NAME}*"):
        with contextlib.suppress(OSError):  # one that is in use stays
            left.rmdir()
    group = parent / f"{_NAME}{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        raise Unsupported(f"this user may make no cgroup: {error.strerror}") from None
    try:
        (group / "pids.max").write_text(str(_TASKS))
        if memory is not None:
            (group / "memory.max").write_text(str(memory))
        (group / "cgroup.procs").write_text(str(os.getpid()))
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        raise Unsupported(f"this process may not enter a cgroup: {error.strerror}") from None
    said = f"at most {_TASKS} threads and processes"
    return said if memory is None else f"{said}, {memory >> 20} MiB altogether"


def _own(current: Path) -> str:
    """The group of cgroup v2 this process is in."""
    try:
        lines = current.read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("0::/"):
            return line[3:]
    raise Unsupported("this system has no cgroup v2")
