"""Answers requests of HTTP: the application that uvicorn runs (ASGI)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, Self

from conductor.mcp import limits
from conductor.mcp.http import requests
from conductor.mcp.http.listeners import GONE, Listener, Listeners
from conductor.mcp.http.requests import SESSION, Headers, Incoming, Refused
from conductor.mcp.http.session import Exchange, Outlet, Session, error_code

END: Final = "/mcp"
"""The end of each path. Some agents (fast-agent) append it to any other."""

_CLOSE: Final = (("connection", "close"),)

_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class App:
    """The application."""

    def __init__(self, listeners: Listeners, limit: int) -> None:
        """`limit`: bytes of the longest message that clients may send."""
        self._listeners = listeners
        self._limit = limit
        self._body_bytes = 0
        """Of all bodies that are being read, or wait for the bridge."""

    async def serve(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Answers one request."""
        response = _Response(receive, send)
        connection = scope["state"]["connection"]
        admitted = False
        try:
            headers, listener = self._check(scope)
            if not connection.admit():
                raise Refused(503, "too many requests of MCP clients are open (hint: wait for one)")
            admitted = True
            match scope["method"]:
                case "POST":
                    await self._post(listener, headers, response)
                case "GET":
                    await self._get(listener, headers, response)
                case "DELETE":
                    self._listeners.lose(_session(listener, headers.get(SESSION)).name)
                    await response.whole(200, b"")
                case _:
                    raise _not_allowed("GET, POST, DELETE")
        except Refused as refused:
            # Without the secret, a request's body is not read, so its connection cannot go on.
            closing = () if admitted else _CLOSE
            await response.whole(refused.status, refused.body, (*refused.headers, *closing))
        connection.answered()

    def _check(self, scope: _Scope) -> tuple[Headers, Listener]:
        """What a request must show before anything of it counts: origin and secret."""
        if len(scope["headers"]) > limits.HEADERS:
            raise Refused(431, f"a request has at most {limits.HEADERS} headers")
        headers = Headers(scope["headers"])
        requests.check_origin(headers, scope["server"][1])
        path: str = scope["path"]
        listener = self._listeners.at(path[1 : -len(END)]) if path.endswith(END) else None
        requests.check_secret(headers, listener.secret if listener is not None else None)
        assert listener is not None
        return headers, listener

    async def _post(self, listener: Listener, headers: Headers, response: _Response) -> None:
        requests.check_post(headers)
        with _Body(self) as body:
            incoming = requests.read(await body.read(headers, response.receive))
            key = headers.get(SESSION)
            if key is None and (incoming.stateless or headers.modern):
                body.release()
                await self._stateless_post(listener, headers, incoming, response)
                return
            requests.check_session(headers, incoming)
            if key is not None:
                session = _session(listener, key)
            elif incoming.method == "initialize" and incoming.is_request:
                session = self._listeners.open(listener, lasting=True)
            else:
                reason = f"`{SESSION}` is missing: a session begins with `initialize`"
                raise Refused(400, reason, id=incoming.id or b"null")
            response.session = session.key
            # While the bridge takes no messages, the body stays counted, so waiting is bounded.
            await session.go.wait()
        if not self._listeners.owns(session.name):  # it ended while the bridge took no messages
            raise Refused(404, GONE, id=incoming.id or b"null")
        if not incoming.is_request:
            self._listeners.received(session, incoming.frame)
            await response.whole(202, b"")
            return
        exchange = session.begin(incoming)
        try:
            self._listeners.received(session, incoming.frame)
            await response.answer(exchange, legacy=True)
        finally:
            session.forget(exchange)
        if key is None and response.failed:
            self._listeners.lose(session.name)  # `initialize` failed, so there is no session

    async def _stateless_post(
        self, listener: Listener, headers: Headers, incoming: Incoming, response: _Response
    ) -> None:
        """A POST of 2026-07-28, which is a connection by itself."""
        if not incoming.is_request:
            # This revision has no notifications of clients: a client cancels by leaving.
            await response.whole(202, b"")
            return
        requests.check_stateless(headers, incoming)
        session = self._listeners.open(listener, lasting=False)
        try:
            exchange = session.begin(incoming)
            self._listeners.received(session, incoming.frame)
            await response.answer(exchange, legacy=False)
        finally:
            self._listeners.lose(session.name)

    async def _get(self, listener: Listener, headers: Headers, response: _Response) -> None:
        key = headers.get(SESSION)
        if key is None:
            if headers.modern:
                raise _not_allowed("POST")
            raise Refused(400, f"`{SESSION}` is missing")
        if not headers.accepts("text/event-stream"):
            raise Refused(406, "a GET accepts text/event-stream")
        session = _session(listener, key)
        response.session = key
        outlet = session.listen()
        try:
            await response.stream(outlet)
        finally:
            if session.stream is outlet:
                session.leave()

    def check_size(self, size: int) -> None:
        """Raises `Refused` for a body of too many bytes."""
        if size > self._limit:
            reason = f"the message is longer than {self._limit} bytes"
            raise Refused(413, f"{reason} (hint: --line-limit raises that)", headers=_CLOSE)

    def count(self, size: int) -> None:
        """Counts bytes of bodies, or no longer (below 0). Raises `Refused` for too many."""
        self._body_bytes += size
        if size > 0 and self._body_bytes > max(limits.BODIES, self._limit):
            reason = "too many bytes of other requests are being read (hint: try again)"
            raise Refused(503, reason, headers=_CLOSE)


class _Body:
    """One body, counted until it is passed on or its request is refused."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    async def read(self, headers: Headers, receive: _Receive) -> bytes:
        """The whole body. Raises `Refused` if it is too long, or its sender leaves."""
        length = headers.get("content-length") or "0"
        self._app.check_size(int(length) if length.isdecimal() else 0)
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Refused(400, "the client left")
            more = message.get("body", b"")
            self._app.check_size(len(body) + len(more))
            self._size += len(more)
            self._app.count(len(more))
            body += more
            if not message.get("more_body", False):
                return bytes(body)

    def release(self) -> None:
        size, self._size = self._size, 0
        self._app.count(-size)


class _Response:
    """Writes one response: in one piece, or as a stream of events."""

    def __init__(self, receive: _Receive, send: _Send) -> None:
        self.receive = receive
        self._send = send
        self.session = ""
        """The `Mcp-Session-Id` to name, if any."""
        self.failed = False
        """Whether it was a JSON-RPC error."""

    async def whole(
        self, status: int, body: bytes, headers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        """Responds in one piece: JSON, or nothing."""
        kind = (("content-type", "application/json"),) if body else ()
        await self._begin(status, (*kind, ("content-length", str(len(body))), *headers))
        await self._send({"type": "http.response.body", "body": body})

    async def answer(self, exchange: Exchange, *, legacy: bool) -> None:
        """Responds with the answer to a request, and the messages before it.

        `legacy`: errors have status 200, as before 2026-07-28.
        """
        watching = asyncio.ensure_future(self._until_left(exchange))
        try:
            first = await exchange.take(limits.SILENCE_SECONDS)
            if first and exchange.empty:
                code = error_code(first)
                self.failed = code is not None
                status = 200 if legacy or code is None else requests.STATUS.get(code, 200)
                await self.whole(status, first)
            else:
                await self._events(exchange, first)
        finally:
            watching.cancel()

    async def stream(self, outlet: Outlet) -> None:
        """Responds with a stream of events, until the outlet ends or the client leaves."""
        watching = asyncio.ensure_future(self._until_left(outlet))
        try:
            await self._events(outlet, b"")
        finally:
            watching.cancel()

    async def _until_left(self, outlet: Outlet) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            continue
        outlet.drop()

    async def _events(self, outlet: Outlet, frame: bytes | None) -> None:
        kind = ("content-type", "text/event-stream")
        await self._begin(200, (kind, ("cache-control", "no-cache, no-transform")))
        while frame is not None:
            # In a long silence, a comment shows that the stream is alive.
            event = b"event: message\ndata: %b\n\n" % frame if frame else b": alive\n\n"
            await self._send({"type": "http.response.body", "body": event, "more_body": True})
            frame = await outlet.take(limits.SILENCE_SECONDS)
        await self._send({"type": "http.response.body", "body": b""})

    async def _begin(self, status: int, headers: tuple[tuple[str, str], ...]) -> None:
        session = ((SESSION, self.session),) if self.session else ()
        lines = [(name.encode(), value.encode()) for name, value in (*headers, *session)]
        await self._send({"type": "http.response.start", "status": status, "headers": lines})


def _session(listener: Listener, key: str | None) -> Session:
    session = listener.sessions.get(key or "")
    if session is None:
        raise Refused(404, "there is no such session (any more): begin with `initialize`")
    return session


def _not_allowed(methods: str) -> Refused:
    return Refused(405, f"methods are: {methods}", headers=(("allow", methods),))
