"""The component's transport, listened to."""

from __future__ import annotations

import asyncio

from conductor.transports.base import Ended, Events, Transport


class Tap:
    """The component's transport, listened to: every raw line it says, and how it ends."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._events: Events | None = None
        self.lines: list[bytes] = []
        self.how: Ended | None = None
        self.ended_itself = asyncio.Event()

    async def open(self, events: Events) -> None:
        """Opens it."""
        self._events = events
        await self._inner.open(self)

    def write(self, data: bytes) -> None:
        """Passes on."""
        self._inner.write(data)

    @property
    def buffered(self) -> int:
        """As it is."""
        return self._inner.buffered

    def pause(self) -> None:
        """Passes on."""
        self._inner.pause()

    def resume(self) -> None:
        """Passes on."""
        self._inner.resume()

    def finish(self) -> None:
        """Passes on."""
        self._inner.finish()

    async def close(self, grace: float) -> None:
        """Passes on."""
        await self._inner.close(grace)

    def received(self, frames: list[bytes]) -> None:
        """Listens."""
        assert self._events is not None
        self.lines += frames
        self._events.received(frames)

    def oversized(self, head: bytes, limit: int) -> None:
        """Passes on."""
        assert self._events is not None
        self._events.oversized(head, limit)

    def undeliverable(self, frame: bytes, why: str) -> None:
        """Passes on."""
        assert self._events is not None
        self._events.undeliverable(frame, why)

    def drained(self) -> None:
        """Passes on."""
        assert self._events is not None
        self._events.drained()

    def ended(self, how: Ended) -> None:
        """Listens."""
        assert self._events is not None
        self.how = how
        self.ended_itself.set()
        self._events.ended(how)
