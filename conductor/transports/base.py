"""The contract of transports: each carries lines between the conductor and one component."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine

    from conductor.transports.fds import FdReader, FdWriter

LINGER: Final = 2.0
"""Seconds from the moment a component closes one of its channels until the close is reported.

Nearly always the component is about to end, and its exit code and last words explain
more; on a busy machine the channel is seen to close well before the process ends.
"""


class Ended(msgspec.Struct, frozen=True):
    """How a connection ended.

    `clean`: the other side simply finished. `text` tells the end in a sentence that follows
    the component's name; `data` goes into the JSON-RPC errors of those who waited. `final`: to
    start an agent again would not help.
    """

    text: str
    clean: bool = False
    hint: str = ""
    data: dict[str, Any] = {}
    final: bool = False


class Events(Protocol):
    """The reports of a transport to its owner, always from the event loop's thread."""

    def received(self, frames: list[bytes]) -> None:
        """Whole lines arrived, in order, without their newlines."""

    def oversized(self, head: bytes, limit: int) -> None:
        """A line longer than `limit` bytes was skipped; `head` are its first bytes."""

    def undeliverable(self, frame: bytes, why: str) -> None:
        """A written line will not reach the other side, which goes on without the line."""

    def drained(self) -> None:
        """Some queued lines have left; `buffered` gives the bytes that are still there."""

    def ended(self, how: Ended) -> None:
        """Nothing more will be received. Reported once, unless `close` was called before."""


class Owner(Events, Protocol):
    """Owns a connection: hears of its events, and awaits its tasks."""

    def carry(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Starts a task of the connection, which its `close` ends."""


class Transport(Protocol):
    """One connection. Opened once; `write` never blocks and keeps lines that cannot leave yet."""

    async def open(self, events: Owner) -> None:
        """Starts carrying. Raises `conductor.errors.ComponentError` if that is impossible."""

    def write(self, data: bytes) -> None:
        """Queues whole lines; as much as possible leaves at once."""

    @property
    def buffered(self) -> int:
        """Bytes written that have not left yet."""

    def pause(self) -> None:
        """Stops reading: the other side then must wait."""

    def resume(self) -> None:
        """Reads on."""

    def finish(self) -> None:
        """Tells the other side that nothing more will be written (its end of file)."""

    def hear(self) -> None:
        """Takes the component's standard error so far, if it has one: the log must show these lines
        before later ones."""

    async def close(self, grace: float) -> None:
        """Ends the connection and all that runs behind it; returns when nothing is left.

        `grace`: seconds the component is given for each step before a harder one.
        """


class Piped:
    """A transport over descriptors; keeps lines that are written before it is open."""

    def __init__(self) -> None:
        self._events: Events | None = None
        self._ended = False
        """Whether its end was reported, or nobody is to hear of it."""
        self._reader: FdReader | None = None
        self._writer: FdWriter | None = None
        self._early: list[bytes] = []

    def _carry(self, reader: FdReader, writer: FdWriter) -> None:
        """Opens the transport: writes the kept lines."""
        self._reader, self._writer = reader, writer
        for data in self._early:
            writer.write(data)
        self._early.clear()

    def write(self, data: bytes) -> None:
        """Queues whole lines."""
        if self._writer is None:
            self._early.append(data)
        else:
            self._writer.write(data)

    @property
    def buffered(self) -> int:
        """Bytes written that have not left yet."""
        return self._writer.buffered if self._writer is not None else 0

    def pause(self) -> None:
        """Stops reading."""
        if self._reader is not None:
            self._reader.pause()

    def resume(self) -> None:
        """Reads on."""
        if self._reader is not None:
            self._reader.resume()

    def finish(self) -> None:
        """Closes our direction once everything queued has left."""
        if self._writer is not None:
            self._writer.finish()

    def hear(self) -> None:
        """Does nothing: only a process has a standard error of its own."""

    async def close(self, grace: float) -> None:
        """Closes the descriptors, after queued lines had `grace` seconds to leave."""
        import asyncio  # not at the top: this module is loaded before the event loop's modules

        self._ended = True
        deadline = asyncio.get_running_loop().time() + grace
        while self._writer and self.buffered and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.005)
        for end in (self._reader, self._writer):
            if end is not None:
                end.close()

    def _has_ended(self, how: Ended) -> None:
        """Reports the end, once."""
        if not self._ended and self._events is not None:
            self._ended = True
            self._events.ended(how)


class Wrapper:
    """A `Transport` in front of another; passes everything on unchanged, in both directions.

    Subclasses override the methods that they want to see or change.
    """

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._events: Owner | None = None
        """None until it is opened."""

    async def open(self, events: Owner) -> None:
        """Opens the transport within."""
        self._events = events
        await self._inner.open(self)

    @property
    def pid(self) -> int | None:
        """The id of the process behind it; None: there is none of its own, or not yet."""
        return getattr(self._inner, "pid", None)

    def write(self, data: bytes) -> None:
        """Queues whole lines."""
        self._inner.write(data)

    @property
    def buffered(self) -> int:
        """Bytes written that have not left yet."""
        return self._inner.buffered

    def pause(self) -> None:
        """Stops reading."""
        self._inner.pause()

    def resume(self) -> None:
        """Reads on."""
        self._inner.resume()

    def finish(self) -> None:
        """Tells the other side that nothing more will be written."""
        self._inner.finish()

    def hear(self) -> None:
        """Takes the other side's standard error so far."""
        self._inner.hear()

    async def close(self, grace: float) -> None:
        """Ends the transport within, and all that runs behind it."""
        await self._inner.close(grace)

    def received(self, frames: list[bytes]) -> None:
        """Lines arrived."""
        assert self._events is not None
        self._events.received(frames)

    def oversized(self, head: bytes, limit: int) -> None:
        """A line was skipped."""
        assert self._events is not None
        self._events.oversized(head, limit)

    def undeliverable(self, frame: bytes, why: str) -> None:
        """A line will not reach the other side."""
        assert self._events is not None
        self._events.undeliverable(frame, why)

    def drained(self) -> None:
        """Some queued lines have left."""
        assert self._events is not None
        self._events.drained()

    def ended(self, how: Ended) -> None:
        """Nothing more will be received."""
        assert self._events is not None
        self._events.ended(how)

    def carry(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Starts a task of the transport within."""
        assert self._events is not None
        return self._events.carry(work)
