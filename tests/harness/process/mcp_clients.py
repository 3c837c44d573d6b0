"""MCP clients of the tests' own, for what an agent was given; standard library only.

`Shim` starts the program an agent would start; `Door` connects to what that connects to; `Http`
posts to a URL. What a server sends before an answer is kept in `told`, in order.
"""

import http.client
import json
import os
import socket
import subprocess
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

from tests.harness.process.rig import Chain
from tests.places import DEADLINE

Json = dict[str, Any]
HELLO: Final[Json] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


def given(chain: Chain, session: str) -> dict[str, Json]:
    """The servers the agent was given for a session, by name."""
    return {entry["name"]: entry for entry in json.loads(chain.prompt(session, "/servers"))}


def declaration_of(chain: Chain, session: str) -> Json:
    """The one server the agent was given for a session."""
    (entry,) = given(chain, session).values()
    return entry


def pairs(entries: list[Json]) -> dict[str, str]:
    """ACP's list of names and values as an object."""
    return {each["name"]: each["value"] for each in entries}


class _Lines:
    """A client of lines of JSON; `serves` answers the server's requests."""

    def __init__(self) -> None:
        self.told: list[Json] = []
        self.serves: Callable[[Json], Json] = lambda frame: {"error": {"code": -32601}}

    def write(self, line: bytes) -> None:
        """Sends a line."""
        raise NotImplementedError

    def read(self) -> bytes:
        """The next line; nothing at the end."""
        raise NotImplementedError

    def send(self, **message: Any) -> None:
        """Sends one message."""
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def answer(self, number: int) -> Json:
        """Waits for the answer to a request."""
        while True:
            line = self.read()
            assert line, f"the connection ended before {number} was answered"
            frame: Json = json.loads(line)
            if "method" not in frame:
                assert frame["id"] == number
                return frame
            self.told.append(frame)
            if "id" in frame:
                self.send(id=frame["id"], **self.serves(frame))

    def ask(self, number: int, method: str, params: Json | None = None) -> Json:
        """Asks, and waits for the answer."""
        self.send(id=number, method=method, params=params or {})
        return self.answer(number)

    def begin(self, **able: Json) -> Json:
        """The handshake; returns the server's words about itself."""
        answer = self.ask(0, "initialize", {**HELLO, "capabilities": able})
        self.send(method="notifications/initialized")
        assert "result" in answer, answer
        result: Json = answer["result"]
        return result

    def tool(self, number: int, name: str, text: str = "", **meta: object) -> str:
        """Calls a tool; its text."""
        params = {"name": name, "arguments": {"text": text}, "_meta": meta}
        answer = self.ask(number, "tools/call", params)
        assert "result" in answer, answer
        return str(answer["result"]["content"][0]["text"])


class Shim(_Lines):
    """The program the agent would start."""

    def __init__(self, entry: Json) -> None:
        super().__init__()
        self.process = subprocess.Popen(
            [entry["command"], *entry["args"]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **pairs(entry["env"])},
        )

    def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def read(self) -> bytes:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def end(self) -> tuple[int, str]:
        """Ends the program's input; returns its exit code and its standard error."""
        _, said = self.process.communicate(timeout=DEADLINE)
        return self.process.returncode, said.decode()

    def close(self) -> None:
        """Kills it, if it is there."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


class Door(_Lines):
    """A connection to the socket that shims connect to, which is quicker to make than a process."""

    def __init__(self, entry: Json) -> None:
        super().__init__()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(DEADLINE)
        self._socket.connect(entry["args"][-1])
        self._file = self._socket.makefile("rb")
        (secret,) = pairs(entry["env"]).values()
        self.write(secret.encode() + b"\n")

    def write(self, line: bytes) -> None:
        self._socket.sendall(line)

    def read(self) -> bytes:
        return self._file.readline()

    def refused(self) -> bool:
        """Whether a request is not even answered: the connection ends."""
        try:
            self.send(id=0, method="tools/list")
            return self.read() == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        """Drops the connection."""
        self._file.close()
        self._socket.close()


class Http:
    """A client of one URL over one connection, which comes again when it has been closed."""

    def __init__(self, entry: Json) -> None:
        url = urlsplit(entry["url"])
        self._path = url.path
        self._connection = http.client.HTTPConnection(str(url.hostname), url.port, DEADLINE)
        self.headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **pairs(entry["headers"]),
        }

    def post(self, message: Json, **headers: str) -> http.client.HTTPResponse:
        """Sends one message; the response, of which the body has not been read."""
        body = json.dumps({"jsonrpc": "2.0", **message})
        self._connection.request("POST", self._path, body, {**self.headers, **headers})
        return self._connection.getresponse()

    def begin(self) -> None:
        """Begins a session."""
        response = self.post({"id": 0, "method": "initialize", "params": HELLO})
        assert response.status == 200, response.read()
        self.headers["Mcp-Session-Id"] = str(response.getheader("mcp-session-id"))
        response.read()

    def close(self) -> None:
        """Drops the connection."""
        self._connection.close()
