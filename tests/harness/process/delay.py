"""A network that is slow, or loses packets: a TCP proxy on a machine of a world.

What TCP makes of a lost packet is a stall: all behind it waits until it was sent again. So a link
here has a latency, and stalls that chance brings. What waits in it is bounded: a link that is full
reads no more.
"""

import asyncio
import contextlib
import socket
from collections import deque
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.harness.process.netns import Machine
from tests.harness.process.relay import Relay, drop

_CHUNK: Final = 1 << 14


@dataclass(frozen=True, slots=True)
class Weather:
    """The effects of a network on the bytes that it carries."""

    latency: float = 0.0
    """Seconds that each byte takes one way."""
    stalls: float = 0.0
    """The probability that a chunk of at most 16 KiB is lost, and sent again."""
    stall: float = 0.2
    """Seconds until a lost chunk is sent again."""
    holds: int = 1 << 18
    """Bytes that are on the way at once, in each direction of a link."""
    seed: int = 1


class Delay(Relay["_Pair"]):
    """Listens on a machine, and carries each link to another address.

    Args:
        machine: Where it listens; from there it connects.
        target: Address and port behind it; `target` may be set anew, as of a load balancer.
        weather: What it does to its links; may be set anew.
        port: Where it listens; 0: at a free one.
    """

    def __init__(
        self,
        machine: Machine,
        target: tuple[str, int],
        weather: Weather = Weather(),
        port: int = 0,
    ) -> None:
        self.weather = weather
        self.most = 0
        """The most bytes that ever waited in one direction of a link."""
        self._chance = Random(weather.seed)  # noqa: S311 - no secret is drawn
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.address = machine.address
        with machine.inside():  # the thread, and what it opens, stay on this machine
            super().__init__(target, lambda: socket.create_server((machine.address, port)), _CHUNK)

    def freeze(self, frozen: bool) -> None:
        """Whether links stay open and carry nothing."""
        self._do(self._flowing.clear if frozen else self._flowing.set)

    # -- in the thread ---------------------------------------------------------------------------

    def _end(self) -> None:
        self._flowing.set()
        super()._end()

    async def _carry(
        self,
        near: asyncio.StreamReader,
        back: asyncio.StreamWriter,
        far: asyncio.StreamReader,
        on: asyncio.StreamWriter,
    ) -> None:
        pair = _Pair(back, on)
        self._pairs.add(pair)
        try:
            ways = _Way(self, near, on), _Way(self, far, back)
            async with asyncio.TaskGroup() as tasks:
                for way in ways:
                    tasks.create_task(way.read())
                    tasks.create_task(way.write())
            pair.close()
        except* OSError:
            pair.drop()
        finally:
            self._pairs.discard(pair)

    def delay(self) -> float:
        """Seconds that the next chunk takes."""
        weather = self.weather
        lost = weather.stalls and self._chance.random() < weather.stalls
        return weather.latency + (weather.stall if lost else 0.0)

    async def flows(self) -> None:
        """Waits while nothing passes."""
        await self._flowing.wait()


class _Pair:
    """The two sockets of a link."""

    def __init__(self, *ends: asyncio.StreamWriter) -> None:
        self._ends = ends

    def close(self) -> None:
        """Closes both, once all has left."""
        for end in self._ends:
            end.close()

    def drop(self) -> None:
        """Resets both."""
        for end in self._ends:
            drop(end)


class _Way:
    """One direction of a link: the bytes on their way, and the times at which they arrive."""

    def __init__(
        self, proxy: Delay, source: asyncio.StreamReader, sink: asyncio.StreamWriter
    ) -> None:
        self._proxy = proxy
        self._source = source
        self._sink = sink
        self._under_way: deque[tuple[float, bytes]] = deque()
        self._bytes = 0
        self._moved = asyncio.Event()
        sink.transport.set_write_buffer_limits(high=0)

    async def read(self) -> None:
        """Takes bytes as they come, as long as there is room."""
        clock, arrives = asyncio.get_running_loop().time, 0.0
        while data := await self._source.read(_CHUNK):
            arrives = max(arrives, clock() + self._proxy.delay())
            self._put(arrives, data)
            while self._bytes >= self._proxy.weather.holds:
                self._moved.clear()
                await self._moved.wait()
        self._put(arrives, b"")

    def _put(self, arrives: float, data: bytes) -> None:
        self._under_way.append((arrives, data))
        self._bytes += len(data)
        self._proxy.most = max(self._proxy.most, self._bytes)
        self._moved.set()

    async def write(self) -> None:
        """Lets each chunk arrive at its time; an empty one is the end."""
        clock = asyncio.get_running_loop().time
        while True:
            while not self._under_way:
                self._moved.clear()
                await self._moved.wait()
            arrives, data = self._under_way[0]
            await asyncio.sleep(max(0.0, arrives - clock()))
            await self._proxy.flows()
            if not data:
                break
            self._sink.write(data)
            await self._sink.drain()
            self._under_way.popleft()
            self._bytes -= len(data)
            self._moved.set()
        with contextlib.suppress(OSError, RuntimeError):
            self._sink.write_eof()
