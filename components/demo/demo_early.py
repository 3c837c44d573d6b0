"""``--fast``: MCP connections that are opened before ``session/new`` is answered.

Agents do this. What is sent on them may reach the conductor before it knows the session's id. A
server is greeted when the session is set up, and ``/early`` waits for its answer. Standard library
only, and loaded only then.
"""

import os
import subprocess
import threading
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

from demo_json import dumps, loads
from demo_mcp import MODERN_META, listed
from demo_rpc import Connection
from demo_turn import Turn

Json = dict[str, Any]

_PARAMS = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "demo", "version": "0.1.0"},
}
_HELLO = dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _PARAMS}).encode()
_SECONDS = 300.0


class Early:
    """A connection to one server on which the greeting was sent."""

    def answer(self) -> Any:
        """Wait for the answer to the greeting. Raises OSError, HTTPException or ValueError."""
        raise NotImplementedError

    def close(self) -> None:
        """End the connection; who waits is told at once. May be called more than once."""
        raise NotImplementedError


class _Stdio(Early):
    def __init__(self, entry: Json, cwd: str) -> None:
        env = {each["name"]: each["value"] for each in entry.get("env", [])}
        self._process = subprocess.Popen(
            [entry["command"], *entry.get("args", [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **env},
            cwd=cwd,
        )
        assert self._process.stdin
        self._process.stdin.write(_HELLO + b"\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise ConnectionError("it ended without an answer")
        return loads(line.decode())

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class _Http(Early):
    def __init__(self, entry: Json) -> None:
        url = urlsplit(entry["url"])
        self._connection = HTTPConnection(str(url.hostname), url.port, timeout=_SECONDS)
        headers = {each["name"]: each["value"] for each in entry.get("headers", [])}
        headers["Content-Type"] = "application/json"
        headers["Accept"] = "application/json, text/event-stream"
        self._connection.request("POST", url.path, _HELLO, headers)

    def answer(self) -> Any:
        text = self._connection.getresponse().read().decode()
        _, event, data = text.rpartition("\ndata: ")  # the answer is a stream's last event
        return loads(data if event else text)

    def close(self) -> None:
        self._connection.close()


class _Native(Early):
    def __init__(self, entry: Json, connection: Connection, session_id: str) -> None:
        self._done = threading.Event()
        message = {
            "serverId": entry.get("serverId", entry.get("id")),
            "requestId": f"{session_id}-early",
            "method": "server/discover",
            "params": {"_meta": MODERN_META},
        }
        self._connection = connection
        self._pending = connection.request("mcp/message", dumps(message), self._done.set)

    def answer(self) -> Any:
        self._done.wait()
        answer = self._pending.answer
        if answer is None:
            raise ConnectionError("it was given up")
        outcome = loads(answer.text)
        return outcome if answer.ok else {"error": outcome}

    def close(self) -> None:
        if not self._done.is_set():
            self._connection.forget(self._pending)
            self._done.set()


def greet(connection: Connection, session_id: str, cwd: str, declared: Any) -> dict[str, Early]:
    """Connect to each declared server and send the greeting, without waiting for an answer; those
    that cannot be reached are left out."""
    opened: dict[str, Early] = {}
    for name, entry in listed(declared).items():
        try:
            if "command" in entry:
                opened[name] = _Stdio(entry, cwd)
            elif entry.get("type") == "acp":
                opened[name] = _Native(entry, connection, session_id)
            else:
                opened[name] = _Http(entry)
        except (OSError, HTTPException):
            continue  # /early does not list it
    return opened


def show(turn: Turn) -> None:
    """Do ``/early``: a line for each connection of the session, which is closed then."""
    opened, turn.session.early = turn.session.early, {}
    lines = []
    turn.flush()
    for name, connection in opened.items():
        turn.on_stop(connection.close)
        try:
            answer = connection.answer()
            lines.append(f"{name}: {dumps(answer.get('result', answer.get('error')))}")
        except (OSError, HTTPException, ValueError) as error:
            lines.append(f"{name}: {type(error).__name__}: {error}")
        finally:
            turn.on_stop(None)
            connection.close()
    turn.say("\n".join(lines) or "no MCP connection was opened early")
