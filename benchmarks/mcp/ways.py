"""One connected client for each way to reach a tool."""

import http.client
import json
import os
import shlex
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

Json = dict[str, Any]
HERE: Final = Path(__file__).parent
_TEXT: Final = "x" * 100
_HELLO: Final = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1"},
}


class WayError(Exception):
    """A way leads nowhere; the text says why."""


@dataclass(frozen=True, slots=True)
class Calls:
    """The times of some calls, in nanoseconds: of each call, and of all together."""

    each: tuple[int, ...]
    all: int


class Lines:
    """A program that is spoken to in lines of JSON; ended with the block."""

    def __init__(self, command: Sequence[str], env: dict[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **(env or {})},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def send(self, message: Json) -> None:
        """Writes one message."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._process.stdin.flush()

    def answer(self) -> Json:
        """The next answer. Raises `WayError` when there will be none, or it is an error."""
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            message: Json = json.loads(line)
            if "method" not in message:
                if "error" in message:
                    raise WayError(str(message["error"]))
                return message
        raise WayError(f"it ended with exit code {self._process.wait()}")

    def ask(self, number: int, method: str, params: Json) -> Json:
        """Asks, and waits for the answer."""
        self.send({"id": number, "method": method, "params": params})
        found: Json = self.answer()["result"]
        return found


class Way(ABC):
    """One way, open for the time of the block."""

    label: str

    def __init__(self, conductor: Sequence[str]) -> None:
        self._conductor = conductor
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        try:
            self.open()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    @abstractmethod
    def open(self) -> None:
        """Connects, as far as the first call."""

    @abstractmethod
    def calls(self, count: int, most_open: int) -> Calls:
        """Calls the tool so often, with so many calls open at a time."""

    def _chain(self, flags: str) -> Lines:
        agent = shlex.join([sys.executable, str(HERE / "agent.py"), flags])
        command = [*self._conductor, "agent", "tools-demo", agent]
        chain = self._stack.enter_context(Lines(command))
        chain.ask(0, "initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        chain.ask(1, "session/new", {"cwd": "/", "mcpServers": []})
        return chain

    def _declared(self, flags: str) -> Json:
        found: Json = prompt(self._chain(flags), "servers")[0]
        if not found.keys() & {"command", "url"}:
            raise WayError(f"this was declared to an agent without MCP over ACP: {found}")
        return found


def prompt(chain: Lines, text: str) -> Any:
    """The answer of the benchmark's agent to a prompt."""
    block = {"type": "text", "text": text}
    result = chain.ask(2, "session/prompt", {"sessionId": "s1", "prompt": [block]})
    return result["_meta"]["told"]


def _params() -> Json:
    return {"name": "echo", "arguments": {"text": _TEXT}}


class _OverLines(Way):
    """MCP over stdio."""

    def connect(self, lines: Lines) -> None:
        """The handshake."""
        self._lines = self._stack.enter_context(lines)
        self._lines.ask(0, "initialize", _HELLO)
        self._lines.send({"method": "notifications/initialized"})

    def calls(self, count: int, most_open: int) -> Calls:
        """Calls the tool."""
        started: dict[int, int] = {}
        took: list[int] = []
        asked = 0
        begun = time.monotonic_ns()
        while len(took) < count:
            while asked < count and len(started) < most_open:
                asked += 1
                started[asked] = time.monotonic_ns()
                self._lines.send({"id": asked, "method": "tools/call", "params": _params()})
            answer = self._lines.answer()
            took.append(time.monotonic_ns() - started.pop(answer["id"]))
        return Calls(tuple(took), time.monotonic_ns() - begun)


class Plain(_OverLines):
    """The yardstick: an ordinary server, started by the client itself."""

    label = "plain Python server, stdio"

    def open(self) -> None:
        """Starts the server."""
        self.connect(Lines([sys.executable, str(HERE / "plain_server.py")]))


class Shim(_OverLines):
    """The stdio shim."""

    label = "sandboxed tool, stdio shim"

    def open(self) -> None:
        """Starts the shim as declared."""
        declared = self._declared("--stdio")
        env = {each["name"]: each["value"] for each in declared["env"]}
        self.connect(Lines([declared["command"], *declared["args"]], env))


class Http(Way):
    """The loopback HTTP server, one connection, one call at a time."""

    label = "sandboxed tool, HTTP"

    def open(self) -> None:
        """Opens a session."""
        declared = self._declared("--http")
        url = urlsplit(declared["url"])
        self._path = url.path
        self._headers = {each["name"]: each["value"] for each in declared["headers"]}
        self._headers["Content-Type"] = "application/json"
        self._headers["Accept"] = "application/json, text/event-stream"
        self._http = http.client.HTTPConnection(str(url.hostname), url.port, timeout=30)
        self._stack.callback(self._http.close)
        response = self._post({"id": 0, "method": "initialize", "params": _HELLO})
        self._headers["Mcp-Session-Id"] = str(response.getheader("mcp-session-id"))
        self._post({"method": "notifications/initialized"})

    def _post(self, message: Json) -> http.client.HTTPResponse:
        body = json.dumps({"jsonrpc": "2.0", **message})
        self._http.request("POST", self._path, body, self._headers)
        response = self._http.getresponse()
        held = response.read()
        if response.status not in (200, 202) or b'"error"' in held:
            raise WayError(f"{response.status}: {held[:200]!r}")
        return response

    def calls(self, count: int, most_open: int) -> Calls:
        """Calls the tool, one call after the other, whatever `most_open` is."""
        del most_open
        took: list[int] = []
        begun = time.monotonic_ns()
        for number in range(1, count + 1):
            started = time.monotonic_ns()
            self._post({"id": number, "method": "tools/call", "params": _params()})
            took.append(time.monotonic_ns() - started)
        return Calls(tuple(took), time.monotonic_ns() - begun)


class Native(Way):
    """MCP over ACP: the agent calls the tool on its one connection."""

    label = "sandboxed tool, native ACP"

    def open(self) -> None:
        """Starts the chain."""
        self._running = self._chain("--acp")

    def calls(self, count: int, most_open: int) -> Calls:
        """Has the agent call the tool."""
        told = prompt(self._running, f"calls {count} {most_open}")
        return Calls(tuple(told["each"]), told["all"])


WAYS: Final[tuple[type[Way], ...]] = (Plain, Shim, Http, Native)
