"""The journal over real servers: each event is there once and in order; nobody waits for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from conductor.fleet import journal as journals
from conductor.fleet import unwritten
from conductor.fleet.bucket import Unkept
from conductor.fleet.bus import Bus
from conductor.fleet.journal import Journal, Journalled
from conductor.fleet.journal_reader import Written, read
from conductor.fleet.kv import FleetValues
from conductor.fleet.place import Place
from conductor.record.turns import reader as turns
from conductor.serve.access.gate import LOCAL
from conductor.transports.base import Events
from tests.harness.process.command import conductor
from tests.harness.process.nats import Nats
from tests.harness.process.rig import Rig
from tests.harness.process.serving import served
from tests.places import DEADLINE
from tests.services.support import grantee
from tests.transports.ends import Carrying

SECRET = "sk-ant-api03-" + "a1B2" * 20


class End(Carrying):
    """The client's end of a chain, and the chain."""

    def __init__(self) -> None:
        self.to_client: list[bytes] = []
        self.to_chain: list[bytes] = []
        self.buffered = 0

    async def open(self, events: Events) -> None:
        self.events = events

    def write(self, data: bytes) -> None:
        self.to_client += data.splitlines()

    def received(self, frames: list[bytes]) -> None:
        self.to_chain += frames

    async def close(self, grace: float) -> None:
        pass

    pause = resume = finish = hear = drained = lambda self: None
    oversized = undeliverable = ended = lambda self, *_: None


class Chain:
    """A chain whose client's end is written."""

    def __init__(self, journal: Journal, principal: str = "alice", epoch: int = 1) -> None:
        self.end = End()
        self.journalled: Journalled = journal.chain(self.end, principal, "team", epoch)

    async def open(self) -> Chain:
        await self.journalled.open(self.end)
        return self

    def client(self, **message: object) -> None:
        """The client sends something."""
        self.end.events.received([frame(**message)])

    def agent(self, **message: object) -> None:
        """The chain sends the client something."""
        self.journalled.write(frame(**message) + b"\n")


def frame(**message: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


def update(number: int, session: str = "s", size: int = 0) -> dict[str, Any]:
    chunk = {"type": "text", "text": f"{number}" + "x" * size}
    params = {"sessionId": session, "update": {"content": chunk}}
    return {"method": "session/update", "params": params}


def texts(entries: list[Written]) -> list[str]:
    found = [json.loads(one.frame) for one in entries if one.way == "a2c"]
    return [one["params"]["update"]["content"]["text"].rstrip("x") for one in found]


class Lines:
    """The lines that a worker logs."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def of_journal(self) -> list[str]:
        return [line for line in self.lines if "the journal" in line]


@asynccontextmanager
async def opened(
    url: str, lines: Lines | None = None, **options: bool
) -> AsyncIterator[tuple[Bus, Journal]]:
    log = (lines or Lines()).lines.append
    bus = Bus(Place(nats=tuple(url.split(","))), "test", log)
    await bus.connect()
    journal = Journal(bus, log, **options)
    await journal.begin()
    try:
        yield bus, journal
    finally:
        await journal.end()
        await bus.close()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not true():
            await asyncio.sleep(0.01)


async def entries(bus: Bus, principal: str = "alice", session: str = "") -> list[Written]:
    return [one async for one in read(bus, principal, session)]


async def entries_once_led(bus: Bus) -> list[Written]:
    """The same: while the servers elect a leader, who reads gets an error that says so."""
    async with asyncio.timeout(DEADLINE):
        while True:
            try:
                return await entries(bus)
            except Unkept:
                await asyncio.sleep(0.1)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test waits for seconds."""
    monkeypatch.setattr(unwritten, "PROBE", 0.05)
    monkeypatch.setattr(journals, "_LOOK", 0.05)


@pytest.mark.proves("the journal of a fleet holds")
async def test_what_passes_is_there_in_order_and_without_secrets(nats: Nats) -> None:
    async with opened(nats.url) as (bus, journal):
        chain = await Chain(journal).open()
        other = await Chain(journal, "bob").open()
        other.client(id=1, method="session/new", params={"cwd": "/bob"})
        chain.client(id=0, method="authenticate", params={"methodId": "m", "code": "1234"})
        chain.client(id=1, method="session/new", params={"env": [{"name": "A", "value": "x"}]})
        chain.agent(id=1, result={"sessionId": "s"})
        chain.client(id=2, method="session/new", params={"cwd": "/else"})
        chain.agent(id=2, result={"sessionId": "else"})
        text = {"type": "text", "text": f"use {SECRET} and no other"}
        chain.client(id=3, method="session/prompt", params={"sessionId": "s", "prompt": [text]})
        chain.agent(**update(1))
        chain.agent(**update(2, "else"))
        chain.agent(**update(3, size=3 * journals.PART))
        chain.end.events.received([b"no message"])
        chain.agent(id=3, result={"stopReason": "end_turn"})
        await chain.journalled.close(0)
        await journal.flush(DEADLINE)
        found = await entries(bus)
        assert [one.number for one in found] == [*range(1, 14)]
        assert not any(one.gap for one in found)
        assert [one.way for one in found if one.way != "a2c"] == ["mark", *["c2a"] * 5, "mark"]
        marks = [json.loads(one.frame) for one in found if one.way == "mark"]
        assert marks == [{"begins": "team", "epoch": 1}, {"ends": "team"}]
        whole = b"".join(one.frame for one in found)
        assert SECRET.encode() not in whole
        assert b"1234" not in whole
        assert b'"value": "x"' not in whole
        assert b"and no other" in whole
        assert [one.left_out for one in found if one.left_out] == [len(b"no message")]
        assert chain.end.to_client[4] == frame(**update(3, size=3 * journals.PART))
        in_session = await entries(bus, session="s")
        assert [one.number for one in in_session] == [3, 4, 7, 8, 10, 11, 12, 13]
        assert texts([one for one in in_session if b"update" in one.frame]) == ["1", "3"]
        assert [one.number for one in await entries(bus, "bob")] == [1, 2]
        assert await entries(bus, "carol") == []


async def test_a_crash_of_the_server_costs_nothing_and_doubles_nothing(nats: Nats) -> None:
    async with opened(nats.url) as (bus, journal):
        chain = await Chain(journal).open()
        for number in range(300):
            chain.agent(**update(number))
            if number == 100:
                await until(lambda: journal.lag == 0)
            if number == 150:
                await asyncio.sleep(0.002)
                nats.kill()  # with acknowledgements on their way
            if number == 200:
                await until(lambda: not bus.is_linked)
                await asyncio.to_thread(nats.start)
        assert len(chain.end.to_client) == 300  # nobody has waited
        await until(lambda: journal.lag == 0)
        assert texts(await entries(bus)) == [f"{number}" for number in range(300)]


async def test_what_does_not_fit_is_missing_and_marked(
    nats: Nats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "KEPT", 10_000)
    lines = Lines()
    async with opened(nats.url, lines) as (bus, journal):
        chain = await Chain(journal).open()
        chain.agent(**update(0))
        await until(lambda: journal.lag == 0)
        nats.kill()
        await until(lambda: not bus.is_linked)
        for number in range(1, 101):
            chain.agent(**update(number, size=500))
            assert journal.lag <= 10_000
        assert len(chain.end.to_client) == 101
        await until(lambda: bool(lines.of_journal()))
        nats.start()
        await until(lambda: journal.lag == 0 and not journal.is_behind)
        chain.agent(**update(101))
        await until(lambda: journal.lag == 0)
        found = await entries(bus)
        marks = [json.loads(one.frame) for one in found if one.way == "mark"]
        kept = texts(found)
        assert kept == [*(f"{n}" for n in range(len(kept) - 1)), "101"]
        assert marks[1]["missing"] == 102 - len(kept)
        assert sum(one.gap for one in found) == marks[1]["missing"]
        assert marks[1]["bytes"] > 500 * marks[1]["missing"]
        numbers = journal.metrics()
        assert f"conductor_fleet_journal_missing_frames_total {marks[1]['missing']}" in numbers
        assert "conductor_fleet_journal_lag_bytes 0" in numbers
        (line,) = lines.of_journal()  # one a minute
        assert "NATS is away" in line
        assert "frames" in line


async def test_a_frame_beyond_the_bound_is_written_alone_or_marked(
    nats: Nats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "KEPT", 10_000)
    async with opened(nats.url) as (bus, journal):
        chain = await Chain(journal).open()
        await until(lambda: journal.lag == 0)
        chain.agent(**update(1, size=20_000))
        chain.agent(**update(2, size=20_000))
        await until(lambda: journal.lag == 0 and not journal.is_behind)
        found = await entries(bus)
        assert texts(found) == ["1"]
        assert json.loads(found[-1].frame)["missing"] == 1
        assert [one.number for one in found] == [1, 2, 4]


def test_a_journal_that_nobody_writes_is_named(nats: Nats, rig: Rig) -> None:
    shown = rig.run("fleet", "journal", LOCAL, "--nats", nats.url)
    assert shown.exit_code() == 1
    shown.until(lambda: "--journal on" in shown.stderr, "the hint")
    assert "error: NATS keeps no stream `journal`" in shown.stderr


async def test_what_is_written_while_it_is_read_does_not_keep_the_reader(nats: Nats) -> None:
    async with opened(nats.url) as (bus, journal):
        chain = await Chain(journal).open()
        chain.agent(**update(0))
        await until(lambda: journal.lag == 0)
        read_so_far = []
        async for one in read(bus, "alice"):
            read_so_far.append(one)
            chain.agent(**update(len(read_so_far)))
            await until(lambda: journal.lag == 0)
        assert texts(read_so_far) == ["0"]
        assert len(await entries(bus)) == 2 + len(read_so_far)


TENANTS = """
accounts {
  A { jetstream: enabled, users: [{ user: a, password: a }] }
  B { jetstream: enabled, users: [{ user: b, password: b }] }
}
"""


def test_a_tenant_has_a_journal_and_values_of_its_own(tmp_path: Path) -> None:
    async def play(url: str) -> None:
        found = {}
        for user in "ab":
            bus = Bus(Place(nats=(url,), user=user, password=user), "test", lambda line: None)
            await bus.connect()
            journal = Journal(bus, lambda line: None)
            await journal.begin()
            (await Chain(journal).open()).agent(**update(0))
            await journal.flush(DEADLINE)
            values = FleetValues(bus, "project", "alice")
            before = await values.get(grantee(), b'{"key":"k"}')
            await values.set(grantee(), b'{"key":"k","value":1}')
            found[user] = len(await entries(bus)), before
            await journal.end()
            await bus.close()
        assert found["a"] == found["b"] == (2, {"found": False, "revision": 0})

    with Nats(tmp_path, config=TENANTS) as server:
        asyncio.run(play(server.url))


def test_a_full_disk_is_named_and_left_again(tmp_path: Path) -> None:
    async def play() -> None:
        lines = Lines()
        async with opened(nats.url, lines) as (bus, journal):
            chain = await Chain(journal).open()
            number = 0
            while "resources" not in journal.why:
                if journal.lag < 600_000:  # else the server is only slow
                    chain.agent(**update(number, size=100_000))
                    number += 1
                await asyncio.sleep(0.001)
            assert len(chain.end.to_client) == number
            await bus.jetstream.purge_stream("journal")
            await until(lambda: journal.lag == 0)
            assert texts(await entries(bus))[-1] == f"{number - 1}"

    with Nats(tmp_path, store="2MB") as nats:
        asyncio.run(play())


async def test_where_it_is_required_no_prompt_begins_without_it(
    nats: Nats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "LAG_BYTES", 1000)
    prompt: dict[str, Any] = {"method": "session/prompt", "params": {"sessionId": "s"}}
    async with opened(nats.url, is_required=True) as (bus, journal):
        chain = await Chain(journal).open()
        chain.client(id=1, **prompt)
        await until(lambda: journal.lag == 0)
        nats.kill()
        await until(lambda: not bus.is_linked)
        chain.client(id=2, **prompt)  # it lags, but within the bounds
        chain.agent(**update(0, size=2000))
        chain.client(id=3, **prompt)
        chain.client(method="session/cancel", params={"sessionId": "s"})
        chain.client(id=4, method="session/new", params={"of": "session/prompt"})
        passed = [json.loads(one).get("id") for one in chain.end.to_chain]
        assert passed == [1, 2, None, 4]
        refused = json.loads(chain.end.to_client[-1])
        assert refused["id"] == 3
        assert refused["error"]["data"]["reason"] == "journal"
        assert "lags: NATS is away" in refused["error"]["message"]
        nats.start()
        await until(lambda: journal.lag == 0)
        chain.client(id=5, **prompt)
        assert json.loads(chain.end.to_chain[-1])["id"] == 5


async def ended(nats: Nats) -> None:
    """Waits until the journal has the end of a turn: the journal is written beside the client's
    stream."""
    async with asyncio.timeout(DEADLINE), opened(nats.url) as (bus, _):
        while not any(b"stopReason" in one.frame for one in await entries(bus, LOCAL)):
            await asyncio.sleep(0.05)


def test_the_journal_of_a_dead_worker_ends_where_the_next_begins(rig: Rig, nats: Nats) -> None:
    """Through the real command line."""
    place = ("--nats", nats.url)
    workers = [served(rig, "fleet", "worker", rig.demo(log=False), "--journal", "on", *place)]
    listen = ("--listen", "ws://127.0.0.1:0")
    with served(rig, "fleet", "gateway", *listen, *place) as gateway:
        client = gateway.socket()
        first = client.begin()
        assert "hello" in client.prompt(first, "hello")
        asyncio.run(ended(nats))
        workers.append(
            served(rig, "fleet", "worker", rig.demo(log=False), "--journal", "on", *place)
        )
        workers[0].process.kill()
        again = gateway.socket()
        assert again.begin() == first  # the agents of both workers count from one
        second = again.new_session()
        assert "again" in again.prompt(second, f"again, with {SECRET}")
        again.close()
        gateway.end()
    workers[1].end()

    async def play() -> list[Written]:
        async with opened(nats.url) as (bus, _):
            return await entries(bus, LOCAL)

    found = asyncio.run(play())
    assert SECRET.encode() not in b"".join(one.frame for one in found)
    found = [one for one in found if not one.disputed]
    epochs = [one.epoch for one in found]
    assert epochs == sorted(epochs)
    assert len(set(epochs)) == 2
    for epoch, said in zip(sorted(set(epochs)), ("hello", "again"), strict=True):
        own = [one for one in found if one.epoch == epoch]
        prompt, text, answer = (
            next(at for at, one in enumerate(own) if wanted in one.frame)
            for wanted in (b"session/prompt", b"agent_message_chunk", b"stopReason")
        )
        assert prompt < text < answer
        assert said.encode() in own[prompt].frame
    assert json.loads(found[-1].frame) == {"ends": ""}

    shown = conductor("fleet", "journal", LOCAL, "--session", second, *place)
    trace, held = turns.held()
    for line in shown.out.encode().splitlines(keepends=True):
        held.append(line)
        trace.take(line)
    assert trace.head().gaps == ()
    assert [row.method for row in trace.rows() if row.kind == "request"] == [
        "session/new",
        "session/prompt",
    ]
    (_, turn) = trace.turns
    assert (turn.session, turn.prompt[:5], turn.stop) == (second, "again", "end_turn")
    assert "again" in turn.answer


def test_a_leader_that_is_killed_costs_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    """Three servers; one that leads the stream is killed while frames pass."""

    async def play(cluster: Nats) -> None:
        async with opened(cluster.urls) as (bus, journal):
            assert bus.replicas == 3
            chain = await Chain(journal).open()
            for number in range(1000):
                chain.agent(**update(number, size=200))
                await asyncio.sleep(0)
                if number == 500:
                    cluster.nodes[await asyncio.to_thread(cluster.leader, "journal")].kill()
            assert len(chain.end.to_client) == 1000  # nobody has waited
            await until(lambda: journal.lag == 0)
            found = await entries_once_led(bus)
            assert texts(found) == [f"{number}" for number in range(1000)]
            assert not any(one.gap for one in found)

    with Nats(tmp_path, nodes=3) as cluster:
        asyncio.run(play(cluster))
