"""A connection of the library for HTTP, read in pieces."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import httpcore2 as httpcore

if TYPE_CHECKING:
    from ssl import SSLContext

_LEAST: Final = 4 * 1024
_MOST: Final = 16 * 1024
"""Bytes of a piece: few while pieces are long work: a server may send chunks of one byte."""
_LONG: Final = 0.002
"""Seconds that are long for the work of one piece."""


class InPieces(httpcore.AsyncNetworkStream):
    """Reads a connection in pieces, one in each turn of the event loop: so a server that floods
    with short chunks or events holds up nobody else."""

    def __init__(self, inner: httpcore.AsyncNetworkStream) -> None:
        self._inner = inner
        self._size = _LEAST
        self._read_at = 0.0
        """The loop's time at which a full piece was read: more may be there; 0: it was not full."""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        """The next piece; empty at the end."""
        loop = asyncio.get_running_loop()
        if self._read_at:
            is_long = loop.time() - self._read_at > _LONG
            self._size = _LEAST if is_long else min(2 * self._size, _MOST)
            await asyncio.sleep(0)
        piece = await self._inner.read(min(max_bytes, self._size), timeout)
        self._read_at = loop.time() if len(piece) >= self._size else 0.0
        return piece

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Writes bytes."""
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        """Ends the connection."""
        await self._inner.aclose()

    async def start_tls(
        self,
        ssl_context: SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore.AsyncNetworkStream:
        """The connection, encrypted from now on."""
        return InPieces(await self._inner.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        """The library asks whether an idle connection has ended."""
        return self._inner.get_extra_info(info)
