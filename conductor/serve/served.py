"""The part of a server that belongs to one principal: a room, or a lobby."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Raw

from conductor.core import jsonrpc
from conductor.serve.chains import Chain
from conductor.serve.connections import Connection, Farewell, Keeper, Outlet
from conductor.serve.hub import frames

if TYPE_CHECKING:
    from conductor.serve.access.proof import Proof
    from conductor.serve.hub import SessionInfo
    from conductor.serve.server import Server

_DRAINING: Final = "the server is shutting down, and begins no turn any more"
_LATER: Final = "connect again in a moment; `session/load` goes on with the session"
_PROMPT: Final = "session/prompt"
_LITTLE: Final = 64 * 1024
"""Bytes that any client may leave unread, whatever others of its principal leave."""
_UNREAD: Final = "its client does not read"


class Served(Keeper, Protocol):
    """The part of a server that belongs to one principal.

    Attributes:
        server: The server.
        connections: By id.
        draining: Whether no turn may begin any more.
    """

    server: Server
    connections: dict[str, Connection]
    draining: bool
    _finishing: dict[Connection, None]
    """The connections whose clients send no more, and still wait for answers."""

    @property
    def is_empty(self) -> bool:
        """Whether its principal has nothing here."""

    @property
    def running(self) -> list[Chain]:
        """All chains that have not ended."""

    @property
    def descriptors(self) -> int:
        """How many its chains need, about."""

    @property
    def sessions(self) -> Collection[SessionInfo]:
        """The live sessions, as far as they are known here."""

    @property
    def open_turns(self) -> int:
        """Turns that run."""

    @property
    def is_busy(self) -> bool:
        """Whether a turn runs, or a request has no answer."""
        return bool(self.open_turns)

    def join(self, outlet: Outlet, named: str, id_: str = "") -> Connection:
        """A client connects. Raises `ConductorError`."""

    def check(self, holds: Callable[[Proof], bool]) -> None:
        """Ends the connections of clients that would not be let in any more."""
        for connection in [*self.connections.values()]:
            if connection.proof is not None and not holds(connection.proof):
                connection.close(Farewell.DENIED)

    @property
    def patience(self) -> float:
        """Seconds in which a client that sends no more gets its answers."""
        return self.server.settings.wind_down

    def waits(self, connection: Connection) -> bool:
        """Whether a client has a request without an answer."""

    def take(self, connection: Connection, frame: bytes) -> None:
        """A client has sent a frame, which may pass."""

    def go_on(self, connection: Connection) -> None:
        """The chains of a client may send it more."""

    def received(self, connection: Connection, frame: bytes) -> None:
        """A client has sent a frame."""
        if not self.draining or (refusal := refusal_of(frame)) is None:
            self.take(connection, frame)
        elif refusal:
            connection.outlet.send(refusal, None)
            self.flush_to(connection)

    def flush_to(self, connection: Connection) -> None:
        """The frames for a client leave. A client that leaves much unread must wait."""
        connection.outlet.flush()
        unread = self.server.settings.unread
        if self.leaves_much(connection, unread // 2, unread):
            connection.pause(_UNREAD)

    def drained(self, connection: Connection) -> None:
        """A client has taken some of the frames that waited for it."""
        if connection.outlet.waiting <= self.server.settings.unread // 2:
            connection.resume(_UNREAD)
        self.go_on(connection)

    def finish(self, connection: Connection) -> None:
        """A client sends no more: its connection ends with the last answer."""
        self._finishing[connection] = None
        self._finish()

    def _finish(self) -> None:
        for connection in [*self._finishing]:
            if not self.waits(connection):
                connection.close()

    def overdue(self) -> None:
        """Time has passed."""

    def close(self, why: Farewell) -> None:
        """Sends all clients away; their chains end."""
        for connection in [*self.connections.values()]:
            connection.close(why)

    def leaves_much(self, one: Connection, most: int, unread: int) -> bool:
        """Whether a client leaves more than `most` bytes unread, or more than half of the free
        bytes. All clients together may leave twice `unread`."""
        waiting = one.outlet.waiting
        if waiting <= _LITTLE or waiting > most:
            return waiting > most
        others = sum(other.outlet.waiting for other in self.connections.values()) - waiting
        return 2 * waiting > 2 * unread - others

    def stop(self) -> None:
        """Ends all chains now."""
        for chain in self.running:
            chain.stop()

    def set(self) -> None:
        """The server has new settings from now on; existing connections stay."""

    def reload(self) -> None:
        """All chains read their configuration again."""


def refusal_of(frame: bytes) -> bytes | None:
    """The error for a prompt that may not begin, empty if it has no id; None: it is no prompt."""
    message = jsonrpc.message_of(frame)
    if message is None or message.method != _PROMPT:
        return None
    if not isinstance(message.id, Raw) or not (id_ := jsonrpc.canonical_id(message.id)):
        return b""
    return frames.error(id_, jsonrpc.INTERNAL_ERROR, _DRAINING, _LATER)
