"""Three ways to run one proxy; each takes lines of the channel and gives lines back."""

import importlib.util
import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, Protocol

import wasm_host
from guest_sdk.python import Proxy
from guest_sdk.python.engine import Engine
from tests.places import DEADLINE, ROOT, checkout_environment

HERE: Final = Path(__file__).parent
EXAMPLES: Final = ROOT / "guest_sdk" / "python" / "examples"

Json = dict[str, Any]


class Target(Protocol):
    """A running proxy."""

    def exchange(self, lines: list[str]) -> list[str]:
        """Delivers lines of the channel, without newlines; returns the answers."""

    def close(self) -> None:
        """Ends the proxy."""


def example(name: str) -> Proxy[Any]:
    """The proxy of an example, loaded anew."""
    return load(EXAMPLES / f"{name}.py")


def load(path: Path) -> Proxy[Any]:
    """The proxy a file declares."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    proxy = module.proxy
    assert isinstance(proxy, Proxy)
    return proxy


class InProcess:
    """The engine itself."""

    def __init__(self, path: Path) -> None:
        self._engine = Engine(load(path))

    def exchange(self, lines: list[str]) -> list[str]:
        """Delivers lines."""
        return self._engine.receive(lines)

    def close(self) -> None:
        """Nothing to end."""


class Sandboxed:
    """A guest."""

    def __init__(self, guest: wasm_host.Guest) -> None:
        self._guest = guest

    def exchange(self, lines: list[str]) -> list[str]:
        """Delivers lines."""
        said = self._guest.deliver("".join(line + "\n" for line in lines).encode())
        return said.decode().split("\n")[:-1]

    def close(self) -> None:
        """Ends the guest."""
        self._guest.close()


class Process:
    """A program that speaks the dialect `acp`; its lines are shown as a guest's would be.

    Ids of requests to it are made different on either side, as a conductor does, since it has one
    connection only. Its own requests keep the ids it gave them.
    """

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=checkout_environment(),
        )
        self._held = b""
        self._sides: dict[str, str] = {}
        self._marks = 0

    def exchange(self, lines: list[str]) -> list[str]:
        """Sends lines, and a request without a handler; the lines that come before that request are
        the answers."""
        self._marks += 1
        mark = f"_mark/{self._marks}"
        asked = {"jsonrpc": "2.0", "id": mark, "method": mark}
        sent = [json.dumps(self._outer(line[0], json.loads(line[1:]))) for line in lines]
        assert self._process.stdin is not None
        self._process.stdin.write(
            "".join(f"{one}\n" for one in [*sent, json.dumps(asked)]).encode()
        )
        self._process.stdin.flush()
        said: list[str] = []
        while True:
            message = json.loads(self._line())
            if message.get("params", {}).get("method") == mark:
                return said
            side, inner = self._inner(message)
            said.append(side + json.dumps(inner, separators=(",", ":")))

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        out = self._process.stdout.fileno()
        while b"\n" not in self._held:
            ready, _, _ = select.select([out], [], [], DEADLINE)
            assert ready, "the proxy says nothing"
            data = os.read(out, 1 << 16)
            assert data, f"the proxy has ended: {self._process.wait()}"
            self._held += data
        line, _, self._held = self._held.partition(b"\n")
        return line

    def _outer(self, side: str, message: Json) -> Json:
        if "method" not in message:
            return message
        if message["method"] == "$/cancel_request":
            asked = f"{side}{message['params']['requestId']}"
            return {**message, "params": {"requestId": asked}}
        ids = {"id": f"{side}{message['id']}"} if "id" in message else {}
        method, params = message["method"], message.get("params")
        held = {"params": params} if params is not None else {}
        if side == "c":
            method = f"_conductor/{method}"
        elif side == "s":
            held = {"params": {"method": method, **held}}
            method = "proxy/successor"
        elif method == "initialize":
            method = "proxy/initialize"
        return {"jsonrpc": "2.0", **ids, "method": method, **held}

    def _inner(self, message: Json) -> tuple[str, Json]:
        method = message.get("method")
        if method is None:
            side, number = message["id"][0], message["id"][1:]
            return side, {**message, "id": int(number)}
        if method == "$/cancel_request":
            return self._sides[message["params"]["requestId"]], message
        ids = {"id": message["id"]} if "id" in message else {}
        params = message.get("params")
        side, held = "p", {"params": params} if params is not None else {}
        if method == "proxy/successor":
            assert params is not None
            side, method = "s", params["method"]
            held = {"params": params["params"]} if "params" in params else {}
        elif method.startswith("_conductor/"):
            side, method = "c", method.removeprefix("_conductor/")
        if ids:
            self._sides[message["id"]] = side
        return side, {"jsonrpc": "2.0", **ids, "method": method, **held}

    def close(self) -> None:
        """Ends its input; it ends by itself."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        assert self._process.wait(DEADLINE) == 0
        self._process.stdout.close()


def play(target: Target, path: Path) -> None:
    """Plays a transcript: the same answers, whatever ids the proxy gives its own requests."""
    ids: dict[tuple[str, str], Any] = {}
    for number, given, expected in _deliveries(path):
        lines = [_answering(line, ids) for line in given]
        said = target.exchange(lines)
        where = f"{path.name}:{number}"
        assert len(said) == len(expected), (where, said)
        for one, other in zip(said, expected, strict=True):
            found, wanted = json.loads(one[1:]), json.loads(other[1:])
            if "method" in wanted and "id" in wanted:
                ids[other[0], json.dumps(wanted["id"])] = found.pop("id")
                del wanted["id"]
            if wanted.get("method") == "$/cancel_request":
                asked = json.dumps(wanted["params"].pop("requestId"))
                assert found["params"].pop("requestId") == ids[other[0], asked], where
            assert (one[0], found) == (other[0], wanted), where


def _answering(line: str, ids: dict[tuple[str, str], Any]) -> str:
    message = json.loads(line[1:])
    if "method" in message:
        return line
    message["id"] = ids[line[0], json.dumps(message["id"])]
    return line[0] + json.dumps(message, separators=(",", ":"))


def _deliveries(path: Path) -> list[tuple[int, list[str], list[str]]]:
    found: list[tuple[int, list[str], list[str]]] = []
    fresh = True
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("> "):
            if fresh:
                found.append((number, [], []))
            found[-1][1].append(line[2:])
        elif line.startswith("< "):
            found[-1][2].append(line[2:])
        else:
            assert not line or line.startswith("#"), f"{path.name}:{number}"
        fresh = not line or line.startswith("#")
    return found
