"""Runs a recorded chain again: its client and its agent are played, its proxies run anew. The chain
may consist of one component: then everything around the component is played.

No time passes but the proxies' own: a message that followed after an hour follows at once. A replay
always ends: with the last answer, when nothing moves for too long, or when a component floods.
Guests do nothing unasked, so a chain of guests ends as soon as none of them has a message.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Sequence
from typing import Final

import anyio
import msgspec

from conductor import tasks
from conductor.core.component import Component
from conductor.record.replay.agent import Agent
from conductor.record.replay.client import Client
from conductor.record.replay.recorded_services import RecordedServices
from conductor.record.replay.recording import Recording
from conductor.record.replay.transcript import Transcript
from conductor.record.trace.chain import described
from conductor.record.trace.file import TraceFile
from conductor.record.trace.tracer import Tracer
from conductor.record.turns import reader as turns
from conductor.record.turns.line import Line, written
from conductor.record.turns.lines import HeldLines
from conductor.run.launch import Launcher
from conductor.run.log import Sink
from conductor.run.planned import Planned
from conductor.run.records import Records
from conductor.run.runtime import Runtime
from conductor.spec.model import Spec
from conductor.spec.options import Options
from conductor.spec.plan import Plan
from conductor.transports.memory import Channel, MemoryTransport

AGENT: Final = "recorded-agent"
_MOST_LINES: Final = 512 * 1024 * 1024
"""The most bytes of the new run's messages that are kept."""
_FLOOD: Final = 10_000
"""A run is ended after so many messages beyond ten times those of the recording."""
_STILL: Final = 2.0
"""Seconds without a message after which guests that have no message are still: a guest may use so
long for a message that nobody waits for."""
_QUIET: Final = 0.5
"""Seconds without a message after which nothing more is expected behind the last answer."""

Log = Callable[[str, str, str], None]


class Replayed(msgspec.Struct):
    """A run of the recorded chain."""

    reader: turns.Reader
    """The run as a trace."""
    ended: str
    """Why it did not come to its end; empty: it did."""
    refused: list[tuple[str, str]]
    """Calls of services that the recording has no answer to: component and call."""
    failure: str
    """Why the chain failed, in words; empty: it did not."""


def _leave_out(_component: str, _line: str) -> None:
    """Takes the lines that programs write to standard error, and drops them."""


class _Held(Sink[Line]):
    """A sink that keeps the lines of the run for its reader, until the run is over."""

    def __init__(self, reader: turns.Reader, lines: HeldLines) -> None:
        self.reader = reader
        self._lines = lines

    def take(self, item: Line, at: float, mode: str) -> None:
        """See `Sink`."""
        if not self.failed:
            self._lines.append(written(item))
            self.reader.read(item)

    def close(self) -> None:
        """See `Sink`."""
        self.failed = True


class Player:
    """Plays one recording to a chain.

    Args:
        recording: The recording to play.
        specs: The proxies.
        options: How the proxies are run.
        limit: Seconds without progress after which the run ends.
        log: Takes level, component and text.
        transcript: Takes the lines that the one guest gets and returns; None: nobody wants them.
    """

    def __init__(
        self,
        recording: Recording,
        specs: Sequence[Spec],
        options: Options,
        limit: float,
        log: Log,
        transcript: Transcript | None,
    ) -> None:
        self._recording = recording
        self._transcript = transcript
        self._specs = specs
        self._options = msgspec.structs.replace(
            options,
            relays=True,
            recording=True,
            deliveries=transcript is not None,
            clock=recording.began,
            drain=_QUIET,
            trace_content=recording.content,
        )
        self._limit = limit
        self._log = log
        self._agent = Agent(recording.agent)
        self._client = Client(recording.client, recording.agent, self._agent.came)
        self._services = RecordedServices(recording.services)
        self._ended = ""
        self._moves = 0
        """Messages that came to either end."""
        self._channel: Channel | None = None
        self._over = asyncio.Event()

    async def run(self) -> Replayed:
        """Runs the chain to its end. Raises `ConductorError` if it cannot be started."""
        reader, lines = turns.held(_MOST_LINES)
        path, most = self._options.trace, self._options.trace_size
        file = TraceFile.create(path, self._log, most) if path else None
        self._held = _Held(reader, lines)
        content = self._recording.content
        options = self._options
        chain = Plan(components=tuple(self._specs), options=options, mode="proxy")
        tracer = Tracer(
            [self._held, *([file] if file is not None else [])],
            content,
            chain=described(chain, content),
        )
        sinks = [tracer, *([self._transcript] if self._transcript is not None else [])]
        launcher = Launcher(chain, _leave_out, tried=True)
        planned, guardian = launcher.plan(chain.components), launcher.guardian
        self._proxies = [proxy.name for proxy in planned]
        agent = Planned(Component(AGENT), MemoryTransport(self._play_agent))
        self._runtime = Runtime(
            [*planned, agent],
            "agent",
            MemoryTransport(self._play_client),
            msgspec.structs.replace(options, keeping="memory"),
            Records(self._log, sinks=sinks),
            self._services,
        )
        try:
            async with tasks.group() as watching:
                watching.start_soon(self._watch)
                await self._runtime.run()
                watching.cancel_scope.cancel()
        finally:
            guardian.release()
        failure = self._runtime.failure
        why = failure.text if failure is not None else ""
        if not self._client.done:
            self._ended = self._ended or why
        return Replayed(reader, self._ended, self._services.refused, why)

    # -- the two ends --------------------------------------------------------------------------

    async def _play_client(self, channel: Channel) -> None:
        self._channel = channel
        self._send()
        async with tasks.group() as reading:
            reading.start_soon(self._read_client, channel)
            await self._over.wait()
            await self._settle()
            self._runtime.records.entries.drain()
            self._held.close()  # messages that the end causes were not recorded
            if not self._ended:
                self._runtime.stop()
            reading.cancel_scope.cancel()

    async def _read_client(self, channel: Channel) -> None:
        while (line := await channel.receive()) is not None:
            self._moves += 1
            for answer in self._client.receive(line):
                channel.send(answer)
            self._send()
            if self._client.received > 10 * self._client.expected + _FLOOD:
                self._end(f"the client has got {self._client.received:,} messages: it is a flood")
        self._over.set()

    def _send(self) -> None:
        """Sends the client's messages that are due by now."""
        assert self._channel is not None
        for line in self._client.send():
            self._channel.send(line)
        if self._client.done:
            self._over.set()

    async def _settle(self) -> None:
        """Waits for the messages behind the last answer: as many as then, or until it is quiet."""
        moves = -1
        while not self._ended and moves != self._moves and self._is_more_due:
            moves = self._moves
            await asyncio.sleep(_QUIET)

    @property
    def _is_more_due(self) -> bool:
        return self._client.received < self._client.expected or self._agent.missed

    async def _play_agent(self, channel: Channel) -> None:
        came = 0
        while (line := await channel.receive()) is not None:
            self._moves += 1
            came += 1
            for each in self._agent.receive(line):
                channel.send(each)
            self._agent.warnings.clear()  # the comparison shows it
            if self._channel is not None:
                self._send()
            if came > 10 * len(self._recording.agent) + _FLOOD:
                self._end(f"the agent has got {came:,} messages: it is a flood")

    # -- its end -------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Ends the run when nothing has moved for too long, whatever passes besides, and when
        nothing can move any more."""
        loop = asyncio.get_running_loop()
        progress, since = self._progress, loop.time()
        while not self._over.is_set():
            passed = self._passed
            with anyio.move_on_after(min(self._limit, _STILL)):
                await self._over.wait()
            if self._progress != progress:
                progress, since = self._progress, loop.time()
            elif self._over.is_set():
                return
            elif passed == self._passed and self._is_still:
                self._end(f"nothing can move any more; the client {self._client.waits}")
            elif loop.time() - since >= self._limit:
                self._end(
                    f"nothing has moved for {self._limit:g} s; the client {self._client.waits}"
                )

    @property
    def _progress(self) -> tuple[int, int]:
        return self._client.progress, self._agent.progress

    @property
    def _passed(self) -> tuple[int, int]:
        """How many messages have passed, also those between components."""
        return len(self._held.reader), self._moves

    @property
    def _is_still(self) -> bool:
        """Whether all proxies are guests, and none of them has a message to work at."""
        router = self._runtime.router
        return (
            all(spec.sandboxed for spec in self._specs)
            and router.at_rest()
            # It holds neither a request nor an answer.
            and all(router.pending(name) <= len(router.waiting_on(name)) for name in self._proxies)
        )

    def _end(self, why: str) -> None:
        if not self._ended:
            self._ended = why
            self._over.set()
            self._runtime.stop()


def replayed(
    recording: Recording,
    specs: Sequence[Spec],
    options: Options,
    limit: float,
    log: Log,
    transcript: Transcript | None = None,
) -> Replayed:
    """Runs a recorded chain again; see `Player`. Raises `ConductorError`."""

    async def play() -> Replayed:
        with tempfile.TemporaryDirectory(prefix="conductor-replay-") as folder:
            # Values that components keep (`kv`) end with the run.
            own = msgspec.structs.replace(options, values=os.path.join(folder, "values"))
            return await Player(recording, specs, own, limit, log, transcript).run()

    return asyncio.run(play())
