"""A WebSocket as a link.

A plain WebSocket carries one JSON text a frame, in total order. Frames on their way at a cut are
lost: its client comes back by `session/load`. A WebSocket of the subprotocol `conductor.link.1`
carries numbered packets (`conductor.link`), and goes on over the next WebSocket.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from conductor.link import Limits, Link, LinkError
from conductor.link.packets import is_text

if TYPE_CHECKING:
    from conductor.http.websocket import WebSocket
    from conductor.serve.connections import Connection, Farewell
    from conductor.transports.received import Entry

PACKET: Final = 1024 * 1024
"""Bytes of a WebSocket's message that is a packet."""

_AT_ONCE: Final = 64 * 1024
"""The most bytes that are written at once, unless one text is longer."""
_PARTING: Final = 2.0
"""Seconds that waiting frames have to leave before the link ends."""
_LEAVING: Final = 1001
_PROTOCOL: Final = 1002
_NO_TEXT: Final = 1007
_POLICY: Final = 1008
_LEFT: Final = (1000, 1005)
"""Codes of a close by which a client says that it will not come back."""
_REASON: Final = 123
"""Bytes of the text with which a socket closes, at most."""
_ACK: Final = 0.02
"""Seconds after which the client hears which packets have come, if nothing is sent before."""


class SocketOutlet:
    """Frames that leave over one WebSocket. They are dropped once the WebSocket is gone."""

    def __init__(self) -> None:
        self.drained: Callable[[], None] = lambda: None
        self._socket: WebSocket | None = None
        self._taken: list[bytes] = []
        self._queue: deque[bytes] = deque()
        self._bytes = 0
        self._is_closing = False
        self._gone = False

    def linked(self, socket: WebSocket) -> None:
        """There is the WebSocket."""
        self._socket = socket
        socket.ready = self._send_more

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
        """Sends the frames that the socket takes."""
        self._queue += self._taken
        self._bytes += sum(map(len, self._taken))
        self._taken.clear()
        self._send()

    def _send_more(self) -> None:
        self._send()
        self.drained()

    def _send(self) -> None:
        while self._queue and self._socket is not None and not self._socket.is_full:
            batch, size = [], 0
            while self._queue and size < _AT_ONCE:
                batch.append(self._queue.popleft())
                size += len(batch[-1])
            self._bytes -= size
            if not self._socket.send(batch):
                self.drop()

    def hold(self, held: bool) -> None:
        """`held` says whether the client must stop sending for now."""
        if not held and self._socket is not None:
            self._socket.go_on()

    def drop(self) -> None:
        """The socket is gone; the frames that waited for it are dropped."""
        self._gone = True
        self._taken.clear()
        self._queue.clear()
        self._bytes = 0
        self.drained()

    def close(self, why: Farewell) -> None:
        """Ends the socket, once the waiting frames have left."""
        self.flush()
        if not self._is_closing and self._socket is not None:
            self._is_closing = True
            self._socket.close(*why.value, _PARTING)


class LinkedOutlet:
    """Frames that leave over one WebSocket after the other, each once and in order."""

    def __init__(self, epoch: str, message: int, unread: int) -> None:
        """`epoch`: the id of the connection. `message`: bytes of the longest message. `unread`: so
        many may wait, of which others see to it."""
        self.drained: Callable[[], None] = lambda: None
        self.failed: Callable[[], None] = lambda: None
        """Called when the link cannot go on."""
        self.holds: Entry | None = None
        """The bytes that have come of incomplete frames."""
        self._link = Link(epoch, Limits(frame=message, queue=max(unread, message)))
        self._socket: WebSocket | None = None
        self._ack: asyncio.TimerHandle | None = None
        self._over = False
        """Whether the last socket has been asked to close."""

    @property
    def waiting(self) -> int:
        """Bytes that the client does not have yet, as far as it has confirmed."""
        return self._link.kept

    @property
    def is_linked(self) -> bool:
        """Whether there is a socket."""
        return self._socket is not None

    def linked(self, socket: WebSocket) -> None:
        """There is a WebSocket, perhaps in the place of another."""
        before, self._socket = self._socket, socket
        socket.ready = self._write
        if before is not None:
            before.ready = lambda: None
            before.close(_LEAVING, "", _PARTING)
        self._link.linked()
        self._write()

    def cut(self, socket: WebSocket) -> bool:
        """A WebSocket is gone. Returns whether the link used it."""
        if socket is not self._socket:
            return False
        self._socket = None
        self._link.cut()
        return True

    def send(self, frame: bytes, session: str | None) -> None:
        """Keeps a frame until the client has it."""
        del session
        try:
            self._link.send(frame)
        except LinkError as error:
            self._refuse(_POLICY, error)

    def flush(self) -> None:
        """Sends the frames that the socket and the client take."""
        self._write()

    def received(self, packet: bytes) -> list[bytes]:
        """The frames that a packet of the client completes."""
        before = self._link.kept
        try:
            frames = self._link.received(packet)
        except LinkError as error:
            self._refuse(_PROTOCOL, error)
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
        socket = self._socket
        while socket is not None and not socket.is_full and socket is self._socket:
            packet = self._link.take()
            if packet is None:
                return
            socket.send((packet,))

    def hold(self, held: bool) -> None:
        """`held` says whether the client must stop sending for now."""
        if held:
            self._link.pause()
        else:
            self._link.go_on()
            self._write()

    def close(self, why: Farewell) -> None:
        """Ends the socket, once the waiting frames have left."""
        if self.holds is not None:
            self.holds.close()
        self._write()
        self._end(*why.value)

    def _refuse(self, code: int, error: LinkError) -> None:
        """Ends the connection, with the reason. A socket's frames never come a second time, so
        nothing behind a bad frame could be taken either."""
        text = error.text.encode()[:_REASON].decode(errors="ignore")
        self._end(code, text)
        self.failed()

    def _end(self, code: int, text: str) -> None:
        if self._socket is not None and not self._over:
            self._over = True
            self._socket.close(code, text, _PARTING)
        if self._ack is not None:
            self._ack.cancel()


async def read(socket: WebSocket, connection: Connection) -> None:
    """Takes the frames of a client, until its link is gone."""

    def take(text: bytes) -> bool:
        if connection.paused:
            return False
        if is_text(text):
            connection.received(text)
        else:
            socket.refuse(_NO_TEXT)
        return True

    socket.listen(take)
    await socket.ended()
    if socket.code in _LEFT:
        connection.close()
    else:
        connection.lost()
    await socket.parted(_PARTING)


async def read_packets(socket: WebSocket, connection: Connection, outlet: LinkedOutlet) -> None:
    """The same for a client that numbers its frames. Credit makes this client wait: its packets are
    read all the time, since they also say which packets it has."""

    def take(packet: bytes) -> bool:
        for frame in outlet.received(packet):
            connection.received(frame)
        return True

    socket.listen(take)
    await socket.ended()
    if outlet.cut(socket):
        if socket.code in _LEFT:
            connection.close()
        else:
            connection.cut()
    await socket.parted(_PARTING)
