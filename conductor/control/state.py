"""The state of a running chain, as `conductor ps` shows it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from conductor.control import protocol
from conductor.control.protocol import ChainState, ComponentState
from conductor.run import health
from conductor.transports.process_state import is_stopped, memory, processor_time, words
from conductor.version import version

if TYPE_CHECKING:
    from conductor.control.server import About
    from conductor.record.ring.figures import Figures
    from conductor.run.runtime import Runtime


def chain_state(
    runtime: Runtime, about: About, began: float, figures: Figures | None = None
) -> ChainState:
    """The state of a chain that runs in this process, since `began` of the monotonic clock.
    `figures`: the counts of its components."""
    return ChainState(
        pid=os.getpid(),
        version=version(),
        command=about.command,
        folder=_folder(),
        parent=words(os.getppid()),
        uptime=round(time.monotonic() - began, 1),
        turn=runtime.router.pending() > 0,
        memory=memory(os.getpid()),
        components=list(_components(runtime, figures)),
        chain=about.chain,
        principal=about.principal,
        trace=about.trace,
        counted=None if figures is None else round(figures.seconds, 1),
    )


def _components(runtime: Runtime, figures: Figures | None) -> Iterator[ComponentState]:
    counted = {} if figures is None else _figures(runtime, figures)
    for name, planned in runtime.planned.items():
        process = runtime.connections.process(name)
        for component in planned.names:
            yield ComponentState(
                name=component,
                state=_state(runtime, name, component, process),
                paused=component in runtime.pauses.names,
                process=process,
                memory=None if process is None else memory(process),
                open=len(runtime.router.waiting_on(name)),
                waiting=runtime.connections.held(name),
                restarts=runtime.records.events["restart", component],
                verdicts=runtime.records.events["violation", component],
                cpu=None if process is None else processor_time(process),
                figures=counted.get(name),
            )


def _state(runtime: Runtime, name: str, component: str, process: int | None) -> str:
    if runtime.records.left_out(component):
        return "left out"
    state = health.state(runtime.router, name)
    if process is not None and is_stopped(process):
        return "stopped"
    return "paused" if state == "up" and component in runtime.pauses.names else state


def _figures(runtime: Runtime, figures: Figures) -> dict[str, protocol.Figures]:
    """The counts, by component."""
    # Loaded once somebody watches: the event loop of every chain loads this module.
    from conductor.record.trace.hops import shown_name
    from conductor.record.turns.counts import PERCENTILES, percentile

    counted, found = figures.counted(), {}
    for name in runtime.planned:
        is_agent = name == runtime.agent and runtime.router.mode == "agent"
        its = counted.get("agent" if is_agent else shown_name(name))
        if its is not None:
            p50, p95, p99 = (
                round(percentile(its.times, each), 3) if its.times else None for each in PERCENTILES
            )
            found[name] = protocol.Figures(
                messages=its.messages, changed=its.changed, p50=p50, p95=p95, p99=p99
            )
    return found


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""
