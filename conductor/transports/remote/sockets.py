"""A socket to a host: each of its addresses is tried, since the machine behind one may be gone."""

from __future__ import annotations

import asyncio
import socket

from conductor.transports.remote import failures


async def connected(host: str, port: int) -> socket.socket:
    """A socket to a host, by the first of its addresses that answers. No address takes the time
    that the other addresses need. Raises `OSError`."""
    loop = asyncio.get_running_loop()
    end = loop.time() + failures.CONNECT
    async with asyncio.timeout_at(end):
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failure: OSError = TimeoutError()
    for left, (family, kind, protocol, _, place) in zip(
        range(len(found), 0, -1), found, strict=True
    ):
        now = loop.time()
        try:
            async with asyncio.timeout_at(now + (end - now) / left):
                connection = await joined(socket.socket(family, kind, protocol), place)
        except OSError as error:
            failure = error
            continue
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection
    raise failure


async def joined(connection: socket.socket, place: object) -> socket.socket:
    """Connects a socket, or closes it. Raises `OSError`."""
    connection.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(connection, place)  # type: ignore[arg-type]
    except BaseException:
        connection.close()
        raise
    return connection
