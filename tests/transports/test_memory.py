"""A component in this process, beyond what all transports promise."""

import asyncio

import pytest

from conductor.transports import memory
from conductor.transports.memory import Channel, MemoryTransport
from tests.places import DEADLINE
from tests.transports.ends import Recorder


def test_a_function_that_catches_every_cancellation_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "_LEAST", 0.01)
    caught: list[int] = []

    async def stubborn(_: Channel) -> None:
        while True:
            try:
                await asyncio.sleep(DEADLINE)
            except asyncio.CancelledError:
                caught.append(1)

    async def main() -> None:
        transport = MemoryTransport(stubborn)
        await transport.open(Recorder())
        async with asyncio.timeout(DEADLINE):
            await transport.close(0)

    asyncio.run(main())
    assert len(caught) > 1
