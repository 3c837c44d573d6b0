"""A worker that follows its pool's bundle, with failures on the way."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from conductor.errors import ConductorError
from conductor.fleet import bundle_follower, rollout
from conductor.fleet.bundle_cache import BundleCache
from conductor.fleet.bundle_follower import Follower
from conductor.fleet.pool_record import Signed
from conductor.fleet.rollout import Record
from conductor.spec import installed
from tests.fleet.bundles import written
from tests.fleet.keys import pair
from tests.places import DEADLINE


class Shelf:
    """Records in this process."""

    def __init__(self) -> None:
        self.known = Signed()
        self.changed: Callable[[], None] = lambda: None

    def __call__(self, bus: object, keys: object) -> Shelf:
        return self

    async def get(self, pool: str) -> Signed:
        return self.known

    async def watch(self, pool: str, changed: Callable[[], None]) -> Callable[[], Awaitable[None]]:
        self.changed = changed

        async def end() -> None:
            self.changed = lambda: None

        return end

    def names(self, record: Record, problem: str = "") -> None:
        self.known = Signed(record, revision=1, problem=problem)
        self.changed()


class StillBus:
    """A bus of which only the state counts."""

    is_linked = True

    def __init__(self) -> None:
        self.linked: list[Any] = []

    @staticmethod
    def start(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work)


class Worker:
    """A follower, and the events that it met."""

    def __init__(self, folder: Path, shelf: Shelf) -> None:
        self.key, public = pair(folder)
        self.shelf, self.folder = shelf, folder
        self.away: dict[str, int] = {}
        """How often bundles cannot be fetched, by name."""
        self.asked: list[str] = []
        self.prepared: list[str] = []
        self.cache = folder / "bundles"
        self.used: list[str] = []
        self.log: list[str] = []
        self.fails: set[str] = set()
        self.damaged: set[str] = set()
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
        """Makes a bundle; its name."""
        number = len([*self.folder.glob("made-*")])
        return written(self.folder / f"made-{number}", text, self.key)

    async def is_ready(self, name: str) -> bool:
        """In place of the process that prepares bundles."""
        self.asked.append(name)
        if name in self.damaged:
            raise ConductorError("it is damaged", "publish it again")
        if self.away.get(name, 0) > 0:
            self.away[name] -= 1
            return False
        if self.away.get(name, 0) < 0:
            await asyncio.Event().wait()
        self.prepared.append(name)
        return True

    async def until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE):
            while not done():
                await asyncio.sleep(0.005)


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Worker]]:
    """Makes a follower whose chains are always ready."""
    shelf = Shelf()
    monkeypatch.setattr(bundle_follower, "PoolRecords", shelf)
    monkeypatch.setattr(bundle_follower, "_RETRY", 0.01)

    def made() -> Worker:
        worker = Worker(tmp_path, shelf)
        monkeypatch.setattr(worker.follower, "_is_ready", worker.is_ready)
        return worker

    yield made
    for folder in [*installed.held]:
        os.close(installed.held.pop(folder))


@asynccontextmanager
async def following(
    make: Callable[[], Worker],
) -> AsyncIterator[tuple[Worker, Callable[[str], Awaitable[None]]]]:
    """A follower, and a function that makes a bundle active and waits for it."""
    one = make()
    await one.follower.begin()
    revision = iter(range(1, 100))

    async def active(digest: str) -> None:
        before = one.shelf.known.record.active
        one.shelf.names(Record(active=digest, previous=before, revision=next(revision)))
        await one.until(lambda: one.used[-1:] == [digest])

    try:
        yield one, active
    finally:
        await one.follower.close()


async def test_a_registry_that_gives_nothing_is_asked_again(worker: Callable[[], Worker]) -> None:
    async with following(worker) as (one, active):
        digest = one.add("")
        one.away[digest] = 3
        await active(digest)
        assert one.asked == [digest] * 4
        assert not [line for line in one.log if line.startswith("error")]


@pytest.mark.parametrize("times", [-1, 10_000])
async def test_a_bundle_that_does_not_come_keeps_nobody_from_going_back(
    worker: Callable[[], Worker], times: int
) -> None:
    """The candidate's registry is away, or sends a byte now and then; a later candidate is not
    kept."""
    async with following(worker) as (one, active):
        first, second, third, fourth = (one.add("\n" * number) for number in range(4))
        await active(first)
        await active(second)
        one.away[third] = times
        names = Record(active=second, previous=first, candidate=third, revision=50)
        one.shelf.names(names)
        await one.until(lambda: third in one.asked)
        one.shelf.names(rollout.back(names))
        await one.until(lambda: one.used[-1:] == [first])
        one.shelf.names(rollout.offered(rollout.back(names), fourth))
        await one.until(lambda: one.follower.report().get(fourth) == "ready")
        assert one.follower.report() == {first: "in use", second: "ready", fourth: "ready"}


async def test_a_bundle_that_cannot_be_used_leaves_the_one_before(
    worker: Callable[[], Worker],
) -> None:
    async with following(worker) as (one, active):
        first, second = one.add(""), one.add("\n")
        await active(first)
        one.fails.add(second)
        one.shelf.names(Record(active=second, previous=first, revision=50))
        await one.until(lambda: one.follower.report().get(second, "").startswith("failed"))
        assert one.follower.report() == {first: "in use", second: "failed: no room"}
        one.fails.clear()
        one.shelf.names(Record(active=second, previous=first, revision=51))
        await one.until(lambda: one.used[-1:] == [second])


async def test_the_last_few_stay_and_older_ones_go(worker: Callable[[], Worker]) -> None:
    async with following(worker) as (one, active):
        digests = [one.add("\n" * number) for number in range(9)]
        for digest in digests:
            await active(digest)
        kept = {digest.rpartition(":")[2] for digest in digests[-6:]}
        await one.until(lambda: {*os.listdir(one.cache)} - {"lock"} == kept)


async def test_a_record_without_sense_changes_nothing(worker: Callable[[], Worker]) -> None:
    async with following(worker) as (one, active):
        digest = one.add("")
        await active(digest)
        one.shelf.names(Record(), problem="it is no JSON")
        said = "warning: the bundle that NATS names for the pool is refused: it is no JSON"
        await one.until(lambda: said in one.log)
        assert one.follower.report() == {digest: "in use"}


async def test_a_bundle_that_is_refused_is_not_tried_again(worker: Callable[[], Worker]) -> None:
    async with following(worker) as (one, _):
        digest = one.add("")
        one.damaged.add(digest)
        one.shelf.names(rollout.dated(rollout.offered(Record(), digest), 1_700_000_000_000))
        await one.until(lambda: "failed" in one.follower.report().get(digest, ""))
        assert one.follower.report() == {digest: "failed: it is damaged"}
        assert one.asked == [digest]


async def test_a_damaged_copy_here_is_fetched_anew(worker: Callable[[], Worker]) -> None:
    async with following(worker) as (one, active):
        digest = one.add("")
        place = one.cache / digest.rpartition(":")[2]
        one.cache.mkdir(mode=0o700)
        place.mkdir()
        (place / "bundle").write_bytes(b"damaged")
        await active(digest)
        assert (place / "bundle").read_bytes() != b"damaged"


async def test_a_record_of_an_earlier_life_of_nats(worker: Callable[[], Worker]) -> None:
    async with following(worker) as (one, active):
        first, second = one.add(""), one.add("\n")
        await active(first)
        one.shelf.names(Record())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(one.until(lambda: False), 0.05)
        assert one.follower.report() == {first: "in use"}
        one.shelf.names(rollout.dated(rollout.offered(Record(), second), 1_700_000_000_000))
        await one.until(lambda: one.follower.report().get(second) == "ready")
