"""Answers requests of HTTP."""

from __future__ import annotations

from typing import Final, Self

from conductor.http.headers import Headers
from conductor.http.request import Request, Response
from conductor.mcp import limits
from conductor.mcp.http import requests
from conductor.mcp.http.listeners import GONE, Listener, Listeners
from conductor.mcp.http.requests import SESSION, Incoming, Refused
from conductor.mcp.http.session import Exchange, Outlet, Session, error_code

END: Final = "/mcp"
"""The end of each path. Some agents (fast-agent) append it to any other."""

_CLOSE: Final = (("connection", "close"),)


class App:
    """The application."""

    def __init__(self, listeners: Listeners, limit: int) -> None:
        """`limit`: bytes of the longest message that clients may send."""
        self._listeners = listeners
        self._limit = limit
        self._body_bytes = 0
        """Of all bodies that are being read, or wait for the bridge."""

    async def serve(self, request: Request) -> None:
        """Answers one request."""
        answer = _Answer(request)
        admitted = False
        try:
            listener = self._check(request)
            if not request.admit():
                raise Refused(503, "too many requests of MCP clients are open (hint: wait for one)")
            admitted = True
            match request.method:
                case "POST":
                    await self._post(listener, request.headers, answer)
                case "GET":
                    await self._get(listener, request.headers, answer)
                case "DELETE":
                    self._listeners.lose(_session(listener, request.headers.get(SESSION)).name)
                    await answer.whole(200, b"")
                case _:
                    raise _not_allowed("GET, POST, DELETE")
        except Refused as refused:
            # Without the secret, a request's body is not read, so its connection cannot go on.
            closing = () if admitted else _CLOSE
            await answer.whole(refused.status, refused.body, (*refused.headers, *closing))

    def _check(self, request: Request) -> Listener:
        """Checks the origin and the secret of a request, before anything else of it counts."""
        headers, path = request.headers, request.path
        requests.check_origin(headers, request.port)
        listener = self._listeners.at(path[1 : -len(END)]) if path.endswith(END) else None
        requests.check_secret(headers, listener.secret if listener is not None else None)
        assert listener is not None
        return listener

    async def _post(self, listener: Listener, headers: Headers, answer: _Answer) -> None:
        requests.check_post(headers)
        with _Body(self) as body:
            incoming = requests.read(await body.read(answer.request))
            key = headers.get(SESSION)
            if key is None and (incoming.stateless or requests.is_modern(headers)):
                body.release()
                await self._stateless_post(listener, headers, incoming, answer)
                return
            requests.check_session(headers, incoming)
            if key is not None:
                session = _session(listener, key)
            elif incoming.method == "initialize" and incoming.is_request:
                session = self._listeners.open(listener, lasting=True)
            else:
                reason = f"`{SESSION}` is missing: a session begins with `initialize`"
                raise Refused(400, reason, id=incoming.id or b"null")
            answer.session = session.key
            # While the bridge takes no messages, the body stays counted, so waiting is bounded.
            await session.go.wait()
        if not self._listeners.owns(session.name):  # it ended while the bridge took no messages
            raise Refused(404, GONE, id=incoming.id or b"null")
        if not incoming.is_request:
            self._listeners.received(session, incoming.frame)
            await answer.whole(202, b"")
            return
        exchange = session.begin(incoming)
        try:
            self._listeners.received(session, incoming.frame)
            await answer.answer(exchange, legacy=True)
        finally:
            session.forget(exchange)
        if key is None and answer.failed:
            self._listeners.lose(session.name)  # `initialize` failed, so there is no session

    async def _stateless_post(
        self, listener: Listener, headers: Headers, incoming: Incoming, answer: _Answer
    ) -> None:
        """A POST of 2026-07-28, which is a connection by itself."""
        if not incoming.is_request:
            # This revision has no notifications of clients: a client cancels by leaving.
            await answer.whole(202, b"")
            return
        requests.check_stateless(headers, incoming)
        session = self._listeners.open(listener, lasting=False)
        try:
            exchange = session.begin(incoming)
            self._listeners.received(session, incoming.frame)
            await answer.answer(exchange, legacy=False)
        finally:
            self._listeners.lose(session.name)

    async def _get(self, listener: Listener, headers: Headers, answer: _Answer) -> None:
        key = headers.get(SESSION)
        if key is None:
            if requests.is_modern(headers):
                raise _not_allowed("POST")
            raise Refused(400, f"`{SESSION}` is missing")
        if not headers.accepts("text/event-stream"):
            raise Refused(406, "a GET accepts text/event-stream")
        session = _session(listener, key)
        answer.session = key
        outlet = session.listen()
        try:
            await answer.events(outlet, b"")
        finally:
            if session.stream is outlet:
                session.leave()

    def check_size(self, size: int) -> None:
        """Raises `Refused` for a body of too many bytes."""
        if size > self._limit:
            reason = f"the message is longer than {self._limit} bytes"
            raise Refused(413, f"{reason} (hint: `line-limit` raises that)", headers=_CLOSE)

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

    async def read(self, request: Request) -> bytes:
        """The whole body. Raises `Refused` if it is too long."""
        length = request.headers.get("content-length") or "0"
        self._app.check_size(int(length) if length.isdecimal() else 0)
        body = bytearray()
        async for chunk in request.chunks():
            self._app.check_size(len(body) + len(chunk))
            self._size += len(chunk)
            self._app.count(len(chunk))
            body += chunk
        return bytes(body)

    def release(self) -> None:
        size, self._size = self._size, 0
        self._app.count(-size)


class _Answer:
    """Writes one answer: in one piece, or as a stream of events."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.session = ""
        """The `Mcp-Session-Id` to name, if any."""
        self.failed = False
        """Whether it was a JSON-RPC error."""

    async def whole(
        self, status: int, body: bytes, headers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        """Answers in one piece: JSON, or nothing."""
        await self.request.respond(Response(body, status, headers=(*headers, *self._named)))

    async def answer(self, exchange: Exchange, *, legacy: bool) -> None:
        """Responds with the answer to a request, and the messages before it.

        `legacy`: errors have status 200, as before 2026-07-28.
        """
        first = await exchange.take(limits.SILENCE_SECONDS)
        if first and exchange.empty:
            code = error_code(first)
            self.failed = code is not None
            status = 200 if legacy or code is None else requests.STATUS.get(code, 200)
            await self.whole(status, first)
        else:
            await self.events(exchange, first)

    async def events(self, outlet: Outlet, frame: bytes | None) -> None:
        """Answers with a stream of events, from a frame on, until the outlet ends."""
        kind = ("content-type", "text/event-stream")
        caching = ("cache-control", "no-cache, no-transform")
        self.request.begin(200, (kind, caching, *self._named))
        while frame is not None:
            # In a long silence, a comment shows that the stream is alive.
            event = b"event: message\ndata: %b\n\n" % frame if frame else b": alive\n\n"
            await self.request.send(event)
            frame = await outlet.take(limits.SILENCE_SECONDS)
        self.request.end()

    @property
    def _named(self) -> tuple[tuple[str, str], ...]:
        return ((SESSION, self.session),) if self.session else ()


def _session(listener: Listener, key: str | None) -> Session:
    session = listener.sessions.get(key or "")
    if session is None:
        raise Refused(404, "there is no such session (any more): begin with `initialize`")
    return session


def _not_allowed(methods: str) -> Refused:
    return Refused(405, f"methods are: {methods}", headers=(("allow", methods),))
