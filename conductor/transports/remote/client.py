"""The client of HTTP requests to one address: httpcore, over connections made as for WebSockets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import httpcore2 as httpcore

from conductor.transports.remote import failures, proxies
from conductor.transports.remote.in_pieces import InPieces

if TYPE_CHECKING:
    from ssl import SSLContext

    from conductor.transports.remote.address import Address

FAILED: Final = (
    OSError,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.TimeoutException,
)
"""The errors of a request without an answer, beside `LinkError`."""


def pool(address: Address, tls: SSLContext | None) -> httpcore.AsyncConnectionPool:
    """Connections to an address; no request waits for a free one. `tls`: for `https`. Raises
    `LinkError`."""
    named = None if address.has_tls else proxies.of(address)
    proxy = named and httpcore.Proxy(f"http://{named}", headers=[*named.headers.items()])
    return httpcore.AsyncConnectionPool(
        ssl_context=tls,
        max_connections=None,
        network_backend=_Backend(address),
        proxy=proxy,
    )


def named(headers: Iterable[tuple[bytes, bytes]], name: str) -> list[str]:
    """The values of a header of an answer."""
    wanted = name.lower().encode()
    return [value.decode("utf-8", "replace") for key, value in headers if key.lower() == wanted]


def first(answer: httpcore.Response, name: str) -> str:
    """The first value of a header of an answer; empty: there is none."""
    return "".join(named(answer.headers, name)[:1])


def kind(answer: httpcore.Response) -> str:
    """The media type of an answer."""
    return first(answer, "Content-Type").partition(";")[0].strip().lower()


async def body(answer: httpcore.Response, most: int) -> bytes | None:
    """The body of an answer; None: it is longer."""
    found = bytearray()
    async for chunk in answer.aiter_stream():
        found += chunk
        if len(found) > most:
            return None
    return bytes(found)


class _Backend(httpcore.AsyncNetworkBackend):
    """Connects to one address, through its proxy if it has one."""

    def __init__(self, address: Address) -> None:
        self._address = address

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's interface
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """A connection. Raises `OSError` and `LinkError`."""
        async with asyncio.timeout(failures.CONNECT):
            connection = await proxies.connected(self._address)
            return InPieces(_Stream(*await asyncio.open_connection(sock=connection)))


class _Stream(httpcore.AsyncNetworkStream):
    """One connection; who uses it sees to its time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(
        self,
        max_bytes: int,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> bytes:
        """The next bytes; none at the end."""
        return await self._reader.read(max_bytes)

    async def write(
        self,
        buffer: bytes,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> None:
        """Writes bytes, and waits while the other end does not read."""
        self._writer.write(buffer)
        await self._writer.drain()

    async def aclose(self) -> None:
        """Ends it."""
        self._writer.close()
        with contextlib.suppress(OSError):
            # A cancel at this place would cancel all later waits for the close.
            await asyncio.shield(self._writer.wait_closed())

    async def start_tls(
        self,
        ssl_context: SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore.AsyncNetworkStream:
        """The connection, encrypted from now on."""
        async with asyncio.timeout(failures.CONNECT):
            await self._writer.start_tls(ssl_context, server_hostname=server_hostname)
        return self

    def get_extra_info(self, info: str) -> Any:
        """The library asks whether an idle connection has ended."""
        if info == "is_readable":
            return self._reader.at_eof() or self._writer.is_closing()
        return self._writer.get_extra_info(info)
