"""A connection to an address as a channel: the client of this program at its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from conductor.transports.base import Ended, Transport
from conductor.transports.memory import Channel

_HIGH: Final = 4 * 1024 * 1024
"""Nothing more is read while so many bytes wait for the client."""


class RemoteChannel(Channel):
    """The channel of a client in this process: a connection to an address."""

    def __init__(self, transport: Transport, log: Callable[[str], None]) -> None:
        """`log` takes sentences about messages that do not pass."""
        super().__init__(self._write, self._read_on)
        self._transport = transport
        self._log = log
        self._paused = False
        self._tasks = asyncio.TaskGroup()
        self.how: Ended | None = None
        """How the connection has ended."""

    async def open(self) -> None:
        """Connects. Raises `ComponentError`."""
        await self._tasks.__aenter__()
        await self._transport.open(self)

    async def close(self, grace: float) -> None:
        """Closes the connection, after queued lines had `grace` seconds to leave."""
        await self._transport.close(grace)
        await self._tasks.__aexit__(None, None, None)

    def _write(self, line: bytes) -> None:
        self._transport.write(line + b"\n")

    def _read_on(self) -> None:
        if self._paused and self.waiting <= _HIGH // 2:
            self._paused = False
            self._transport.resume()

    def carry(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Starts a task of the connection's."""
        return self._tasks.create_task(work)

    # -- reports of the transport -----------------------------------------------------------------

    def received(self, frames: list[bytes]) -> None:
        """Messages came."""
        self._put(frames)
        if self.waiting > _HIGH and not self._paused:
            self._paused = True
            self._transport.pause()

    def oversized(self, head: bytes, limit: int) -> None:
        """A line was too long, and is skipped."""
        del head
        self._log(f"a message has more than {limit:,} bytes and is left out")

    def undeliverable(self, frame: bytes, why: str) -> None:
        """A line does not arrive."""
        del frame
        self._log(f"a message did not arrive: {why}")

    def drained(self) -> None:
        """The written lines have left: nobody waits for that."""

    def ended(self, how: Ended) -> None:
        """The connection is over."""
        self.how = how
        self._finish()
