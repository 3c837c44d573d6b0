"""The methods of a door for MCP clients, and its reports."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from conductor.mcp.bridge.declarations import Declaration

Log = Callable[[str, str, str], None]
"""Takes a level, a component's name and a text."""

Start = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
"""Starts a task of the chain's."""

NAME: Final = "mcp"
"""The component's name in log lines."""


class DoorEvents(Protocol):
    """Takes the reports of doors; always from the event loop, never out of a call to a door."""

    def client_opened(self, connection: str, listener: str) -> None:
        """An MCP client has connected, and shown the listener's secret."""

    def client_received(self, connection: str, frame: bytes) -> None:
        """The client has sent a line, which need not be JSON."""

    def client_closed(self, connection: str) -> None:
        """The client has left. Not reported for a connection that the conductor closed."""


class Door(Protocol):
    """One kind of door."""

    async def listen(self, listener: str) -> Declaration:
        """Opens a listener. Raises `ComponentError` if that is impossible."""

    def owns(self, connection: str) -> bool:
        """Whether a client came in through this door, and has not left."""

    def send(self, connection: str, frame: bytes, related: bytes | None) -> None:
        """Queues one frame; never blocks."""

    def no_response(self, connection: str, request: bytes) -> None:
        """The client's request with this raw id gets no response."""

    def hold(self, connection: str, wait: bool) -> None:
        """Stops reading from the client, or goes on."""

    def close(self, connection: str) -> None:
        """Closes a connection without a report."""

    def close_listener(self, listener: str) -> None:
        """Closes a listener and the connections of its clients."""

    async def aclose(self) -> None:
        """Ends everything; returns when no socket and no file is left."""
