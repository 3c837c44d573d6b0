"""uvicorn's reader and writer of HTTP on a socket that is ours, in the event loop that runs.

Not uvicorn's `Server`: that takes over signals and wakes up ten times a second.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Final

from uvicorn.config import Config
from uvicorn.server import ServerState

from conductor.mcp.http.connections import Connection
from conductor.transports.entrance import Entrance

MOST_CONNECTIONS: Final = 256
"""Connections of clients that have shown a secret. For one more, the one that has been idle longest
is closed; if none is idle, the new one is refused."""

MOST_HEAD: Final = 16 * 1024
"""Bytes of the head of a request that is not complete."""

_KEEP_ALIVE: Final = 75
"""Seconds an idle connection stays open, for a client that may come back."""

_ENDING: Final = 2.0
"""Seconds responses have to be written when the server ends."""

App = Callable[..., Awaitable[None]]


class Loopback:
    """Serves an ASGI application on a listening socket, which it owns."""

    def __init__(self, app: App, listening: socket.socket, complain: Callable[[str], None]) -> None:
        self.port: int = listening.getsockname()[1]
        self._state = ServerState()
        self._known: dict[Connection, None] = {}
        """Connections that have shown a secret; that which asked last comes last."""
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
            timeout_keep_alive=_KEEP_ALIVE,
            h11_max_incomplete_event_size=MOST_HEAD,
        )
        config.load()
        protocol: Any = config.http_protocol_class
        self._http: Callable[[dict[str, Any]], Any] = lambda state: protocol(
            config=config, server_state=self._state, app_state=state
        )
        self._entrance = Entrance(listening, self._greet, complain, self._close_idle)

    def admit(self, connection: Connection) -> bool:
        """A connection has shown a secret; whether there is room for it."""
        new = connection not in self._known
        if new and len(self._known) >= MOST_CONNECTIONS and not self._close_idle():
            return False
        self._entrance.leave(connection)
        self._known.pop(connection, None)
        self._known[connection] = None
        return True

    def leave(self, connection: Connection) -> None:
        """It is gone."""
        self._entrance.leave(connection)
        self._known.pop(connection, None)

    def _greet(self, accepted: socket.socket) -> Connection:
        connection = Connection(self, self._http)
        loop = asyncio.get_running_loop()
        opening: asyncio.Task[object] = loop.create_task(self._open(connection, accepted))
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)
        return connection

    async def _open(self, connection: Connection, accepted: socket.socket) -> None:
        try:
            loop = asyncio.get_running_loop()
            await loop.connect_accepted_socket(lambda: connection, accepted)
        except OSError:  # it has left, or there is no descriptor for it
            accepted.close()
            self.leave(connection)

    def _close_idle(self) -> bool:
        """Closes the connection that has been idle longest; whether there was one."""
        idle = next((one for one in self._known if one.idle), None)
        if idle is None:
            return False
        del self._known[idle]
        idle.turn_away()
        return True

    async def aclose(self) -> None:
        """Accepts nothing more, lets responses that are being written end, and closes all."""
        self._entrance.close()
        for opening in self._opening:
            opening.cancel()
        for connection in list(self._state.connections):
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(list(self._state.tasks), timeout=_ENDING)
        for task in list(self._state.tasks):
            task.cancel()
        for connection in list(self._state.connections):
            transport = connection.transport
            if transport is not None:
                transport.abort()
