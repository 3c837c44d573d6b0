"""A TCP proxy in a thread of its own; its methods may be called from any other.

What it does to the links that it carries is up to its subclasses.
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from typing import Final, Generic, Protocol, Self, TypeVar

_LINGER: Final = struct.pack("ii", 1, 0)
"""A close sends a reset, and unsent bytes are lost."""


class Dropped(Protocol):
    """The two sockets of a link."""

    def drop(self) -> None:
        """Resets both."""


_P = TypeVar("_P", bound=Dropped)


class Relay(Generic[_P]):
    """Listens, and carries each link to an address.

    Attributes:
        target: Address and port behind it; may be set anew, as of a load balancer.
        links: Links that were ever opened.
        port: Where it listens.
    """

    def __init__(
        self, target: tuple[str, int], listening: Callable[[], socket.socket], chunk: int
    ) -> None:
        """`listening` opens the socket, and `chunk` is how many bytes are read at once. The thread
        begins here, so a subclass has made its own attributes before."""
        self.target = target
        self.links = 0
        self._chunk = chunk
        self._pairs: set[_P] = set()
        self._closed = False
        self._over = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._listening = listening()
        self.port: int = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._end)
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

    # -- in the thread -----------------------------------------------------------------------

    def _do(self, action: Callable[[], None]) -> None:
        done = threading.Event()

        def act() -> None:
            action()
            done.set()

        self._loop.call_soon_threadsafe(act)
        done.wait()

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._come, sock=self._listening, limit=self._chunk)
        await self._over.wait()
        server.close()
        self._closed = True
        self._cut()
        if tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(tasks)

    def _end(self) -> None:
        self._over.set()

    def _cut(self) -> None:
        for pair in list(self._pairs):
            pair.drop()

    async def _come(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        self.links += 1
        if self._closed:
            drop(back)
            return
        try:
            far, on = await asyncio.open_connection(*self.target, limit=self._chunk)
        except OSError:
            drop(back)
            return
        await self._carry(near, back, far, on)

    async def _carry(
        self,
        near: asyncio.StreamReader,
        back: asyncio.StreamWriter,
        far: asyncio.StreamReader,
        on: asyncio.StreamWriter,
    ) -> None:
        """Carries a link until it ends: from `near` to `on`, and from `far` to `back`."""
        raise NotImplementedError


def drop(end: asyncio.StreamWriter) -> None:
    """Resets a socket."""
    connected = end.get_extra_info("socket")
    if connected is not None and connected.fileno() >= 0:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
    end.transport.abort()
