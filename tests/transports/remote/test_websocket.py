"""A WebSocket to an address, whose other end may be hostile."""

from __future__ import annotations

import asyncio
from typing import cast

from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

from conductor.transports.remote import address, fragments
from conductor.transports.remote.websocket import Gone, WebSocket


class Unread:
    """A transport whose other end does not read: what is written waits."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_read = True

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def set_write_buffer_limits(self, **_: int) -> None:
        """Takes everything."""

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self.written))

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def read(self) -> bytes:
        """The bytes that wait."""
        data, self.written = b"".join(self.written), []
        return data


class Ears:
    """Keeps the reports of a WebSocket."""

    def __init__(self) -> None:
        self.texts: list[bytes] = []
        self.ends: list[Gone] = []

    def heard(self, texts: list[bytes]) -> None:
        self.texts += texts

    def drained(self) -> None:
        """Nobody waits for that."""

    def gone(self, how: Gone) -> None:
        self.ends.append(how)


def connected(ears: Ears) -> tuple[WebSocket, Unread, ServerProtocol]:
    """A WebSocket after its upgrade, and its other end."""
    transport, server = Unread(), ServerProtocol()
    socket = WebSocket(address.parse("ws://h"), {}, (), 1000, ears)
    socket.connection_made(transport)
    server.receive_data(transport.read())
    (request,) = server.events_received()
    server.send_response(server.accept(cast("Request", request)))
    socket.data_received(b"".join(server.data_to_send()))
    socket.listen()
    return socket, transport, server


async def test_a_flood_of_short_frames_is_looked_at_in_several_turns() -> None:
    ears = Ears()
    socket, transport, server = connected(ears)
    for _ in range(4000):
        server.send_text(b"")
    data = b"".join(server.data_to_send())
    socket.data_received(data)
    turns = 0
    while len(ears.texts) < 4000:
        assert not transport.is_read
        await asyncio.sleep(0)
        turns += 1
    assert turns >= len(data) // fragments._LEAST - 1
    assert transport.is_read


async def test_frames_wait_while_paused_and_come_before_the_end() -> None:
    ears = Ears()
    socket, transport, server = connected(ears)
    for number in range(1000):
        server.send_text(b"%d" % number)
    socket.data_received(b"".join(server.data_to_send()))
    socket.pause()
    some = len(ears.texts)
    socket.connection_lost(None)
    socket.send(b"nobody reads this")
    for _ in range(3):
        await asyncio.sleep(0)
    assert len(ears.texts) == some < 1000
    assert not ears.ends
    socket.resume()
    while not ears.ends:
        await asyncio.sleep(0)
    assert ears.texts == [b"%d" % number for number in range(1000)]
    assert ears.ends[0].may_return
    assert transport.read() == b""


async def test_of_pings_whose_answers_wait_the_last_is_answered() -> None:
    socket, transport, server = connected(Ears())
    socket.send(b"hi")
    for number in range(100):
        server.send_ping(b"%d" % number)
        socket.data_received(b"".join(server.data_to_send()))
    assert len(transport.written) == 1
    server.receive_data(transport.read())
    socket.resume_writing()
    server.receive_data(transport.read())
    assert server.events_received() == [Frame(Opcode.TEXT, b"hi"), Frame(Opcode.PONG, b"99")]
