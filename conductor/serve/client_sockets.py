"""The network connections of HTTP clients: strangers at first, then a principal's.

A WebSocket, a stream of events and a request each have one while they last; between two requests
it is idle.
"""

from __future__ import annotations

import asyncio
import socket as socket_module
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from aiohttp import StreamReader, web
from aiohttp.web_protocol import RequestHandler

from conductor.errors import ConductorError, are, counted
from conductor.serve import pulse
from conductor.serve.texts import Texts
from conductor.transports.received import Entry

if TYPE_CHECKING:
    from ssl import SSLContext

    from conductor.transports.received import Received
    from conductor.transports.turns import Turns

_HTTP: Final[Mapping[str, Any]] = {
    "access_log": None,
    "keepalive_timeout": 75.0,
    "lingering_time": 2.0,  # for the rest of a body that is refused
    "auto_decompress": False,
}


_AHEAD: Final = 64 * 1024
"""Bytes that come before it is clear who asks, or while a request is answered; beyond them a
connection waits. A body of somebody known may be as long as a message."""

_PIECE: Final = 4 * 1024
"""Bytes of HTTP that are looked at in one go, since a chunk of a body may have one byte. Of a
WebSocket, see `Texts`."""

_HEAD: Final = 4 * 1024
"""Bytes of a stranger that are looked at without a turn."""

_TURN: Final = "others have their turn"
_STRANGER: Final = "a stranger, or a request that is answered"
_MUCH: Final = "much of its principal waits"

_TEXT: Final = 0x81
"""The first byte of a frame that is a whole text."""
_SHORT: Final = 126
_LONG: Final = 64 * 1024
"""Bytes from which on the length of a text takes two bytes more, and eight."""


_two_bytes: Final = struct.Struct(">BBH").pack
_eight_bytes: Final = struct.Struct(">BBQ").pack


def _head(size: int) -> bytes:
    """What stands before a text of so many bytes that is a frame."""
    if size < _SHORT:
        return bytes((_TEXT, size))
    return _two_bytes(_TEXT, 126, size) if size < _LONG else _eight_bytes(_TEXT, 127, size)


class Visitor:
    """A network connection over HTTP that has not shown yet who it is from."""

    def __init__(
        self, taken: socket_module.socket, patience: float, leave: Callable[[Visitor], None]
    ) -> None:
        self._taken: socket_module.socket | None = taken
        self._leave = leave
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[Any] | None = None
        self._late = asyncio.get_running_loop().call_later(patience, self.turn_away)

    def begin(
        self,
        loop: asyncio.AbstractEventLoop,
        make: Callable[[], asyncio.BaseProtocol],
        tls: SSLContext | None,
    ) -> None:
        """Reads from it."""
        self._task = loop.create_task(self._connect(loop, make, tls))

    async def _connect(
        self,
        loop: asyncio.AbstractEventLoop,
        make: Callable[[], asyncio.BaseProtocol],
        tls: SSLContext | None,
    ) -> None:
        taken, self._taken = self._taken, None
        assert taken is not None
        try:
            await loop.connect_accepted_socket(make, taken, ssl=tls)
        except (OSError, asyncio.CancelledError):
            taken.close()
            self.leave()

    def connected(self, transport: asyncio.BaseTransport) -> None:
        """It has a transport."""
        self._transport = cast("asyncio.Transport", transport)

    def leave(self) -> None:
        """It has shown who it is from, or is gone."""
        if not self._late.cancelled():
            self._late.cancel()
            self._leave(self)

    def turn_away(self) -> None:
        """Ends it now."""
        self.leave()
        if self._transport is not None:
            self._transport.abort()
        elif self._task is not None:
            self._task.cancel()


class ClientSocket(RequestHandler):
    """One network connection, which has to show in time who it is from.

    Attributes:
        principal: Whose request it had last; empty: it is a stranger.
        is_busy: Whether a request is being answered.
        heard: How often bytes have come.
        texts: What comes on it, once it is a WebSocket.
        is_full: Whether much waits to be sent.
        roomy: Called when it is full no more.
        holds: The bytes that have come on it and that nobody has taken yet.
        refuse: Called when these have waited too long.
    """

    __slots__ = (
        *("_gone", "_piece", "_reads_body", "_received", "_rest", "_turns", "_unwanted"),
        *("_visitor", "_waits", "heard", "holds", "is_busy", "is_full", "principal", "refuse"),
        *("roomy", "texts"),
    )

    def __init__(
        self,
        visitor: Visitor,
        gone: Callable[[ClientSocket], None],
        received: Received,
        turns: Turns,
        manager: web.Server,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`gone` is called when it has ended."""
        super().__init__(manager, loop=loop, **_HTTP)
        self.principal = ""
        self.is_busy = False
        self.heard = 0
        self.texts: Texts | None = None
        self.is_full = False
        self.roomy: Callable[[], None] = lambda: None
        self.refuse: Callable[[], None] = self.cut
        self._visitor = visitor
        self._gone = gone
        self._received = received
        self._turns = turns
        self._rest = b""
        """What has come and waits for its turn."""
        self.holds = Entry("", self)
        self._waits: set[str] = set()
        """Why nothing is read."""
        self._piece = _PIECE
        self._reads_body = False
        self._unwanted: StreamReader | None = None
        """The body of the last request, of which what comes is thrown away."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The network connection is there."""
        super().connection_made(transport)
        self._visitor.connected(transport)

    def data_received(self, data: bytes) -> None:
        """Bytes have come; none: aiohttp goes on with those that it has."""
        if not data:
            super().data_received(data)
            return
        self.heard += 1
        if self.texts is None and not self._throws_away:
            self.holds.count(len(data))
            if self.holds.held > _AHEAD and not self._reads_body:
                self._wait(_STRANGER)
        if self._rest:
            self._rest += data
        else:
            self._look_at(data)

    def _look_at(self, data: bytes) -> None:
        """Looks at what has come, as far as it is the turn of its principal."""
        at = 0
        while at < len(data):
            # Who sends a head waits for no stranger's turn: showing a token costs little.
            is_head = not self.principal and len(data) <= _HEAD
            if not is_head and not self._turns.may(self.principal):
                self._rest = data[at:]
                self._wait(_TURN)
                self._turns.later(self.principal, self._look_on)
                return
            if (texts := self.texts) is not None:
                super().data_received(data[at:])
                at, data, texts.rest = 0, texts.rest, b""
            else:
                piece = self._piece
                super().data_received(data[at : at + piece])
                at += piece

    def _look_on(self) -> None:
        data, self._rest = self._rest, b""
        if data:  # else it has ended meanwhile
            self._look_at(data)
            if not self._rest:
                self._go_on(_TURN)

    @property
    def _throws_away(self) -> bool:
        return self._unwanted is not None and not self._unwanted.is_eof()

    def reads_body(self, reads: bool, length: int | None = None) -> None:
        """Whether what comes is the body of a request, and somebody takes it. `length`: of all of
        it, where it comes without chunks."""
        self._reads_body = reads
        self._piece = max(_PIECE, length or 0)
        if reads:
            self._go_on(_STRANGER)

    def connection_lost(self, exc: BaseException | None) -> None:
        """It is gone."""
        self._visitor.leave()
        self._gone(self)
        self.holds.close()
        self._rest = b""
        super().connection_lost(exc)
        self.is_full = False
        self.roomy()

    def set_parser(self, parser: Any, *others: Any, **named: Any) -> None:
        """It is a WebSocket from now on."""
        self._taken()
        self.texts = Texts(parser, self.holds.count)
        super().set_parser(cast("Any", self.texts), *others, **named)
        rest, self.texts.rest = self.texts.rest, b""
        if rest:
            self._look_at(rest)

    def send_texts(self, texts: Iterable[bytes]) -> bool:
        """Sends texts of a WebSocket; whether it is there to do so."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return False
        frames: list[bytes] = []
        for text in texts:
            frames += (_head(len(text)), text)
        transport.write(b"".join(frames))
        return True

    def pause_writing(self) -> None:
        """Much waits to be sent."""
        super().pause_writing()
        self.is_full = True

    def resume_writing(self) -> None:
        """Nearly all has been sent."""
        super().resume_writing()
        self.is_full = False
        self.roomy()

    def known(self) -> None:
        """It is no stranger any more, and has a request of its principal."""
        self._visitor.leave()
        if self.holds.principal != self.principal:
            held = self.holds.held
            self.holds.close()
            self.holds = self._received.entry(self.principal, self)
            self.holds.count(held)

    def wait(self) -> None:
        """Reads no more for now."""
        self._wait(_MUCH)

    def go_on(self) -> None:
        """There is room again."""
        self._go_on(_MUCH)

    def _wait(self, why: str) -> None:
        self._waits.add(why)
        if self.transport is not None:
            self.transport.pause_reading()

    def _go_on(self, why: str) -> None:
        """Reads on, unless it has to wait for another reason, or aiohttp waits too."""
        self._waits.discard(why)
        if not self._waits and not self._reading_paused and self.transport is not None:
            self.transport.resume_reading()

    def resume_reading(self, *arguments: Any, **named: Any) -> None:
        """aiohttp waits no more."""
        super().resume_reading(*arguments, **named)
        for why in [*self._waits]:
            self._wait(why)

    def _taken(self) -> None:
        """All that has come has been taken, unless more requests wait."""
        if not self._messages:
            self.holds.set(0)
            self._go_on(_STRANGER)

    def go(self) -> None:
        """What has come has waited too long."""
        self.refuse()

    async def finish_response(
        self, request: web.BaseRequest, *arguments: Any
    ) -> tuple[web.StreamResponse, bool]:
        """A request is answered; until then nothing makes room of it."""
        try:
            return await super().finish_response(request, *arguments)
        finally:
            self.is_busy = False
            self._unwanted = request.content
            self._taken()

    def end(self) -> None:
        """Ends it, once what was written has left."""
        if self.transport is not None:
            self.transport.close()

    def cut(self) -> None:
        """Ends it at once."""
        if self.transport is not None:
            self.transport.abort()

    @property
    def pending(self) -> int:
        """Bytes that the client's machine has not confirmed."""
        if self.transport is None:
            return 0
        written = self.transport.get_write_buffer_size()
        raw = self.transport.get_extra_info("socket")
        return written + (pulse.unconfirmed(raw) if raw is not None else 0)

    @property
    def reached(self) -> bool | None:
        """Whether the client's machine confirms what it is sent; None: nobody knows."""
        raw = None if self.transport is None else self.transport.get_extra_info("socket")
        return None if raw is None else pulse.reached(raw)


class ClientSockets:
    """Which of them each principal has."""

    def __init__(self) -> None:
        self._of: dict[str, dict[ClientSocket, None]] = {}

    def take(self, socket: ClientSocket, principal: str, most: int) -> None:
        """A socket has a request of a principal, who may have so many sockets. An idle one makes
        room. Raises `ConductorError`."""
        socket.is_busy = True
        if socket.principal == principal:
            return
        own = self._of.get(principal, {})
        if len(own) >= most:
            idle = next((one for one in own if not one.is_busy), None)
            if idle is None:
                there = f"there {are(len(own))} {counted(len(own), 'network connection')}"
                raise ConductorError(
                    f"{there} of this principal, as many as there may be",
                    "close some of them, or ask for a higher limit (--sockets, ulimit -n)",
                )
            self.gone(idle)
            idle.end()
        self.gone(socket)
        socket.principal = principal
        self._of.setdefault(principal, {})[socket] = None

    def gone(self, socket: ClientSocket) -> None:
        """A socket has ended, or is another principal's."""
        own = self._of.get(socket.principal, {})
        own.pop(socket, None)
        if not own:
            self._of.pop(socket.principal, None)
        socket.principal = ""

    def count(self, principal: str) -> int:
        """How many a principal has."""
        return len(self._of.get(principal, ()))
