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

_KEEP_ALIVE: Final = 75
"""Seconds an idle connection stays open, for a client that may come back."""

_ENDING: Final = 2.0
"""Seconds responses have to be written when the server ends."""

App = Callable[..., Awaitable[None]]


class Loopback:
    """Serves an ASGI application on a listening socket, which it owns."""

    def __init__(self, app: App, listening: socket.socket) -> None:
        self.port: int = listening.getsockname()[1]
        self._state = ServerState()
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
        )
        config.load()
        protocol: Any = config.http_protocol_class
        self._starting = asyncio.ensure_future(
            asyncio.get_running_loop().create_server(
                lambda: protocol(config=config, server_state=self._state, app_state={}),
                sock=listening,
            )
        )

    async def ready(self) -> None:
        """Returns when connections are accepted."""
        await self._starting

    async def aclose(self) -> None:
        """Accepts nothing more, lets responses that are being written end, and closes all."""
        server = await self._starting
        server.close()
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
        await server.wait_closed()
