"""The transport of a client of SCP, before it has a chain."""

import asyncio
import json
from typing import Any

from conductor.cli.scp import ClientTransport
from conductor.errors import UsageError
from conductor.transports.base import Ended, Events
from tests.transports.ends import Carrying

HELLO = {"protocolVersion": 1, "_meta": {"symposium": {"version": "1.0"}}}
LAUNCH = {"servers": [{"command": "a"}]}


def frame(id_: int, method: str, params: Any = None) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id_, "method": method, "params": params}).encode()


class Client:
    """The client's end: the frames for it, and whether they are read."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.buffered = 0
        self.reads = True
        self.pid = None

    async def open(self, events: Events) -> None:
        self.events = events

    def write(self, data: bytes) -> None:
        self.sent += map(json.loads, data.splitlines())

    def pause(self) -> None:
        self.reads = False

    def resume(self) -> None:
        self.reads = True

    def finish(self) -> None:
        pass

    def hear(self) -> None:
        pass

    async def close(self, grace: float) -> None:
        pass


class Chain(Carrying):
    """The chain's end: the frames that it got."""

    def __init__(self) -> None:
        self.frames: list[Any] = []
        self.how: Ended | None = None

    def received(self, frames: list[bytes]) -> None:
        self.frames += map(json.loads, frames)

    def oversized(self, head: bytes, limit: int) -> None:
        self.frames.append(limit)

    def undeliverable(self, frame: bytes, why: str) -> None:
        pass

    def drained(self) -> None:
        self.frames.append("drained")

    def ended(self, how: Ended) -> None:
        self.how = how


async def test_a_client_that_reads_no_answers_is_not_read() -> None:
    client = Client()
    transport = ClientTransport(client)
    await transport.listen()
    client.buffered = 2 << 20
    client.events.received([frame(1, "x")])
    assert not client.reads
    client.events.drained()
    assert not client.reads
    client.buffered = 0
    client.events.drained()
    assert client.reads
    client.events.received([frame(2, "initialize", HELLO), frame(3, "_scp/proxy", LAUNCH)])
    assert not client.reads, "what comes now is for the chain"
    client.events.drained()
    assert not client.reads


async def test_what_comes_while_a_chain_is_looked_at_comes_after_it() -> None:
    client, chain = Client(), Chain()
    transport = ClientTransport(client)
    await transport.listen()
    both = [frame(3, "_scp/proxy", LAUNCH), frame(4, "_scp/proxy", LAUNCH)]
    client.events.received([frame(2, "initialize", HELLO), *both, frame(5, "session/new")])
    launch = await transport.launch()
    assert launch is not None
    transport.refuse(launch, UsageError("no", "look"))
    assert client.sent[-1]["error"] == {"code": -32602, "message": "no\nhint: look"}
    launch = await transport.launch()
    assert launch is not None
    assert launch.id == b"4"
    end = Ended("closed its end", clean=True)
    client.events.received([frame(6, "_x")])
    client.events.ended(end)
    await transport.open(chain)
    assert chain.frames == []
    await asyncio.sleep(0)
    methods = [each["method"] for each in chain.frames]
    assert methods == ["initialize", "session/new", "_x"]
    assert (chain.how, client.reads) == (end, True)
    client.events.oversized(b"{", 5)
    client.events.drained()
    assert chain.frames[-2:] == [5, "drained"]


async def test_a_client_that_ends_has_named_nothing() -> None:
    client = Client()
    transport = ClientTransport(client)
    await transport.listen()
    client.events.received([frame(2, "initialize", HELLO), frame(3, "_scp/proxy", LAUNCH)])
    client.events.ended(Ended("closed its end", clean=True))
    launch = await transport.launch()
    assert launch is not None
    transport.refuse(launch, UsageError("no", "look"))
    assert await transport.launch() is None
