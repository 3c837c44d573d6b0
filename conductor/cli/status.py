"""Follows the stages of a running chain: into the log, and on a terminal as a status line.

`conductor.run.stages` has the facts and the sentences. Here they get a clock and a place: a line
that is drawn over itself where standard error is a terminal, else, for `conductor exec`, one line a
stage. Loaded when the client's first message has gone on, while components answer it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final, Literal

from conductor.cli import report
from conductor.run.stages import Stage, Stages
from conductor.transports.base import Transport, Wrapper

if TYPE_CHECKING:
    from conductor.run.runtime import Runtime

_FIRST: Final = 1.0
"""Seconds without a status line: most stages are over by then."""
_REDRAWN: Final = 0.5
"""Seconds between two drawings."""
_SAID: Final = 5.0
"""Seconds after which a stage gets its one line where there is no terminal."""
_LOOK: Final = 5.0
"""Seconds between looks at the stages for the log alone."""
_GATHERED: Final = 0.1
"""The seconds in which events are gathered, so that they cost a fast request next to nothing."""

_MOST: Final = 100
"""Stages that are remembered because a line was written about them."""

Log = Callable[[str, str, str], None]

Shown = Literal["line", "once", "nowhere"]
"""Where the stages are shown beside the log: in a line of the terminal that is drawn over itself,
in one line for each that takes long, or nowhere."""


class Status:
    """The stages of one chain, as they go on."""

    def __init__(self, runtime: Runtime, log: Log, shown: Shown) -> None:
        """Begins to follow a chain; `log` takes the events, at level `info`."""
        self._stages = Stages(runtime.router, runtime.planned)
        self._loop = asyncio.get_running_loop()
        self._log = log
        self._shown = shown
        self._timer: asyncio.TimerHandle | None = None
        self._gathering: asyncio.TimerHandle | None = None
        """The look that reports the gathered events."""
        self._hushed = 0
        self._answering: Stage | None = None
        """The stage in which the answer has begun: it is not shown any more."""
        self._said: set[tuple[Stage, bool]] = set()
        """Stages that have got their one line, and whether the line was the advice."""

    @property
    def draws(self) -> bool:
        """Whether a terminal shows a status line."""
        return self._shown == "line"

    def passed(self) -> None:
        """Messages have been routed. Every request waits for this, so the look comes later."""
        if self._stages.passed(self._loop.time()) and self._gathering is None:
            self._gathering = self._loop.call_later(_GATHERED, self._look)

    def answered(self, data: bytes) -> None:
        """Lines are about to be written to the client."""
        for text in self._stages.answered(data):
            self._log("info", "conductor", text)

    def compiles(self) -> None:
        """A host announces that it compiles the Python guest."""
        self._stages.compiling = True
        self._look()

    def waits(self) -> str:
        """The stage in words; empty: nothing is open."""
        self._look()
        return self._stages.now.text if self._stages.now is not None else ""

    def answers(self) -> None:
        """Something of the answer to the open request has been shown."""
        self._answering = self._stages.now
        report.uncover()

    @contextmanager
    def hushed(self) -> Iterator[None]:
        """No status line as long as the block lasts: a question has the terminal."""
        self._hushed += 1
        report.uncover()
        try:
            yield
        finally:
            self._hushed -= 1

    def close(self) -> None:
        """The chain has ended: nothing more is shown."""
        self._hushed += 1
        self._tell(self._stages.look(self._loop.time()))
        report.uncover()
        if self._timer is not None:
            self._timer.cancel()

    # -- looking ---------------------------------------------------------------------------------

    def _look(self) -> None:
        self._tell(self._stages.look(self._loop.time()))
        self._show()

    def _tell(self, said: list[str]) -> None:
        """Logs the events, so that nothing is gathered any more."""
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        for text in said:
            self._log("info", "conductor", text)

    def _show(self) -> None:
        stage = self._stages.now
        if stage is None:
            report.uncover()
        elif self._timer is None:
            period = _LOOK if self._shown == "nowhere" else _REDRAWN
            self._timer = self._loop.call_later(period, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._look()
        stage = self._stages.now
        if stage is None or stage.waits_for_client or self._hushed:
            report.uncover()
            return
        now = self._loop.time()
        if self._answering is not None and self._answering == stage:
            return
        if stage.is_long(now):
            self._say(stage, f"{stage.timed(now)}: {stage.advice}", advice=True)
        elif now - stage.since >= _SAID:
            self._say(stage, f"{stage.timed(now)} …", advice=False)
        if self._shown == "line" and now - stage.since >= _FIRST:
            report.cover(stage.timed(now))

    def _say(self, stage: Stage, text: str, *, advice: bool) -> None:
        """Says something of a stage, once: on a terminal the advice only, below which the status
        line goes on."""
        if (stage, advice) in self._said:
            return
        if len(self._said) == _MOST:
            self._said.clear()
        self._said.add((stage, advice))
        if advice:
            self._log("info", "conductor", text)
        if self._shown == "once" or (self._shown == "line" and advice):
            report.write(text, dim=True)


@asynccontextmanager
async def waiting(text: Callable[[], str]) -> AsyncIterator[Callable[[], None]]:
    """Shows on a terminal the thing that is waited for and how long, as long as the block lasts.

    The yielded function ends the line sooner.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    timer: asyncio.TimerHandle | None = None

    def draw() -> None:
        nonlocal timer
        report.cover(f"{text()}, {loop.time() - began:.0f} s")
        timer = loop.call_later(_REDRAWN, draw)

    def stop() -> None:
        if timer is not None:
            timer.cancel()
        report.uncover()

    if report.can_cover():
        timer = loop.call_later(_FIRST, draw)
    try:
        yield stop
    finally:
        stop()


class Uncovering(Wrapper):
    """A client's connection on the terminal that shows the status line: each message takes that
    away first."""

    def __init__(self, inner: Transport, written: Callable[[], None]) -> None:
        super().__init__(inner)
        self._written = written

    def write(self, data: bytes) -> None:
        """Queues whole lines."""
        self._written()
        super().write(data)
