"""Components in the conductor's process, and with no conductor at all."""

import asyncio
import json
import sys
from collections.abc import Callable

import pytest

from conductor.transports.base import Ended
from conductor.transports.memory import MemoryTransport
from tests.e2e.actors import odd_agent
from tests.e2e.actors.recording_proxy import in_process
from tests.harness.process.client import Json
from tests.harness.process.command import conductor
from tests.harness.process.rig import Chain, Rig
from tests.places import DEADLINE
from tests.transports.ends import Carrying


class Mock(Carrying):
    """The mock transport's far end: what a component in isolation says, awaited one by one."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[bytes] = asyncio.Queue()
        self.over: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()

    def received(self, frames: list[bytes]) -> None:
        """Lines of the component."""
        for frame in frames:
            self.heard.put_nowait(frame)

    def oversized(self, head: bytes, limit: int) -> None:
        """Cannot happen in process."""
        raise AssertionError((head, limit))

    def undeliverable(self, frame: bytes, why: str) -> None:
        """Cannot happen in process either."""
        raise AssertionError((frame, why))

    def drained(self) -> None:
        """The component took something."""

    def ended(self, how: Ended) -> None:
        """The component returned."""
        self.over.set_result(how)

    async def next(self) -> Json:
        """The next frame."""
        async with asyncio.timeout(DEADLINE):
            frame: Json = json.loads(await self.heard.get())
        return frame


def test_a_proxy_without_process_or_conductor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECORDING_PROXY", json.dumps(["--mark", "m"]))

    async def conversation() -> Ended:
        mock, transport = Mock(), MemoryTransport(in_process)
        await transport.open(mock)

        def send(**frame: object) -> None:
            transport.write(json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n")

        send(id=1, method="proxy/initialize", params={"protocolVersion": 1})
        forwarded = await mock.next()
        assert forwarded["method"] == "proxy/successor"
        assert forwarded["params"] == {"method": "initialize", "params": {"protocolVersion": 1}}
        send(id=forwarded["id"], result={"protocolVersion": 1})
        assert await mock.next() == {"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 1}}
        send(method="proxy/successor", params={"method": "_up", "params": {"a": 1}})
        assert await mock.next() == {"jsonrpc": "2.0", "method": "_up", "params": {"a": 1}}
        send(id=2, method="session/prompt", params={"prompt": []})
        assert (await mock.next())["params"]["params"]["prompt"] == [{"type": "text", "text": "m"}]
        transport.finish()
        how = await asyncio.wait_for(mock.over, DEADLINE)
        await transport.close(1.0)
        return how

    how = asyncio.run(conversation())
    assert (how.clean, how.text) == (True, "returned")


def test_an_agent_whose_failure_is_told() -> None:
    async def conversation() -> Ended:
        mock, transport = Mock(), MemoryTransport(odd_agent.raising)
        await transport.open(mock)
        for id_ in range(3):
            frame = {"jsonrpc": "2.0", "id": id_, "method": "initialize"}
            transport.write(json.dumps(frame).encode() + b"\n")
        assert [(await mock.next())["id"] for _ in range(2)] == [0, 1]
        return await asyncio.wait_for(mock.over, DEADLINE)

    how = asyncio.run(conversation())
    assert how.clean is False
    assert how.text == "raised RuntimeError: as it was told to"


def _transcript(rig: Rig, chain: Chain) -> list[Json]:
    session = chain.begin()
    for move in ("/plain", "/crlf", "/spaces", "/unasked", "/old", "/nothing"):
        chain.answer(chain.start_prompt(session, move))
    chain.notify("_x/n", {"a": [1, 2]})
    chain.request("_x/y", {"b": None})
    chain.settled()
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []
    return chain.frames


@pytest.mark.parametrize("dialect", ["acp", "sdk", "sacp", "pacp"])
def test_stdio_and_in_process_are_one(rig: Rig, dialect: str) -> None:
    """The same programs as subprocesses and in process: C's and X's logs are equal."""

    def options(log: str) -> list[str]:
        return ["--name", "X", "--dialect", dialect, "--log", str(rig.folder / log)]

    proxy = rig.program(
        sys.executable, "-m", "tests.e2e.actors.recording_proxy", *options("stdio"),
        name="X", dialect=dialect,
    )  # fmt: skip
    runs: dict[str, Callable[[], Chain]] = {
        "stdio": lambda: rig.agent(proxy, rig.actor("odd_agent", name="odd")),
        "memory": lambda: rig.agent(
            f"py:tests.e2e.actors.recording_proxy:in_process,dialect={dialect}",
            "py:tests.e2e.actors.odd_agent:in_process",
            RECORDING_PROXY=json.dumps(options("memory")),
        ),
        "mixed": lambda: rig.agent(
            f"py:tests.e2e.actors.recording_proxy:in_process,dialect={dialect}",
            rig.actor("odd_agent", name="odd"),
            RECORDING_PROXY=json.dumps(options("mixed")),
        ),
    }
    logs = {name: _transcript(rig, run()) for name, run in runs.items()}
    assert logs["memory"] == logs["stdio"]
    assert logs["mixed"] == logs["stdio"]

    seen = {name: [(e.dir, e.raw) for e in rig.log(name)] for name in runs}
    assert len(seen["stdio"]) > 30
    assert seen["memory"] == seen["mixed"] == seen["stdio"]


def test_beside_sandboxed_and_other_proxies(rig: Rig) -> None:
    options = ["--name", "X", "--mark", "m"]
    chain = rig.agent(
        "passthrough", "py:tests.e2e.actors.recording_proxy:in_process", "passthrough",
        rig.x("Y", "--mark", "y"), rig.demo(), RECORDING_PROXY=json.dumps(options),
    )  # fmt: skip
    session = chain.begin()
    assert chain.prompt(session, "end") == "y\nm\nend"
    assert len(chain.prompt(session, "/size 3000000")) == 3_000_000
    assert chain.finish() == 0


def test_an_in_process_agent_that_raises_is_named(rig: Rig) -> None:
    chain = rig.agent(rig.x("X"), "py:tests.e2e.actors.odd_agent:raising")
    session = chain.begin()
    error = chain.answer(chain.start_prompt(session, "/plain"))["error"]
    assert "raised RuntimeError: as it was told to" in error["message"]
    assert "py:tests.e2e.actors.odd_agent:raising" in error["message"]
    assert chain.exit_code() == 1


def test_an_in_process_component_that_does_not_end_is_cancelled(rig: Rig) -> None:
    chain = rig.agent("py:tests.e2e.actors.odd_agent:stubborn", options=("-c", "grace=0.1"))
    chain.begin()
    assert chain.finish() == 0


@pytest.mark.parametrize(
    "spec",
    [
        "py:no_such_module:x", "py:tests.e2e.actors.odd_agent:no_such",
        "py:tests.e2e.actors.odd_agent", "py:tests.e2e.actors.odd_agent:MOVES",
    ],
)  # fmt: skip
def test_an_in_process_component_that_is_not_there(rig: Rig, spec: str) -> None:
    chain = rig.agent("passthrough", spec)
    error = chain.request("initialize", {"protocolVersion": 1})["error"]
    assert spec in error["message"]
    assert "hint: " in error["message"]
    assert chain.exit_code() == 2
    assert rig.leftovers(chain) == []


def test_what_an_in_process_component_prints_is_not_taken_for_protocol() -> None:
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
    line = json.dumps(asked).encode() + b"\n"
    ran = conductor("agent", "py:tests.client.agents:printing", stdin=line)
    assert [json.loads(line)["id"] for line in ran.out.splitlines()] == [1]
    assert ran.err == "it runs\nit has answered\n"
