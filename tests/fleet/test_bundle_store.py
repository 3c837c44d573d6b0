"""What NATS keeps of rollouts, over a real server: bounded, believed by digest, changed by
compare-and-set; and a worker that follows it, with what goes wrong on the way."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import hashlib
import json
import os
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from nats.js.api import ObjectLink, ObjectMeta, ObjectMetaOptions

from conductor.errors import ConductorError, UsageError
from conductor.fleet import bundle as bundles
from conductor.fleet import bundle_follower, bundle_store, rollout
from conductor.fleet.bundle import BundleError
from conductor.fleet.bundle_cache import BundleCache
from conductor.fleet.bundle_follower import Follower
from conductor.fleet.bundle_store import OBJECTS, RECORDS, BundleStore, Known, NotNow
from conductor.fleet.bus import Bus
from conductor.fleet.bus import Place as NatsPlace
from conductor.fleet.rollout import Record
from conductor.packages.pack import File
from conductor.spec import installed
from tests.fleet.keys import pair
from tests.harness.process.nats import Nats
from tests.places import DEADLINE


class Signing(BundleStore):
    """A store with a key of its own."""

    def __init__(self, bus: Bus, folder: str) -> None:
        self.key, _ = pair(Path(folder))
        super().__init__(bus, [bundles.key_of(self.key)])


def with_store(nats: Nats, work: Callable[[Bus, Signing], Awaitable[None]]) -> None:
    """Does something with a store, over a connection of its own."""

    async def run() -> None:
        bus = Bus(NatsPlace(nats=(nats.url,)), "test", print)
        await bus.connect()
        try:
            with tempfile.TemporaryDirectory() as folder:
                await work(bus, Signing(bus, folder))
        finally:
            await bus.close()

    asyncio.run(run())


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_records_and_bundles(nats: Nats, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(bus: Bus, store: Signing) -> None:
        assert await store.record("main") == Known(Record(), 0)
        first = await store.change(
            "main", Known(Record(), 0), Record(candidate="a" * 64), store.key
        )
        with pytest.raises(UsageError, match="somebody else has just changed"):
            await store.change("main", Known(Record(), 0), Record(), store.key)
        await store.change("main", first, Record(active="a" * 64, revision=1), store.key)
        with pytest.raises(UsageError, match="somebody else has just changed"):
            await store.change("main", first, Record(), store.key)

        data = b"x" * (3 * 1024 * 1024 + 1)  # of several chunks
        digest = digest_of(data)
        await store.put(digest, data)
        assert await store.get(digest) == data
        await store.put(digest, data)  # is there already
        objects = await bus.jetstream.object_store(OBJECTS)
        chunks = (await objects.get_info(digest)).chunks
        assert chunks == 4

        with pytest.raises(BundleError) as missing:
            await store.get("0" * 64)
        assert missing.value.reason == "missing"

        other = await bus.jetstream.create_object_store("other")
        await other.put("secret", b"of somebody else")
        await objects.put("1" * 64, b"y", ObjectMeta(name="1" * 64))
        info = await objects.get_info("1" * 64)
        info.options = ObjectMetaOptions(link=ObjectLink(bucket="other", name="secret"))
        name = base64.urlsafe_b64encode(b"1" * 64).decode()
        await bus.jetstream.publish(f"$O.{OBJECTS}.M.{name}", json.dumps(info.as_dict()).encode())
        with pytest.raises(BundleError) as led:
            await store.get("1" * 64)
        assert led.value.reason == "size"
        monkeypatch.setattr(bundle_store, "_MOST", 1024)
        with pytest.raises(BundleError) as large:
            await store.get(digest)
        assert large.value.reason == "size"

    with_store(nats, work)


def test_what_no_pool_names_goes_when_it_is_old(
    nats: Nats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(bus: Bus, store: Signing) -> None:
        await store.prune()  # there is nothing
        datas = [b"active", b"previous", b"candidate", b"kept", b"gone"]
        named = [digest_of(data) for data in datas]
        for digest, data in zip(named, datas, strict=True):
            await store.put(digest, data)
        await store.change(
            "a", Known(Record(), 0), Record(active=named[0], previous=named[1]), store.key
        )
        other, _ = pair(tmp_path)  # another pool has another key
        await store.change("b", Known(Record(), 0), Record(candidate=named[2]), other)
        await store.prune()
        assert await store.get(named[4]) == b"gone"  # it is new: a rollout may be about to name it
        monkeypatch.setattr(bundle_store, "_OLD", datetime.timedelta(0))
        await store.prune([named[3]])
        for digest, data in zip(named[:4], datas, strict=False):
            assert await store.get(digest) == data
        with pytest.raises(BundleError):
            await store.get(named[4])

    with_store(nats, work)


def test_chunks_of_a_rollout_that_was_killed_go(
    nats: Nats, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stored(bus: Bus) -> int:
        info = await bus.jetstream.stream_info(f"OBJ_{OBJECTS}")
        return int(info.state.bytes)

    async def work(bus: Bus, store: Signing) -> None:
        kept = digest_of(b"kept")
        await store.put(kept, b"kept")
        before = await stored(bus)
        for _ in range(3):
            await bus.jetstream.publish(f"$O.{OBJECTS}.C.{bus.inbox()[7:]}", b"x" * 1_000_000)
        await store.prune()
        assert await stored(bus) > before + 3_000_000  # a rollout may be writing them now
        monkeypatch.setattr(bundle_store, "_DEAD", datetime.timedelta(0))
        await store.prune()
        assert await stored(bus) == before
        assert await store.get(kept) == b"kept"

    with_store(nats, work)


def test_a_record_that_cannot_be_read_is_written_anew(nats: Nats) -> None:
    async def work(bus: Bus, store: Signing) -> None:
        await (await bus.bucket(RECORDS)).put("main", b"\xff")
        known = await store.record("main")
        assert "cannot be read" in known.problem
        await store.change("main", known, Record(revision=1), store.key)
        assert (await store.record("main")).problem == ""

    with_store(nats, work)


def test_where_nats_is_away(nats: Nats) -> None:
    async def work(bus: Bus, store: Signing) -> None:
        await store.put(digest_of(b"x"), b"x")
        cut = asyncio.Event()
        bus.cut.append(cut.set)
        nats.kill()
        await asyncio.wait_for(cut.wait(), DEADLINE)
        with pytest.raises(ConductorError):
            await store.get(digest_of(b"x"))

    with_store(nats, work)


def test_a_full_disk(tmp_path: Path) -> None:
    async def work(bus: Bus, store: Signing) -> None:
        data = os.urandom(3 * 1024 * 1024)
        with pytest.raises(NotNow, match=r"NATS does not give or take bundles now: .*resources"):
            await store.put(digest_of(data), data)
        with pytest.raises(BundleError):  # no half of it stays
            await store.get(digest_of(data))

    with Nats(tmp_path, store="2MB") as nats:
        with_store(nats, work)


def test_a_leader_that_is_killed_loses_no_bundle(tmp_path: Path) -> None:
    """Of three servers the one that leads is killed: bundle and record are on the others."""
    data = os.urandom(2 * 1024 * 1024)
    digest = digest_of(data)
    record = Record(active=digest, revision=1)

    async def work(bus: Bus, store: Signing) -> None:
        await store.put(digest, data)
        await store.change("main", Known(Record(), 0), record, store.key)
        cluster.nodes[cluster.leader(f"OBJ_{OBJECTS}")].kill()
        found = b""
        async with asyncio.timeout(DEADLINE):
            while not found:
                try:
                    found = await store.get(digest)
                    assert (await store.record("main")).record == record
                except BundleError:
                    raise
                except ConductorError:  # nobody leads for a while: a worker asks again
                    await asyncio.sleep(0.1)
        assert found == data

    with Nats(tmp_path, nodes=3) as cluster:

        async def run() -> None:
            bus = Bus(NatsPlace(nats=tuple(cluster.urls.split(","))), "test", print)
            await bus.connect()
            try:
                with tempfile.TemporaryDirectory() as folder:
                    await work(bus, Signing(bus, folder))
            finally:
                await bus.close()

        asyncio.run(run())


# -- a worker that follows -------------------------------------------------------------------------


class Shelf:
    """A store in this process, with what is to go wrong."""

    def __init__(self) -> None:
        self.known = Known(Record(), 0)
        self.objects: dict[str, bytes] = {}
        self.away = 0
        self.changed: Callable[[], None] = lambda: None

    def __call__(self, bus: object, keys: object) -> Shelf:
        return self

    async def record(self, pool: str) -> Known:
        return self.known

    async def watch(self, pool: str, changed: Callable[[], None]) -> Callable[[], Awaitable[None]]:
        self.changed = changed

        async def end() -> None:
            self.changed = lambda: None

        return end

    async def get(self, digest: str) -> bytes:
        if self.away:
            self.away -= 1
            raise NotNow("no leader")
        return self.objects[digest]

    def names(self, record: Record, problem: str = "") -> None:
        self.known = Known(record, 1, problem)
        self.changed()


class StillBus:
    """A bus of which only the state counts."""

    is_linked = True

    def __init__(self) -> None:
        self.linked: list[Any] = []


class Worker:
    """A follower, and what has happened to it."""

    def __init__(self, folder: Path, shelf: Shelf) -> None:
        self.key, public = pair(folder)
        self.shelf = shelf
        self.cache = folder / "bundles"
        self.used: list[str] = []
        self.log: list[str] = []
        self.fails: set[str] = set()
        self.follower = Follower(
            StillBus(),  # type: ignore[arg-type]
            "main",
            [public],
            self._use,
            lambda level, text: self.log.append(f"{level}: {text}"),
            BundleCache(str(self.cache)),
        )

    async def _use(self, digest: str, folder: str) -> None:
        assert os.path.exists(os.path.join(folder, "conductor.toml"))  # noqa: ASYNC240
        if digest in self.fails:
            raise ConductorError("no room", "make room")
        self.used.append(digest)

    def add(self, text: str) -> str:
        """Puts a bundle on the shelf; its digest."""
        data = bundles.made({"conductor.toml": File(text.encode())}, self.key)
        self.shelf.objects[digest_of(data)] = data
        return digest_of(data)

    async def until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE):
            while not done():
                await asyncio.sleep(0.005)


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Worker]]:
    """Makes a follower whose chains are always ready."""
    shelf = Shelf()
    monkeypatch.setattr(bundle_follower, "BundleStore", shelf)
    monkeypatch.setattr(bundle_follower, "_RETRY", 0.01)

    async def ready(self: Follower, digest: str) -> None:
        pass

    monkeypatch.setattr(Follower, "_prepare", ready)
    yield lambda: Worker(tmp_path, shelf)
    for folder in [*installed.held]:
        os.close(installed.held.pop(folder))


def following(
    make: Callable[[], Worker], work: Callable[[Worker, Callable[[str], Awaitable[None]]], Any]
) -> None:
    """Runs a follower; `work` gets it, and what makes a bundle active and waits for it."""

    async def run() -> None:
        one = make()
        await one.follower.begin()
        revision = iter(range(1, 100))

        async def active(digest: str) -> None:
            before = one.shelf.known.record.active
            one.shelf.names(Record(active=digest, previous=before, revision=next(revision)))
            await one.until(lambda: one.follower.digest == digest)

        try:
            async with asyncio.timeout(DEADLINE):
                await work(one, active)
        finally:
            await one.follower.close()

    asyncio.run(run())


def test_nats_that_gives_nothing_is_asked_again(worker: Callable[[], Worker]) -> None:
    async def work(one: Worker, active: Callable[[str], Awaitable[None]]) -> None:
        one.shelf.away = 3
        await active(one.add(""))
        assert not [line for line in one.log if line.startswith("error")]

    following(worker, work)


def test_a_bundle_that_cannot_be_used_leaves_the_one_before(worker: Callable[[], Worker]) -> None:
    async def work(one: Worker, active: Callable[[str], Awaitable[None]]) -> None:
        first, second = one.add(""), one.add("\n")
        await active(first)
        one.fails.add(second)
        one.shelf.names(Record(active=second, previous=first, revision=50))
        await one.until(lambda: one.follower.report().get(second, "").startswith("failed"))
        assert one.follower.report() == {first: "in use", second: "failed: no room"}
        one.fails.clear()
        one.shelf.names(Record(active=second, previous=first, revision=51))
        await one.until(lambda: one.follower.digest == second)

    following(worker, work)


def test_the_last_few_stay_and_older_ones_go(worker: Callable[[], Worker]) -> None:
    async def work(one: Worker, active: Callable[[str], Awaitable[None]]) -> None:
        digests = [one.add("\n" * number) for number in range(9)]
        for digest in digests:
            await active(digest)
        kept = {*digests[-6:]}
        await one.until(lambda: {*os.listdir(one.cache)} - {"lock"} == kept)

    following(worker, work)


def test_a_record_without_sense_changes_nothing(worker: Callable[[], Worker]) -> None:
    async def work(one: Worker, active: Callable[[str], Awaitable[None]]) -> None:
        digest = one.add("")
        await active(digest)
        one.shelf.names(Record(), problem="it is no JSON")
        said = "warning: what NATS says the pool runs is refused: it is no JSON"
        await one.until(lambda: said in one.log)
        assert one.follower.report() == {digest: "in use"}

    following(worker, work)


def test_a_damaged_copy_here_is_fetched_anew(worker: Callable[[], Worker]) -> None:
    async def work(one: Worker, active: Callable[[str], Awaitable[None]]) -> None:
        digest = one.add("")
        one.cache.mkdir(mode=0o700)
        (one.cache / digest).mkdir()
        (one.cache / digest / "bundle").write_bytes(b"damaged")
        await active(digest)
        assert (one.cache / digest / "bundle").read_bytes() == one.shelf.objects[digest]

    following(worker, work)


def test_a_record_of_an_earlier_life_of_nats(worker: Callable[[], Worker]) -> None:
    async def work(one: Worker, active: Callable[[str], Awaitable[None]]) -> None:
        first, second = one.add(""), one.add("\n")
        await active(first)
        one.shelf.names(Record())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(one.until(lambda: False), 0.05)
        assert one.follower.report() == {first: "in use"}
        one.shelf.names(rollout.dated(rollout.offered(Record(), second), 1_700_000_000_000))
        await one.until(lambda: one.follower.report().get(second) == "ready")

    following(worker, work)
