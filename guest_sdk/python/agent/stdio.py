"""An agent as an ordinary program: newline-delimited JSON-RPC on standard input and output."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import threading
from typing import TYPE_CHECKING, Final

from .running import Running

if TYPE_CHECKING:
    from .declared import Agent

_CHUNK: Final = 256 * 1024
_AT_ONCE: Final = 4096
"""Bytes that a pipe takes without blocking, if it takes any (POSIX asks for 512)."""
_HIGH_WATER: Final = 1024 * 1024
"""Bytes queued above which the agent waits until the client has read."""


def run(agent: Agent) -> None:
    """Serves until the input ends."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing here needs unwinding
    if os.isatty(0):
        sys.stderr.write(
            f"{agent.name}: an ACP agent, waiting for JSON-RPC "
            f'(hint: conductor exec "python {os.path.basename(sys.argv[0])}" -p hello)\n'
        )
    printed, sys.stdout = sys.stdout, sys.stderr
    try:
        asyncio.run(_serve(agent))
    finally:
        sys.stdout = printed


async def _serve(agent: Agent) -> None:
    loop = asyncio.get_running_loop()
    out = _Out(loop)
    running = Running(agent, out.write)
    running.room = out.room
    ended = asyncio.Event()

    def received(lines: list[bytes]) -> None:
        for line in lines:
            running.feed(line.decode("utf-8", "surrogateescape"))

    threading.Thread(target=_read, args=(loop, received, ended.set), daemon=True).start()
    await ended.wait()
    await running.end()
    await out.drained()


def _read(loop: asyncio.AbstractEventLoop, received: object, ended: object) -> None:
    """Reads lines in a thread of its own: not every standard input can be waited for."""
    held: list[bytes] = []
    while data := os.read(0, _CHUNK):
        *whole, rest = data.split(b"\n")
        if whole:
            whole[0] = b"".join([*held, whole[0]])
            held = []
            loop.call_soon_threadsafe(received, whole)  # type: ignore[arg-type]
        held.append(rest)
    loop.call_soon_threadsafe(received, [b"".join(held)])  # type: ignore[arg-type]
    loop.call_soon_threadsafe(ended)  # type: ignore[arg-type]


class _Out:
    """Standard output. It never blocks the loop: the client's cancellation must come in even while
    the client does not read."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queue: list[bytes] = []
        self._queued = 0
        self._writing: asyncio.Task[None] | None = None
        self._poll = select.poll() if hasattr(select, "poll") else None
        if self._poll is not None:
            self._poll.register(1, select.POLLOUT)

    def write(self, line: str) -> None:
        """Queues a line; writes it at once where that cannot block."""
        data = line.encode("utf-8", "surrogateescape") + b"\n"
        if self._writing is None and len(data) <= _AT_ONCE and self._poll and self._poll.poll(0):
            _write(data)
            return
        self._queue.append(data)
        self._queued += len(data)
        if self._writing is None:
            self._writing = self._loop.create_task(self._write_queued())

    async def _write_queued(self) -> None:
        while self._queue:
            data = b"".join(self._queue)
            self._queue.clear()
            await self._loop.run_in_executor(None, _write, data)
            self._queued -= len(data)
        # Here, and not in a callback: if it were still set once the task is done, `drained` would
        # wait for a task that is done, again and again, and no callback would ever run.
        self._writing = None

    async def room(self) -> None:
        """Waits while much is queued."""
        while self._queued > _HIGH_WATER and self._writing is not None:
            await asyncio.shield(self._writing)

    async def drained(self) -> None:
        """Waits until all is written."""
        while self._writing is not None:
            await asyncio.shield(self._writing)


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(1, view) :]
        except BlockingIOError:  # somebody made the shared description non-blocking
            select.select([], [1], [])
        except (BrokenPipeError, ConnectionError):
            os._exit(0)  # the client is gone: there is nobody left to speak to
