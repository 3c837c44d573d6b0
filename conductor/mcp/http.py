"""A loopback Streamable HTTP server for agents that reach MCP servers by URL.

One server for all listeners of a conductor, on 127.0.0.1 and a port the system chooses; each
listener has a path, and a secret that every request presents in `Authorization`. Frames pass as
they are: what MCP means by them is the bridge's. uvicorn reads and writes HTTP; it is imported when
the first listener opens.

A legacy session is one connection, from `initialize` to `DELETE`. A POST of 2026-07-28 is one by
itself, and its client's leaving ends it. An answer that comes alone leaves as JSON; when something
comes before it, or nothing for a while, the response becomes a stream of events.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import socket
from typing import TYPE_CHECKING, Final

from conductor.errors import ComponentError
from conductor.mcp import http_requests
from conductor.mcp.declarations import HttpDeclaration
from conductor.mcp.http_reply import Receive, Reply, Scope, Send
from conductor.mcp.http_requests import SESSION, Headers, Incoming, Refused
from conductor.mcp.http_session import Session
from conductor.mcp.shells import NAME

if TYPE_CHECKING:
    from conductor.mcp.http_server import Loopback
    from conductor.mcp.shells import Log, ShellEvents

_END: Final = "/mcp"
"""What each path ends with. There are agents that put it behind any other (fast-agent)."""

_BACKLOG: Final = 128
_MOST_SESSIONS: Final = 1000
"""Sessions one listener keeps; then the oldest that is idle ends for a new one."""

_SILENCE: Final = 15.0
"""Seconds without a message after which a stream shows that it is alive."""

_GONE: Final = "the session of this MCP server has ended (hint: start a new session)"


def _listening() -> socket.socket:
    # With the protocol named: asyncio turns Nagle's algorithm off for what it knows to be TCP, and
    # a response in two pieces then does not wait for the client's delayed acknowledgement.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.bind(("127.0.0.1", 0))
        listening.listen(_BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening


class Door:
    """One listener: its secret, its sessions by `Mcp-Session-Id`, and all its connections."""

    def __init__(self, listener: str) -> None:
        self.listener = listener
        self.secret = secrets.token_hex(32).encode()
        self.sessions: dict[str, Session] = {}
        self.connections: dict[str, Session] = {}


class HttpShell:
    """The shell of `conductor.mcp.shells` for clients that speak HTTP."""

    def __init__(self, events: ShellEvents, *, log: Log, line_limit: int) -> None:
        self._events = events
        self._log = log
        self._limit = line_limit
        self._silence = _SILENCE
        self._server: Loopback | None = None
        self._doors: dict[str, Door] = {}
        self._keys: dict[str, str] = {}
        self._numbers = itertools.count(1)
        self._owners: dict[str, Door] = {}

    async def listen(self, listener: str) -> HttpDeclaration:
        """Lets clients in; the URL, and the header that lets them."""
        door = Door(listener)
        key = f"{next(self._numbers):x}"
        self._doors[key] = door
        self._keys[listener] = key
        if self._server is None:
            self._start()
        assert self._server is not None
        await self._server.ready()
        return HttpDeclaration(
            url=f"http://127.0.0.1:{self._server.port}/{key}{_END}",
            headers=(("Authorization", f"Bearer {door.secret.decode()}"),),
        )

    def owns(self, connection: str) -> bool:
        """Whether this connection came in here."""
        return connection in self._owners

    def send(self, connection: str, frame: bytes, related: bytes | None = None) -> None:
        """Queues one message, on the response it belongs to."""
        self._session(connection).send(frame, related)

    def finish(self, connection: str, request: bytes) -> None:
        """The client's request of this (raw) id gets no answer."""
        self._session(connection).finish(request)

    def pending(self, connection: str) -> int:
        """Bytes queued that have not left."""
        return self._session(connection).unsent

    def hold(self, connection: str, wait: bool) -> None:
        """Takes no more messages from the client, or goes on."""
        go = self._session(connection).go
        (go.clear if wait else go.set)()

    def close(self, connection: str) -> None:
        """Ends a connection; requests still open are answered with an error."""
        self._remove(connection)

    def close_listener(self, listener: str) -> None:
        """Lets no more clients in, and ends the connections of those who are."""
        key = self._keys.pop(listener, None)
        if key is not None:
            for connection in list(self._doors.pop(key).connections):
                self._remove(connection)

    async def aclose(self) -> None:
        """Ends everything."""
        for listener in list(self._keys):
            self.close_listener(listener)
        server, self._server = self._server, None
        if server is not None:
            await server.aclose()

    def _start(self) -> None:
        try:
            listening = _listening()
        except OSError as error:
            raise ComponentError(
                f"no loopback port for the MCP servers of this chain: {error.strerror or error}",
                "let the agent use stdio: --mcp-bridge stdio",
            ) from None
        from conductor.mcp.http_server import Loopback

        self._server = Loopback(self._serve, listening)

    def _session(self, connection: str) -> Session:
        return self._owners[connection].connections[connection]

    def _remove(self, connection: str) -> bool:
        """Forgets a connection; whoever waits on it is told. False if there was none."""
        door = self._owners.pop(connection, None)
        if door is None:
            return False
        session = door.connections.pop(connection)
        door.sessions.pop(session.key, None)
        session.end(lambda number: http_requests.error(number, http_requests.INTERNAL_ERROR, _GONE))
        return True

    def _lose(self, connection: str) -> None:
        """A client is gone."""
        if self._remove(connection):
            self._events.closed(connection)

    def _drained(self, connection: str) -> None:
        if connection in self._owners:
            self._events.drained(connection)

    def _flooding(self, connection: str) -> None:
        asyncio.get_running_loop().call_soon(self._flooded, connection)

    def _flooded(self, connection: str) -> None:
        if connection in self._owners:
            self._log("warning", NAME, "an MCP client does not read what it is sent; it is closed")
            self._lose(connection)

    def _open(self, door: Door, *, lasting: bool) -> Session:
        """A new connection; one that lasts has a session id."""
        name = f"http-{next(self._numbers)}"
        session = Session(
            name,
            secrets.token_urlsafe(24) if lasting else "",
            lambda: self._drained(name),
            lambda: self._flooding(name),
        )
        door.connections[name] = session
        self._owners[name] = door
        if lasting:
            door.sessions[session.key] = session
            self._make_room(door)
        self._events.opened(name, door.listener)
        return session

    def _make_room(self, door: Door) -> None:
        if len(door.sessions) > _MOST_SESSIONS:
            oldest = next((one for one in door.sessions.values() if one.idle), None)
            if oldest is not None:
                self._lose(oldest.name)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI application."""
        reply = Reply(send, self._silence)
        try:
            headers = Headers(scope["headers"])
            http_requests.check_origin(headers, scope["server"][1])
            path: str = scope["path"]
            door = self._doors.get(path[1 : -len(_END)]) if path.endswith(_END) else None
            http_requests.check_secret(headers, door.secret if door is not None else None)
            assert door is not None
            handler = {"POST": self._post, "GET": self._get, "DELETE": self._delete}.get(
                scope["method"]
            )
            if handler is None:
                raise _not_allowed("GET, POST, DELETE")
            await handler(door, headers, receive, reply)
        except Refused as refused:
            await reply.whole(refused.status, refused.body, refused.headers)

    async def _post(self, door: Door, headers: Headers, receive: Receive, reply: Reply) -> None:
        http_requests.check_post(headers)
        incoming = http_requests.read(await self._body(headers, receive))
        known = headers.get(SESSION)
        if known is None and (incoming.stateless or headers.modern):
            await self._alone(door, headers, incoming, receive, reply)
            return
        http_requests.check_session(headers, incoming)
        if known is not None:
            session = _known(door, known)
        elif incoming.method == "initialize" and incoming.is_request:
            session = self._open(door, lasting=True)
        else:
            raise Refused(
                400,
                f"`{SESSION}` is missing: a session begins with `initialize`",
                id=incoming.id or b"null",
            )
        reply.session = session.key
        await session.go.wait()
        if session.name not in self._owners:
            raise _ended(incoming)
        if not incoming.is_request:
            self._pass(session, incoming)
            await reply.whole(202, b"")
            return
        exchange = session.begin(incoming)
        try:
            self._pass(session, incoming)
            await reply.answer(exchange, receive, legacy=True)
        finally:
            session.forget(exchange)
        if known is None and reply.failed:
            self._lose(session.name)  # no session has come of it

    async def _alone(
        self, door: Door, headers: Headers, incoming: Incoming, receive: Receive, reply: Reply
    ) -> None:
        """A POST that stands for itself."""
        if not incoming.is_request:
            # This revision has no notifications of clients: to cancel is to leave.
            await reply.whole(202, b"")
            return
        http_requests.check_stateless(headers, incoming)
        session = self._open(door, lasting=False)
        try:
            exchange = session.begin(incoming)
            self._pass(session, incoming)
            await reply.answer(exchange, receive, legacy=False)
        finally:
            self._lose(session.name)

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
        self._lose(session.name)
        await reply.whole(200, b"")

    def _pass(self, session: Session, incoming: Incoming) -> None:
        if session.name in self._owners:
            self._events.received(session.name, incoming.frame)

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        """The whole body. Raises `Refused` when it is too long, or its sender leaves."""
        length = headers.get("content-length") or "0"
        size = int(length) if length.isdecimal() else 0
        parts: list[bytes] = []
        while size <= self._limit:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Refused(400, "the client left")
            parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                return b"".join(parts)
            size = max(size, sum(map(len, parts)))
        raise Refused(
            413,
            f"the message is longer than {self._limit} bytes (hint: --line-limit raises that)",
            headers=(("connection", "close"),),
        )


def _known(door: Door, key: str) -> Session:
    session = door.sessions.get(key)
    if session is None:
        raise Refused(404, "there is no such session (any more): begin with `initialize`")
    return session


def _ended(incoming: Incoming) -> Refused:
    return Refused(404, _GONE, id=incoming.id or b"null")


def _not_allowed(methods: str) -> Refused:
    return Refused(405, f"methods are: {methods}", headers=(("allow", methods),))
