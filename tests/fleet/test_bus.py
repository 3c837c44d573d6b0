"""The bus over a real server: who asks all waits for the first answer."""

from __future__ import annotations

import asyncio

from conductor.fleet.bus import Bus, Place
from tests.harness.process.nats import Nats

SECONDS = 0.01


def test_who_asks_all_waits_for_the_first_answer_however_late(nats: Nats) -> None:
    async def play() -> None:
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

    asyncio.run(play())
