"""The network connections of HTTP clients: what they send as texts of a WebSocket."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from aiohttp._websocket.reader import WebSocketDataQueue
from aiohttp.http_websocket import WebSocketReader

from conductor.serve.client_sockets import ClientSocket


class Transport:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closing = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def is_closing(self) -> bool:
        return self.closing


def test_texts_of_any_length_leave_in_one_write() -> None:
    transport = Transport()
    taken: Any = SimpleNamespace(transport=transport)
    texts = [b"x" * size for size in (0, 1, 125, 126, 65535, 65536, 100_000)]
    assert ClientSocket.send_texts(taken, texts)
    (data,) = transport.written
    loop = asyncio.new_event_loop()
    queue = WebSocketDataQueue(taken, 1 << 20, loop=loop)
    WebSocketReader(queue, 1 << 20, compress=False, decode_text=False).feed_data(data)
    loop.close()
    assert [bytes(message.data) for message, _ in queue._buffer] == texts


def test_a_socket_that_is_gone_sends_nothing() -> None:
    transport = Transport()
    transport.closing = True
    for there in (None, transport):
        gone: Any = SimpleNamespace(transport=there)
        assert not ClientSocket.send_texts(gone, [b"x"])
    assert transport.written == []
