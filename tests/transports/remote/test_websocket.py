"""A WebSocket to an address, whose other end may be hostile."""

from __future__ import annotations

from typing import Any, cast

from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

from conductor.transports.remote import address
from conductor.transports.remote.websocket import WebSocket


class Unread:
    """A transport whose other end does not read: what is written waits."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def set_write_buffer_limits(self, **_: int) -> None:
        """Takes everything."""

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self.written))

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def read(self) -> bytes:
        """What waits."""
        data, self.written = b"".join(self.written), []
        return data


async def test_of_pings_whose_answers_wait_the_last_is_answered() -> None:
    transport, server = Unread(), ServerProtocol()
    socket = WebSocket(address.parse("ws://h"), {}, (), 1000, cast("Any", None))
    socket.connection_made(transport)
    server.receive_data(transport.read())
    (request,) = server.events_received()
    server.send_response(server.accept(cast("Request", request)))
    socket.data_received(b"".join(server.data_to_send()))
    socket.send(b"hi")
    for number in range(100):
        server.send_ping(b"%d" % number)
        socket.data_received(b"".join(server.data_to_send()))
    assert len(transport.written) == 1
    server.receive_data(transport.read())
    socket.resume_writing()
    server.receive_data(transport.read())
    assert server.events_received() == [Frame(Opcode.TEXT, b"hi"), Frame(Opcode.PONG, b"99")]
