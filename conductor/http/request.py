"""One request of a client, and the answer to it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import parse_qsl, unquote

import msgspec

from conductor.core import json_text
from conductor.http import limits

if TYPE_CHECKING:
    from conductor.http.connection import Connection
    from conductor.http.parser import Head
    from conductor.http.websocket import WebSocket

Handler: TypeAlias = "Callable[[Request], Awaitable[None]]"
"""Answers a request. It is cancelled when the client leaves."""


CLOSE: Final = (("connection", "close"),)
"""The header of an answer behind which the connection ends."""


class Refused(Exception):  # noqa: N818 - it is an answer
    """A request is refused; the server answers with this status and text."""

    def __init__(
        self, status: int, text: str = "", headers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.headers = headers


class Response(msgspec.Struct, frozen=True):
    """An answer in one piece."""

    body: bytes = b""
    status: int = 200
    kind: str = "application/json"
    """The media type of the body; a response without a body has none."""
    headers: tuple[tuple[str, str], ...] = ()


def plain(status: int, text: str, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    """An answer that is a text."""
    return Response(json_text.utf8(text), status, "text/plain; charset=utf-8", headers)


class Request:
    """A request.

    Attributes:
        connection: The connection that it has come on.
        method: As the client wrote it.
        path: Without percent codes, and without the query.
        query: The members of the query; the last one of a repeated member.
        headers: Its headers.
        port: Where the server listens.
        parts: The parts of the path that its route names.
        more: Headers that every answer gets, unless the answer has them already.
        came: Bytes of its body that have come.
        is_begun: Whether an answer has been begun.
        is_ended: Whether an answer is whole.
    """

    def __init__(self, connection: Connection, head: Head, port: int) -> None:
        target, _, query = head.target.partition("?")
        self.method = head.method
        # An encoded slash ends no part of a path: a server in front may not read it as one.
        self.path = unquote(target.replace("%2f", "%252F").replace("%2F", "%252F"))
        self.query: dict[str, str] = {}
        if query:
            self.query.update(parse_qsl(query, keep_blank_values=True))
        self.headers = head.headers
        self.port = port
        self.parts: Mapping[str, str] = {}
        self.more: tuple[tuple[str, str], ...] = ()
        self.came = 0
        self.is_begun = False
        self.is_ended = False
        self.connection = connection
        self._chunks: deque[bytes] = deque()
        self._waiting = 0
        """Bytes in these chunks."""
        self._failure: Exception | None = None
        self._whole = False
        self._changed = asyncio.Event()

    def admit(self) -> bool:
        """The client has shown a secret; False: there is no room for the connection."""
        return self.connection.admit()

    # -- the body ------------------------------------------------------------------------------

    @property
    def is_much(self) -> bool:
        """Whether much of its body has come that nobody has taken."""
        return self._waiting > limits.AHEAD

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes; nothing of it is read before this call. Raises the error that
        `fail` was told."""
        self.connection.take_body()
        while True:
            while self._chunks:
                chunk = self._chunks.popleft()
                self._waiting -= len(chunk)
                self.connection.flow()
                yield chunk
            if self._failure is not None:
                raise self._failure
            if self._whole:
                return
            self._changed.clear()
            await self._changed.wait()

    async def body(self, most: int) -> bytes:
        """The whole body. Raises `Refused` beyond `most` bytes."""
        body = bytearray()
        async for chunk in self.chunks():
            body += chunk
            if len(body) > most:
                raise Refused(413, f"a message has at most {most} bytes")
        return bytes(body)

    # -- the answer ----------------------------------------------------------------------------

    async def respond(self, response: Response) -> None:
        """Answers in one piece."""
        kind = (("content-type", response.kind),) if response.body else ()
        # 204 says already that there is none.
        size = () if response.status == 204 else (("content-length", str(len(response.body))),)
        self.begin(response.status, (*kind, *size, *response.headers))
        await self.send(response.body)
        self.end()

    def begin(self, status: int, headers: Iterable[tuple[str, str]]) -> None:
        """Begins an answer."""
        self.is_begun = True
        given = [*headers]
        if self.more:
            names = {name.lower() for name, _ in given}
            given += [each for each in self.more if each[0].lower() not in names]
        self.connection.write_head(status, given)

    async def send(self, data: bytes) -> None:
        """Sends a part of an answer, and waits while the client does not read."""
        if data and self.method != "HEAD":
            self.connection.write(data)
            await self.connection.drain()

    def upgrade(self, protocols: Sequence[str], most: int) -> WebSocket:
        """The request becomes a WebSocket, whose connection ends when its handler does.

        Args:
            protocols: The subprotocols that are spoken here: the first that the client offers is
                agreed on.
            most: Bytes of the longest message that is taken.

        Raises:
            Refused: The client does not ask for a WebSocket as it should.
        """
        from conductor.http.websocket import WebSocket, handshake

        protocol, headers = handshake(self.headers, protocols)
        socket = WebSocket(self.connection, most, protocol)
        self.is_begun = True
        self.connection.upgrade([*headers, *self.more], socket)
        return socket

    def end(self) -> None:
        """The answer is whole."""
        self.is_ended = True
        self.connection.write_end()

    # -- for its connection --------------------------------------------------------------------

    def arrived(self, data: bytes) -> None:
        """A part of its body has come; nobody takes the body of a request that is answered."""
        self.came += len(data)
        if not self.is_ended:
            self._chunks.append(data)
            self._waiting += len(data)
            self._changed.set()

    def fail(self, why: Exception) -> None:
        """Nothing more of its body is read: who takes it gets an error."""
        self._failure = why
        self._changed.set()

    def arrived_whole(self) -> None:
        """The body is whole."""
        self._whole = True
        self._changed.set()
