"""The two doors by which an agent's MCP clients come in: a stdio shim and a loopback HTTP server.

    shells = Shells(events, log=log, line_limit=limit)
    declaration = await shells.listen("7:tools", "stdio")   # goes into the agent's `mcpServers`
    …events.opened(connection, "7:tools"), events.received(connection, frame)…
    shells.send(connection, answer)

A shell carries frames and knows nothing of MCP beyond what its transport demands. Every listener
has a secret of its own, which only its declaration names: in the environment of the shim, in a
header of HTTP. Nothing is opened, and little imported, before the first listener of a kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal, Protocol

from conductor.mcp.bridge import effects
from conductor.mcp.bridge.declarations import Declaration

if TYPE_CHECKING:
    from conductor.mcp.doors.stdio import StdioShell
    from conductor.mcp.http.door import HttpShell

Log = Callable[[str, str, str], None]
"""Takes a level, a component's name and a text."""

NAME: Final = "mcp"
"""Whom log lines name."""


class ShellEvents(Protocol):
    """What shells report, always from the event loop and never out of a call to a shell."""

    def opened(self, connection: str, listener: str) -> None:
        """An MCP client came, and proved the listener's secret."""

    def received(self, connection: str, frame: bytes) -> None:
        """It sent one line. Whether that is JSON is for the receiver to find out."""

    def closed(self, connection: str) -> None:
        """It is gone. Reported once for each `opened`, unless the connection was closed first."""

    def drained(self, connection: str) -> None:
        """Some of what was queued for it has left."""


class Shell(Protocol):
    """One kind of door. Methods that name a connection ignore one that is not there (any more)."""

    async def listen(self, listener: str) -> Declaration:
        """Lets clients in. Raises `ComponentError` where that is impossible."""

    def owns(self, connection: str) -> bool:
        """Whether this connection came in here."""

    def send(self, connection: str, frame: bytes, related: bytes | None) -> None:
        """Queues one frame; never blocks."""

    def finish(self, connection: str, request: bytes) -> None:
        """The client's request of this (raw) id gets no answer."""

    def pending(self, connection: str) -> int:
        """Bytes queued that have not left."""

    def hold(self, connection: str, wait: bool) -> None:
        """Stops reading from the client, or goes on."""

    def close(self, connection: str) -> None:
        """Ends a connection; nothing more is reported of it."""

    def close_listener(self, listener: str) -> None:
        """Lets no more clients in, and ends the connections of those who are."""

    async def aclose(self) -> None:
        """Ends everything; returns when no socket and no file is left."""


class Shells:
    """All listeners of one conductor. `connection` and `listener` are opaque, never used twice."""

    def __init__(self, events: ShellEvents, *, log: Log, line_limit: int) -> None:
        """`line_limit`: bytes of the longest message taken from a client."""
        self._events = events
        self._log = log
        self._limit = line_limit
        self._stdio: StdioShell | None = None
        self._http: HttpShell | None = None
        self._listeners: dict[str, Shell] = {}

    async def listen(self, listener: str, kind: Literal["stdio", "http"]) -> Declaration:
        """Opens a door; what the agent is told of it. The door is open when this returns.

        Raises `conductor.errors.ComponentError` where that is impossible.
        """
        shell = self._shell(kind)
        self._listeners[listener] = shell
        return await shell.listen(listener)

    def send(self, connection: str, frame: bytes, related: bytes | None = None) -> None:
        """Queues a message to a client; never blocks.

        `related`: raw id of the client's request it belongs to, if that is known; HTTP then sends
        it on that request's stream.
        """
        for shell in self._owner(connection):
            shell.send(connection, frame, related)

    def finish(self, connection: str, request: bytes) -> None:
        """The client's request with this (raw) id gets no answer: its HTTP stream ends."""
        for shell in self._owner(connection):
            shell.finish(connection, request)

    def pending(self, connection: str) -> int:
        """Bytes queued for a client that have not left; 0 if it is gone."""
        return sum(shell.pending(connection) for shell in self._owner(connection))

    def hold(self, connection: str, wait: bool) -> None:
        """Stops reading from a client, or goes on."""
        for shell in self._owner(connection):
            shell.hold(connection, wait)

    def close(self, connection: str) -> None:
        """Ends a connection; `closed` is not reported for it."""
        for shell in self._owner(connection):
            shell.close(connection)

    def close_listener(self, listener: str) -> None:
        """Shuts a door: its secret is worth nothing any more, its connections end unreported."""
        shell = self._listeners.pop(listener, None)
        if shell is not None:
            shell.close_listener(listener)

    async def aclose(self) -> None:
        """Ends everything; returns when no socket and no file is left."""
        self._listeners.clear()
        for shell in (self._stdio, self._http):
            if shell is not None:
                await shell.aclose()

    def _shell(self, kind: Literal["stdio", "http"]) -> Shell:
        if kind == "stdio":
            if self._stdio is None:
                from conductor.mcp.doors.stdio import StdioShell

                self._stdio = StdioShell(self._events, log=self._log, line_limit=self._limit)
            return self._stdio
        if self._http is None:
            from conductor.mcp.http.door import HttpShell

            self._http = HttpShell(self._events, log=self._log, line_limit=self._limit)
        return self._http

    def _owner(self, connection: str) -> list[Shell]:
        shells: tuple[Shell | None, ...] = (self._stdio, self._http)
        return [shell for shell in shells if shell is not None and shell.owns(connection)]


def perform(effect: effects.Effect, shells: Shells) -> None:
    """Does what the bridge asks of the doors; all its other effects are somebody else's."""
    match effect:
        case effects.ToConnection(connection, frame, related):
            shells.send(connection, frame, related)
        case effects.NoAnswer(connection, id_):
            shells.finish(connection, id_)
        case effects.CloseConnection(connection):
            shells.close(connection)
        case effects.CloseListener(listener):
            shells.close_listener(listener)
