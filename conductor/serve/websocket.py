"""A WebSocket as a link.

A plain one carries one JSON text a frame, in total order, and what was on its way when it is cut is
lost: its client comes back by `session/load`. One with the subprotocol `conductor.link.1` carries
numbered packets (`conductor.link`), and goes on over the next WebSocket.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket as socket_module
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Final

from aiohttp import WSCloseCode, WSMsgType

from conductor.link import Limits, Link, LinkError
from conductor.link.packets import is_text

if TYPE_CHECKING:
    from aiohttp.web import WebSocketResponse

    from conductor.serve.client_sockets import ClientSocket
    from conductor.serve.connections import Connection, Farewell
    from conductor.serve.texts import Texts
    from conductor.transports.received import Entry

PACKET: Final = 1024 * 1024
"""Bytes of a WebSocket's message that is a packet."""

_AT_ONCE: Final = 64 * 1024
"""Bytes that are written at once, unless one text is longer."""
_PARTING: Final = 2.0
"""Seconds that what waits has to leave before the link ends."""
_LEFT: Final = (WSCloseCode.OK, 1005)
"""Codes of a close by which a client says that it will not come back."""
_REASON: Final = 123
"""Bytes of the text with which a socket closes, at most."""
_ACK: Final = 0.02
"""Seconds after which the client hears what has come, if nothing is sent before."""


class _Sender:
    """Writes to one WebSocket, at once as long as it takes all."""

    def __init__(
        self,
        taken: ClientSocket,
        socket: WebSocketResponse,
        ready: Callable[[], None],
        gone: Callable[[], None],
    ) -> None:
        """`ready` is called when a full socket takes more, `gone` when it is none any more."""
        self._taken = taken
        self._socket = socket
        self._ready = ready
        self._gone = gone
        self._has_room = asyncio.Event()
        taken.roomy = self._roomy

    @property
    def full(self) -> bool:
        """Whether the next text has to wait."""
        return self._taken.is_full

    def write(self, *texts: bytes) -> None:
        """Writes texts at once."""
        is_open = self._socket.prepared and not self._socket.closed
        if not is_open or not self._taken.send_texts(texts):
            self._gone()

    def _roomy(self) -> None:
        self._ready()
        self._has_room.set()

    async def emptied(self, seconds: float) -> None:
        """Waits until the socket has taken what was written, and what was written then."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.full:
                    self._has_room.clear()
                    await self._has_room.wait()


class SocketOutlet:
    """Frames that leave over one WebSocket. Once that is gone they are dropped."""

    def __init__(self, taken: ClientSocket, socket: WebSocketResponse) -> None:
        """`taken`: the network connection of the socket."""
        self.drained: Callable[[], None] = lambda: None
        self._socket = socket
        self._sender = _Sender(taken, socket, self._send_more, self.drop)
        self._taken: list[bytes] = []
        self._queue: deque[bytes] = deque()
        self._bytes = 0
        self._closing: asyncio.Task[None] | None = None
        self._gone = False

    @property
    def waiting(self) -> int:
        """Bytes that have not left yet."""
        return self._bytes

    def send(self, frame: bytes, session: str | None) -> None:
        """Takes a frame."""
        del session
        if not self._gone:
            self._taken.append(frame)

    def flush(self) -> None:
        """Sends what the socket takes."""
        taken, self._taken = self._taken, []
        if len(taken) == 1 and not self._queue and not self._sender.full:
            self._sender.write(taken[0])
            return
        for frame in taken:
            self._queue.append(frame)
            self._bytes += len(frame)
        self._send()

    def _send_more(self) -> None:
        self._send()
        self.drained()

    def _send(self) -> None:
        while self._queue and not self._sender.full:
            batch, size = [], 0
            while self._queue and size < _AT_ONCE:
                batch.append(self._queue.popleft())
                size += len(batch[-1])
            self._bytes -= size
            self._sender.write(*batch)

    def hold(self, held: bool) -> None:
        """Does nothing: who reads the socket waits."""

    def drop(self) -> None:
        """The socket is gone, and what waited for it."""
        self._gone = True
        self._taken.clear()
        self._queue.clear()
        self._bytes = 0
        self.drained()

    def close(self, why: Farewell) -> None:
        """Ends the socket, once what waits has left."""
        self.flush()
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close(*why.value))

    async def _close(self, code: int, text: str) -> None:
        if not self._gone:
            await self._sender.emptied(_PARTING)
            self._gone = True
        await _close(self._socket, code, text)


class LinkedOutlet:
    """Frames that leave over one WebSocket after the other, each once and in order."""

    def __init__(self, epoch: str, message: int, unread: int) -> None:
        """`epoch`: the id of the connection. `message`: bytes of the longest message. `unread`: so
        many may wait, of which others see to it."""
        self.drained: Callable[[], None] = lambda: None
        self.failed: Callable[[], None] = lambda: None
        """Called when the link cannot go on."""
        self.holds: Entry | None = None
        """What has come of frames that are not complete."""
        self._link = Link(epoch, Limits(frame=message, queue=max(unread, message)))
        self._socket: WebSocketResponse | None = None
        self._sender: _Sender | None = None
        self._ack: asyncio.TimerHandle | None = None
        self._over = False
        """Whether the last socket has been asked to close."""
        self._closing: set[asyncio.Future[object]] = set()

    @property
    def waiting(self) -> int:
        """Bytes that the client does not have yet, as far as it has confirmed."""
        return self._link.kept

    @property
    def is_linked(self) -> bool:
        """Whether there is a socket."""
        return self._socket is not None

    def linked(self, taken: ClientSocket, socket: WebSocketResponse) -> None:
        """There is a WebSocket on a network connection, perhaps in the place of another."""
        before, self._socket = self._socket, socket
        self._sender = _Sender(taken, socket, self._write, lambda: None)
        if before is not None:
            self._begin(before.close(code=WSCloseCode.GOING_AWAY))
        self._link.linked()
        self._write()

    def cut(self, socket: WebSocketResponse) -> bool:
        """A WebSocket is gone; whether it was the one in use."""
        if socket is not self._socket:
            return False
        self._socket = self._sender = None
        self._link.cut()
        return True

    def send(self, frame: bytes, session: str | None) -> None:
        """Keeps a frame until the client has it."""
        del session
        try:
            self._link.send(frame)
        except LinkError as error:
            self._refuse(WSCloseCode.POLICY_VIOLATION, error)

    def flush(self) -> None:
        """Sends what the socket and the client take."""
        self._write()

    def received(self, packet: bytes) -> list[bytes]:
        """The frames that a packet of the client completes."""
        before = self._link.kept
        try:
            frames = self._link.received(packet)
        except LinkError as error:
            self._refuse(WSCloseCode.PROTOCOL_ERROR, error)
            return []
        if self.holds is not None:
            self.holds.set(self._link.held)
        self._write()
        if self._link.kept < before:
            self.drained()
        if frames and self._ack is None:
            loop = asyncio.get_running_loop()
            self._ack = loop.call_later(_ACK, self._acknowledge)
        return frames

    def _acknowledge(self) -> None:
        self._ack = None
        self._link.ack()
        self._write()

    def _write(self) -> None:
        sender = self._sender
        while sender is not None and not sender.full and sender is self._sender:
            packet = self._link.take()
            if packet is None:
                return
            sender.write(packet)

    def hold(self, held: bool) -> None:
        """Whether the client has to wait with what it sends."""
        if held:
            self._link.pause()
        else:
            self._link.go_on()
            self._write()

    def close(self, why: Farewell) -> None:
        """Ends the socket, once what waits has left."""
        if self.holds is not None:
            self.holds.close()
        self._write()
        self._end(*why.value)

    def _refuse(self, code: int, error: LinkError) -> None:
        """Ends the connection, and says why: what a socket has brought once never comes again, so
        nothing behind it could be taken either."""
        text = error.text.encode()[:_REASON].decode(errors="ignore")
        self._end(code, text)
        self.failed()

    def _end(self, code: int, text: str) -> None:
        if self._socket is not None and not self._over:
            self._over = True
            self._begin(self._close(self._socket, code, text))
        if self._ack is not None:
            self._ack.cancel()

    async def _close(self, socket: WebSocketResponse, code: int, text: str) -> None:
        if self._sender is not None:
            await self._sender.emptied(_PARTING)
        await _close(socket, code, text)

    def _begin(self, work: Awaitable[object]) -> None:
        closing = asyncio.ensure_future(work)
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


async def part(socket: WebSocketResponse, why: Farewell) -> None:
    """Closes a socket of a connection that has ended before the socket was there."""
    await _close(socket, *why.value)


async def _close(socket: WebSocketResponse, code: int, text: str) -> None:
    """Closes a socket, and ends its network connection even if the client reads nothing."""
    if not socket.prepared:
        return  # who prepares it looks whether its connection has ended
    try:
        async with asyncio.timeout(_PARTING):
            await socket.close(code=code, message=text.encode())
    except TimeoutError:
        taken = socket.get_extra_info("socket")
        if taken is not None:
            with contextlib.suppress(OSError):
                taken.shutdown(socket_module.SHUT_RDWR)


async def read(
    taken: ClientSocket, socket: WebSocketResponse, connection: Connection, most: int
) -> None:
    """Takes what a client sends, until its link is gone. `most`: bytes of the longest message."""

    def take(text: bytes) -> bool:
        if connection.paused or not is_text(text):
            return False
        connection.received(text)
        return True

    with _texts(taken, take, most) as texts:
        while True:
            # Also while it has to wait, until it sends: pings and a close are read on the way.
            message = await socket.receive()
            if message.type is WSMsgType.TEXT:
                await connection.may_send()
                data: bytes = message.data
                if not is_text(data):
                    await socket.close(code=WSCloseCode.INVALID_TEXT)
                    connection.lost()  # whatever the client answers: it did not begin to close
                    return
                connection.received(data)
            elif message.type is not WSMsgType.BINARY:  # binary frames are ignored
                break
            texts.taken()
    if socket.close_code in _LEFT:
        connection.close()
    else:
        connection.lost()


async def read_packets(
    taken: ClientSocket, socket: WebSocketResponse, connection: Connection, outlet: LinkedOutlet
) -> None:
    """The same for a client that numbers what it sends. It waits by what it may send: its packets
    also say what it has."""

    def take(packet: bytes) -> bool:
        for frame in outlet.received(packet):
            connection.received(frame)
        return True

    with _texts(taken, take, PACKET) as texts:
        while (message := await socket.receive()).type in (WSMsgType.TEXT, WSMsgType.BINARY):
            if message.type is WSMsgType.TEXT:
                take(message.data)
            texts.taken()
    if outlet.cut(socket):
        if socket.close_code in _LEFT:
            connection.close()
        else:
            connection.cut()


@contextlib.contextmanager
def _texts(taken: ClientSocket, take: Callable[[bytes], bool], most: int) -> Iterator[Texts]:
    """What comes on a WebSocket, which goes to `take` meanwhile."""
    texts = taken.texts
    assert texts is not None
    texts.begin(take, most)
    try:
        yield texts
    finally:
        texts.end()
