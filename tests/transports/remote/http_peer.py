"""A server of the tests that speaks ACP over HTTP: it wants all that a client must send."""

import asyncio
import contextlib
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from aiohttp import web

CONNECTION, SESSION, NUMBER = "Acp-Connection-Id", "Acp-Session-Id", "Acp-Message-Number"


class Came(NamedTuple):
    """A request of a client."""

    method: str
    headers: dict[str, str]
    body: bytes

    @property
    def frame(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)


class Stream:
    """The events that leave for the readers of one stream."""

    def __init__(self) -> None:
        self.events: list[bytes] = []
        self.taken = 0
        self.news = asyncio.Event()
        self.is_cut = False

    def put(self, frame: bytes) -> None:
        """Adds an event."""
        self.events.append(frame)
        self.news.set()


class Served:
    """A connection."""

    def __init__(self, id_: str) -> None:
        self.id = id_
        self.streams: defaultdict[str, Stream] = defaultdict(Stream)
        self.opened = asyncio.get_running_loop().create_future()
        self.numbers: set[str] = set()
        self.closed = asyncio.Event()

    def send(self, frame: bytes, session: str = "") -> None:
        """Sends a frame on the stream of a session, or of the connection."""
        if not self.opened.done():
            self.opened.set_result(frame)
        else:
            self.streams[session].put(frame)


class HttpServer:
    """Serves connections.

    Attributes:
        came: All requests, in order.
        connections: By id.
        numbers: Whether events have ids, and messages of a number seen are ignored.
        refuses: The status that requests of a method get; those that are not there are served.
        token: Who does not show it gets 401.
        holds_streams: Whether the head of a stream never comes.
    """

    def __init__(
        self,
        took: Callable[[Served, bytes], Awaitable[None]],
        began: Callable[[Served], Awaitable[None]] | None = None,
    ) -> None:
        """`took` takes each frame, `began` each new connection."""
        self.came: list[Came] = []
        self.connections: dict[str, Served] = {}
        self.numbers = True
        self.refuses: dict[str, int] = {}
        self.token = ""
        self.holds_streams = False
        self._took, self._began = took, began
        self._runner: web.AppRunner | None = None

    async def start(self) -> str:
        """Listens; the address."""
        application = web.Application(client_max_size=128 * 1024 * 1024)
        application.router.add_route("*", "/acp", self._serve)
        self._runner = web.AppRunner(application, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port = self._runner.addresses[0][1]
        return f"http://127.0.0.1:{port}"

    async def close(self) -> None:
        """Ends it."""
        for one in self.connections.values():
            self.end(one)
        if self._runner is not None:
            await self._runner.cleanup()

    @staticmethod
    def end(served: Served) -> None:
        """Ends a connection and its streams."""
        served.closed.set()
        for stream in served.streams.values():
            stream.news.set()

    def cut(self, session: str = "") -> None:
        """Ends the stream of a session, or of the connection, as a network does."""
        for served in self.connections.values():
            if session in served.streams:
                served.streams[session].is_cut = True
                served.streams[session].news.set()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.came.append(Came(request.method, dict(request.headers), body))
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.Response(status=401)
        if status := self.refuses.get(request.method):
            return web.Response(status=status)
        served = self.connections.get(request.headers.get(CONNECTION, ""))
        if request.method == "POST" and CONNECTION not in request.headers:
            return await self._open(body)
        if served is None or served.closed.is_set():
            return web.Response(status=404)
        if request.method == "GET":
            return await self._listen(request, served)
        if request.method == "DELETE":
            self.end(served)
            return web.Response(status=202)
        return await self._take(request, served, body)

    async def _open(self, body: bytes) -> web.Response:
        served = Served(f"c{len(self.connections) + 1}")
        self.connections[served.id] = served
        if self._began is not None:
            await self._began(served)
        await self._took(served, body)
        answer = await served.opened
        headers = {CONNECTION: served.id, "Set-Cookie": "pod=7; Path=/"}
        return web.Response(body=answer, content_type="application/json", headers=headers)

    async def _take(self, request: web.Request, served: Served, body: bytes) -> web.Response:
        message = json.loads(body)
        session = (message.get("params") or {}).get("sessionId")
        is_plain = isinstance(session, str) and not message["method"].startswith("$/")
        if is_plain and request.headers.get(SESSION) != session:
            return web.Response(status=400, text="Acp-Session-Id header required")
        number = request.headers.get(NUMBER, "")
        if not (self.numbers and number in served.numbers):
            served.numbers.add(number)
            await self._took(served, body)
        return web.Response(status=202)

    async def _listen(self, request: web.Request, served: Served) -> web.StreamResponse:
        stream = served.streams[request.headers.get(SESSION, "")]
        stream.is_cut = False
        if self.holds_streams:
            await served.closed.wait()
        after = request.headers.get("Last-Event-ID")
        if after is not None:
            stream.taken = int(after)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            await response.write(b"id: 0\n\n" if self.numbers else b":\n\n")
            while not (served.closed.is_set() or stream.is_cut):
                stream.news.clear()
                while stream.taken < len(stream.events):
                    data = stream.events[stream.taken]
                    stream.taken += 1
                    id_ = b"id: %d\n" % stream.taken if self.numbers else b""
                    await response.write(b"%bdata: %b\n\n" % (id_, data))
                await stream.news.wait()
        if stream.is_cut and request.transport is not None:
            request.transport.abort()
        return response
