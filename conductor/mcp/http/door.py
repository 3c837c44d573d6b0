"""The door for MCP clients that speak HTTP: one server for all listeners."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from conductor.errors import ComponentError
from conductor.mcp.bridge.declarations import HttpDeclaration
from conductor.mcp.doors.door import NAME, DoorEvents, Log
from conductor.mcp.http.app import END, App
from conductor.mcp.http.listeners import Listeners
from conductor.transports.private import listening_socket

if TYPE_CHECKING:
    from conductor.http.server import HttpServer


class HttpDoor(Listeners):
    """The listeners, and the server that serves them; see `conductor.mcp.doors.door.Door`."""

    def __init__(self, events: DoorEvents, *, log: Log, line_limit: int) -> None:
        super().__init__(events, log)
        self._app = App(self, line_limit)
        self._server: HttpServer | None = None

    async def listen(self, listener: str) -> HttpDeclaration:
        """Opens a listener; its URL, and the header with its secret."""
        opened = self.add(listener)
        if self._server is None:
            self._server = self._start()
        return HttpDeclaration(
            url=f"http://127.0.0.1:{self._server.port}/{opened.key}{END}",
            headers=(("Authorization", f"Bearer {opened.secret.decode()}"),),
        )

    async def aclose(self) -> None:
        self.close_all()
        server, self._server = self._server, None
        if server is not None:
            await server.aclose()

    def _start(self) -> HttpServer:
        try:
            listening = listening_socket(socket.AF_INET, ("127.0.0.1", 0))
        except OSError as error:
            raise ComponentError(
                f"no loopback port for the MCP servers of this chain: {error.strerror or error}",
                "let the agent use stdio: --mcp-bridge stdio",
            ) from None
        from conductor.http.server import HttpServer

        complain = lambda text: self._log("warning", NAME, text)  # noqa: E731
        return HttpServer(self._app.serve, listening, complain)
