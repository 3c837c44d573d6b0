"""The control socket of a chain in this process.

A process that connects is of the same user, who may end the chain as well. Still nothing that comes
here holds up a message: a connection has small buffers, and is closed when it does not read, floods
or sends nonsense.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Final

import msgspec

from conductor.control import places, protocol
from conductor.control.protocol import Answer, Request
from conductor.errors import ConductorError, UsageError, did_you_mean, place_of
from conductor.transports.entrance import Entrance

if TYPE_CHECKING:
    from conductor.control.protocol import ChainState
    from conductor.record.ring.figures import Figures
    from conductor.run.runtime import Runtime

_MOST: Final = 8
"""Connections at a time."""
_GREETED: Final = 5.0
"""Seconds until a connection has greeted."""
_APART: Final = 0.02
"""The least seconds between two requests of one connection: the chain has the rest."""
_MOST_UNREAD: Final = 1024 * 1024
"""Bytes that a connection may leave unread."""
_BACKLOG: Final = 16

_DONE: Final = "done"
_REQUESTS: Final = ("state", "reload", "figures", "pause", "resume")
_STATE: Final = "conductor.control.state"
_FIGURES: Final = "conductor.record.ring.figures"
"""Loaded once somebody asks, or watches: most chains end before."""
_REST: Final = 0.003
"""Seconds that the chain has between two parts of the work for who watches, each as long."""


class About(msgspec.Struct, frozen=True):
    """Facts about a chain that commands show and its runtime does not know."""

    command: str
    """`agent`, `serve` …"""
    number: int = 0
    """The chain's number on a server; 0: the process has only this chain."""
    chain: str = ""
    """See `conductor.control.protocol.ChainState`, as for the next."""
    principal: str = ""
    trace: str = ""


class _Visitor:
    """A connection, which is a stranger until it has greeted."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.task: asyncio.Task[None] | None = None
        self.has_begun = False

    def turn_away(self) -> None:
        """Ends the connection now."""
        if self.task is not None:
            self.task.cancel()
        if not self.has_begun:
            self.connection.close()


class Server:
    """Takes the requests of commands.

    Attributes:
        path: of the socket.
    """

    def __init__(
        self,
        runtime: Runtime,
        about: About,
        path: str,
        listening: socket.socket,
        complain: Callable[[str], None],
    ) -> None:
        """`complain` logs a sentence."""
        self._runtime = runtime
        self._about = about
        self._began = time.monotonic()
        self.path = path
        self._greeted = 0
        """The connections that have greeted."""
        self._complain = complain
        self._entrance = Entrance(listening, self._accepted, complain)

    @classmethod
    def opened(
        cls, runtime: Runtime, about: About, log: Callable[[str, str, str], None]
    ) -> Server | None:
        """Listens; None where no folder can be used, which is logged."""
        path, whys = places.chosen(about.number)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            if not path:
                raise OSError(0, "; ".join(whys))
            unheard = places.unheard(path)
            places.remove(unheard)  # of a process that had our id, and has ended
            listening.bind(unheard)
            os.chmod(unheard, 0o600)
            listening.listen(_BACKLOG)
            os.rename(unheard, path)  # a command that finds it is heard
        except OSError as error:
            listening.close()
            why = error.strerror or str(error)
            log("info", "conductor", f"the chain has no control socket: {why}")
            return None
        return cls(runtime, about, path, listening, lambda text: log("info", "conductor", text))

    def close(self) -> None:
        """Stops listening, and removes the socket. Connections end with the chain."""
        self._entrance.close()
        places.remove(self.path)

    # -- connections -----------------------------------------------------------------------------

    def _accepted(self, connection: socket.socket) -> _Visitor:
        visitor = _Visitor(connection)
        visitor.task = self._runtime.start(self._serve(visitor))
        if visitor.task is None:  # the chain ends
            connection.close()
        return visitor

    async def _serve(self, visitor: _Visitor) -> None:
        visitor.has_begun = True
        connection = visitor.connection
        try:
            busy = self._greeted >= _MOST
            if not busy and _is_ours(connection):
                await self._talk(visitor)
                return
            if busy:
                with contextlib.suppress(OSError):
                    connection.send(protocol.encode(protocol.Greeting(busy=_MOST)))
            connection.close()
        except Exception as error:  # a defect here is no defect of the chain
            self._complain(f"a command was not answered: {place_of(error)}")
        finally:
            self._entrance.leave(visitor)

    async def _talk(self, visitor: _Visitor) -> None:
        reader, writer = await asyncio.open_connection(
            sock=visitor.connection, limit=protocol.MOST_LINE
        )
        try:
            async with asyncio.timeout(_GREETED):
                protocol.greeted(await reader.readuntil(b"\n"))
            self._entrance.leave(visitor)
            if self._greeted >= _MOST:
                writer.write(protocol.encode(protocol.Greeting(busy=_MOST)))
                return
            self._greeted += 1
            try:
                await self._serve_requests(reader, writer)
            finally:
                self._greeted -= 1
        except* (ConductorError, OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            pass  # who says nonsense, or nothing, is not listened to
        finally:
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()

    async def _serve_requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await asyncio.to_thread(importlib.import_module, _STATE)
        writer.write(protocol.encode(protocol.Greeting()))
        watched: list[Figures] = []
        running: asyncio.Task[None] | None = None
        async with asyncio.TaskGroup() as answering:  # the end of the connection ends the answer
            while True:
                line = await reader.readuntil(b"\n")
                request = protocol.decode(line, Request)
                if running is not None and not running.done():
                    raise ConductorError("one request at a time")
                running = answering.create_task(self._answer(request, writer, watched))
                await asyncio.wait((running,), timeout=_APART)
                await asyncio.sleep(_APART)

    async def _answer(
        self, request: Request, writer: asyncio.StreamWriter, watched: list[Figures]
    ) -> None:
        """Answers a request; `watched` has the figures of a connection that asks for them."""

        def send(answer: Answer) -> None:
            if writer.transport.get_write_buffer_size() > _MOST_UNREAD:
                writer.transport.abort()
            else:
                writer.write(protocol.encode(answer))

        try:
            if request.do in ("pause", "resume"):
                if not self._runtime.router.quiet():
                    send(Answer(request.id, waits=waits_for(self._runtime)))
                await self._runtime.pause(request.name, paused=request.do == "pause")
                result: ChainState | str = _DONE
            elif request.do == "figures":
                async for waits in self._count(request.name, watched):
                    send(Answer(request.id, waits=waits))
                figures = watched[0] if watched else None
                result = self._state(figures)
            elif request.do == "state":
                result = self._state()
            elif request.do == "reload":
                self._runtime.reload()
                result = _DONE
            else:
                hint = did_you_mean(request.do, _REQUESTS)
                raise UsageError(f"the chain knows no request `{request.do[:40]}`", hint)
        except ConductorError as error:
            send(Answer(request.id, error=error.text, hint=error.hint))
        else:
            send(Answer(request.id, result=result))

    def _state(self, figures: Figures | None = None) -> ChainState:
        from conductor.control.state import chain_state  # `_serve` has loaded it

        return chain_state(self._runtime, self._about, self._began, figures)

    async def _count(self, wanted: str, watched: list[Figures]) -> AsyncIterator[str]:
        """Counts the messages since the last call, a part at a time: the chain goes on between.
        Yields words for the wait, about each second. Raises `UsageError`."""
        ring = self._runtime.records.ring
        if ring is None:
            return
        module = await asyncio.to_thread(importlib.import_module, _FIGURES)
        if not watched or watched[0].wanted != wanted:
            watched[:] = [module.Figures(ring, lambda: self._runtime.router.mode, wanted)]
        spoken = time.monotonic()
        for _ in watched[0].work():
            await asyncio.sleep(_REST)
            if time.monotonic() - spoken > 1.0:
                spoken = time.monotonic()
                yield "until all passed messages are counted"


def waits_for(runtime: Runtime) -> str:
    """The open work in a chain, in words."""
    count = runtime.router.pending()
    if count:
        return f"for the end of the client's requests ({count} open)"
    return "until nothing is open in the chain"


def _is_ours(connection: socket.socket) -> bool:
    """Whether a process of the same user has connected, as far as the system says."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True  # the folder is private
    with contextlib.suppress(OSError):
        raw = connection.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i"))
        return bool(struct.unpack("3i", raw)[1] == os.geteuid())
    return False
