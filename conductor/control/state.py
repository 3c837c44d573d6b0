"""The state of a running chain, as `conductor ps` shows it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from conductor.control.protocol import ChainState, ComponentState
from conductor.run import health
from conductor.run.process_state import memory, words
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
        parent=words(os.getppid()),
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


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""
