"""When a part of a fleet counts as lost: at once if nobody listens there, but not while it may be
on its way from a NATS server that is gone to another one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from conductor.fleet.beats import EVERY, MISSED, Beats
from conductor.fleet.bus import Bus, Place, Unanswered
from tests.harness.process.nats import Nats
from tests.places import DEADLINE


class Silent:
    """A bus on which nobody listens."""

    is_linked = True

    def __init__(self, has_lost_a_server: bool) -> None:
        self.has_lost_a_server = has_lost_a_server
        self.linked: list[Any] = []
        self.beat: Callable[[str, bytes], None] = lambda *_: None

    async def listen(
        self, _: str, take: Callable[[str, bytes], None]
    ) -> Callable[[], Awaitable[None]]:
        self.beat = take

        async def end() -> None:
            pass

        return end

    async def request(self, subject: str, _payload: bytes, _seconds: float) -> bytes:
        raise Unanswered(subject, absent=True)


@pytest.mark.parametrize("moves", [False, True])
def test_who_moves_to_another_server_has_time_for_it(moves: bool) -> None:
    async def play() -> None:
        bus: Any = Silent(moves)
        beats, lost = Beats(bus, "gateway", "worker", "g"), list[str]()
        beats.watch("w", "anybody", lambda: lost.append("w"))
        await asyncio.sleep(0)
        bus.beat("", b"")
        now = asyncio.get_running_loop().time() + EVERY * (MISSED + 1)
        beats._look(now)
        await asyncio.gather(*beats._tasks)
        assert bool(lost) is not moves
        beats._look(now + 60)  # there is an end to it
        assert lost == ["w"]
        beats.close()

    asyncio.run(play())


def test_a_cluster_says_that_it_has_lost_a_server(tmp_path: Path) -> None:
    async def play(cluster: Nats) -> None:
        bus = Bus(Place(nats=(cluster.nodes[0].url,)), "test", print)
        await bus.connect()
        assert not bus.has_lost_a_server
        cluster.nodes[2].kill()
        async with asyncio.timeout(DEADLINE):
            while not bus.has_lost_a_server:
                await asyncio.sleep(0.01)
        await bus.close()

    with Nats(tmp_path, nodes=3) as cluster:
        asyncio.run(play(cluster))
