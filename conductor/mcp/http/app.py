"""From a request of HTTP to the connection it belongs to: the application uvicorn runs (ASGI)."""

from __future__ import annotations

from typing import Final, Self

from conductor.mcp.http import requests
from conductor.mcp.http.doors import GONE, Door, Doors
from conductor.mcp.http.reply import Receive, Reply, Scope, Send
from conductor.mcp.http.requests import SESSION, Headers, Incoming, Refused
from conductor.mcp.http.session import Session

END: Final = "/mcp"
"""What each path ends with. There are agents that put it behind any other (fast-agent)."""

MOST_HEADERS: Final = 100
"""Headers of one request."""

MOST_WAITING: Final = 256 * 1024 * 1024
"""Bytes of all bodies together that are being read, or wait to be passed on; one of the longest
there may be always has room when it is alone."""

_SILENCE: Final = 15.0
"""Seconds without a message after which a stream shows that it is alive."""


_CLOSE: Final = (("connection", "close"),)


class App:
    """The application; `limit`: bytes of the longest message taken from a client."""

    def __init__(self, doors: Doors, limit: int) -> None:
        self._doors = doors
        self._limit = limit
        self._silence = _SILENCE
        self._waiting = 0
        """Bytes of bodies that are here."""

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        reply = Reply(send, self._silence)
        known = False
        try:
            if len(scope["headers"]) > MOST_HEADERS:
                raise Refused(431, f"a request has at most {MOST_HEADERS} headers")
            headers = Headers(scope["headers"])
            requests.check_origin(headers, scope["server"][1])
            path: str = scope["path"]
            door = self._doors.at(path[1 : -len(END)]) if path.endswith(END) else None
            requests.check_secret(headers, door.secret if door is not None else None)
            assert door is not None
            if not scope["state"]["connection"].admit():
                raise Refused(503, "too many requests of MCP clients are open (hint: wait for one)")
            known = True
            handler = {"POST": self._post, "GET": self._get, "DELETE": self._delete}.get(
                scope["method"]
            )
            if handler is None:
                raise _not_allowed("GET, POST, DELETE")
            await handler(door, headers, receive, reply)
        except Refused as refused:
            # What a stranger sends behind the head of its request is not read.
            closing = () if known else _CLOSE
            await reply.whole(refused.status, refused.body, (*refused.headers, *closing))
        scope["state"]["connection"].answered()

    async def _post(self, door: Door, headers: Headers, receive: Receive, reply: Reply) -> None:
        requests.check_post(headers)
        with _Room(self) as room:
            incoming = requests.read(await self._body(headers, receive, room))
            known = headers.get(SESSION)
            if known is None and (incoming.stateless or headers.modern):
                room.release()
                await self._alone(door, headers, incoming, receive, reply)
                return
            requests.check_session(headers, incoming)
            if known is not None:
                session = _known(door, known)
            elif incoming.method == "initialize" and incoming.is_request:
                session = self._doors.open(door, lasting=True)
            else:
                raise Refused(
                    400,
                    f"`{SESSION}` is missing: a session begins with `initialize`",
                    id=incoming.id or b"null",
                )
            reply.session = session.key
            await session.go.wait()
        if not self._doors.holds(session.name):
            raise _ended(incoming)
        if not incoming.is_request:
            self._doors.passed(session, incoming.frame)
            await reply.whole(202, b"")
            return
        exchange = session.begin(incoming)
        try:
            self._doors.passed(session, incoming.frame)
            await reply.answer(exchange, receive, legacy=True)
        finally:
            session.forget(exchange)
        if known is None and reply.failed:
            self._doors.lose(session.name)  # no session has come of it

    async def _alone(
        self, door: Door, headers: Headers, incoming: Incoming, receive: Receive, reply: Reply
    ) -> None:
        """A POST that stands for itself."""
        if not incoming.is_request:
            # This revision has no notifications of clients: to cancel is to leave.
            await reply.whole(202, b"")
            return
        requests.check_stateless(headers, incoming)
        session = self._doors.open(door, lasting=False)
        try:
            exchange = session.begin(incoming)
            self._doors.passed(session, incoming.frame)
            await reply.answer(exchange, receive, legacy=False)
        finally:
            self._doors.lose(session.name)

    async def _get(self, door: Door, headers: Headers, receive: Receive, reply: Reply) -> None:
        known = headers.get(SESSION)
        if known is None:
            raise (
                _not_allowed("POST") if headers.modern else Refused(400, f"`{SESSION}` is missing")
            )
        if not headers.accepts("text/event-stream"):
            raise Refused(406, "a GET accepts text/event-stream")
        session = _known(door, known)
        reply.session = known
        outlet = session.listen()
        try:
            await reply.stream(outlet, receive)
        finally:
            if session.stream is outlet:
                session.leave()

    async def _delete(self, door: Door, headers: Headers, receive: Receive, reply: Reply) -> None:
        del receive
        session = _known(door, headers.get(SESSION) or "")
        self._doors.lose(session.name)
        await reply.whole(200, b"")

    async def _body(self, headers: Headers, receive: Receive, room: _Room) -> bytes:
        """The whole body. Raises `Refused` when it is too long, or its sender leaves."""
        length = headers.get("content-length") or "0"
        self._fits(int(length) if length.isdecimal() else 0)
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Refused(400, "the client left")
            more = message.get("body", b"")
            self._fits(len(body) + len(more))
            room.take(len(more))
            body += more
            if not message.get("more_body", False):
                return bytes(body)

    def _fits(self, size: int) -> None:
        if size > self._limit:
            text = f"the message is longer than {self._limit} bytes"
            raise Refused(413, f"{text} (hint: --line-limit raises that)", headers=_CLOSE)

    def waits(self, size: int) -> None:
        """So many bytes of bodies more, or less, are here. Raises `Refused` for too many."""
        self._waiting += size
        if size > 0 and self._waiting > max(MOST_WAITING, self._limit):
            text = "too many bytes of other requests are being read (hint: try again)"
            raise Refused(503, text, headers=_CLOSE)


class _Room:
    """What one body takes up, until it is passed on or its sender is refused."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def take(self, size: int) -> None:
        self._size += size
        self._app.waits(size)

    def release(self) -> None:
        size, self._size = self._size, 0
        self._app.waits(-size)


def _known(door: Door, key: str) -> Session:
    session = door.sessions.get(key)
    if session is None:
        raise Refused(404, "there is no such session (any more): begin with `initialize`")
    return session


def _ended(incoming: Incoming) -> Refused:
    return Refused(404, GONE, id=incoming.id or b"null")


def _not_allowed(methods: str) -> Refused:
    return Refused(405, f"methods are: {methods}", headers=(("allow", methods),))
