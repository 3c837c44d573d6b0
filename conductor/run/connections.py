"""The connections of one chain: a transport for each peer, put in place, replaced and closed.

Each transport reports to a `PeerEvents` of its own, so that a replaced transport, which may still
report for a while, can be silenced without its successor.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final

from conductor.core import UPSTREAM
from conductor.core.roles.initialize import successor_name
from conductor.errors import ComponentError
from conductor.transports.base import Ended, Transport

if TYPE_CHECKING:
    from conductor.run.runtime import Runtime

_HANDOVER: Final = 0.2
"""Seconds a component has to end by itself before its successor's input is closed too."""


class PeerEvents:
    """Turns the reports of one transport into calls of its runtime."""

    __slots__ = ("_ended", "_name", "_runtime")

    def __init__(self, runtime: Runtime, name: str) -> None:
        self._runtime = runtime
        self._name = name
        self._ended = False

    def received(self, frames: list[bytes]) -> None:
        """Routes the lines and writes the resulting frames."""
        if not self._ended:
            try:
                self._runtime.feed(self._name, frames)
            except Exception as error:
                self._runtime.defect(error)

    def oversized(self, head: bytes, limit: int) -> None:
        """A line was skipped."""
        self._runtime.guarded(self._runtime.oversized, self._name, head, limit)

    def undeliverable(self, frame: bytes, why: str) -> None:
        """A line will not reach its component."""
        self._runtime.guarded(self._runtime.undeliverable, self._name, frame, why)

    def drained(self) -> None:
        """A part of the queued frames has left."""
        self._runtime.backpressure.drained(self._name)

    def ended(self, how: Ended) -> None:
        """The connection is gone."""
        if not self._ended:
            self._ended = True
            self._runtime.guarded(self._runtime.ended, self._name, how)

    def carry(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Starts a task of the connection's."""
        return self._runtime.carry(work)

    def silence(self) -> None:
        """Ignores everything from now on."""
        self._ended = True

    def rename(self, name: str) -> None:
        """The peer has another name from now on."""
        self._name = name


class Connections:
    """The transports of a chain, by peer."""

    def __init__(self, runtime: Runtime, transports: dict[str, Transport], grace: float) -> None:
        """`grace`: seconds before each harder step of closing a transport."""
        self.transports = transports
        self._runtime = runtime
        self._grace = grace
        self._events: dict[str, PeerEvents] = {}
        self._gone: dict[str, asyncio.Event] = {}

    def held(self, name: str) -> int:
        """Bytes that wait to be written to a component."""
        transport = self.transports.get(name)
        return transport.buffered if transport is not None else 0

    def process(self, name: str) -> int | None:
        """The id of a component's process; None: it has none of its own, or not yet."""
        return getattr(self.transports.get(name), "pid", None)

    async def open(self, name: str, transport: Transport) -> None:
        """Puts a transport in a component's place and opens it. Raises `ComponentError`."""
        events = PeerEvents(self._runtime, name)
        self.transports[name] = transport
        self._gone[name] = asyncio.Event()
        self._events[name] = events
        try:
            await transport.open(events)
        except ComponentError:
            events.silence()
            self._gone[name].set()
            raise

    def rename(self, name: str, to: str) -> None:
        """A peer has another name from now on."""
        for old, new in ((name, to), (successor_name(name), successor_name(to))):
            if old in self.transports:
                self.transports[new] = self.transports.pop(old)
                self._gone[new], self._events[new] = self._gone.pop(old), self._events.pop(old)
                self._events[new].rename(new)

    def remove(self, name: str) -> None:
        """A peer is gone: its further frames are ignored, and its transport is closed."""
        for old in (name, successor_name(name)):
            transport = self.transports.pop(old, None)
            if transport is not None:
                self._events.pop(old).silence()
                del self._gone[old]
                self._runtime.carry(transport.close(self._grace))

    def reorder(self, names: Sequence[str]) -> None:
        """Puts the components' transports in the order of the chain."""
        for name in names:
            self.transports[name] = self.transports.pop(name)

    def hear(self, name: str) -> None:
        """Logs a component's lines on standard error before any other entry about it."""
        self.transports[name].hear()

    def silence(self, name: str) -> None:
        """Ignores everything that a component sends from now on."""
        self._events[name].silence()

    def gone(self, name: str) -> None:
        """A connection has ended by itself."""
        gone = self._gone.get(name)
        if gone is not None:
            gone.set()

    def disconnect(self, name: str) -> Coroutine[Any, Any, None]:
        """Ignores further frames of a component; the returned coroutine closes its transport."""
        self.silence(name)
        return self.close(name)

    def close(self, name: str) -> Coroutine[Any, Any, None]:
        """The coroutine that closes the present transport of a component."""
        # A host that compiles does not see the end of its input, and its guests need no time.
        peer = self._runtime.router.peers.get(name)
        # A component that is started again may have run guests before.
        compiles = peer is not None and peer.loading and not peer.restarting
        return self.transports[name].close(0.0 if compiles else self._grace)

    async def shut_down(self) -> None:
        """Closes all transports from head to tail, then the connection to the client."""
        names = [name for name in self.transports if name != UPSTREAM]
        # One after the other: a proxy that ends may still send its last messages to its successor.
        for name in names:
            self.transports[name].finish()
            gone = self._gone.get(name)
            if gone is not None and name != names[-1]:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_HANDOVER):
                        await gone.wait()
        async with asyncio.TaskGroup() as closing:
            for name in names:
                closing.create_task(self.close(name))
        await self.close(UPSTREAM)
