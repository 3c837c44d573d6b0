"""Serves the numbers of a chain to a Prometheus on this machine: a thread of its own, so that the
chain never waits for who reads them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Final

from conductor.core import json_text
from conductor.errors import hidden
from conductor.transports.entrance import Entrance
from conductor.transports.host import is_named

HOST: Final = "127.0.0.1"
_MOST_HEAD: Final = 8 * 1024
_PATIENCE: Final = 2.0
"""Seconds that one reader may take for its request, and for its answer."""
_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_HOSTS: Final = ("localhost", HOST, "[::1]")


class _Visitor:
    """One reader, from its connection to its answer."""

    def __init__(
        self,
        connection: socket.socket,
        answer: Callable[[bytes], bytes],
        leave: Callable[[_Visitor], None],
    ) -> None:
        self._connection = connection
        self._has_begun = False
        self._task = asyncio.get_running_loop().create_task(self._serve(answer))
        self._task.add_done_callback(lambda _: leave(self))

    async def _serve(self, answer: Callable[[bytes], bytes]) -> None:
        self._has_begun = True
        loop = asyncio.get_running_loop()
        with self._connection as connection, contextlib.suppress(OSError):
            async with asyncio.timeout(_PATIENCE):
                head = await _head(loop, connection)
            async with asyncio.timeout(_PATIENCE):
                await loop.sock_sendall(connection, answer(head))

    def turn_away(self) -> None:
        """Ends the connection now."""
        self._task.cancel()
        if not self._has_begun:
            self._connection.close()


class Serving:
    """Answers `GET /metrics`. Who asks for nothing makes room for others."""

    def __init__(self, port: int, text: Callable[[], str]) -> None:
        """`port`: 0: any that is free. Raises `OSError`."""
        self._text = text
        self._socket = socket.create_server((HOST, port), backlog=16)
        self.port: int = self._socket.getsockname()[1]
        """Where it listens."""
        self._loop = asyncio.new_event_loop()
        self._ending = asyncio.Event()
        threading.Thread(target=self._run, name="metrics", daemon=True).start()

    def close(self) -> None:
        """Listens no more."""
        with contextlib.suppress(RuntimeError):  # it has been closed
            self._loop.call_soon_threadsafe(self._ending.set)

    def _run(self) -> None:
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        def greet(connection: socket.socket) -> _Visitor:
            return _Visitor(connection, self._answer, entrance.leave)

        entrance = Entrance(self._socket, greet, lambda text: None)
        try:
            await self._ending.wait()
        finally:
            entrance.close()

    def _answer(self, head: bytes) -> bytes:
        """The answer to a request by its head."""
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ")
        hosts = [
            value.strip()
            for name, _, value in (line.partition(":") for line in lines[1:])
            if name.lower() == "host"
        ]
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return _response("400 Bad Request", "this is no request of HTTP")
        # A page of a stranger whose name leads here must not read it.
        if len(hosts) != 1 or not is_named(hosts[0], _HOSTS):
            return _response("421 Misdirected Request", f"ask for {HOST}")
        if words[0] not in ("GET", "HEAD"):
            return _response("405 Method Not Allowed", "only GET")
        if words[1].partition("?")[0] not in ("/metrics", "/"):
            return _response("404 Not Found", "the numbers are at /metrics")
        return _response("200 OK", hidden(self._text()), body=words[0] == "GET")


async def _head(loop: asyncio.AbstractEventLoop, connection: socket.socket) -> bytes:
    """The head of a request."""
    held = b""
    while b"\r\n\r\n" not in held and len(held) < _MOST_HEAD:
        more = await loop.sock_recv(connection, 4096)
        if not more:
            break
        held += more
    return held.partition(b"\r\n\r\n")[0]


def _response(status: str, text: str, *, body: bool = True) -> bytes:
    data = json_text.utf8(text)
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {_TYPE}\r\nContent-Length: {len(data)}\r\n"
        "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (data if body else b"")
