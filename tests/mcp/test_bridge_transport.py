"""The bridge's place before the agent: lines that pass untouched, lines that wake it, its end."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from conductor.errors import ComponentError
from conductor.mcp import limits
from conductor.mcp.bridge.declarations import Declaration, StdioDeclaration
from conductor.mcp.bridge.effects import (
    ClientEffect,
    CloseClient,
    CloseListener,
    Differs,
    NoResponse,
    ToClient,
)
from conductor.mcp.bridge.offers import Offer
from conductor.mcp.bridge.pins import Pins
from conductor.mcp.doors import doors as real_doors
from conductor.mcp.doors.door import DoorEvents
from conductor.mcp.transport import BridgedTransport
from conductor.transports.base import Ended, Events
from tests.transports.ends import Carrying

Json = dict[str, Any]


class AgentTransport:
    """The transport of an agent."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.events: Events | None = None
        self.did: list[str] = []
        self.buffered = 7

    async def open(self, events: Events) -> None:
        """Takes whom to tell."""
        self.events = events

    def write(self, data: bytes) -> None:
        """Keeps written bytes."""
        self.written.append(data)

    def pause(self) -> None:
        """Notes the call."""
        self.did.append("pause")

    def resume(self) -> None:
        """Notes the call."""
        self.did.append("resume")

    def finish(self) -> None:
        """Notes the call."""
        self.did.append("finish")

    def hear(self) -> None:
        """Notes the call."""
        self.did.append("hear")

    async def close(self, grace: float) -> None:
        """Notes the call."""
        self.did.append("close")


class ChainEvents(Carrying):
    """The hearer of the agent, in place of the runtime."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.heard: list[object] = []

    @property
    def frames(self) -> list[Json]:
        """The lines, read."""
        return [json.loads(line) for line in self.lines]

    def received(self, frames: list[bytes]) -> None:
        """Keeps the lines."""
        self.lines += frames

    def oversized(self, head: bytes, limit: int) -> None:
        """Notes the report."""
        self.heard.append((head, limit))

    def undeliverable(self, frame: bytes, why: str) -> None:
        """Notes the report."""
        self.heard.append((frame, why))

    def drained(self) -> None:
        """Notes the report."""
        self.heard.append("drained")

    def ended(self, how: Ended) -> None:
        """Notes the report."""
        self.heard.append(how)


class Doors:
    """Doors that open at once, or when told to, or never."""

    made: Doors
    why: ComponentError | None = None
    gate: asyncio.Event | None = None

    def __init__(self, events: DoorEvents, *, log: object, line_limit: int, start: object) -> None:
        self.events = events
        self.did: list[tuple[object, ...]] = []
        Doors.made = self

    async def listen(self, listener: str, kind: str) -> Declaration:
        """Opens a door."""
        if Doors.gate is not None:
            await Doors.gate.wait()
        if Doors.why is not None:
            raise Doors.why
        self.did.append(("listen", listener, kind))
        return StdioDeclaration("shim", (listener,), (("SECRET", "s"),))

    def perform(self, effect: ClientEffect) -> None:
        """Keeps the effect."""
        self.did.append((effect,))

    def hold(self, connection: str, wait: bool) -> None:
        """Keeps the call."""
        self.did.append(("hold", connection, wait))

    async def aclose(self) -> None:
        """Notes the call."""
        self.did.append(("aclose",))


INITIALIZE = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\n'
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"agentCapabilities":{}}}'
NEW = (
    b'{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"mcpServers":'
    b'[{"type":"acp","name":"n","serverId":"i"}]}}\n'
)
PROMPT = b'{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{}}\n'


@pytest.fixture(autouse=True)
def doors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripted doors."""
    monkeypatch.setattr(real_doors, "Doors", Doors)
    monkeypatch.setattr(Doors, "why", None)
    monkeypatch.setattr(Doors, "gate", None)


class Keeper:
    """Keeps the tools of no server."""

    def __init__(self) -> None:
        self.pins = Pins(lambda address, name: None)

    def known(self) -> dict[str, dict[str, Offer]]:
        """Nothing."""
        return {}

    def differs(self, effect: Differs) -> None:
        """Is not called."""


class Stage:
    """A bridged agent, opened, and the chain that it is in."""

    def __init__(self, *, proxied: bool = True) -> None:
        self.agent, self.chain, self._proxied = AgentTransport(), ChainEvents(), proxied
        self.logged: list[tuple[str, str, str]] = []
        self.transport = BridgedTransport(self.agent, self, "auto", line_limit=1000)

    def log(self, level: str, name: str, text: str) -> None:
        """Keeps the line."""
        self.logged.append((level, name, text))

    def is_proxied(self) -> bool:
        """As the test says."""
        return self._proxied

    def shows_panels(self) -> bool:
        """No."""
        return False

    def new_keeper(self) -> Keeper:
        """Makes one."""
        return Keeper()

    def defect(self, error: Exception) -> None:
        """Must not be."""
        pytest.fail(repr(error))

    async def open(self) -> None:
        """Opens it."""
        await self.transport.open(self.chain)

    async def set_up(self) -> str:
        """Sets up a session; the listener of its server."""
        self.transport.write(NEW)
        await settle()
        answer = b'{"jsonrpc":"2.0","id":2,"result":{"sessionId":"S"}}'
        self.transport.received([answer])
        return str(next(one for one in Doors.made.did if one[0] == "listen")[1])


async def settle() -> None:
    """Lets everything that is due happen."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_what_does_not_concern_it_passes_in_one_piece() -> None:
    stage = Stage()
    await stage.open()
    for data in (PROMPT, PROMPT * 3, b'{"jsonrpc":"2.0","id":1,"result":{}}\n'):
        stage.transport.write(data)
        assert stage.agent.written[-1] == data
    stage.transport.received([b"x", b"y"])
    assert stage.chain.lines == [b"x", b"y"]
    stage.transport.oversized(b"h", 5)
    stage.transport.undeliverable(b"f", "why")
    stage.transport.drained()
    assert stage.chain.heard == [(b"h", 5), (b"f", "why"), "drained"]
    stage.transport.pause()
    stage.transport.resume()
    stage.transport.finish()
    assert stage.transport.buffered == 7
    await stage.transport.close(1.0)
    assert stage.agent.did == ["pause", "resume", "finish", "close"]
    how = Ended("x")
    stage.transport.ended(how)
    assert stage.chain.heard[-1] is how


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (ANSWER, b'"acp":true'),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"acp"}}', b'"error"'),
        # Both: the chain has to see it, and refuses it.
        (b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"acp"}}', b'"error"'),
        (b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1},"error":null}', b'"acp":true'),
    ],
)
async def test_proxies_are_shown_support(said: bytes, shown: bytes) -> None:
    stage = Stage()
    await stage.open()
    stage.transport.write(INITIALIZE)
    assert stage.agent.written == [INITIALIZE]
    before = [b"junk", b"[]", b'{"jsonrpc":"2.0","method":"x"}', b'{"id":null}', b'{"id":5}']
    stage.transport.received([*before, said, ANSWER])
    assert stage.chain.lines[:5] == before
    assert shown in stage.chain.lines[5]
    assert stage.chain.lines[6] == ANSWER, "only the one that was asked for"


async def test_the_setup_waits_for_the_address_and_all_behind_it() -> None:
    stage = Stage()
    await stage.open()
    Doors.gate = asyncio.Event()
    stage.transport.write(PROMPT + NEW + PROMPT)
    stage.transport.write(PROMPT)
    stage.transport.finish()
    await settle()
    assert stage.agent.written == [PROMPT]
    assert stage.agent.did == []
    Doors.gate.set()
    await settle()
    assert [json.loads(one)["id"] for one in stage.agent.written] == [3, 2, 3, 3]
    entry = json.loads(stage.agent.written[1])["params"]["mcpServers"][0]
    assert entry["command"] == "shim"
    assert stage.agent.did == ["finish"]
    assert stage.logged == [("info", "mcp", "MCP server `n` is offered to the agent by stdio")]


async def test_an_address_that_cannot_be_is_an_error_with_a_hint() -> None:
    stage = Stage()
    await stage.open()
    Doors.why = ComponentError("no room", "make some")
    stage.transport.write(NEW)
    await settle()
    Doors.why = ComponentError("no luck")
    stage.transport.write(NEW)
    await settle()
    first, second = (one["error"]["message"] for one in stage.chain.frames)
    assert first.endswith("no room\nhint: make some")
    assert second.endswith("no luck")
    assert stage.agent.written == []


async def test_a_client_comes_speaks_and_goes() -> None:
    stage = Stage()
    await stage.open()
    listener = await stage.set_up()
    events = Doors.made.events
    stage.transport.pause()
    events.client_opened("k", listener)
    stage.transport.resume()
    assert ("hold", "k", True) in Doors.made.did
    assert ("hold", "k", False) in Doors.made.did
    events.client_received("k", b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}')
    asked = stage.chain.frames[-1]
    assert asked["method"] == "mcp/message"
    answer: Json = {"result": {"capabilities": {"tools": {}}}}
    whole = {"jsonrpc": "2.0", "id": asked["id"], "result": answer}
    stage.transport.write(json.dumps(whole, separators=(",", ":")).encode() + b"\n")
    (sent,) = Doors.made.did[-1]
    assert isinstance(sent, ToClient)
    assert json.loads(sent.frame)["id"] == 1
    events.client_received("k", b'{"jsonrpc":"2.0","id":2,"method":"tools/list"}')
    events.client_received("k", b'{"jsonrpc":"2.0","method":"notifications/cancelled",'
                         b'"params":{"requestId":2}}')  # fmt: skip
    assert (NoResponse("k", b"2"),) in Doors.made.did
    assert stage.chain.frames[-1]["method"] == "$/cancel_request"
    events.client_closed("k")
    events.client_opened("l", "nobody")
    assert (CloseClient("l"),) in Doors.made.did
    # A component's request to nobody is answered when the router is done with its step.
    stage.transport.write(
        b'{"jsonrpc":"2.0","id":9,"method":"mcp/message","params":{"connectionId":"c"}}\n'
    )
    assert stage.chain.frames[-1].get("id") != 9
    await settle()
    assert stage.chain.frames[-1]["id"] == 9
    await stage.transport.shut_down()
    await stage.transport.shut_down()
    assert Doors.made.did[-2:] == [(CloseListener(listener),), ("aclose",)]
    stage.transport.write(PROMPT)


async def test_waiting_for_a_session_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SESSION_ID_SECONDS", 0.001)
    stage = Stage()
    await stage.open()
    url = NEW.replace(b'"type":"acp","name":"n","serverId":"i"', b'"name":"n","url":"acp:i"')
    stage.transport.write(url)
    await settle()
    events = Doors.made.events
    events.client_opened("k", str(Doors.made.did[0][1]))
    events.client_received("k", b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}')
    assert stage.chain.lines == []
    while not stage.chain.lines:
        await asyncio.sleep(0)
    assert stage.chain.frames[-1]["method"] == "_mcp/connect"
    await stage.transport.shut_down()
