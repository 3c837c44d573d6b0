"""The event loop of a command, and the signals of the chain that runs on it."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any, Final

from conductor import signals
from conductor.cli import report
from conductor.transports import descriptors
from conductor.transports.process_groups import reaping

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from conductor.run.runtime import Runtime

_LOADED: Final = 0.5
"""The seconds after which a process has loaded the code that each process loads."""


def settled_memory() -> None:
    """Objects of now live as long as the process; to collect them again and again costs latency."""
    import gc

    gc.freeze()
    gc.set_threshold(20_000, 50, 50)
    gc.enable()


async def until_done(runtime: Runtime, stopped: list[int], early: list[int]) -> int:
    """Runs a chain until it ends or a signal ends it, whose number goes into `stopped`; the exit
    code. `early`: the signals to reload that have come already."""
    import asyncio

    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        if stopped:
            os._exit(128 + number)  # the guardian ends the processes that we started
        stopped.append(number)
        runtime.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signals.call(loop, number, stop, number)
    signals.call(loop, signal.SIGHUP, runtime.reload)
    signals.call(loop, signal.SIGUSR1, _tell_health, runtime)
    signals.call(loop, signal.SIGUSR2, RingOnDemand(runtime))
    if early:
        loop.call_soon(runtime.reload)  # once it runs
    try:
        return await runtime.run()
    finally:
        # Python drops its handlers, and any would end us.
        late = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
        signal.pthread_sigmask(signal.SIG_BLOCK, late)


def _tell_health(runtime: Runtime) -> None:
    """Writes the state of each component to standard error."""
    for name, text in runtime.health():
        report.write(f"health: {name}: {text}")


class RingOnDemand:
    """Writes the last messages to a file, and its path to standard error; once a second at most."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._next = 0.0
        """From when on there may be another file."""
        self._waits = False
        """Whether another file waits for this time."""

    def __call__(self) -> None:
        import asyncio

        wait = self._next - time.monotonic()
        if self._waits:
            return
        if wait <= 0:
            self._begin()
        else:
            self._waits = True
            report.write("ring: there is a file a second at most; one more is written then")
            asyncio.get_running_loop().call_later(wait, self._begin)

    def _begin(self) -> None:
        self._waits, self._next = False, time.monotonic() + 1.0
        self._runtime.start(self._write())

    async def _write(self) -> None:
        path = await self._runtime.save_ring("SIGUSR2")
        report.write(f"ring: the last messages are in {path}" if path else "ring: there is none")


def run_loop(work: Callable[[], Coroutine[Any, Any, int]], *, starts_programs: bool = False) -> int:
    """Runs `work` on uvloop. Raises `UsageError` if this process may have too few descriptors.

    `work` is called by a task: Ctrl-C may come at any time before, and would leave a coroutine that
    nobody awaits.

    `starts_programs`: by asyncio, and carries no messages itself. uvloop would take the signal by
    which orphans are reaped.
    """
    descriptors.raise_limit()
    import asyncio

    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    if not starts_programs:
        import uvloop

        loop_factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(_alone(work))


async def _alone(work: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Does `work` in a process that has no other work: it reaps the orphans that are left to
    it meanwhile, and gives back code that only the start has needed."""
    import asyncio

    from conductor.transports.buffers import give_back_code, share_heap

    share_heap()
    loop = asyncio.get_running_loop()
    loop.call_later(_LOADED, give_back_code)
    with reaping(loop):
        return await work()
