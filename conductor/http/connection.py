"""One network connection over HTTP/1.1: h11 reads and writes, deadlines end it.

A stranger, who has not shown a secret, gets no body read: nobody looks at more than a head of
theirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

import h11

from conductor.http import limits
from conductor.http.request import Request

if TYPE_CHECKING:
    from conductor.http.server import HttpServer

_PIECE: Final = 16 * 1024
"""Bytes taken in one turn of the event loop, so that one sender cannot occupy it."""

_HEAD: Final = 1024
"""Bytes of a stranger that are looked at in one go, since a chunk of a body may have one byte."""

_CLOSE: Final = (b"connection", b"close")
_EMPTY: Final = (b"content-length", b"0")

_BETWEEN: Final = "between two requests"
_DEADLINES: Final[dict[Any, Callable[[], float]]] = {
    h11.IDLE: lambda: limits.HEAD_SECONDS,
    h11.SEND_BODY: lambda: limits.BODY_SECONDS,
    _BETWEEN: lambda: limits.KEEP_ALIVE_SECONDS,
}
"""How long a client may leave a request in a state."""


class Connection(asyncio.BufferedProtocol):
    """One connection, of which one request is answered at a time."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.HEAD_BYTES)
        self._buffer = bytearray(_PIECE)
        self._transport: asyncio.Transport | None = None
        self._request: Request | None = None
        """The request that is being answered."""
        self._has_served = False
        self._admitted = False
        self._closed = False
        self._held = b""
        """The beginning of a stranger's body: nobody looks at it before the secret is shown."""
        self._waits = False
        """Whether nothing is read."""
        self._roomy = asyncio.Event()
        self._roomy.set()
        self._state: Any = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self._request is None

    def admit(self) -> bool:
        """Its client has shown a secret; False if there is no room for it."""
        if not self._server.admit(self):
            return False
        self._admitted = True
        return True

    def turn_away(self) -> None:
        """Closes the connection now."""
        self._closed = True
        if self._transport is not None:
            self._transport.abort()

    def finish(self) -> None:
        """Closes the connection, once the request is answered that it has."""
        self._closed = True
        if self._request is None and self._transport is not None:
            self._transport.close()

    # -- for the event loop --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._set_deadline()
        if self._closed:  # turned away before there was a transport
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._feed(bytes(memoryview(self._buffer)[:nbytes]))

    def eof_received(self) -> None:
        # A client that closes its direction alone looks like a client that has left.
        return None

    def pause_writing(self) -> None:
        self._roomy.clear()

    def resume_writing(self) -> None:
        self._roomy.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        self._transport = None
        self._wait_in(None)
        self._roomy.set()
        self._server.leave(self)
        if self._request is not None:
            self._request.leave()

    # -- what has come -------------------------------------------------------------------------

    @property
    def _reads_no_body(self) -> bool:
        """Whether the body of a stranger comes."""
        return not self._admitted and self._http.their_state is h11.SEND_BODY

    def _feed(self, data: bytes) -> None:
        """Looks at what has come."""
        while data and not self._reads_no_body:
            size = len(data) if self._admitted else _HEAD
            self._http.receive_data(data[:size])
            data = data[size:]
            self._take()
        self._held += data
        self.flow()
        self._set_deadline()

    def _take(self) -> None:
        """Takes all that is there of requests."""
        while self._transport is not None and not self._transport.is_closing():
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                self._refuse(error.error_status_hint)
                return
            if isinstance(event, h11.Request):
                self._begin(event)
            elif isinstance(event, h11.Data) and self._request is not None:
                self._request.arrived(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                if self._request is None:  # its request was answered before its body was whole
                    self._http.start_next_cycle()
                else:
                    self._request.arrived_whole()
            elif event in (h11.NEED_DATA, h11.PAUSED):
                return

    def _begin(self, head: h11.Request) -> None:
        if len(head.headers) > limits.HEADERS:
            self._refuse(431)
            return
        self._has_served = True
        self._request = Request(self, head, self._server.port)
        self._server.serve(self, self._request)

    def _refuse(self, status: int) -> None:
        """The client does not speak HTTP."""
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.write_head(status, [_EMPTY, _CLOSE])
        if self._transport is not None:
            self._transport.close()

    def go_on(self) -> None:
        """Somebody takes the body of its request."""
        if self._http.they_are_waiting_for_100_continue:
            self._send(h11.InformationalResponse(status_code=100, headers=[]))
        self._look_on()

    def _look_on(self) -> None:
        """Looks at what a stranger had sent, who is none any more."""
        data, self._held = self._held, b""
        self._feed(data)

    def flow(self) -> None:
        """Reads on, or waits: for who takes a body, or for the answer to the request before."""
        if self._transport is None or self._transport.is_closing():
            return
        if self._http.their_state in (h11.IDLE, h11.SEND_BODY):
            waits = bool(self._held) or (self._request is not None and self._request.is_much)
        else:
            waits = bool(self._http.trailing_data[0])
        if waits is not self._waits:
            self._waits = waits
            if waits:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    # -- what leaves ---------------------------------------------------------------------------

    def write_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Writes the head of an answer."""
        self._send(h11.Response(status_code=status, headers=headers))

    def write(self, data: bytes) -> None:
        """Writes a part of an answer."""
        self._send(h11.Data(data=data))

    def write_end(self) -> None:
        """An answer is whole."""
        self._send(h11.EndOfMessage())

    async def drain(self) -> None:
        """Returns once the client has read nearly all."""
        await self._roomy.wait()

    def _send(self, event: h11.Event) -> None:
        if self._transport is not None and not self._transport.is_closing():
            data = self._http.send(event)
            if data:
                self._transport.write(data)

    def answered(self) -> None:
        """Nobody answers its request any more; the next one may be here already."""
        request, self._request = self._request, None
        transport, http = self._transport, self._http
        if transport is None or request is None:
            return
        if not request.is_begun:
            self.write_head(500, [_EMPTY, _CLOSE])
            self.write_end()
        elif not request.is_ended:
            transport.abort()  # so that its client sees that the answer is not whole
            return
        if self._closed or self._reads_no_body or http.our_state is not h11.DONE:
            transport.close()
            return
        if http.their_state is h11.DONE:
            http.start_next_cycle()
            self._take()
        self._look_on()

    # -- deadlines -----------------------------------------------------------------------------

    def _set_deadline(self) -> None:
        """Bounds the time for the part of a request that is missing."""
        state: Any = self._http.their_state
        if state is h11.IDLE and self._has_served and not self._http.trailing_data[0]:
            state = _BETWEEN
        if state is not self._state:
            self._wait_in(state)

    def _wait_in(self, state: Any) -> None:
        self._state = state
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if state in _DEADLINES and not self._closed:
            self._timer = self._loop.call_later(_DEADLINES[state](), self._expired)

    def _expired(self) -> None:
        transport, request = self._transport, self._request
        assert transport is not None
        has_begun = self._state is h11.SEND_BODY or bool(self._http.trailing_data[0])
        if has_begun and (request is None or not request.is_begun):
            self.write_head(408, [_EMPTY, _CLOSE])
        transport.close()
