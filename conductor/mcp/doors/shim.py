"""`conductor mcp ADDRESS`: an MCP server over stdio whose messages the conductor serves.

Agents that only know stdio servers start this. Lines from standard input go to the conductor's
listener, its lines to standard output, unchanged. ADDRESS is the path of a Unix socket, or a TCP
port of 127.0.0.1. The secret that opens the session's door comes in the environment
(`TOKEN_VARIABLE`) and leaves as the first line; without one, nothing is put before the messages.
`conductor.mcp.doors.stdio` is the other end.

The agent is never left waiting: when the conductor cannot be reached, or is gone, every request
that is open or comes later is answered with a JSON-RPC error that says so, until standard input
ends. Standard library only, and little of it: agents wait for this to start.
"""

from __future__ import annotations

import _thread
import json
import os
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # without importing typing, which takes a while
    from collections.abc import Callable, Iterator
    from typing import Any

TOKEN_VARIABLE = "CONDUCTOR_MCP_TOKEN"  # noqa: S105 - the variable's name, not a secret
_CHUNK = 256 * 1024
_SERVER_ERROR = -32603
_GRACE = 5.0
"""Seconds that open requests may take to be answered after standard input has ended."""

_IDLE = 5.0
"""Seconds a client has for its first request, to be told why there is no conductor."""


class Shim:
    """One connection: two pumps, and the ids of the requests that wait for an answer."""

    def __init__(self, address: str, token: str) -> None:
        self.address = address
        self.token = token
        self.open: dict[str, Any] = {}
        """Requests of the agent's without an answer: JSON of the id to the id."""
        self.gone = ""
        """Why the conductor serves no longer; empty while it does."""
        self.finishing = False
        self._ended = _thread.allocate_lock()
        self._writing = _thread.allocate_lock()

    def run(self) -> int:
        """Pumps until standard input ends; the exit code: 0, or 1 if the conductor was missing."""
        try:
            connection = connect(self.address, self.token)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            self._lost(f"cannot reach the conductor at `{self.address}`: {reason}")
            if _readable(_IDLE):
                self._read_input(None)
            return 1
        self._ended.acquire()
        _thread.start_new_thread(self._read_conductor, (connection,))
        self._read_input(connection)
        self._finish(connection)
        return 1 if self.gone else 0

    def _read_input(self, connection: socket.socket | None) -> None:
        """The agent's lines to the conductor, whole ones only, until there are no more."""
        for line in lines(lambda: os.read(0, _CHUNK)):
            message = read(line)
            key = _key(message) if "method" in message else None
            if key is not None:
                self.open[key] = message["id"]
            if connection is not None and not self.gone:
                try:
                    connection.sendall(line)
                except OSError:
                    self._lost(f"the conductor at `{self.address}` is gone")
            if self.gone:
                self._refuse_open()

    def _read_conductor(self, connection: socket.socket) -> None:
        """The conductor's lines to the agent; at their end, errors to all who wait."""
        heard = False
        try:
            for line in lines(lambda: connection.recv(_CHUNK)):
                heard = True
                message = read(line)
                key = _key(message) if "method" not in message else None
                self._write(line)
                if key is not None:
                    self.open.pop(key, None)
                    if self.finishing and not self.open:
                        break
        except OSError:
            pass  # reset: it is gone all the same, which is told below
        if not self.finishing:
            said = "is gone" if heard else "closed the connection without a word"
            self._lost(f"the conductor at `{self.address}` {said}")
            self._refuse_open()
        self._ended.release()

    def _finish(self, connection: socket.socket) -> None:
        """Standard input has ended: what is still open gets a moment."""
        self.finishing = True
        if self.open and not self.gone:
            self._ended.acquire(timeout=_GRACE)
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it was gone already

    def _lost(self, what: str) -> None:
        if self.gone or self.finishing:
            return
        self.gone = what
        report(what)

    def _refuse_open(self) -> None:
        """Answers every open request with why it will get no other answer."""
        while self.open:
            try:
                _, identifier = self.open.popitem()
            except KeyError:
                return  # the other thread had the last one
            self._write(json.dumps(refusal(identifier, self.gone)).encode() + b"\n")

    def _write(self, line: bytes) -> None:
        """A whole line to the agent; ends the process when nobody reads any more."""
        with self._writing:
            view = memoryview(line)
            try:
                while view:
                    view = view[os.write(1, view) :]
            except OSError:
                os._exit(0)


def connect(address: str, token: str) -> socket.socket:
    """The conductor's listener, with the secret presented. Raises `OSError`, `ValueError`."""
    if address.isdecimal():
        connection = socket.create_connection(("127.0.0.1", int(address)))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    elif hasattr(socket, "AF_UNIX"):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(address)
    else:
        raise ValueError("this system has no Unix sockets")
    if token:
        connection.sendall(token.encode() + b"\n")
    return connection


def lines(read_chunk: Callable[[], bytes]) -> Iterator[bytes]:
    """Whole lines with their newlines, from a function that gives bytes, and none at the end.

    A last line without a newline gets one: it is a message like the others.
    """
    parts: list[bytes] = []
    while chunk := read_chunk():
        start = 0
        while (end := chunk.find(b"\n", start) + 1) > 0:
            parts.append(chunk[start:end])
            yield b"".join(parts) if len(parts) > 1 else parts[0]
            parts.clear()
            start = end
        if start < len(chunk):
            parts.append(chunk[start:])
    if parts:
        yield b"".join(parts) + b"\n"


def read(line: bytes) -> dict[str, Any]:
    """The message of a line; nothing if it is no JSON object (the conductor tells its sender)."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _key(message: dict[str, Any]) -> str | None:
    """What tells the id of a message from others: 1 is not "1"; None if there is none."""
    identifier = message.get("id")
    return None if identifier is None else json.dumps(identifier)


def refusal(identifier: Any, why: str) -> dict[str, Any]:
    """The answer to a request that the conductor will not answer."""
    error = {"code": _SERVER_ERROR, "message": why, "data": {"hint": HINT}}
    return {"jsonrpc": "2.0", "id": identifier, "error": error}


HINT = "its session or its chain has ended; start a new session, and see the conductor's stderr"


def report(what: str) -> None:
    """Says on standard error, where agents keep their servers' logs, what went wrong."""
    try:
        os.write(2, f"error: {what}\n\nhint: {HINT}\n".encode())
    except OSError:
        return  # nobody reads our standard error: there is nowhere to say so


def _readable(seconds: float) -> bool:
    """Whether standard input has something, or its end, within this time."""
    import select

    return bool(select.select([0], [], [], seconds)[0])


def main(arguments: list[str]) -> int:
    """Runs `conductor mcp ADDRESS`; the exit code, 130 if interrupted."""
    (address,) = arguments
    token = os.environ.get(TOKEN_VARIABLE, "")
    try:
        return Shim(address, token).run()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
