"""A listening socket, the connections that come in at it, and their end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Self

from conductor.errors import place_of
from conductor.http import limits
from conductor.http.connection import PIECE, Connection
from conductor.http.request import Handler, Refused, Request, plain
from conductor.transports.entrance import Entrance
from conductor.transports.turns import Turns

if TYPE_CHECKING:
    from ssl import SSLContext


class HttpServer:
    """Serves a listening socket, which it owns, as long as its block lasts (`async with`).

    Attributes:
        port: Where it listens.
        turns: Says whose connections are looked at next.
        buffer: Input is read into it, and taken from it at once.
    """

    def __init__(
        self,
        handler: Handler,
        listening: socket.socket,
        complain: Callable[[str], None],
        *,
        tls: SSLContext | None = None,
    ) -> None:
        """`complain` logs a sentence."""
        self.port: int = listening.getsockname()[1]
        self.turns = Turns(asyncio.get_running_loop())
        self.buffer = memoryview(bytearray(PIECE))
        self._handler = handler
        self._complain = complain
        self._tls = tls
        self._connections: set[Connection] = set()
        self._admitted: dict[Connection, None] = {}
        """Connections that have shown a secret; the one with the latest request is the last."""
        self._tasks = asyncio.TaskGroup()
        self._listening = listening
        self._entrance: Entrance

    # -- for connections -----------------------------------------------------------------------

    @property
    def patience(self) -> limits.Patience:
        """Seconds that a client has."""
        return limits.PATIENCE

    def made(self) -> Connection:
        """A new connection."""
        return Connection(self)

    def admit(self, connection: Connection) -> bool:
        """A connection has shown a secret; False if there is no room for it."""
        new = connection not in self._admitted
        if new and len(self._admitted) >= limits.CONNECTIONS and not self._close_idle():
            return False
        self.know(connection)
        self._admitted.pop(connection, None)
        self._admitted[connection] = None
        return True

    def know(self, connection: Connection) -> None:
        """A connection is no stranger's any more."""
        self._entrance.leave(connection)

    @property
    def strangers(self) -> int:
        """How many connections have not shown a secret."""
        return len(self._entrance)

    def leave(self, connection: Connection) -> None:
        """A connection has ended."""
        self._entrance.leave(connection)
        self._admitted.pop(connection, None)
        self._connections.discard(connection)

    def serve(self, connection: Connection, request: Request) -> asyncio.Task[None]:
        """Answers a request."""
        return self.start(self._answer(connection, request))

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Starts a task of a connection."""
        return self._tasks.create_task(work)

    # -- its life ------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        taken, complain = self._accepted, self._complain
        self._entrance = Entrance(self._listening, taken, complain, self._close_idle)
        return self

    def close(self) -> None:
        """Stops listening. Connections with a request go on."""
        self._entrance.close()

    async def __aexit__(self, *why: object) -> None:
        """Stops listening, lets answers end for a moment, and closes all connections."""
        self.close()
        for connection in [*self._connections]:
            connection.finish()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limits.SHUTDOWN_SECONDS):
                await self._tasks.__aexit__(None, None, None)
        for connection in [*self._connections]:
            connection.turn_away()

    def _accepted(self, accepted: socket.socket) -> Connection:
        connection = self.made()
        self._connections.add(connection)
        connection.raw = accepted
        self.start(self._open(connection, accepted))
        return connection

    async def _open(self, connection: Connection, accepted: socket.socket) -> None:
        try:
            loop = asyncio.get_running_loop()
            await loop.connect_accepted_socket(lambda: connection, accepted, ssl=self._tls)
        except (OSError, asyncio.CancelledError):
            accepted.close()  # the client has left, or there is no descriptor for it
            self.leave(connection)

    async def _answer(self, connection: Connection, request: Request) -> None:
        try:
            await self._handler(request)
        except Refused as refused:
            await request.respond(plain(refused.status, refused.text, refused.headers))
        except Exception as error:  # other requests go on
            self._complain(f"a defect of conductor: {place_of(error)}")
        finally:
            connection.answered()

    def _close_idle(self) -> bool:
        """Closes the connection that has been idle longest; False if none is idle."""
        idle = next((connection for connection in self._admitted if connection.is_idle), None)
        if idle is None:
            return False
        del self._admitted[idle]
        idle.turn_away()
        return True
