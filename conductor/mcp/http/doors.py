"""The listeners of the HTTP server, and the connections that came in by each."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from typing import TYPE_CHECKING, Final

from conductor.core.jsonrpc import INTERNAL_ERROR
from conductor.mcp.http import requests
from conductor.mcp.http.session import Session
from conductor.mcp.shells import NAME

if TYPE_CHECKING:
    from conductor.mcp.shells import Log, ShellEvents

_MOST_SESSIONS: Final = 1000
"""Sessions one listener keeps; then the oldest that is idle ends for a new one."""

GONE: Final = "the session of this MCP server has ended (hint: start a new session)"


class Door:
    """One listener: its secret, its sessions by `Mcp-Session-Id`, and all its connections."""

    def __init__(self, listener: str) -> None:
        self.listener = listener
        self.secret = secrets.token_hex(32).encode()
        self.sessions: dict[str, Session] = {}
        self.connections: dict[str, Session] = {}


class Doors:
    """All of them: by their place in a URL, and by the connections they let in."""

    def __init__(self, events: ShellEvents, log: Log) -> None:
        self._events = events
        self._log = log
        self._doors: dict[str, Door] = {}
        self._keys: dict[str, str] = {}
        self._numbers = itertools.count(1)
        self._owners: dict[str, Door] = {}

    def add(self, listener: str) -> tuple[str, Door]:
        """One more, and its place."""
        door = Door(listener)
        key = f"{next(self._numbers):x}"
        self._doors[key] = door
        self._keys[listener] = key
        return key, door

    def at(self, key: str) -> Door | None:
        """The one at this place, if there is one."""
        return self._doors.get(key)

    def listeners(self) -> list[str]:
        """All that are open."""
        return list(self._keys)

    def shut(self, listener: str) -> None:
        """Lets no more clients in, and ends the connections of those who are."""
        key = self._keys.pop(listener, None)
        if key is not None:
            for connection in list(self._doors.pop(key).connections):
                self.remove(connection)

    # -- connections -------------------------------------------------------------------------

    def holds(self, connection: str) -> bool:
        """Whether this connection came in here, and is not gone."""
        return connection in self._owners

    def session(self, connection: str) -> Session:
        """A connection that is held."""
        return self._owners[connection].connections[connection]

    def passed(self, session: Session, frame: bytes) -> None:
        """A client has sent a message, if it still may."""
        if session.name in self._owners:
            self._events.received(session.name, frame)

    def open(self, door: Door, *, lasting: bool) -> Session:
        """A new connection; one that lasts has a session id."""
        name = f"http-{next(self._numbers)}"
        session = Session(
            name,
            secrets.token_urlsafe(24) if lasting else "",
            lambda: self._drained(name),
            lambda: self._flooding(name),
        )
        door.connections[name] = session
        self._owners[name] = door
        if lasting:
            door.sessions[session.key] = session
            self._make_room(door)
        self._events.opened(name, door.listener)
        return session

    def _make_room(self, door: Door) -> None:
        if len(door.sessions) > _MOST_SESSIONS:
            oldest = next((one for one in door.sessions.values() if one.idle), None)
            if oldest is not None:
                self.lose(oldest.name)

    def remove(self, connection: str) -> bool:
        """Forgets a connection; whoever waits on it is told. False if there was none."""
        door = self._owners.pop(connection, None)
        if door is None:
            return False
        session = door.connections.pop(connection)
        door.sessions.pop(session.key, None)
        session.end(lambda number: requests.error(number, INTERNAL_ERROR, GONE))
        return True

    def lose(self, connection: str) -> None:
        """A client is gone."""
        if self.remove(connection):
            self._events.closed(connection)

    def _drained(self, connection: str) -> None:
        if connection in self._owners:
            self._events.drained(connection)

    def _flooding(self, connection: str) -> None:
        asyncio.get_running_loop().call_soon(self._flooded, connection)

    def _flooded(self, connection: str) -> None:
        if connection in self._owners:
            self._log("warning", NAME, "an MCP client does not read what it is sent; it is closed")
            self.lose(connection)
