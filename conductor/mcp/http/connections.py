"""One HTTP connection: the bounds that uvicorn, which reads and writes it, does not have.

uvicorn waits for ever for the rest of a request once its first byte is there, takes whatever comes
in one piece, and serves as many connections as there are descriptors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Protocol, cast

import h11

HEAD_SECONDS: Final = 10.0
"""Seconds for the head of a request: from the connection, or from its first byte."""

BODY_SECONDS: Final = 30.0
"""Seconds for the body of a request."""

_PIECE: Final = 16 * 1024
"""Bytes taken in one turn of the event loop; so what a sender makes of them costs little."""

_LATE: Final = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"

_PATIENCE: Final[dict[Any, Callable[[], float]]] = {
    h11.IDLE: lambda: HEAD_SECONDS,
    h11.SEND_BODY: lambda: BODY_SECONDS,
}
"""How long a client may leave a request in a state."""


class Crowd(Protocol):
    """What a connection belongs to."""

    def admit(self, connection: Connection) -> bool:
        """A connection has shown a secret; whether there is room for it."""

    def leave(self, connection: Connection) -> None:
        """It is gone."""


class Connection(asyncio.BufferedProtocol):
    """Stands between a socket and uvicorn's protocol."""

    def __init__(self, crowd: Crowd, http: Callable[[dict[str, Any]], Any]) -> None:
        """`http` makes uvicorn's protocol from what each of its requests carries as its state."""
        self._crowd = crowd
        self._http = http({"connection": self})
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray(_PIECE)
        self._transport: asyncio.Transport | None = None
        self._state: Any = None
        self._timer: asyncio.TimerHandle | None = None
        self._gone = False

    @property
    def idle(self) -> bool:
        """Whether no request of it is being answered."""
        cycle = self._http.cycle
        return cycle is None or bool(cycle.response_complete)

    def admit(self) -> bool:
        """Its client has shown a secret; whether there is room for it."""
        return self._crowd.admit(self)

    def answered(self) -> None:
        """A request has been answered; the next may be here already."""
        self._watch()

    def turn_away(self) -> None:
        """Ends the connection now."""
        self._gone = True
        if self._transport is not None:
            self._transport.abort()

    # -- the event loop's ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It begins."""
        self._transport = cast(asyncio.Transport, transport)
        self._http.connection_made(transport)
        self._watch()
        if self._gone:  # turned away before there was a transport
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> bytearray:
        """Where the next piece goes."""
        del sizehint
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """A piece has come."""
        self._http.data_received(bytes(memoryview(self._buffer)[:nbytes]))
        self._watch()

    def eof_received(self) -> None:
        """Nothing more comes; what is asked is answered nevertheless."""
        self._http.eof_received()

    def pause_writing(self) -> None:
        """The client does not read."""
        self._http.pause_writing()

    def resume_writing(self) -> None:
        """It does again."""
        self._http.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._gone = True
        self._wait_for(None)
        self._crowd.leave(self)
        self._http.connection_lost(exc)

    # -- deadlines -----------------------------------------------------------------------------

    def _watch(self) -> None:
        """Looks what of a request there is, and waits so long for the rest."""
        held: h11.Connection = self._http.conn
        state: Any = held.their_state
        if state is h11.IDLE and self._http.cycle is not None and not held.trailing_data[0]:
            state = None  # it has been answered: uvicorn waits for the next request
        if state is not self._state:
            self._wait_for(state)

    def _wait_for(self, state: Any) -> None:
        self._state = state
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if state in _PATIENCE and not self._gone:
            self._timer = self._loop.call_later(_PATIENCE[state](), self._late)

    def _late(self) -> None:
        transport, cycle = self._transport, self._http.cycle
        assert transport is not None
        unanswered = cycle is None or not cycle.response_started or cycle.response_complete
        if unanswered and (self._state is h11.SEND_BODY or self._http.conn.trailing_data[0]):
            transport.write(_LATE)
        transport.close()
