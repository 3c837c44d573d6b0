"""Servers of the tests, each behind an address: with an echo, or what a test wants."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Awaitable, Callable
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from conductor.link import Link, LinkError, State
from conductor.transports.base import Owner, Transport, Wrapper
from conductor.transports.framing import LineSplitter
from conductor.transports.remote import address as addresses
from conductor.transports.remote.dial import dial
from tests.transports.remote.http_peer import HttpServer, Served


class Behind(Wrapper):
    """A transport to an address, with a server of the test behind it that ends with it."""

    def __init__(self, start: Callable[[Behind], Awaitable[str]]) -> None:
        """`start` starts the server, adds what ends it, and returns its address."""
        super().__init__(_Nowhere())
        self._start = start
        self._early: list[bytes] = []
        self.ends: list[Callable[[], Awaitable[None]]] = []

    async def open(self, events: Owner) -> None:
        self._inner = dial(addresses.parse(await self._start(self)))
        for data in self._early:
            self._inner.write(data)
        await super().open(events)

    def write(self, data: bytes) -> None:
        if isinstance(self._inner, _Nowhere):
            self._early.append(data)
        else:
            self._inner.write(data)

    async def close(self, grace: float) -> None:
        await super().close(grace)
        for end in self.ends:
            await end()


class _Nowhere:
    """A transport before there is one."""

    buffered = 0

    async def open(self, events: Owner) -> None:
        raise NotImplementedError

    def write(self, data: bytes) -> None:
        raise NotImplementedError

    def pause(self) -> None:
        raise NotImplementedError

    def resume(self) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        raise NotImplementedError

    def hear(self) -> None:
        raise NotImplementedError

    async def close(self, grace: float) -> None:
        """There is nothing to close."""


# -- lines ---------------------------------------------------------------------------------------


class _Echo:
    """Sends lines back; ends once its clients have left."""

    def __init__(self) -> None:
        self._clients: set[asyncio.Task[Any]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = asyncio.current_task()
        assert client is not None
        self._clients.add(client)
        lines = LineSplitter()
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                for line in lines.feed(data):
                    writer.write(line + b"\n")
                await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    def ends(self, server: asyncio.Server) -> Callable[[], Awaitable[None]]:
        async def close() -> None:
            server.close()
            await asyncio.gather(*self._clients)

        return close


def _closing(server: Any) -> Callable[[], Awaitable[None]]:
    async def close() -> None:
        server.close()
        await server.wait_closed()

    return close


def unix() -> Transport:
    """A Unix socket."""

    async def start(behind: Behind) -> str:
        folder = tempfile.TemporaryDirectory(prefix="echo-")
        path = os.path.join(folder.name, "socket")
        echo = _Echo()
        behind.ends.append(echo.ends(await asyncio.start_unix_server(echo.serve, path)))

        async def clean() -> None:
            folder.cleanup()

        behind.ends.append(clean)
        return f"unix:{path}"

    return Behind(start)


def tcp() -> Transport:
    """A TCP socket on this machine."""

    async def start(behind: Behind) -> str:
        echo = _Echo()
        server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
        behind.ends.append(echo.ends(server))
        return f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    return Behind(start)


# -- WebSockets ----------------------------------------------------------------------------------


async def _echo_texts(connection: ServerConnection) -> None:
    async for text in connection:
        await connection.send(text)


async def serve_ws(
    handle: Callable[[ServerConnection], Awaitable[None]], **options: Any
) -> tuple[Any, str]:
    """A WebSocket server of a test, and its address."""
    server = await serve(
        handle, "127.0.0.1", 0, compression=None, max_size=64 * 1024 * 1024, **options
    )
    return server, f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/acp"


def websocket() -> Transport:
    """A WebSocket whose server knows nothing of links."""

    async def start(behind: Behind) -> str:
        server, address = await serve_ws(_echo_texts)
        behind.ends.append(_closing(server))
        return address

    return Behind(start)


class LinkServer:
    """A server that resumes: its connections outlive their WebSockets.

    Attributes:
        sockets: The WebSockets that are open.
        upgrades: The headers of each upgrade, in order.
        links: By the id of the connection.
        heard: What came, by the id of the connection.
        answers: What becomes of a frame that came; by default it goes back.
        refuses: The status that further upgrades get; 0: they are let in.
        drops: How many further upgrades are cut before they have an answer.
        name: What it calls a connection that a client gets; None: `c` and a number.
    """

    def __init__(self) -> None:
        self.sockets: list[ServerConnection] = []
        self.upgrades: list[dict[str, str]] = []
        self.links: dict[str, Link] = {}
        self.heard: dict[str, list[bytes]] = {}
        self.answers: Callable[[bytes], list[bytes]] = lambda frame: [frame]
        self.refuses = 0
        self.drops = 0
        self.name: str | None = None
        self._waiting: dict[str, list[bytes]] = {}
        self._server: Any = None

    async def start(self) -> str:
        """Listens; the address."""
        self._server, address = await serve_ws(
            self._serve,
            subprotocols=[Subprotocol("conductor.link.1")],
            select_subprotocol=lambda connection, offered: (
                Subprotocol("conductor.link.1") if "conductor.link.1" in offered else None
            ),
            process_request=self._check,
            process_response=self._named,
        )
        return address

    def _check(self, connection: ServerConnection, request: Request) -> Response | None:
        self.upgrades.append(dict(request.headers.raw_items()))
        if self.drops:
            self.drops -= 1
            connection.transport.close()
        if self.refuses:
            return connection.respond(self.refuses, "no\n")
        return None

    def _named(self, connection: ServerConnection, request: Request, response: Response) -> None:
        del connection
        given = request.headers.get("Acp-Connection-Id") or f"c{len(self.links) + 1}"
        response.headers["Acp-Connection-Id"] = given if self.name is None else self.name
        response.headers["Set-Cookie"] = "pod=7; Path=/; HttpOnly"
        self.links.setdefault(given, Link(given))
        self.heard.setdefault(given, [])

    async def _serve(self, connection: ServerConnection) -> None:
        assert connection.response is not None
        name = connection.response.headers["Acp-Connection-Id"]
        if name not in self.links:  # nobody can link to that
            return
        link, waiting = self.links[name], self._waiting.setdefault(name, [])
        self.sockets.append(connection)
        link.linked()
        try:
            await self._flush(connection, link)
            async for text in connection:
                raw = text.encode() if isinstance(text, str) else text
                for frame in link.received(raw):
                    self.heard[name].append(frame)
                    waiting += self.answers(frame)
                while waiting and not link.full:
                    link.send(waiting.pop(0))
                link.ack()
                await self._flush(connection, link)
        except ConnectionClosed:
            pass
        except LinkError:
            await connection.close(1011)
        finally:
            self.sockets.remove(connection)
            if link.state is not State.FAILED and connection not in self.sockets:
                link.cut()

    @staticmethod
    async def _flush(connection: ServerConnection, link: Link) -> None:
        while (packet := link.take()) is not None:
            await connection.send(packet.decode())

    def cut(self) -> None:
        """Cuts every WebSocket, without a word."""
        for socket in self.sockets:
            socket.transport.abort()

    async def close(self) -> None:
        """Ends it."""
        self._server.close()
        await self._server.wait_closed()


def link() -> Transport:
    """A WebSocket with a link over it."""

    async def start(behind: Behind) -> str:
        server = LinkServer()
        address = await server.start()
        behind.ends.append(server.close)
        return address

    return Behind(start)


class _Opened(Wrapper):
    """A transport whose first message, and the answer to it, are not the test's."""

    def __init__(self, inner: Behind) -> None:
        super().__init__(inner)
        self._early: list[bytes] = []
        self._answered = asyncio.Event()

    async def open(self, events: Owner) -> None:
        self._inner.write(b'{"jsonrpc":"2.0","id":0,"method":"initialize"}\n')
        await super().open(events)
        await self._answered.wait()
        for data in self._early:
            super().write(data)

    def write(self, data: bytes) -> None:
        if self._answered.is_set():
            super().write(data)
        else:
            self._early.append(data)

    def received(self, frames: list[bytes]) -> None:
        if self._answered.is_set():
            super().received(frames)
        self._answered.set()


def http() -> Transport:
    """ACP over HTTP."""

    async def echo(served: Served, frame: bytes) -> None:
        served.send(frame if served.opened.done() else b'{"jsonrpc":"2.0","id":0,"result":{}}')

    async def start(behind: Behind) -> str:
        server = HttpServer(echo)
        address = await server.start()
        behind.ends.append(server.close)
        return address

    return _Opened(Behind(start))


ENDS: dict[str, Callable[[], Transport]] = {
    "unix": unix,
    "tcp": tcp,
    "ws": websocket,
    "link": link,
    "http": http,
}
