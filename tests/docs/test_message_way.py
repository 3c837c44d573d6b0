"""docs/architecture.md, "The way of a message": a prompt takes the way that the page describes."""

import asyncio
import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

from conductor.run.guest_module import load
from conductor.run.launch import Launcher
from conductor.run.runtime import Runtime
from conductor.run.segment import Segment
from conductor.run.segment_loop import ParentOutput
from conductor.run.segment_spec import SegmentSpec, guest_spec
from conductor.spec.catalog import resolve_all
from conductor.spec.options import Options
from conductor.spec.plan import Plan
from conductor.transports.memory import Channel, MemoryTransport
from tests.harness.router.policed import DONE, PROMPT, Hole, cancel, chain, request, result
from tests.places import PASSTHROUGH, ROOT

PAGE: Final = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")

NAMES: Final = ("a", "b", "c", "d")
PATIENCE: Final = 60.0
"""Seconds that only a hang takes."""

Json = dict[str, Any]

INITIALIZE: Final[Json] = {"protocolVersion": 1, "clientCapabilities": {}}
SETUP: Final[Json] = {"cwd": "/", "mcpServers": []}


def prompt(session: str) -> Json:
    return {"sessionId": session, "prompt": [{"type": "text", "text": "hi"}]}


def steps(section: str) -> list[str]:
    """The functions that a section of the page names, in order."""
    match = re.search(rf"<!-- way: {section} -->(.*?)<!-- /way -->", PAGE, re.DOTALL)
    assert match is not None, section
    names = re.findall(r"`((?:conductor|wasm_host)/[\w/]+\.py:[\w.]+)`", match[1])
    # Types are explained there as well; they are not called.
    return [name for name in names if name.rpartition(":")[2].rpartition(".")[2][0].islower()
            or name.rpartition(":")[2].rpartition(".")[2].startswith("_")]  # fmt: skip


class Calls:
    """Records which functions of ours are called while it is active."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __enter__(self) -> None:
        sys.setprofile(self._see)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _see(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            path = Path(frame.f_code.co_filename)
            if path.is_relative_to(ROOT):
                name = frame.f_code.co_qualname
                self.names.append(f"{path.relative_to(ROOT).as_posix()}:{name}")

    def take(self, section: str) -> None:
        """Finds the functions of a section in the calls, one behind the other."""
        calls = iter(self.names)
        missing = [name for name in steps(section) if name not in calls]
        assert missing == [], f"not called, or not in this order: {missing}"


@pytest.fixture
def guests(tmp_path: Path) -> list[str]:
    """Four guests of a stranger's, so each has the default policy."""
    paths = [tmp_path / f"{name}.wasm" for name in NAMES]
    for path in paths:
        shutil.copy(PASSTHROUGH, path)
    return [str(path) for path in paths]


def test_through_the_conductor(guests: list[str]) -> None:
    down, up = Calls(), Calls()

    async def editor(channel: Channel) -> None:
        async def answer(request: str) -> Json:
            while True:
                line = await channel.receive()
                assert line is not None
                message: Json = json.loads(line)
                if message.get("id") == request:
                    result: Json = message["result"]
                    return result

        def ask(method: str, params: Json) -> None:
            request = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
            channel.send(json.dumps(request).encode())

        ask("initialize", INITIALIZE)
        await answer("initialize")
        ask("session/new", SETUP)
        session = (await answer("session/new"))["sessionId"]
        with down:
            ask("session/prompt", prompt(session))
            await answer("session/prompt")
        up.names = down.names

    options = Options()
    specs = resolve_all([*guests, "demo"])
    launcher = Launcher(Plan(components=tuple(specs), options=options), lambda *_: None)
    planned, guardian = launcher.plan(specs), launcher.guardian
    runtime = Runtime(planned, "agent", MemoryTransport(editor), options)
    assert asyncio.run(asyncio.wait_for(runtime.run(), PATIENCE)) == 0
    guardian.release()
    down.take("conductor")
    up.take("update")


class _Lines(ParentOutput):
    """Keeps the lines that the child would write to its parent."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[bytes] = []

    def send(self, lines: bytes) -> None:
        self.lines += lines.splitlines()

    def take(self) -> tuple[bytes, Json]:
        """The one message on side `p` or `s` since the last time."""
        ((side, message),) = (
            (line[:1], json.loads(line[1:])) for line in self.lines if line[:1] in (b"p", b"s")
        )
        self.lines.clear()
        return side, message


@pytest.fixture
def child(guests: list[str]) -> Iterator[tuple[Segment, _Lines]]:
    specs = [guest_spec(spec, b"null") for spec in resolve_all(guests)]
    output = _Lines()
    modules = {spec.name: load(spec, None) for spec in specs}
    segment = Segment(SegmentSpec(specs), modules, output)
    segment.start()
    yield segment, output
    segment.close()


def test_through_the_guests(child: tuple[Segment, _Lines]) -> None:
    segment, output = child
    down, up = Calls(), Calls()

    def feed(side: bytes, message: Json) -> Json:
        segment.feed([side + json.dumps({"jsonrpc": "2.0", **message}).encode()])
        while segment.settle() == 0:
            pass
        out, answer = output.take()
        assert out != side
        return answer

    def ask(number: int, method: str, params: Json, result: Json) -> Json:
        with down:
            request = feed(b"p", {"id": number, "method": method, "params": params})
        assert (request["method"], request["params"]) == (method, params)
        with up:
            return feed(b"s", {"id": request["id"], "result": result})

    ask(1, "initialize", INITIALIZE, {"protocolVersion": 1, "agentCapabilities": {}})
    ask(2, "session/new", SETUP, {"sessionId": "s"})
    down.names.clear()
    up.names.clear()
    answer = ask(3, "session/prompt", prompt("s"), {"stopReason": "end_turn"})
    assert answer == {"jsonrpc": "2.0", "id": 3, "result": {"stopReason": "end_turn"}}
    down.take("child")
    up.take("answer")


def test_a_cancellation() -> None:
    calls, said = Calls(), prompt("S")
    with chain(profile="context") as pb:
        pb >> ("client", request("a", PROMPT, said))
        pb << ("g", "p", request(Hole("g"), PROMPT, said))
        pb >> ("g", "s", request(Hole("g"), PROMPT, said))
        pb << ("agent", request(Hole("agent"), PROMPT, said))
        with calls:
            pb >> ("client", cancel("a"))
        pb << ("g", "p", cancel(Hole("g"))) << ("agent", cancel(Hole("agent")))
        pb >> ("agent", result(Hole("agent"), DONE))
        pb << ("g", "s", result(Hole("g"), DONE)) << ("client", result("a", DONE))
    calls.take("cancel")


def test_by_the_shortcut(child: tuple[Segment, _Lines]) -> None:
    segment, output = child
    calls = Calls()

    def feed(line: bytes) -> bytes:
        output.lines.clear()
        segment.feed([line])
        while segment.settle() == 0:
            pass
        assert len(output.lines) == 1
        return output.lines[0]

    feed(b'p{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}')
    feed(b's{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}')
    feed(b'p{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}')
    feed(b's{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}')
    line = (
        b'{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}'
    )
    with calls:
        assert feed(b"p" + line) == b"s" + line
    calls.take("shortcut")
    assert not any("Requests" in name for name in calls.names)
