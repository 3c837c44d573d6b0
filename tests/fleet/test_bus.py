"""The bus over a real server: a question to all waits for an answer; lost streams are made
again."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable

import pytest
from nats import errors
from nats.js.errors import APIError

from conductor.fleet.bucket import Unkept
from conductor.fleet.bus import Bus
from conductor.fleet.client import why
from conductor.fleet.place import Place
from tests.harness.process.nats import Nats
from tests.places import DEADLINE

SECONDS = 0.01


async def test_who_asks_all_waits_for_the_first_answer_however_late(nats: Nats) -> None:
    bus = Bus(Place(nats=(nats.url,)), "test", print)
    await bus.connect()
    assert await bus.gather("status", b"", SECONDS) == []  # nobody listens
    asked, goes_on = asyncio.Event(), asyncio.Event()

    async def late(_: bytes) -> bytes:
        asked.set()
        await goes_on.wait()
        return b"here"

    await bus.answer("status", late)
    gathering = asyncio.create_task(bus.gather("status", b"", SECONDS))
    await asked.wait()
    await asyncio.sleep(5 * SECONDS)
    assert not gathering.done()
    goes_on.set()
    assert await gathering == [b"here"]
    await bus.close()


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (errors.TimeoutError(), "timeout"),
        (errors.Error("nats: 'Authorization Violation'"), "Authorization Violation"),
        (ConnectionRefusedError(111, "Connection refused"), "[Errno 111] Connection refused"),
        (APIError(description="no space left"), "no space left"),
        (OSError(), "OSError"),
    ],
)
def test_an_error_of_nats_is_said_in_its_words(error: Exception, says: str) -> None:
    assert why(error) == says


def on_bus(nats: Nats, work: Callable[[Bus], Awaitable[None]]) -> None:
    """Does something with a connection."""

    async def run() -> None:
        bus = Bus(Place(nats=(nats.url,)), "test", print)
        await bus.connect()
        async with asyncio.timeout(DEADLINE):
            await work(bus)
        await bus.close()

    asyncio.run(run())


def test_nats_that_loses_all_twice_gets_all_again(nats: Nats) -> None:
    """The second loss comes while the streams of the first loss are still being made."""

    def emptied() -> None:
        nats.kill()
        shutil.rmtree(nats.store)
        nats.start()

    async def work(bus: Bus) -> None:
        linked, busy, goes_on = asyncio.Event(), asyncio.Event(), asyncio.Event()
        bus.linked.append(linked.set)

        async def slow() -> None:
            if linked.is_set() and not goes_on.is_set():
                busy.set()
                await goes_on.wait()

        bucket = await bus.bucket("values")
        await bus.kept("slow", slow)
        await asyncio.to_thread(emptied)
        await busy.wait()  # the bucket is there again
        linked.clear()
        await asyncio.to_thread(emptied)
        await linked.wait()
        goes_on.set()
        while True:
            try:
                assert await bucket.put("key", b"value")
            except Unkept:
                await asyncio.sleep(SECONDS)
            else:
                break

    on_bus(nats, work)


def test_what_somebody_deletes_is_made_again_without_a_new_link(nats: Nats) -> None:
    """The listener for new links is told too: the content has to be written again."""

    async def work(bus: Bus) -> None:
        again = asyncio.Event()
        bus.linked.append(again.set)
        bucket = await bus.bucket("values")
        await bus.jetstream.delete_stream("KV_values")
        with pytest.raises(Unkept) as lost:
            await bucket.put("key", b"value")
        assert lost.value.undone
        await again.wait()
        assert await bucket.put("key", b"value")

    on_bus(nats, work)
