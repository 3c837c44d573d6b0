"""The listeners of the HTTP server, and the connections that came in by each."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from typing import TYPE_CHECKING, Final

from conductor.core.jsonrpc import INTERNAL_ERROR
from conductor.mcp.doors.manager import NAME
from conductor.mcp.http import requests, session
from conductor.mcp.http.requests import Refused
from conductor.mcp.http.session import Session

if TYPE_CHECKING:
    from conductor.mcp.doors.manager import Log, ShellEvents

_MOST_SESSIONS: Final = 1000
"""Sessions one listener keeps; then the oldest that is idle ends for a new one. If none is
idle, the new one is refused."""

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
        self._unsent = 0
        """Bytes that wait to leave, of all connections."""

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

    def passed(self, sender: Session, frame: bytes) -> None:
        """A client has sent a message, if it still may."""
        if sender.name in self._owners:
            self._events.received(sender.name, frame)

    def open(self, door: Door, *, lasting: bool) -> Session:
        """A new connection; one that lasts has a session id. Raises `Refused` for one too many."""
        if lasting and len(door.sessions) >= _MOST_SESSIONS:
            oldest = next((one for one in door.sessions.values() if one.idle), None)
            if oldest is None:
                raise Refused(503, "too many sessions are open (hint: end one with DELETE)")
            self.lose(oldest.name)
        name = f"http-{next(self._numbers)}"
        opened = Session(
            name,
            secrets.token_urlsafe(24) if lasting else "",
            lambda size: self._queued(name, size),
        )
        door.connections[name] = opened
        self._owners[name] = door
        if lasting:
            door.sessions[opened.key] = opened
        self._events.opened(name, door.listener)
        return opened

    def remove(self, connection: str) -> bool:
        """Forgets a connection; whoever waits on it is told. False if there was none."""
        door = self._owners.pop(connection, None)
        if door is None:
            return False
        ended = door.connections.pop(connection)
        door.sessions.pop(ended.key, None)
        ended.end(lambda number: requests.error(number, INTERNAL_ERROR, GONE))
        return True

    def lose(self, connection: str) -> None:
        """A client is gone."""
        if self.remove(connection):
            self._events.closed(connection)

    def _queued(self, connection: str, size: int) -> None:
        self._unsent += size
        if size < 0:
            if connection in self._owners:
                self._events.drained(connection)
        elif self._unsent > session.MOST_UNSENT:
            asyncio.get_running_loop().call_soon(self._flooded)

    def _flooded(self) -> None:
        if self._unsent > session.MOST_UNSENT and self._owners:
            worst = max(self._owners, key=lambda name: self.session(name).unsent)
            self._log("warning", NAME, "an MCP client does not read what it is sent; it is closed")
            self.lose(worst)
