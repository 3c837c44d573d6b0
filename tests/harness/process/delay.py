"""A network that is slow, or loses packets: a TCP proxy on a machine of a world.

What TCP makes of a lost packet is a stall: all behind it waits until it was sent again. So a link
here has a latency, and stalls that chance brings. What waits in it is bounded: a link that is full
reads no more. It runs in a thread of its own; its methods may be called from any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from tests.harness.process.netns import Machine

_CHUNK: Final = 1 << 14
_LINGER: Final = struct.pack("ii", 1, 0)
"""A close sends a reset, and what was not sent yet is gone."""


@dataclass(frozen=True, slots=True)
class Weather:
    """What a network does to what it carries."""

    latency: float = 0.0
    """Seconds that each byte takes one way."""
    stalls: float = 0.0
    """How probable it is that a chunk of at most 16 KiB gets lost, and is sent again."""
    stall: float = 0.2
    """Seconds until it is."""
    holds: int = 1 << 18
    """Bytes that are on the way at once, in each direction of a link."""
    seed: int = 1


class Delay:
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
        self.target = target
        self.weather = weather
        self.links = 0
        """Links that were ever opened."""
        self.most = 0
        """The most bytes that ever waited in one direction of a link."""
        self._chance = Random(weather.seed)  # noqa: S311 - no secret is drawn
        self._pairs: set[_Pair] = set()
        self._closed = False
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._over = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self.address = machine.address
        with machine.inside():  # the thread, and what it opens, stay on this machine
            self._listening = socket.create_server((machine.address, port))
            self.port: int = self._listening.getsockname()[1]
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._over.set)
        self._thread.join()
        self._listening.close()
        self._loop.close()

    def cut(self) -> None:
        """Resets all links that are open now."""
        self._do(self._cut)

    def refuse(self, closed: bool) -> None:
        """Resets all links, and new ones as they come, until it is called with False."""

        def change() -> None:
            self._closed = closed
            if closed:
                self._cut()

        self._do(change)

    def freeze(self, frozen: bool) -> None:
        """Whether links stay open and carry nothing."""
        self._do(self._flowing.clear if frozen else self._flowing.set)

    # -- in the thread ---------------------------------------------------------------------------

    def _do(self, action: Callable[[], None]) -> None:
        done = threading.Event()

        def act() -> None:
            action()
            done.set()

        self._loop.call_soon_threadsafe(act)
        done.wait()

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._carry, sock=self._listening, limit=_CHUNK)
        await self._over.wait()
        server.close()
        self._closed = True
        self._flowing.set()
        self._cut()
        if tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(tasks)

    def _cut(self) -> None:
        for pair in list(self._pairs):
            pair.drop()

    async def _carry(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        self.links += 1
        if self._closed:
            _drop(back)
            return
        try:
            far, on = await asyncio.open_connection(*self.target, limit=_CHUNK)
        except OSError:
            _drop(back)
            return
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
            _drop(end)


class _Way:
    """One direction of a link: what is on its way, and when it arrives."""

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
        """Takes what comes, as long as there is room."""
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


def _drop(end: asyncio.StreamWriter) -> None:
    connected = end.get_extra_info("socket")
    if connected is not None and connected.fileno() >= 0:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
    end.transport.abort()
