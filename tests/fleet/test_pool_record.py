"""The records of pools over a real server: signed, and changed by compare-and-set."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from conductor.errors import ConductorError, UsageError
from conductor.fleet import bundle as bundles
from conductor.fleet import pool_record
from conductor.fleet.bus import Bus
from conductor.fleet.place import Place
from conductor.fleet.pool_record import PoolRecords, Signed
from conductor.fleet.rollout import Record
from tests.fleet.keys import pair
from tests.harness.process.nats import Nats
from tests.places import DEADLINE

A = f"oci://registry.example/pool@sha256:{'a' * 64}"


def with_records(
    nats: Nats, folder: Path, work: Callable[[Bus, PoolRecords, str], Awaitable[None]]
) -> None:
    """Does something with records, over a connection of its own; `work` gets the key too."""
    key, _ = pair(folder)

    async def run() -> None:
        bus = Bus(Place(nats=tuple(nats.urls.split(","))), "test", print)
        await bus.connect()
        try:
            await work(bus, PoolRecords(bus, [bundles.key_of(key)]), key)
        finally:
            await bus.close()

    asyncio.run(run())


def test_who_changes_a_record_has_seen_it(nats: Nats, tmp_path: Path) -> None:
    async def work(_: Bus, records: PoolRecords, key: str) -> None:
        assert await records.get("main") == Signed()
        first = await records.change("main", Signed(), Record(candidate=A), key)
        with pytest.raises(UsageError, match="somebody else has just changed"):
            await records.change("main", Signed(), Record(), key)
        await records.change("main", first, Record(active=A, revision=1), key)
        with pytest.raises(UsageError, match="somebody else has just changed"):
            await records.change("main", first, Record(), key)
        with pytest.raises(UsageError, match="cannot be read"):
            await records.change("other", Signed(), Record(active="/po\nol" + A[-72:]), key)
        assert (await records.get("main")).record == Record(active=A, revision=1)
        assert await records.get("other") == Signed()

    with_records(nats, tmp_path, work)


def test_a_record_that_cannot_be_read_is_written_anew(nats: Nats, tmp_path: Path) -> None:
    async def work(bus: Bus, records: PoolRecords, key: str) -> None:
        await (await bus.bucket(pool_record.BUCKET)).put("main", b"\xff")
        known = await records.get("main")
        assert "cannot be read" in known.problem
        await records.change("main", known, Record(revision=1), key)
        assert (await records.get("main")).problem == ""

    with_records(nats, tmp_path, work)


def test_a_leader_that_is_killed_loses_no_record(tmp_path: Path) -> None:
    """Of three servers the leader is killed: the record is on the others."""
    record = Record(active=A, revision=1)

    async def work(_: Bus, records: PoolRecords, key: str) -> None:
        await records.change("main", Signed(), record, key)
        cluster.nodes[cluster.leader(f"KV_{pool_record.BUCKET}")].kill()
        found = Record()
        async with asyncio.timeout(DEADLINE):
            while found != record:
                try:
                    found = (await records.get("main")).record
                except ConductorError:  # nobody leads for a while: a worker asks again
                    await asyncio.sleep(0.1)

    with Nats(tmp_path, nodes=3) as cluster:
        with_records(cluster, tmp_path, work)


@pytest.mark.parametrize(
    "name",
    [
        *("a" * 64, "pool@sha256:" + "a" * 64, "./pool@sha256:" + "a" * 64, A + "\n", A + "0"),
        *("-x" + A, A.upper(), "oci://h/n:1", "/pool", "/po\nol@sha256:" + "a" * 64),
        *("https://h/n@sha256:" + "a" * 64, "/" + "x" * 2000 + "@sha256:" + "a" * 64),
    ],
)
def test_names_that_are_none(tmp_path: Path, name: str) -> None:
    """Whoever has signed them: a record names bundles by digest, and nothing else."""
    key, _ = pair(tmp_path)
    value = pool_record.written("main", Record(active=name), key)
    with pytest.raises(UsageError, match="cannot be read"):
        pool_record.read("main", value, [bundles.key_of(key)])


def test_a_record_is_of_its_pool_and_its_key(tmp_path: Path) -> None:
    key, _ = pair(tmp_path)
    other, _ = pair(tmp_path, "other")
    keys = [bundles.key_of(key)]
    value = pool_record.written("main", Record(active=A), key)
    assert pool_record.read("main", value, keys).record.active == A
    for bad, pool in (
        (value, "canary"),
        (pool_record.written("main", Record(active=A), other), "main"),
        (value.replace(b"aaaa", b"bbbb"), "main"),
        (msgspec.json.encode({"statement": {}}), "main"),
        (b" " * (pool_record.MOST + 1), "main"),
    ):
        with pytest.raises(UsageError):
            pool_record.read(pool, bad, keys)
