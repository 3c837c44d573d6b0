"""The door for MCP clients that speak HTTP: one server for all listeners."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from conductor.errors import ComponentError
from conductor.mcp.bridge.declarations import HttpDeclaration
from conductor.mcp.doors.door import NAME, DoorEvents, Log, Start
from conductor.mcp.http.app import END, App
from conductor.mcp.http.listeners import Listeners
from conductor.transports.private import listening_socket

if TYPE_CHECKING:
    from conductor.http.server import HttpServer


class HttpDoor(Listeners):
    """The listeners, and the server that serves them; see `conductor.mcp.doors.door.Door`."""

    def __init__(self, events: DoorEvents, *, log: Log, line_limit: int, start: Start) -> None:
        super().__init__(events, log)
        self._app = App(self, line_limit)
        self._start = start
        self._server: HttpServer | None = None
        self._ending = asyncio.Event()
        self._served: asyncio.Task[None] | None = None

    async def listen(self, listener: str) -> HttpDeclaration:
        """Opens a listener; its URL, and the header with its secret."""
        opened = self.add(listener)
        if self._server is None:
            self._server = self._open()
            self._served = self._start(self._serve(self._server))
        return HttpDeclaration(
            url=f"http://127.0.0.1:{self._server.port}/{opened.key}{END}",
            headers=(("Authorization", f"Bearer {opened.secret.decode()}"),),
        )

    async def aclose(self) -> None:
        self.close_all()
        self._server = None
        self._ending.set()
        if self._served is not None:
            await asyncio.wait((self._served,))

    async def _serve(self, server: HttpServer) -> None:
        async with server:
            await self._ending.wait()

    def _open(self) -> HttpServer:
        try:
            listening = listening_socket(socket.AF_INET, ("127.0.0.1", 0))
        except OSError as error:
            raise ComponentError(
                f"no loopback port for the MCP servers of this chain: {error.strerror or error}",
                "let the agent use stdio: -c mcp-bridge=stdio",
            ) from None
        from conductor.http.server import HttpServer

        complain = lambda text: self._log("warning", NAME, text)  # noqa: E731
        return HttpServer(self._app.serve, listening, complain)
