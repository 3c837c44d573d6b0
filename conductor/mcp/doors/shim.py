"""`conductor mcp ADDRESS`: an MCP server over stdio whose messages the conductor serves.

Agents that only know stdio servers start this. Lines from standard input go to the conductor's
listener, its lines to standard output, unchanged. ADDRESS is the path of a Unix socket. The secret
that opens the session's door comes in the environment (`TOKEN_VARIABLE`) and leaves as the first
line; without one, nothing is put before the messages.
`conductor.mcp.doors.stdio` is the other end.

The agent never waits in vain: when the shim cannot reach the conductor, or the conductor ends, each
open and each later request gets a JSON-RPC error, until standard input ends. Standard library only,
and little of it: agents wait for this to start.
"""

from __future__ import annotations

import _thread
import json
import os
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing takes several milliseconds
    from collections.abc import Callable, Iterator
    from typing import Any

HELP = "Be an MCP server over stdio. Agents start this themselves."
WORDS = ("ADDRESS", "The conductor's socket.")

TOKEN_VARIABLE = "CONDUCTOR_MCP_TOKEN"  # noqa: S105 - the variable's name, not a secret
_CHUNK = 256 * 1024
_SERVER_ERROR = -32603
GRACE = 5.0
"""Seconds for open requests to be answered after standard input has ended."""

_IDLE = 5.0
"""Seconds for a first request, which then gets the reason why there is no conductor."""


class Shim:
    """One connection: a thread for each direction, and the ids of open requests."""

    def __init__(self, address: str, token: str) -> None:
        self.address = address
        self.token = token
        self.open: dict[str, Any] = {}
        """The agent's requests without an answer: JSON of the id to the id."""
        self.gone = ""
        """Why the conductor does not serve any more; empty while it does."""
        self.finishing = False
        self._ended = _thread.allocate_lock()
        self._writing = _thread.allocate_lock()

    def run(self) -> int:
        """Passes lines until standard input ends; the exit code: 0, or 1 without a conductor."""
        try:
            connection = connect(self.address, self.token)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            self._lost(f"cannot reach the conductor at `{self.address}`: {reason}")
            import select

            # Standard input has data, or its end: a request in it gets an error that says why.
            if select.select([0], [], [], _IDLE)[0]:
                self._read_input(None)
            return 1
        self._ended.acquire()
        _thread.start_new_thread(self._read_conductor, (connection,))
        self._read_input(connection)
        self._finish(connection)
        return 1 if self.gone else 0

    def _read_input(self, connection: socket.socket | None) -> None:
        """Passes the agent's lines to the conductor, whole lines only, to the end."""
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
                self.refuse_open()

    def _read_conductor(self, connection: socket.socket) -> None:
        """Passes the conductor's lines to the agent; at their end, refuses all open requests."""
        silent = True
        try:
            for line in lines(lambda: connection.recv(_CHUNK)):
                silent = False
                message = read(line)
                key = _key(message) if "method" not in message else None
                self._write(line)
                if key is not None:
                    self.open.pop(key, None)
                    if self.finishing and not self.open:
                        break
        except OSError:
            pass  # a reset connection is reported like one that ends, below
        if not self.finishing:
            what = "closed the connection without a word" if silent else "is gone"
            self._lost(f"the conductor at `{self.address}` {what}")
            self.refuse_open()
        self._ended.release()

    def _finish(self, connection: socket.socket) -> None:
        """Standard input has ended: gives open requests a moment."""
        self.finishing = True
        if self.open and not self.gone:
            self._ended.acquire(timeout=GRACE)
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it was gone already

    def _lost(self, what: str) -> None:
        if self.gone or self.finishing:
            return
        self.gone = what
        report(what)

    def refuse_open(self) -> None:
        """Answers every open request with an error. Both threads may be here at once."""
        while self.open:
            try:
                _, identifier = self.open.popitem()
            except KeyError:
                return  # the other thread had the last one
            self._write(json.dumps(refusal(identifier, self.gone)).encode() + b"\n")

    def _write(self, line: bytes) -> None:
        """Writes a whole line to the agent; ends the process if the agent no longer reads."""
        with self._writing:
            view = memoryview(line)
            try:
                while view:
                    view = view[os.write(1, view) :]
            except OSError:
                os._exit(0)


def connect(address: str, token: str) -> socket.socket:
    """Connects to the conductor, and sends the secret. Raises `OSError`, `ValueError`."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(address)
    if token:
        connection.sendall(token.encode() + b"\n")
    return connection


def lines(read_chunk: Callable[[], bytes]) -> Iterator[bytes]:
    """Whole lines with their newlines, from a function that returns bytes, and none at the end.

    A last line without a newline gets one, since it is a message like the others.
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
    """The message of a line; empty if it is no JSON object, which the conductor will refuse."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _key(message: dict[str, Any]) -> str | None:
    """The id of a message as JSON, so that 1 differs from "1"; None if there is none."""
    identifier = message.get("id")
    return None if identifier is None else json.dumps(identifier)


def refusal(identifier: Any, why: str) -> dict[str, Any]:
    """The error for a request that the conductor will not answer."""
    error = {"code": _SERVER_ERROR, "message": why, "data": {"hint": HINT}}
    return {"jsonrpc": "2.0", "id": identifier, "error": error}


HINT = "its session or its chain has ended; start a new session, and see the conductor's stderr"


def report(what: str) -> None:
    """Reports an error on standard error, from which agents log for their servers."""
    try:
        os.write(2, f"error: {what}\n\nhint: {HINT}\n".encode())
    except OSError:
        return  # nobody reads standard error, so there is no place for a report


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
