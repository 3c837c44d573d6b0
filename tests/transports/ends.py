"""The transports under one contract, each with an echo behind it."""

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

import wasm_host
from conductor.transports.base import Ended, Events, Owner, Transport, Wrapper
from conductor.transports.guest import GuestTransport
from conductor.transports.memory import Channel, MemoryTransport
from conductor.transports.process import ProcessTransport
from conductor.transports.socket import ListeningTransport
from conductor.transports.stdio import StdioTransport
from tests.places import DEADLINE, PASSTHROUGH
from tests.transports.remote import peers

ECHO = "import sys\nfor line in sys.stdin.buffer: sys.stdout.buffer.write(line); sys.stdout.flush()"


class Carrying:
    """Owns the tasks of a connection, as long as its test runs."""

    def carry(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work)


class Recorder(Carrying):
    """Events that remember what was reported, and let a test wait for it."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.heads: list[bytes] = []
        self.refused: list[bytes] = []
        self.ends: list[Ended] = []
        self.drains = 0
        self._changed = asyncio.Event()

    def received(self, frames: list[bytes]) -> None:
        self.frames += frames
        self._changed.set()

    def oversized(self, head: bytes, limit: int) -> None:
        del limit
        self.heads.append(head)
        self._changed.set()

    def undeliverable(self, frame: bytes, why: str) -> None:
        del why
        self.refused.append(frame)
        self._changed.set()

    def drained(self) -> None:
        self.drains += 1
        self._changed.set()

    def ended(self, how: Ended) -> None:
        self.ends.append(how)
        self._changed.set()

    async def until(self, condition: Callable[[], bool], seconds: float = DEADLINE) -> None:
        """Waits until `condition` holds; fails after `seconds`."""
        async with asyncio.timeout(seconds):
            while not condition():
                self._changed.clear()
                if not condition():
                    await self._changed.wait()


async def _echo(channel: Channel) -> None:
    while (line := await channel.receive()) is not None:
        channel.send(line)


def memory() -> Transport:
    """An async function in this process."""
    return MemoryTransport(_echo)


def process() -> Transport:
    """A subprocess."""
    return ProcessTransport([sys.executable, "-c", ECHO])


def guest() -> Transport:
    """A sandboxed module in this process."""
    return GuestTransport(wasm_host.load(PASSTHROUGH).instantiate("echo"))


def stdio() -> Transport:
    """Two pipes as our own standard input and output, with a thread that echoes."""
    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()

    def echo() -> None:
        while data := os.read(out_read, 65536):
            view = memoryview(data)
            while view:
                view = view[os.write(in_write, view) :]
        os.close(in_write)
        os.close(out_read)

    threading.Thread(target=echo, daemon=True).start()
    transport = StdioTransport(in_read, out_write)
    return _Owning(transport, in_read, out_write)


class _Owning(Wrapper):
    """A `StdioTransport` that also closes the descriptors it was given."""

    def __init__(self, inner: StdioTransport, *fds: int) -> None:
        super().__init__(inner)
        self._fds = list(fds)

    async def open(self, events: Owner) -> None:
        await super().open(events)
        while self._fds:
            os.close(self._fds.pop())


class _Joined(ListeningTransport):
    """A listening socket that a `conductor join` process with an echo behind it connects to."""

    async def open(self, events: Events) -> None:
        await super().open(events)
        server = msgspec.json.decode(self.server("echo"))
        env = {**os.environ, **{one["name"]: one["value"] for one in server["env"]}}
        # The shim's two ends joined by a pipe: what comes out of it goes in again.
        read, write = os.pipe()
        self._shim = await asyncio.create_subprocess_exec(
            server["command"], *server["args"], env=env, stdin=read, stdout=write
        )
        os.close(read)
        os.close(write)

    async def close(self, grace: float) -> None:
        await super().close(grace)
        with contextlib.suppress(ProcessLookupError):  # it has seen the end by itself
            self._shim.kill()
        await self._shim.wait()


def socket() -> Transport:
    """A connection that comes in through `conductor join`."""
    return _Joined()


ENDS: dict[str, Callable[[], Transport]] = {
    "memory": memory,
    "process": process,
    "guest": guest,
    "stdio": stdio,
    "socket": socket,
    **peers.ENDS,
}
