"""The door that the stdio shim (`conductor.mcp.doors.shim`) connects to: one socket.

A Unix socket in a private folder (mode 0700). A client's first line has a fixed length: the
listener's key and its secret. From then on, lines pass both ways. The socket exists while there is
a listener.
"""

from __future__ import annotations

import asyncio
import hmac
import itertools
import os
import re
import secrets
import shutil
import socket
import sys
from typing import Final

import msgspec

from conductor.core import json_text
from conductor.core.jsonrpc import INVALID_REQUEST
from conductor.errors import ComponentError, are
from conductor.mcp import limits
from conductor.mcp.bridge.declarations import StdioDeclaration
from conductor.mcp.doors.door import NAME, DoorEvents, Log
from conductor.mcp.doors.shim import TOKEN_VARIABLE
from conductor.transports import entrance
from conductor.transports.entrance import Entrance, Login, shut_down
from conductor.transports.fds import FdReader, FdWriter
from conductor.transports.private import MCP, Folder, private_socket

_ID: Final = re.compile(rb'"id"\s*:\s*("(?:[^"\\]|\\.){0,512}"|-?\d{1,20})')

_KEY_LENGTH: Final = 8
_TOKEN_LENGTH: Final = _KEY_LENGTH + 64

_SMALL: Final = 64 * 1024
"""Bytes up to which a frame is copied to append its newline, instead of written in two pieces."""


def shim_command() -> list[str]:
    """The command that starts the shim: `conductor mcp`, by absolute path.

    Agents run elsewhere, and need not have `conductor` on their PATH.
    """
    beside = os.path.join(os.path.dirname(sys.executable), "conductor")
    for program in (os.path.abspath(sys.argv[0]), beside, shutil.which("conductor")):
        if (
            program
            and os.path.basename(program) == "conductor"
            and os.path.isfile(program)
            and os.access(program, os.X_OK)
        ):
            return [program, "mcp"]
    return [sys.executable, "-I", os.path.join(os.path.dirname(__file__), "shim.py")]


class _Listener(msgspec.Struct):
    name: str
    secret: bytes
    connections: set[str]


class StdioDoor:
    """The door for clients that start the shim; see `conductor.mcp.doors.door.Door`."""

    def __init__(self, events: DoorEvents, *, log: Log, line_limit: int) -> None:
        self._events = events
        self._log = log
        self._limit = line_limit
        self._entrance: Entrance | None = None
        self._folder: Folder | None = None
        self._address = ""
        self._listeners: dict[bytes, _Listener] = {}
        """By key."""
        self._keys: dict[str, bytes] = {}
        self._numbers = itertools.count(1)
        self._clients: dict[str, _Client] = {}
        self._leaving: set[FdWriter] = set()
        """Writers of connections that were closed with unsent bytes, for a while."""

    # -- listeners -----------------------------------------------------------------------------

    async def listen(self, listener: str) -> StdioDeclaration:
        """Opens a listener; the command that starts its shim."""
        if self._entrance is None:
            self._open()
        key = f"{next(self._numbers):0{_KEY_LENGTH}x}".encode()
        secret = secrets.token_hex((_TOKEN_LENGTH - _KEY_LENGTH) // 2)
        self._listeners[key] = _Listener(listener, secret.encode(), set())
        self._keys[listener] = key
        program, *arguments = shim_command()
        return StdioDeclaration(
            command=program,
            args=(*arguments, self._address),
            env=((TOKEN_VARIABLE, key.decode() + secret),),
        )

    def close_listener(self, listener: str) -> None:
        key = self._keys.pop(listener, None)
        if key is None:
            return
        for connection in list(self._listeners.pop(key).connections):
            self.close(connection)
        if not self._listeners:
            self._close_socket()

    async def aclose(self) -> None:
        for listener in list(self._keys):
            self.close_listener(listener)
        self._close_socket()
        for writer in self._leaving:
            writer.close()
        self._leaving.clear()

    def _open(self) -> None:
        try:
            listening, self._folder = private_socket(MCP)
            self._address = self._folder.socket
        except OSError as error:
            raise ComponentError(
                f"no socket for the MCP servers of this chain: {error.strerror or error}",
                "free some descriptors or space in the temporary folder, or let the agent use "
                "HTTP: -c mcp-bridge=http",
            ) from None
        self._entrance = Entrance(
            listening,
            lambda connection: Login(connection, _TOKEN_LENGTH, entrance.LOGIN, self._logged_in),
            lambda text: self._log("warning", NAME, text),
        )

    def _close_socket(self) -> None:
        if self._entrance is not None:
            self._entrance.close()
            self._entrance = None
        if self._folder is not None:
            self._folder.remove()
            self._folder = None

    # -- clients that come -----------------------------------------------------------------------

    def _logged_in(self, login: Login, token: bytes | None) -> None:
        """A client has sent its first line, or has left (None)."""
        assert self._entrance is not None
        self._entrance.leave(login)
        if token is None:
            return
        listener = self._listeners.get(token[:_KEY_LENGTH])
        # An unknown key takes the same time as a wrong secret.
        secret = listener.secret if listener is not None else b"\0" * (_TOKEN_LENGTH - _KEY_LENGTH)
        if not hmac.compare_digest(token[_KEY_LENGTH:], secret) or listener is None:
            login.connection.close()
            self._entrance.complain("a client without the secret of a session was refused")
        elif len(self._clients) >= limits.STDIO_CLIENTS:
            login.connection.close()
            self._entrance.complain(
                f"a client was sent away: {len(self._clients)} {are(len(self._clients))} connected"
            )
        else:
            self._let_in(listener, login.connection, self._entrance)

    def _let_in(self, listener: _Listener, connection: socket.socket, at: Entrance) -> None:
        # A second descriptor, since the reader and the writer end at different times.
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
        listener.connections.add(name)
        self._clients[name] = _Client(
            self, name, listener, connection.detach(), second, self._limit
        )
        # Nothing can be read before this report: only the event loop wakes the reader.
        self._events.client_opened(name, listener.name)

    # -- connections -----------------------------------------------------------------------------

    def owns(self, connection: str) -> bool:
        return connection in self._clients

    def send(self, connection: str, frame: bytes, related: bytes | None = None) -> None:
        """Queues one line; `related` has no meaning where there is only one stream."""
        self._clients[connection].send(frame)

    def no_response(self, connection: str, request: bytes) -> None:
        """Does nothing: stdio has no message for a response that does not come."""

    def hold(self, connection: str, wait: bool) -> None:
        self._clients[connection].hold("owner", wait)

    def close(self, connection: str) -> None:
        """Closes a connection when the client has read the queued lines, but soon in any case."""
        client = self._clients.pop(connection)
        client.listener.connections.discard(connection)
        if client.finish():
            self._leaving.add(client.writer)
            loop = asyncio.get_running_loop()
            loop.call_later(limits.LINGER_SECONDS, self._left, client.writer)

    def _left(self, writer: FdWriter) -> None:
        writer.close()
        self._leaving.discard(writer)

    def received(self, connection: str, frames: list[bytes]) -> None:
        """Reports a client's lines, up to a line that leads to the connection's end."""
        for frame in frames:
            if connection in self._clients:
                self._events.client_received(connection, frame)

    def lost(self, connection: str) -> None:
        """A client has left."""
        client = self._clients.pop(connection, None)
        if client is not None:
            client.listener.connections.discard(connection)
            client.close()
            self._events.client_closed(connection)

    def check_unsent(self) -> None:
        """Closes the client with the most unsent bytes, if all have too many."""
        clients = self._clients
        if sum(client.writer.buffered for client in clients.values()) > limits.UNSENT:
            worst = max(clients, key=lambda name: clients[name].writer.buffered)
            reason = f"an MCP client took none of {limits.UNSENT} bytes; it is closed"
            # Later, since the bridge may be in a call for this client.
            asyncio.get_running_loop().call_soon(self._give_up, worst, reason)

    def check_partial_lines(self) -> None:
        """Closes the client with the longest partial line, if all have too many bytes of them."""
        clients = self._clients
        most = max(limits.PARTIAL_LINES, self._limit)
        if sum(client.partial_line for client in clients.values()) > most:
            worst = max(clients, key=lambda name: clients[name].partial_line)
            self._give_up(worst, "an MCP client does not end its line; it is closed")

    def _give_up(self, connection: str, reason: str) -> None:
        if connection in self._clients:
            self._log("warning", NAME, reason)
            self.lost(connection)


class _Client:
    """A connection whose client has shown the secret."""

    def __init__(
        self, door: StdioDoor, name: str, listener: _Listener, fd: int, second: int, limit: int
    ) -> None:
        """`fd`, `second`: descriptors of the connection, to read and to write. `limit`: bytes of
        one line."""
        self.listener = listener
        self._door = door
        self._name = name
        self._holds: set[str] = set()
        """Reasons not to read."""
        self._loop = asyncio.get_running_loop()
        self.writer = FdWriter(second, self._drained, self._failed, shut_down)
        self._reader = FdReader(
            fd,
            limit,
            lambda frames: door.received(name, frames),
            self._oversized,
            lambda _: door.lost(name),
            door.check_partial_lines,
        )

    def send(self, frame: bytes) -> None:
        """Queues a line."""
        if len(frame) < _SMALL:
            self.writer.write(frame + b"\n")
        else:
            self.writer.write(frame)
            self.writer.write(b"\n")
        if self.writer.buffered > limits.UNREAD:
            self.hold("unread", True)
            self._door.check_unsent()

    @property
    def partial_line(self) -> int:
        """Bytes of a line without an end."""
        return self._reader.held

    def hold(self, reason: str, wait: bool) -> None:
        """Reads nothing while there is any reason to wait."""
        (self._holds.add if wait else self._holds.discard)(reason)
        (self._reader.pause if self._holds else self._reader.resume)()

    def finish(self) -> bool:
        """Closes the connection once the queue is empty; whether it is not yet."""
        self._reader.close()
        self.writer.finish()
        return self.writer.buffered > 0

    def close(self) -> None:
        """Closes the connection now."""
        self._reader.close()
        self.writer.close()

    def _oversized(self, head: bytes, limit: int) -> None:
        """Answers a line that is too long, if its beginning has the id."""
        id_ = _ID.search(head.partition(b'"params"')[0])
        reason = f"the message is longer than {limit} bytes (hint: `line-limit` raises that)"
        error = json_text.encode({"code": INVALID_REQUEST, "message": reason})
        raw = id_[1] if id_ else b"null"
        self.send(b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (raw, error))

    def _drained(self) -> None:
        if self.writer.buffered <= limits.UNREAD:
            self.hold("unread", False)

    def _failed(self, _: OSError) -> None:
        # Later, since writing may fail within a call of the bridge for this client.
        self._loop.call_soon(self._door.lost, self._name)
