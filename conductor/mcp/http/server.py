"""uvicorn's reader and writer of HTTP, on our socket and in the running event loop.

Not uvicorn's `Server`, which takes over signals and wakes up ten times a second. And with bounds
that uvicorn does not have: it waits for ever for the rest of a request whose first byte is there,
takes any amount of bytes at once, and serves as many connections as there are descriptors.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

import h11
from uvicorn.config import Config
from uvicorn.server import ServerState

from conductor.mcp import limits
from conductor.transports.entrance import Entrance

_PIECE: Final = 16 * 1024
"""Bytes taken in one turn of the event loop, so that one sender cannot occupy it."""

_HEAD: Final = 1024
"""Bytes of a stranger that are looked at in one go, since a chunk of a body may have one byte."""

_TIMEOUT: Final = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"

_DEADLINES: Final[dict[Any, Callable[[], float]]] = {
    h11.IDLE: lambda: limits.HEAD_SECONDS,
    h11.SEND_BODY: lambda: limits.BODY_SECONDS,
}
"""How long a client may leave a request in a state."""

App = Callable[..., Awaitable[None]]


class HttpServer:
    """Serves an ASGI application on a listening socket, which it owns."""

    def __init__(self, app: App, listening: socket.socket, complain: Callable[[str], None]) -> None:
        self.port: int = listening.getsockname()[1]
        self._state = ServerState()
        self._admitted: dict[Connection, None] = {}
        """Connections that have shown a secret; the one with the latest request is the last."""
        self._opening: set[asyncio.Task[object]] = set()
        config = Config(
            app,
            log_config=None,
            log_level="critical",
            access_log=False,
            lifespan="off",
            interface="asgi3",
            ws="none",
            http="h11",
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=limits.KEEP_ALIVE_SECONDS,
            h11_max_incomplete_event_size=limits.HEAD_BYTES,
        )
        config.load()
        protocol: Any = config.http_protocol_class
        self._protocol: Callable[[dict[str, Any]], Any] = lambda state: protocol(
            config=config, server_state=self._state, app_state=state
        )
        self._entrance = Entrance(listening, self._accepted, complain, self._close_idle)

    def admit(self, connection: Connection) -> bool:
        """A connection has shown a secret; False if there is no room for it."""
        new = connection not in self._admitted
        if new and len(self._admitted) >= limits.HTTP_CONNECTIONS and not self._close_idle():
            return False
        self._entrance.leave(connection)
        self._admitted.pop(connection, None)
        self._admitted[connection] = None
        return True

    def leave(self, connection: Connection) -> None:
        """A connection has ended."""
        self._entrance.leave(connection)
        self._admitted.pop(connection, None)

    def _accepted(self, accepted: socket.socket) -> Connection:
        connection = Connection(self, self._protocol)
        loop = asyncio.get_running_loop()
        opening: asyncio.Task[object] = loop.create_task(self._open(connection, accepted))
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)
        return connection

    async def _open(self, connection: Connection, accepted: socket.socket) -> None:
        try:
            loop = asyncio.get_running_loop()
            await loop.connect_accepted_socket(lambda: connection, accepted)
        except OSError:  # the client has left, or there is no descriptor for it
            accepted.close()
            self.leave(connection)

    def _close_idle(self) -> bool:
        """Closes the connection that has been idle longest; False if none is idle."""
        idle = next((connection for connection in self._admitted if connection.idle), None)
        if idle is None:
            return False
        del self._admitted[idle]
        idle.turn_away()
        return True

    async def aclose(self) -> None:
        """Stops listening, lets responses end for a moment, and closes all connections."""
        self._entrance.close()
        for opening in self._opening:
            opening.cancel()
        for connection in list(self._state.connections):
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(list(self._state.tasks), timeout=limits.SHUTDOWN_SECONDS)
        for task in list(self._state.tasks):
            task.cancel()
        for connection in list(self._state.connections):
            if connection.transport is not None:
                connection.transport.abort()


class Connection(asyncio.BufferedProtocol):
    """One HTTP connection: stands between its socket and uvicorn's protocol, and sets deadlines."""

    def __init__(self, server: HttpServer, protocol: Callable[[dict[str, Any]], Any]) -> None:
        """`protocol` makes uvicorn's protocol from the state that each request's scope carries."""
        self._server = server
        self._protocol = protocol({"connection": self})
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray(_PIECE)
        self._transport: asyncio.Transport | None = None
        self._state: Any = None
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._admitted = False
        self._held = b""
        """The beginning of a stranger's body: nobody looks at it before the secret is shown."""

    @property
    def idle(self) -> bool:
        """Whether it has no request in flight."""
        cycle = self._protocol.cycle
        return cycle is None or bool(cycle.response_complete)

    def admit(self) -> bool:
        """Its client has shown a secret; False if there is no room for it."""
        if not self._server.admit(self):
            return False
        self._admitted = True
        if self._held:
            self._loop.call_soon(self._go_on)
        return True

    def answered(self) -> None:
        """A request has its response; the next request may be here already."""
        if self._reads_no_body and self._transport is not None:
            self._transport.close()
        self._set_deadline()

    def turn_away(self) -> None:
        """Closes the connection now."""
        self._closed = True
        if self._transport is not None:
            self._transport.abort()

    # -- for the event loop ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._protocol.connection_made(transport)
        self._set_deadline()
        if self._closed:  # turned away before there was a transport
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._feed(bytes(memoryview(self._buffer)[:nbytes]))

    @property
    def _reads_no_body(self) -> bool:
        """Whether the body of a stranger comes."""
        return not self._admitted and self._protocol.conn.their_state is h11.SEND_BODY

    def _feed(self, data: bytes) -> None:
        """Looks at what has come."""
        while data and not self._reads_no_body:
            size = len(data) if self._admitted else _HEAD
            self._protocol.data_received(data[:size])
            data = data[size:]
        if data and self._transport is not None:
            self._held += data
            self._transport.pause_reading()
        self._set_deadline()

    def _go_on(self) -> None:
        data, self._held = self._held, b""
        if self._transport is not None and not self._closed:
            self._feed(data)
            self._transport.resume_reading()

    def eof_received(self) -> None:
        # The client has only closed its direction: requests in flight get their responses.
        self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        self._wait_in(None)
        self._server.leave(self)
        self._protocol.connection_lost(exc)

    # -- deadlines -----------------------------------------------------------------------------

    def _set_deadline(self) -> None:
        """Bounds the time for the part of a request that is missing."""
        http: h11.Connection = self._protocol.conn
        state: Any = http.their_state
        if state is h11.IDLE and self._protocol.cycle is not None and not http.trailing_data[0]:
            state = None  # no request has begun: uvicorn bounds the time between two requests
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
        transport, cycle = self._transport, self._protocol.cycle
        assert transport is not None
        unanswered = cycle is None or not cycle.response_started or cycle.response_complete
        # 408 only if a request has begun, and no response is being written.
        if unanswered and (self._state is h11.SEND_BODY or self._protocol.conn.trailing_data[0]):
            transport.write(_TIMEOUT)
        transport.close()
