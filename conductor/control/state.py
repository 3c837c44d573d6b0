"""The state of a running chain, as `conductor ps` shows it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from conductor.control import protocol
from conductor.control.protocol import ChainState, ComponentState
from conductor.record.trace.hops import shown_name
from conductor.record.turns.counts import PERCENTILES, percentile
from conductor.run import health
from conductor.run.process_state import memory, processor_time, words
from conductor.version import version

if TYPE_CHECKING:
    from conductor.record.ring.figures import Counted, Figures
    from conductor.run.runtime import Runtime


def chain_state(
    runtime: Runtime, command: str, began: float, figures: Figures | None = None
) -> ChainState:
    """The state of the chain that runs in this process, since `began` of the monotonic clock.
    `figures`: what was counted of its components."""
    return ChainState(
        pid=os.getpid(),
        version=version(),
        command=command,
        folder=_folder(),
        parent=words(os.getppid()),
        uptime=round(time.monotonic() - began, 1),
        turn=runtime.router.pending() > 0,
        memory=memory(os.getpid()),
        components=list(_components(runtime, {} if figures is None else figures.counted())),
        counted=None if figures is None else round(figures.seconds, 1),
    )


def _components(runtime: Runtime, counted: dict[str, Counted]) -> Iterator[ComponentState]:
    for name, planned in runtime.planned.items():
        is_agent = name == runtime.agent and runtime.router.mode == "agent"
        figures = counted.get("agent" if is_agent else shown_name(name))
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
                cpu=None if process is None else processor_time(process),
                figures=None if figures is None else _figures(figures),
            )


def _state(runtime: Runtime, name: str, component: str) -> str:
    if runtime.left_out(component):
        return "left out"
    state = health.state(runtime.router, name)
    return "paused" if state == "up" and component in runtime.pauses.names else state


def _figures(counted: Counted) -> protocol.Figures:
    times = counted.times
    p50, p95, p99 = (round(percentile(times, each), 3) if times else None for each in PERCENTILES)
    return protocol.Figures(
        messages=counted.messages, changed=counted.changed, p50=p50, p95=p95, p99=p99
    )


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""
