"""Where the stdio shim (`conductor.mcp.doors.shim`) connects: one socket for all listeners.

A Unix socket in a private folder (mode 0700), or where that cannot be a port of 127.0.0.1. What a
client says first is one line of fixed length, the listener's number and its secret; compared in
constant time. From then on lines go both ways. The socket exists while there is a listener.
"""

from __future__ import annotations

import asyncio
import hmac
import itertools
import os
import re
import secrets
import socket
from typing import TYPE_CHECKING, Final

import msgspec

from conductor.errors import ComponentError
from conductor.mcp.bridge.declarations import StdioDeclaration
from conductor.mcp.doors import stdio_clients
from conductor.mcp.doors.manager import NAME
from conductor.mcp.doors.secret_socket import command, socket_for_shims
from conductor.mcp.doors.shim import TOKEN_VARIABLE
from conductor.mcp.doors.stdio_clients import KEY_LENGTH, TOKEN_LENGTH, Client
from conductor.transports import entrance
from conductor.transports.entrance import Entrance, Login
from conductor.transports.fds import FdWriter
from conductor.transports.private import Folder

if TYPE_CHECKING:
    from conductor.mcp.doors.manager import Log, ShellEvents

_ID: Final = re.compile(rb'"id"\s*:\s*("(?:[^"\\]|\\.){0,512}"|-?\d{1,20})')


class Door(msgspec.Struct):
    """What one listener lets in: who presents its secret."""

    listener: str
    secret: bytes
    connections: set[str]


class StdioShell:
    """The shell of `conductor.mcp.doors.manager` for clients that start the shim."""

    def __init__(self, events: ShellEvents, *, log: Log, line_limit: int) -> None:
        self._events = events
        self._log = log
        self._limit = line_limit
        self._entrance: Entrance | None = None
        self._folder: Folder | None = None
        self._address = ""
        self._doors: dict[bytes, Door] = {}
        self._keys: dict[str, bytes] = {}
        self._numbers = itertools.count(1)
        self._guests: dict[str, Client] = {}
        self._leaving: set[FdWriter] = set()
        """Writers of closed connections that still hold something."""

    async def listen(self, listener: str) -> StdioDeclaration:
        """Lets clients in; how the shim is started."""
        if self._entrance is None:
            self._open()
        key = f"{next(self._numbers):0{KEY_LENGTH}x}".encode()
        secret = secrets.token_hex((TOKEN_LENGTH - KEY_LENGTH) // 2)
        self._doors[key] = Door(listener, secret.encode(), set())
        self._keys[listener] = key
        program, *words = command()
        return StdioDeclaration(
            command=program,
            args=(*words, self._address),
            env=((TOKEN_VARIABLE, key.decode() + secret),),
        )

    def owns(self, connection: str) -> bool:
        """Whether this connection came in here."""
        return connection in self._guests

    def send(self, connection: str, frame: bytes, related: bytes | None = None) -> None:
        """Queues one line."""
        del related  # there is only one stream
        self._guests[connection].send(frame)

    def finish(self, connection: str, request: bytes) -> None:
        """Nothing: an answer that does not come is no message."""

    def pending(self, connection: str) -> int:
        """Bytes queued that have not left."""
        return self._guests[connection].writer.buffered

    def hold(self, connection: str, wait: bool) -> None:
        """Stops reading from the client, or goes on."""
        self._guests[connection].hold("owner", wait)

    def close(self, connection: str) -> None:
        """Ends a connection."""
        client = self._guests.pop(connection)
        client.door.connections.discard(connection)
        if client.finish():
            self._leaving.add(client.writer)
            loop = asyncio.get_running_loop()
            loop.call_later(stdio_clients.LINGER, self._left, client.writer)

    def close_listener(self, listener: str) -> None:
        """Lets no more clients in, and ends the connections of those who are."""
        key = self._keys.pop(listener, None)
        if key is None:
            return
        for connection in list(self._doors.pop(key).connections):
            self.close(connection)
        if not self._doors:
            self._close_socket()

    async def aclose(self) -> None:
        """Ends everything."""
        for listener in list(self._keys):
            self.close_listener(listener)
        self._close_socket()
        for writer in self._leaving:
            writer.close()
        self._leaving.clear()

    def _open(self) -> None:
        try:
            listening, self._folder, self._address = socket_for_shims()
        except OSError as error:
            raise ComponentError(
                f"no socket for the MCP servers of this chain: {error.strerror or error}",
                "free some descriptors or space in the temporary folder, or let the agent use "
                "HTTP: --mcp-bridge http",
            ) from None
        self._entrance = Entrance(
            listening,
            lambda connection: Login(connection, TOKEN_LENGTH, entrance.LOGIN, self._shown),
            lambda text: self._log("warning", NAME, text),
        )

    def _shown(self, login: Login, token: bytes | None) -> None:
        """A client has shown something, and comes in or is sent away; or it has left."""
        assert self._entrance is not None
        self._entrance.leave(login)
        if token is None:
            return
        door = self._doors.get(token[:KEY_LENGTH])
        wanted = door.secret if door is not None else b"\0" * (TOKEN_LENGTH - KEY_LENGTH)
        if not hmac.compare_digest(token[KEY_LENGTH:], wanted) or door is None:
            login.connection.close()
            self._entrance.complain("a client without the secret of a session was refused")
        elif len(self._guests) >= stdio_clients.MOST_CLIENTS:
            login.connection.close()
            self._entrance.complain(f"a client was sent away: {len(self._guests)} are connected")
        else:
            self._let_in(door, login.connection, self._entrance)

    def _let_in(self, door: Door, connection: socket.socket, at: Entrance) -> None:
        try:
            second = os.dup(connection.fileno())
        except OSError:
            second = -1
        if second < 0 or (entrance.is_spare(second) and not at.make_room()):
            connection.close()
            if second >= 0:
                os.close(second)
            at.complain("a client was sent away: too few descriptors are left for the chain")
            return
        name = f"stdio-{next(self._numbers)}"
        door.connections.add(name)
        # Reported before anything can be read: the reader is woken by the event loop only.
        self._guests[name] = Client(self, name, door, connection.detach(), second, self._limit)
        self._events.opened(name, door.listener)

    def _left(self, writer: FdWriter) -> None:
        """What is queued for a closed client has left, or will not."""
        writer.close()
        self._leaving.discard(writer)

    def received(self, name: str, frames: list[bytes]) -> None:
        """Passes lines on, as long as the receiver keeps the connection."""
        for frame in frames:
            if name in self._guests:
                self._events.received(name, frame)

    def oversized(self, client: Client, head: bytes, limit: int) -> None:
        """Tells whoever sent a line that is too long."""
        found = _ID.search(head.partition(b'"params"')[0])
        text = f"the message is longer than {limit} bytes (hint: --line-limit raises that)"
        error = msgspec.json.encode({"code": -32600, "message": text})
        number = found[1] if found else b"null"
        client.send(b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (number, error))

    def drained(self, name: str, writer: FdWriter) -> None:
        """Some of what was queued has left."""
        if name in self._guests:
            self._events.drained(name)
        elif not writer.buffered:
            self._leaving.discard(writer)

    def lost(self, name: str) -> None:
        """A client is gone."""
        client = self._guests.pop(name, None)
        if client is not None:
            client.door.connections.discard(name)
            client.close()
            self._events.closed(name)

    def unread(self) -> None:
        """A client does not read what it is sent."""
        most = stdio_clients.MOST_UNSENT
        if sum(client.writer.buffered for client in self._guests.values()) > most:
            worst = max(self._guests, key=lambda name: self._guests[name].writer.buffered)
            asyncio.get_running_loop().call_soon(
                self._give_up, worst, f"an MCP client took none of {most} bytes; it is closed"
            )

    def half_lines(self) -> None:
        """A client sends a long line, whose end has not come."""
        most = max(stdio_clients.MOST_HELD, self._limit)
        if sum(client.held for client in self._guests.values()) > most:
            worst = max(self._guests, key=lambda name: self._guests[name].held)
            self._give_up(worst, "an MCP client does not end its line; it is closed")

    def _give_up(self, name: str, why: str) -> None:
        if name in self._guests:
            self._log("warning", NAME, why)
            self.lost(name)

    def _close_socket(self) -> None:
        if self._entrance is not None:
            self._entrance.close()
            self._entrance = None
        if self._folder is not None:
            self._folder.remove()
            self._folder = None
