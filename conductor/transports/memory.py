"""A component in this process: an async function with a channel instead of a process.

Tests use it to play a client, a proxy or an agent without any process.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Final

from conductor.transports.base import Ended, Owner

_LEAST: Final = 0.05
"""The least seconds that a function gets, whatever the grace: it may await something at its end."""
_CANCELS: Final = 5
"""How often a function is cancelled until it is closed, which only few could catch."""


class Channel:
    """The channel of an in-process component: whole lines in, whole lines out."""

    def __init__(self, send: Callable[[bytes], None], taken: Callable[[], None]) -> None:
        """`send` takes each line the component sends; `taken` is called when it received one."""
        self._send = send
        self._taken = taken
        self._lines: deque[bytes] = deque()
        self._arrived = asyncio.Event()
        self._finished = False
        self.waiting = 0
        """Bytes that arrived and have not been received yet."""

    async def receive(self) -> bytes | None:
        """The next line without its newline; None once nothing more will come."""
        while not self._lines:
            if self._finished:
                return None
            self._arrived.clear()
            await self._arrived.wait()
        line = self._lines.popleft()
        self.waiting -= len(line) + 1
        self._taken()
        return line

    def send(self, line: bytes) -> None:
        """Sends one line; a newline at its end is not needed. Raises `ValueError` for several."""
        line = line.removesuffix(b"\n")
        if b"\n" in line:
            raise ValueError("a message is one line")
        self._send(line)

    def _put(self, lines: list[bytes]) -> None:
        self._lines += lines
        self.waiting += sum(map(len, lines)) + len(lines)
        self._arrived.set()

    def _finish(self) -> None:
        self._finished = True
        self._arrived.set()


Component = Callable[[Channel], Awaitable[None]]
"""An in-process component; it ends by returning."""


class MemoryTransport:
    """Runs an async function as a component, or as the client of a chain.

    Its exception ends the connection with a sentence that names the function and the exception;
    `error` keeps the exception. At the client's end an exception fails the chain.
    """

    def __init__(self, component: Component) -> None:
        self.error: BaseException | None = None
        """The exception that the function raised."""
        self._component = component
        self._channel = Channel(self._from_component, self._taken)
        self._events: Owner | None = None
        self._held: list[bytes] | None = None
        self._running: Awaitable[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._ended = False

    async def open(self, events: Owner) -> None:
        """Starts the component's task."""
        self._events = events
        self._task = events.carry(self._run())

    def write(self, data: bytes) -> None:
        """Queues whole lines."""
        self._channel._put(data.split(b"\n")[:-1])

    @property
    def buffered(self) -> int:
        """Bytes the component has not received yet."""
        return self._channel.waiting

    def pause(self) -> None:
        """Keeps the component's lines until `resume`."""
        if self._held is None:
            self._held = []

    def resume(self) -> None:
        """Hands over the kept lines, and reads on."""
        held, self._held = self._held, None
        if held and self._events is not None:
            self._events.received(held)

    def finish(self) -> None:
        """The component's `receive` returns None once it has received everything."""
        self._channel._finish()

    def hear(self) -> None:
        """Does nothing: it has no standard error of its own."""

    async def close(self, grace: float) -> None:
        """Waits `grace` seconds for the function to return, then cancels it: again after each such
        time in which it goes on. One that catches that each time is closed."""
        self._ended = True
        self.finish()
        task = self._task
        if task is None:
            return
        for count in range(_CANCELS + 1):
            if task.done():
                return
            await asyncio.wait((task,), timeout=max(grace, _LEAST))
            if count == _CANCELS and isinstance(self._running, Coroutine):
                with contextlib.suppress(RuntimeError):  # it catches that, too
                    self._running.close()
            task.cancel()
        await asyncio.wait((task,))

    async def _run(self) -> None:
        try:
            self._running = self._component(self._channel)
            await self._running
        except asyncio.CancelledError:
            self._report(Ended("was cancelled"))
            raise
        except BaseException as error:
            # Also exceptions that are no `Exception`, such as `SystemExit`: the chain would wait
            # for ever.
            self._raised(error)
            if isinstance(error, KeyboardInterrupt):
                raise
        else:
            self._report(Ended("returned", clean=True))

    def _raised(self, error: BaseException) -> None:
        self.error = error
        if self._ended:  # nobody waits for it any more, but its author must know
            about = {"message": f"`{self.name}` failed while its chain ended", "exception": error}
            asyncio.get_running_loop().call_exception_handler(about)
        text = f"raised {type(error).__name__}" + (f": {error}" if str(error) else "")
        self._report(Ended(text, data={"exitCode": 1, "function": self.name}))

    @property
    def name(self) -> str:
        """The function's name."""
        return getattr(self._component, "__qualname__", type(self._component).__name__)

    def _report(self, how: Ended) -> None:
        if not self._ended and self._events is not None:
            self.resume()  # its lines come before its end, paused or not
            self._ended = True
            self._events.ended(how)

    def _taken(self) -> None:
        if self._events is not None:
            self._events.drained()

    def _from_component(self, line: bytes) -> None:
        if self._ended or not line:
            return
        if self._held is not None:
            self._held.append(line)
        elif self._events is not None:
            self._events.received([line])
