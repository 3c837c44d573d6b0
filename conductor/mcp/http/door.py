"""The door for MCP clients that speak HTTP: one server for all listeners."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

from conductor.errors import ComponentError
from conductor.mcp.bridge.declarations import HttpDeclaration
from conductor.mcp.doors.manager import NAME
from conductor.mcp.http.app import END, App
from conductor.mcp.http.doors import Doors

if TYPE_CHECKING:
    from conductor.mcp.doors.manager import Log, ShellEvents
    from conductor.mcp.http.server import Loopback

_BACKLOG: Final = 128


def _listening() -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.bind(("127.0.0.1", 0))
        listening.listen(_BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening


class HttpShell:
    """That shell."""

    def __init__(self, events: ShellEvents, *, log: Log, line_limit: int) -> None:
        self._log = log
        self._doors = Doors(events, log)
        self._app = App(self._doors, line_limit)
        self._server: Loopback | None = None

    async def listen(self, listener: str) -> HttpDeclaration:
        """Lets clients in; the URL, and the header that lets them."""
        key, door = self._doors.add(listener)
        if self._server is None:
            self._start()
        assert self._server is not None
        return HttpDeclaration(
            url=f"http://127.0.0.1:{self._server.port}/{key}{END}",
            headers=(("Authorization", f"Bearer {door.secret.decode()}"),),
        )

    def owns(self, connection: str) -> bool:
        """Whether this connection came in here."""
        return self._doors.holds(connection)

    def send(self, connection: str, frame: bytes, related: bytes | None = None) -> None:
        """Queues one message, on the response it belongs to."""
        self._doors.session(connection).send(frame, related)

    def finish(self, connection: str, request: bytes) -> None:
        """The client's request of this (raw) id gets no answer."""
        self._doors.session(connection).finish(request)

    def pending(self, connection: str) -> int:
        """Bytes queued that have not left."""
        return self._doors.session(connection).unsent

    def hold(self, connection: str, wait: bool) -> None:
        """Takes no more messages from the client, or goes on."""
        go = self._doors.session(connection).go
        (go.clear if wait else go.set)()

    def close(self, connection: str) -> None:
        """Ends a connection; requests still open are answered with an error."""
        self._doors.remove(connection)

    def close_listener(self, listener: str) -> None:
        """Lets no more clients in, and ends the connections of those who are."""
        self._doors.shut(listener)

    async def aclose(self) -> None:
        """Ends everything."""
        for listener in self._doors.listeners():
            self._doors.shut(listener)
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
        from conductor.mcp.http.server import Loopback

        self._server = Loopback(
            self._app.serve, listening, lambda text: self._log("warning", NAME, text)
        )
