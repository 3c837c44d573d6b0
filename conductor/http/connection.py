"""One network connection over HTTP/1.1: a parser reads requests, deadlines end it.

Input is looked at in turns, a few events of a principal in each turn of the event loop: a body
may come in chunks of one byte. The body of a stranger is read once a handler takes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from conductor.http import limits
from conductor.http.headers import BODY, date_of, head_of
from conductor.http.parser import Head, Parser, Part
from conductor.http.request import CLOSE, Refused, Request
from conductor.transports.deadline import Deadline

if TYPE_CHECKING:
    from conductor.http.server import HttpServer
    from conductor.http.websocket import WebSocket

PIECE: Final = 64 * 1024
"""The most bytes taken in one turn of the event loop, so that one sender cannot occupy it."""
_STRANGERS: Final = 16 * 1024
"""The most bytes of a stranger taken in one turn."""
_CHUNKED: Final = ("transfer-encoding", "chunked")
_EMPTY: Final = ("content-length", "0")

_LINGERS: Final = "the rest of a body that nobody takes"
_IDLE: Final = "between two requests"
_LEAVES: Final = "what was written last"

_SECONDS: Final[dict[Any, Callable[[limits.Patience], float]]] = {
    Part.HEAD: lambda patience: patience.head,
    Part.BODY: lambda patience: patience.body,
    _LINGERS: lambda patience: patience.linger,
    _IDLE: lambda patience: patience.idle,
    _LEAVES: lambda patience: patience.leave,
}
"""How long a connection may be in each state; in any other, as long as its answer takes."""


class Connection(asyncio.BufferedProtocol):
    """One connection, of which one request is answered at a time.

    Attributes:
        principal: The principal in whose turn the input is looked at; empty: a stranger.
        heard: How often bytes have come.
        is_full: Whether much waits to be sent.
        raw: The socket while TLS is agreed on; None from then on.
    """

    def __init__(self, home: HttpServer) -> None:
        self.principal = ""
        self.heard = 0
        self.is_full = False
        self.raw: socket.socket | None = None
        self._home = home
        self._loop = asyncio.get_running_loop()
        self._http = Parser()
        self._transport: asyncio.Transport | None = None
        self._request: Request | None = None
        """The request that is being answered."""
        self._task: asyncio.Task[None] | None = None
        """The task that answers the request."""
        self._is_taken = False
        """Whether somebody takes its body."""
        self._thrown = 0
        """Bytes of its body that nobody takes."""
        self._said: tuple[object, ...] = ()
        self._head = b""
        """The head of the answer before, but for its date and its end."""
        self._is_chunked = False
        """Whether the parts of the answer are chunks."""
        self._keeps = False
        """Whether the connection goes on behind the answer."""
        self._socket: WebSocket | None = None
        """The WebSocket that the connection has become."""
        self._has_served = False
        self._is_ending = False
        self._has_no_turn = False
        self._waits = False
        """Whether nothing is read."""
        self._roomy = asyncio.Event()
        self._roomy.set()
        self._state: Any = None
        self._since = 0.0
        self._deadline = Deadline(self._expired)

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self._request is None

    @property
    def lacks_body(self) -> bool:
        """Whether a part of the body of its request is missing."""
        return self._http.part is Part.BODY

    @property
    def is_open(self) -> bool:
        """Whether something can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    def admit(self) -> bool:
        """The client has shown a secret; False: there is no room for the connection."""
        if not self._home.admit(self):
            return False
        self.principal = "known"
        return True

    def turn_away(self) -> None:
        """Ends it now."""
        self._is_ending = True
        if self._transport is not None:
            self._transport.abort()
        elif self.raw is not None:
            with contextlib.suppress(OSError):
                self.raw.shutdown(socket.SHUT_RDWR)

    def finish(self) -> None:
        """Ends the connection, once its open request is answered and all output has left."""
        self._is_ending = True
        if self._request is None:
            self._close()

    def _close(self) -> None:
        """Ends the connection, once all output has left, or after a moment."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()
            self._wait_in(_LEAVES)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Starts a task of its own, which its server awaits."""
        return self._home.start(work)

    # -- for the event loop --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self.raw = cast(asyncio.Transport, transport), None
        self._set_deadline()
        if self._is_ending:  # turned away before there was a transport
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._home.buffer if self.principal else self._home.buffer[:_STRANGERS]

    def buffer_updated(self, nbytes: int) -> None:
        data = bytes(self._home.buffer[:nbytes])
        self.heard += 1
        if self._state is _LINGERS:
            self._thrown += nbytes
            if self._thrown > limits.LINGER_BYTES:
                self.turn_away()
            if not self.principal:
                return
        if self._socket is not None:
            self._socket.came(data)
        else:
            self._http.unread += data
        self._look()

    def eof_received(self) -> None:
        # A client that closes its direction alone looks like a client that has left.
        return None

    def pause_writing(self) -> None:
        self.is_full = True
        self._roomy.clear()

    def resume_writing(self) -> None:
        self.is_full = False
        self._roomy.set()
        if self._socket is not None:
            self._socket.roomy()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_ending = True
        self._transport = None
        self._deadline.stop()
        self._home.leave(self)
        if self._socket is not None:
            self._socket.lost()
        self.resume_writing()
        if self._task is not None and self._socket is None:
            self._task.cancel()

    # -- input ---------------------------------------------------------------------------------

    @property
    def held(self) -> int:
        """Bytes that have come and that nobody has taken: unread bytes, and the body of a request
        that is being answered."""
        if self._socket is not None:
            return self._socket.held
        body = 0 if self._request is None else self._request.came
        return body + len(self._http.unread)

    def looked(self) -> None:
        """All was looked at, as far as it was the turn of its principal."""

    def _look(self) -> None:
        """Looks at the input, as far as it is the turn of its principal."""
        look = self._look_at_http if self._socket is None else self._socket.look
        while not self._has_no_turn:
            if not self._has_turn():
                self._has_no_turn = True
                self._home.turns.later(self.principal, self._look_on)
            elif not look():
                break
        self.looked()
        self.flow()
        if self._socket is None:
            self._set_deadline()

    def _look_on(self) -> None:
        self._has_no_turn = False
        self._look()

    def _has_turn(self) -> bool:
        # A head waits for nobody's turn: to show a secret costs little.
        is_head = self._socket is None and self._http.part is Part.HEAD
        return is_head or self._home.turns.may(self.principal)

    def _look_at_http(self) -> bool:
        """Takes a part of a request; whether there may be more."""
        http = self._http
        if not self.is_open or not http.unread:
            return False
        try:
            if http.part is Part.HEAD:
                head = http.head()
                if head is None:
                    return False
                self._begin(head)
            elif http.part is Part.BODY and (self._is_taken or self.principal):
                data = http.body()
                if self._request is not None:
                    self._request.arrived(data)
            else:
                return False
        except Refused as why:
            self._refuse(why.status)
            return False
        if self._http.part is Part.NONE:
            if self._request is not None:
                self._request.arrived_whole()
                return False
            self._go_on()
        return True

    def _begin(self, head: Head) -> None:
        self._has_served = True
        # The end of a request without a body is nothing to take.
        self._is_taken = BODY.isdisjoint(head.headers)
        self._request = request = Request(self, head, self._home.port)
        self._task = self._home.serve(self, request)

    def _refuse(self, status: int) -> None:
        """The client does not speak HTTP."""
        is_asked = self._request is not None and not self._request.is_begun
        if is_asked or self._http.part is Part.HEAD:
            self.write_head(status, [_EMPTY, *CLOSE])
        self._close()

    def take_body(self) -> None:
        """Somebody takes the body of the request."""
        if self._http.waits:
            self._http.waits = False
            self.write_raw(head_of(100, ()))
        self._is_taken = True
        if self.lacks_body:
            self._look()

    def flow(self) -> None:
        """Reads on, or waits."""
        waits = self._has_no_turn or self._must_wait()
        if waits is self._waits or self._transport is None or self._transport.is_closing():
            return
        self._waits = waits
        if waits:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _must_wait(self) -> bool:
        """Whether nobody takes further input now."""
        if self._socket is not None:
            return self._socket.is_much
        if self._http.part is Part.HEAD:
            return False
        if self._http.part is Part.NONE:
            return bool(self._http.unread)
        if self._request is None:
            return False
        return self._request.is_much or not (self._is_taken or self.principal)

    # -- output --------------------------------------------------------------------------------

    def write_head(self, status: int, headers: Sequence[tuple[str, str]]) -> None:
        """Writes the head of an answer. Most heads are like the one before."""
        is_whole = status == 204 or (self._request is not None and self._request.method == "HEAD")
        said = status, (*headers,), self._http.keeps, self._http.is_new, is_whole
        if said != self._said:
            self._said = said
            names = {name.lower(): value for name, value in headers}
            is_whole = is_whole or "content-length" in names
            self._is_chunked = self._http.is_new and not is_whole
            self._keeps = self._http.keeps and names.get("connection") != "close"
            more = [_CHUNKED] if self._is_chunked else []
            if not self._keeps and "connection" not in names:
                more += CLOSE
            self._head = head_of(status, (*headers, *more)).removesuffix(b"\r\n")
        self._http.keeps = self._keeps
        self._http.waits = False  # a word in the middle of an answer would be a part of it
        self.write_raw(b"%b%b\r\n" % (self._head, date_of(int(time.time()))))

    def write(self, data: bytes) -> None:
        """Writes a part of an answer."""
        self.write_raw(b"%x\r\n%b\r\n" % (len(data), data) if self._is_chunked else data)

    def write_end(self) -> None:
        """An answer is whole."""
        if self._is_chunked:
            self.write_raw(b"0\r\n\r\n")

    async def drain(self) -> None:
        """Returns once the client has read nearly all."""
        if self.is_full:
            await self._roomy.wait()

    def write_raw(self, data: bytes) -> None:
        """Writes bytes."""
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def upgrade(self, headers: Sequence[tuple[str, str]], socket: WebSocket) -> None:
        """The connection becomes a WebSocket."""
        self.write_raw(head_of(101, headers))
        self._socket = socket
        socket.came(self._http.unread)

    def look_soon(self) -> None:
        """A handler takes the messages of the WebSocket."""
        self._loop.call_soon(self._look)

    def answered(self) -> None:
        """The handler of the request has ended; the next request may be here already."""
        request, self._request, self._task = self._request, None, None
        if request is None or not self.is_open:
            return
        assert self._transport is not None
        if self._socket is not None:
            self._close()
            return
        if not request.is_begun:
            self.write_head(500, [_EMPTY, *CLOSE])
            self.write_end()
        elif not request.is_ended:
            self._transport.abort()  # so that its client sees that the answer is not whole
            return
        if self._http.part is not Part.BODY:
            self._go_on()
        # Of a stranger nothing more is looked at.
        self._is_taken, self._thrown = False, 0
        self._look()

    def _go_on(self) -> None:
        """Goes on with the next request, once the request before is whole."""
        if self._is_ending or not self._http.keeps:
            self._close()
        else:
            self._http.part = Part.HEAD

    # -- deadlines -----------------------------------------------------------------------------

    def _set_deadline(self) -> None:
        """Bounds the time for the part of a request that is missing."""
        if not self.is_open:
            return
        state: Any = self._http.part
        if state is Part.BODY and self._request is None:
            state = _LINGERS
        elif state is Part.HEAD and self._has_served and not self._http.unread:
            state = _IDLE
        if state is not self._state:
            self._wait_in(state)

    def _wait_in(self, state: Any) -> None:
        self._state = state
        seconds = _SECONDS.get(state)
        if seconds is None:
            self._deadline.set(None)
        else:
            self._since = self._loop.time()
            self._deadline.set(self._since + seconds(self._home.patience))

    def _expired(self) -> None:
        if self._state is _LEAVES:
            self.turn_away()
            return
        request, is_body = self._request, self._state is Part.BODY
        if is_body and request is not None:
            more = self._since + self._home.patience.body + request.came / limits.RATE
            if more > self._loop.time():
                self._deadline.set(more)
            else:
                request.fail(Refused(408, "the body of the request needs too long", CLOSE))
            return
        if self._state is Part.HEAD and self._http.unread:
            self.write_head(408, [_EMPTY, *CLOSE])
        self._close()
