"""The listeners of the HTTP server, and the connections that came in by each."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from typing import Final

from conductor.core.jsonrpc import INTERNAL_ERROR
from conductor.mcp import limits
from conductor.mcp.doors.door import NAME, DoorEvents, Log
from conductor.mcp.http import requests
from conductor.mcp.http.requests import Refused
from conductor.mcp.http.session import Session

GONE: Final = "the session of this MCP server has ended (hint: start a new session)"


class Listener:
    """One server of one session: its secret, and its connections."""

    def __init__(self, name: str, key: str) -> None:
        """`key`: its path in URLs."""
        self.name = name
        self.key = key
        self.secret = secrets.token_hex(32).encode()
        self.sessions: dict[str, Session] = {}
        """By `Mcp-Session-Id`."""
        self.connections: dict[str, Session] = {}
        """By name, single POSTs included."""


class Listeners:
    """All listeners, by key and by the connections they let in."""

    def __init__(self, events: DoorEvents, log: Log) -> None:
        self._events = events
        self._log = log
        self._listeners: dict[str, Listener] = {}
        """By key."""
        self._keys: dict[str, str] = {}
        self._numbers = itertools.count(1)
        self._owners: dict[str, Listener] = {}
        """By the name of the connection."""
        self._unsent = 0
        """Bytes that wait to leave, of all connections."""

    def add(self, name: str) -> Listener:
        """Opens a listener."""
        key = self._keys[name] = f"{next(self._numbers):x}"
        listener = self._listeners[key] = Listener(name, key)
        return listener

    def at(self, key: str) -> Listener | None:
        """The listener at this path."""
        return self._listeners.get(key)

    def close_listener(self, listener: str) -> None:
        key = self._keys.pop(listener, None)
        if key is not None:
            for connection in list(self._listeners.pop(key).connections):
                self.close(connection)

    def close_all(self) -> None:
        """Closes all listeners."""
        for listener in list(self._keys):
            self.close_listener(listener)

    # -- connections -------------------------------------------------------------------------

    def owns(self, connection: str) -> bool:
        return connection in self._owners

    def _session(self, connection: str) -> Session:
        return self._owners[connection].connections[connection]

    def send(self, connection: str, frame: bytes, related: bytes | None = None) -> None:
        self._session(connection).send(frame, related)

    def no_response(self, connection: str, request: bytes) -> None:
        """The client's request with this raw id gets no response, so its stream ends."""
        self._session(connection).end_request(request)

    def hold(self, connection: str, wait: bool) -> None:
        """Stops taking messages from the client, or goes on."""
        go = self._session(connection).go
        (go.clear if wait else go.set)()

    def received(self, session: Session, frame: bytes) -> None:
        """Reports a message of a client, unless its connection was closed meanwhile."""
        if session.name in self._owners:
            self._events.client_received(session.name, frame)

    def open(self, listener: Listener, *, lasting: bool) -> Session:
        """A new connection. `lasting`: it has a session id, and is no single POST.

        Raises `Refused` if there are too many sessions.
        """
        if lasting and len(listener.sessions) >= limits.SESSIONS:
            idle = (session for session in listener.sessions.values() if session.idle)
            oldest = next(idle, None)
            if oldest is None:
                raise Refused(503, "too many sessions are open (hint: end one with DELETE)")
            self.lose(oldest.name)
        name = f"http-{next(self._numbers)}"
        # MCP wants session ids that nobody can guess.
        key = secrets.token_urlsafe(24) if lasting else ""
        session = Session(name, key, self._queued)
        listener.connections[name] = session
        self._owners[name] = listener
        if lasting:
            listener.sessions[key] = session
        self._events.client_opened(name, listener.name)
        return session

    def close(self, connection: str) -> None:
        """Closes a connection; its open requests get an error."""
        listener = self._owners.pop(connection)
        session = listener.connections.pop(connection)
        listener.sessions.pop(session.key, None)
        session.end(lambda id_: requests.error(id_, INTERNAL_ERROR, GONE))

    def lose(self, connection: str) -> None:
        """A client has left, or is made to leave: closes its connection, and reports that."""
        if connection in self._owners:
            self.close(connection)
            self._events.client_closed(connection)

    def _queued(self, size: int) -> None:
        self._unsent += size
        if size > 0 and self._unsent > limits.UNSENT:
            # Later, since the bridge may be in a call for the client that would be closed.
            asyncio.get_running_loop().call_soon(self._close_worst)

    def _close_worst(self) -> None:
        if self._unsent > limits.UNSENT and self._owners:
            worst = max(self._owners, key=lambda name: self._session(name).unsent)
            self._log("warning", NAME, "an MCP client does not read its messages; it is closed")
            self.lose(worst)
