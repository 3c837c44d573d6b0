"""When a part of a fleet counts as lost: at once if nobody listens there, but not while it may be
on its way from a NATS server that is gone to another one, and not while NATS itself is silent."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from conductor.fleet import beats
from conductor.fleet.beats import LOST, MISSED, Beats
from conductor.fleet.bus import Bus, Unanswered
from conductor.fleet.place import Place
from tests.harness.process.nats import Nats
from tests.places import DEADLINE

FIRST = 4
"""Beats more that one has which was not heard yet."""

Steps = Callable[[list[str]], Awaitable[None]]


class Silent:
    """A bus on which nobody listens; NATS answers as long as `still` says nothing else."""

    def __init__(self, has_lost_a_server: bool = False) -> None:
        self.has_lost_a_server = has_lost_a_server
        self.linked: list[Any] = []
        self.answers = 0
        self.asked = asyncio.Event()
        self.still = False
        self.absent = True

    async def listen(
        self, _subject: str, _take: Callable[[str, bytes], None]
    ) -> Callable[[], Awaitable[None]]:
        async def end() -> None:
            pass

        return end

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work)

    def publish(self, _subject: str, _payload: bytes) -> None:
        self.asked.set()

    def ask(self) -> None:
        self.answers += not self.still

    async def request(self, subject: str, _payload: bytes, _seconds: float) -> bytes:
        raise Unanswered(subject, absent=self.absent)

    async def beats(self, count: int) -> None:
        """Waits until so many more beats have gone."""
        for _ in range(count):
            self.asked.clear()
            await self.asked.wait()


def play(bus: Any, monkeypatch: pytest.MonkeyPatch, steps: Steps) -> None:
    """Watches one process over a bus, and takes steps."""

    async def run() -> None:
        monkeypatch.setattr(beats, "EVERY", 0.001)
        watching, lost = Beats(bus, "gateway", "worker", "g"), list[str]()
        watching.watch("w", "anybody", lambda: lost.append("w"))
        watching.start()
        await steps(lost)
        watching.close()

    asyncio.run(run())


@pytest.mark.parametrize("moves", [False, True])
def test_who_moves_to_another_server_has_time_for_it(
    moves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus = Silent(moves)

    async def steps(lost: list[str]) -> None:
        await bus.beats(FIRST + MISSED + 2)
        assert bool(lost) is not moves
        await bus.beats(LOST)  # there is an end to it
        assert lost == ["w"]

    play(bus, monkeypatch, steps)


def test_nobody_is_lost_while_nats_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    bus = Silent()
    bus.still, bus.absent = True, False

    async def steps(lost: list[str]) -> None:
        await bus.beats(10 * LOST)
        assert lost == []
        bus.still = False
        await bus.beats(FIRST + LOST + 2)
        assert lost == ["w"]

    play(bus, monkeypatch, steps)


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
