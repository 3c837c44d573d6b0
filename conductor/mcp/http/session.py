"""What is open between the HTTP shell and one MCP client: its requests, and what it is sent.

Session     one connection: a legacy session, or a single POST without one
Outlet      what waits to leave on one response stream
Exchange    the outlet of a POST that is to be answered
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from conductor.core import jsonrpc
from conductor.mcp.http.requests import Incoming, Refused

MOST_UNSENT: Final = 256 * 1024 * 1024
"""Unsent bytes, of all clients together, at which the one that has read least is given up."""

_MOST_KEPT: Final = 1000
"""Messages kept for a client that listens nowhere; then the oldest are dropped."""


class _Token(msgspec.Struct):
    token: Raw | UnsetType = msgspec.field(default=UNSET, name="progressToken")


class _Outgoing(msgspec.Struct):
    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET


class _Failure(msgspec.Struct):
    code: int = 0


class _Answer(msgspec.Struct):
    error: _Failure | UnsetType = UNSET


_outgoing = msgspec.json.Decoder(_Outgoing)
_token = msgspec.json.Decoder(_Token)
_answer = msgspec.json.Decoder(_Answer)


def _head(frame: bytes) -> _Outgoing:
    try:
        return _outgoing.decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError):
        found = jsonrpc.parse(frame)  # takes lone surrogates too
        assert isinstance(found, jsonrpc.Message)
        return _Outgoing(found.id, found.method, found.params)


def error_code(frame: bytes) -> int | None:
    """The code of an answer that is an error; None for a result."""
    try:
        found = _answer.decode(frame).error
    except msgspec.DecodeError:
        return None
    return None if found is UNSET else found.code


class Outlet:
    """Frames that wait to leave on one response stream, and who writes them waits for."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._frames: deque[bytes] = deque()
        self._wake = asyncio.Event()
        self.ended = False
        """Nothing more will be put in."""

    def put(self, frame: bytes) -> None:
        """Queues a frame."""
        self._frames.append(frame)
        self._session.queued(len(frame))
        self._wake.set()

    def end(self) -> None:
        """Nothing more comes."""
        self.ended = True
        self._wake.set()

    def drop(self) -> None:
        """Nobody will take what is left."""
        while self._frames:
            self._session.queued(-len(self._frames.popleft()))
        self.end()

    async def take(self, patience: float) -> bytes | None:
        """The next frame; empty when there was none within `patience` seconds, None at the end."""
        if not self._frames and not self.ended:
            self._wake.clear()
            try:
                async with asyncio.timeout(patience):
                    await self._wake.wait()
            except TimeoutError:
                return b""
        if not self._frames:
            return None
        frame = self._frames.popleft()
        self._session.queued(-len(frame))
        return frame

    @property
    def last(self) -> bool:
        """Whether what was taken was the last."""
        return self.ended and not self._frames


class Exchange(Outlet):
    """A POST that is to be answered: what belongs to it, and at last the answer."""

    def __init__(self, session: Session, incoming: Incoming) -> None:
        super().__init__(session)
        self.id = incoming.id or b"null"
        self.token = incoming.token


class Session:
    """One connection of an MCP client.

    `name`: what it is called towards the bridge. `key`: its `Mcp-Session-Id`; empty for a POST
    that stands for itself. `on_queued` is called with how many bytes more, or less, wait to leave.
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
        """Set unless its owner wants nothing more from the client for the moment."""
        self.go.set()
        self.stream: Outlet | None = None
        """Where it listens for what belongs to no request: its GET."""
        self._exchanges: dict[bytes, Exchange] = {}
        self._kept: deque[bytes] = deque()
        self._on_queued = on_queued

    @property
    def idle(self) -> bool:
        """Whether nothing of it is open."""
        return not self._exchanges and self.stream is None

    def begin(self, incoming: Incoming) -> Exchange:
        """Opens a request. Raises `Refused` for an id that is open already."""
        exchange = Exchange(self, incoming)
        if exchange.id in self._exchanges:
            raise Refused(400, "a request with this id is not answered yet", id=exchange.id)
        self._exchanges[exchange.id] = exchange
        return exchange

    def forget(self, exchange: Exchange) -> None:
        """Its client has the answer, or does not want it any more."""
        if self._exchanges.get(exchange.id) is exchange:
            del self._exchanges[exchange.id]
        exchange.drop()

    def listen(self) -> Outlet:
        """Opens the stream of a GET. Raises `Refused` where there is one already."""
        if self.stream is not None:
            raise Refused(409, "this session has a stream already")
        self.stream = Outlet(self)
        while self._kept:
            frame = self._kept.popleft()
            self.queued(-len(frame))
            self.stream.put(frame)
        return self.stream

    def leave(self) -> None:
        """Nobody reads the stream of the GET any more."""
        if self.stream is not None:
            self.stream.drop()
            self.stream = None

    def send(self, frame: bytes, related: bytes | None) -> None:
        """Puts a frame where it belongs: the POST it answers or concerns, else the GET."""
        said = _head(frame)
        if said.method is UNSET:
            number = None if said.id is UNSET else jsonrpc.canonical_id(bytes(said.id))
            exchange = self._exchanges.pop(number or b"null", None)
            if exchange is not None:
                exchange.put(frame)
                exchange.end()
            return  # otherwise whoever asked has gone
        outlet = self._concerned(said, related) or self.stream
        if outlet is not None:
            outlet.put(frame)
            return
        self._kept.append(frame)
        self.queued(len(frame))
        if len(self._kept) > _MOST_KEPT:
            self.queued(-len(self._kept.popleft()))

    def finish(self, number: bytes) -> None:
        """A request gets no answer."""
        exchange = self._exchanges.pop(jsonrpc.canonical_id(number) or number, None)
        if exchange is not None:
            exchange.end()

    def end(self, answer: Callable[[bytes], bytes]) -> None:
        """Everything ends; `answer` makes what open requests get, from their ids."""
        while self._exchanges:
            number, exchange = self._exchanges.popitem()
            exchange.put(answer(number))
            exchange.end()
        self.leave()
        while self._kept:
            self.queued(-len(self._kept.popleft()))
        self.go.set()

    def queued(self, size: int) -> None:
        """So many bytes more, or less, wait to leave."""
        self.unsent += size
        self._on_queued(size)

    def _concerned(self, said: _Outgoing, related: bytes | None) -> Exchange | None:
        """The open request that a message of the server's concerns, as far as can be known."""
        if related is not None:
            found = self._exchanges.get(jsonrpc.canonical_id(related) or related)
            if found is not None:
                return found
        if said.method == "notifications/progress" and said.params is not UNSET:
            try:
                held = _token.decode(said.params).token
            except msgspec.DecodeError:
                held = UNSET
            token = None if held is UNSET else jsonrpc.canonical_id(bytes(held))
            for exchange in self._exchanges.values():
                if token is not None and exchange.token == token:
                    return exchange
        if len(self._exchanges) == 1:
            return next(iter(self._exchanges.values()))
        return None
