"""The state of a running chain, as `conductor ps` shows it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from conductor.control.protocol import ChainState, ComponentState
from conductor.run import health
from conductor.version import version

if TYPE_CHECKING:
    from conductor.run.runtime import Runtime


def chain_state(runtime: Runtime, command: str, began: float) -> ChainState:
    """The state of the chain that runs in this process, since `began` of the monotonic clock."""
    return ChainState(
        pid=os.getpid(),
        version=version(),
        command=command,
        folder=_folder(),
        parent=_words(os.getppid()),
        uptime=round(time.monotonic() - began, 1),
        turn=runtime.router.pending() > 0,
        memory=memory(os.getpid()),
        components=list(_components(runtime)),
    )


def _components(runtime: Runtime) -> Iterator[ComponentState]:
    for name, planned in runtime.planned.items():
        process = getattr(runtime.connections.transports.get(name), "pid", None)
        for component in planned.guests or (name,):
            yield ComponentState(
                name=component,
                state=_state(runtime, name, component),
                paused=component in runtime.pauses.names,
                process=process,
                memory=None if process is None else memory(process),
                open=len(runtime.router.waiting_on(name)),
                waiting=runtime.connections.held(name),
                restarts=runtime.count("restart", component),
                verdicts=runtime.count("violation", component),
            )


def _state(runtime: Runtime, name: str, component: str) -> str:
    if runtime.left_out(component):
        return "left out"
    state = health.state(runtime.router, name)
    return "paused" if state == "up" and component in runtime.pauses.names else state


def memory(pid: int) -> int | None:
    """Bytes of memory that a process has; None: this system does not say."""
    if sys.platform != "linux":
        return None
    pages = _proc(pid, "statm").split()[1:2]
    return int(pages[0]) * os.sysconf("SC_PAGE_SIZE") if pages else None


def _words(pid: int) -> str:
    """The name of a process; empty: this system does not say."""
    return _proc(pid, "comm").decode(errors="replace").strip()


def _proc(pid: int, name: str) -> bytes:
    """What Linux says of a process; empty: nothing."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read(256)
    except OSError:
        return b""


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""
