"""One connection of an MCP client over HTTP: its open requests, and the frames for it.

Session     a connection: a legacy session, or a single POST without one
Outlet      the frames that wait to leave on one response
Exchange    the outlet of a POST with a request
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import msgspec
from msgspec import UNSET, Raw, UnsetType

from conductor.core import jsonrpc
from conductor.core.jsonrpc import Message
from conductor.mcp import limits
from conductor.mcp.bridge import json
from conductor.mcp.bridge.protocol import PROGRESS
from conductor.mcp.http.requests import Incoming, Refused


class _Outgoing(msgspec.Struct):
    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_outgoing = msgspec.json.Decoder(_Outgoing)


def _head(frame: bytes) -> _Outgoing:
    try:
        return _outgoing.decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError):
        message = jsonrpc.parse(frame)  # slower, but takes lone surrogates too
        assert isinstance(message, Message)
        return _Outgoing(message.id, message.method, message.params, message.error)


def error_code(frame: bytes) -> int | None:
    """The code of an answer that is an error; None for a result."""
    error = _head(frame).error
    return None if error is UNSET else json.error_code(error) or 0


class Outlet:
    """The frames that wait to leave on one response."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._frames: deque[bytes] = deque()
        self._wake = asyncio.Event()
        self._ended = False

    def put(self, frame: bytes) -> None:
        """Queues a frame."""
        self._frames.append(frame)
        self._session.queued(len(frame))
        self._wake.set()

    def end(self) -> None:
        """Nothing more comes."""
        self._ended = True
        self._wake.set()

    def drop(self) -> None:
        """The client has left, so nobody takes the rest."""
        while self._frames:
            self._session.queued(-len(self._frames.popleft()))
        self.end()

    async def take(self, seconds: float) -> bytes | None:
        """The next frame; empty if there is none within `seconds`, None at the end."""
        if not self._frames and not self._ended:
            self._wake.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._wake.wait()
            except TimeoutError:
                return b""
        if not self._frames:
            return None
        frame = self._frames.popleft()
        self._session.queued(-len(frame))
        return frame

    @property
    def empty(self) -> bool:
        """Whether the last frame has been taken."""
        return self._ended and not self._frames


class Exchange(Outlet):
    """The messages that belong to one request, its answer last."""

    def __init__(self, session: Session, incoming: Incoming) -> None:
        super().__init__(session)
        self.id = incoming.id or b"null"
        self.token = incoming.token


class Session:
    """One connection of an MCP client.

    `name`: its name for the bridge. `key`: its `Mcp-Session-Id`; empty for a single POST.
    `on_queued` takes by how many bytes the queue has grown or (below 0) shrunk.
    """

    def __init__(
        self,
        name: str,
        key: str,
        on_queued: Callable[[int], None],
    ) -> None:
        self.name = name
        self.key = key
        self.unsent = 0
        self.go = asyncio.Event()
        """Set unless the conductor takes no messages for the moment."""
        self.go.set()
        self.stream: Outlet | None = None
        """The session's GET: for messages that belong to no request."""
        self._exchanges: dict[bytes, Exchange] = {}
        self._kept: deque[bytes] = deque()
        """Messages for a GET that is not open."""
        self._on_queued = on_queued

    @property
    def idle(self) -> bool:
        """Whether it has no open request."""
        return not self._exchanges and self.stream is None

    def begin(self, incoming: Incoming) -> Exchange:
        """Opens a request. Raises `Refused` if a request with this id is open."""
        exchange = Exchange(self, incoming)
        if exchange.id in self._exchanges:
            raise Refused(400, "a request with this id is not answered yet", id=exchange.id)
        self._exchanges[exchange.id] = exchange
        return exchange

    def forget(self, exchange: Exchange) -> None:
        """The client has the answer, or has left."""
        if self._exchanges.get(exchange.id) is exchange:
            del self._exchanges[exchange.id]
        exchange.drop()

    def listen(self) -> Outlet:
        """Opens the GET's stream. Raises `Refused` if there is a stream already."""
        if self.stream is not None:
            raise Refused(409, "this session has a stream already")
        self.stream = Outlet(self)
        while self._kept:
            frame = self._kept.popleft()
            self.queued(-len(frame))
            self.stream.put(frame)
        return self.stream

    def leave(self) -> None:
        """Ends the GET's stream."""
        if self.stream is not None:
            self.stream.drop()
            self.stream = None

    def send(self, frame: bytes, related: bytes | None) -> None:
        """Queues a frame for the POST that it answers or belongs to, else for the GET."""
        message = _head(frame)
        if message.method is UNSET:
            id_ = None if message.id is UNSET else jsonrpc.canonical_id(bytes(message.id))
            exchange = self._exchanges.pop(id_ or b"null", None)
            if exchange is not None:
                exchange.put(frame)
                exchange.end()
            return  # otherwise the client has left the POST
        outlet = self._related(message, related) or self.stream
        if outlet is not None:
            outlet.put(frame)
            return
        self._kept.append(frame)
        self.queued(len(frame))
        if len(self._kept) > limits.UNHEARD:
            self.queued(-len(self._kept.popleft()))

    def end_request(self, id_: bytes) -> None:
        """A request gets no answer."""
        exchange = self._exchanges.pop(jsonrpc.canonical_id(id_) or id_, None)
        if exchange is not None:
            exchange.end()

    def end(self, answer: Callable[[bytes], bytes]) -> None:
        """Ends everything. `answer` makes the answer to an open request from its id."""
        while self._exchanges:
            id_, exchange = self._exchanges.popitem()
            exchange.put(answer(id_))
            exchange.end()
        self.leave()
        while self._kept:
            self.queued(-len(self._kept.popleft()))
        self.go.set()

    def queued(self, size: int) -> None:
        """The queue has grown by so many bytes, or (below 0) shrunk."""
        self.unsent += size
        self._on_queued(size)

    def _related(self, message: _Outgoing, related: bytes | None) -> Exchange | None:
        """The open request that a message belongs to, as far as anyone can know."""
        if related is not None:
            exchange = self._exchanges.get(jsonrpc.canonical_id(related) or related)
            if exchange is not None:
                return exchange
        if message.method == PROGRESS and message.params is not UNSET:
            token = json.read(message.params).get("progressToken")
            key = jsonrpc.canonical_id(token) if token is not None else None
            for exchange in self._exchanges.values():
                if key is not None and exchange.token == key:
                    return exchange
        if len(self._exchanges) == 1:
            return next(iter(self._exchanges.values()))
        return None
