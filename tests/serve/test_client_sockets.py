"""The network connections of HTTP clients: what they send as texts of a WebSocket."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from aiohttp import web
from aiohttp._websocket.reader import WebSocketDataQueue
from aiohttp.http_websocket import WebSocketReader

from conductor.serve.client_sockets import ClientSocket
from conductor.transports.received import Received
from conductor.transports.turns import Turns


class Transport:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closing = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def writelines(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def pause_reading(self) -> None:
        """Does nothing: a test sends all at once."""

    resume_reading = pause_reading


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


def test_bodies_of_strangers_in_small_chunks_hold_up_nobody() -> None:
    """All of each has come in one read, before another one asks."""
    asyncio.run(_crowd())


async def _crowd() -> None:
    loop, done = asyncio.get_running_loop(), list[str]()

    async def answer(request: Any) -> web.Response:
        await request.read()
        done.append(request.path)
        return web.Response()

    turns, received, server = Turns(loop), Received(1 << 30), web.Server(answer)
    visitor: Any = SimpleNamespace(connected=lambda _: None, leave=lambda: None)

    def sends(path: str, more: bytes) -> ClientSocket:
        one = ClientSocket(visitor, lambda _: None, received, turns, server, loop)
        transport: Any = Transport()
        one.connection_made(transport)
        one.data_received(b"POST %b HTTP/1.1\r\nHost: x\r\n%b" % (path.encode(), more))
        return one

    chunks = b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 15_000 + b"0\r\n\r\n"
    crowd = [sends("/much", chunks) for _ in range(8)]
    last = sends("/little", b"Content-Length: 0\r\n\r\n")
    while "/little" not in done:
        await asyncio.sleep(0)
    assert done.index("/little") < 3
    while len(done) <= len(crowd):
        await asyncio.sleep(0)
    for one in (*crowd, last):
        one.connection_lost(None)
    await server.shutdown()
