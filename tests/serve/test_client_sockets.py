"""The connections of clients: what one sends holds up nobody else."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from conductor.errors import ConductorError
from conductor.http.request import Request, Response
from conductor.serve.client_sockets import ClientSockets, HttpAddress, taken
from conductor.serve.lines import LinesLink
from conductor.transports import entrance
from conductor.transports.private import listening_socket
from conductor.transports.received import Received
from conductor.transports.turns import Turns
from tests.places import DEADLINE


class Owner:
    """Who has an address by hand."""

    def __init__(self) -> None:
        self.settings: Any = SimpleNamespace(login=60.0, message=1 << 20)
        self.received = Received(1 << 30)
        self.turns = Turns(asyncio.get_running_loop())
        self.sockets = ClientSockets()

    def ended(self) -> None:
        """A connection has ended."""


Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def serving(
    handler: Callable[[Owner, Request], Awaitable[None]], tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[Owner, Callable[[], Awaitable[Client]]]]:
    """Serves: who owns the sockets, and what connects a client."""
    owner = Owner()
    listening = listening_socket(socket.AF_INET, ("127.0.0.1", 0))
    server: Any = owner
    address = HttpAddress(server, lambda asked: handler(owner, asked), listening, print, tls)
    opened: list[Client] = []

    async def connect() -> Client:
        opened.append(await asyncio.open_connection("127.0.0.1", address.port))
        return opened[-1]

    async with address:
        yield owner, connect
    for _, writer in opened:
        writer.close()


@pytest.mark.proves("bodies of one-byte chunks, on")
async def test_bodies_in_small_chunks_hold_up_nobody() -> None:
    done: list[str] = []

    async def answer(owner: Owner, request: Request) -> None:
        owner.sockets.take(taken(request), request.path[:5], 100)
        await request.body(1 << 20)
        done.append(request.path)
        await request.respond(Response())

    async with serving(answer) as (owner, connect):
        chunks = b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 15_000 + b"0\r\n\r\n"
        crowd = [await connect() for _ in range(8)]
        last = await connect()
        for _, writer in crowd:
            writer.write(b"POST /much HTTP/1.1\r\nHost: x\r\n" + chunks)
        last[1].write(b"POST /less HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n ")
        for reader, _ in (last, *crowd):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        assert done.index("/less") < 3
        assert (owner.received.held, len(done)) == (0, 9)


async def test_an_idle_socket_makes_room_and_a_busy_one_does_not() -> None:
    going = asyncio.Event()

    async def answer(owner: Owner, request: Request) -> None:
        try:
            owner.sockets.take(taken(request), "alice", 2)
        except ConductorError as error:
            await request.respond(Response(error.text.encode(), 429))
            return
        if request.path == "/wait":
            await going.wait()
        await request.respond(Response())

    async def ask(client: Client, path: bytes) -> bytes:
        client[1].write(b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path)
        return (await client[0].readuntil(b"\r\n\r\n"))[9:12]

    async with serving(answer) as (owner, connect):
        first, second, third, fourth = [await connect() for _ in range(4)]
        assert await ask(first, b"/") == b"200"
        waiting = asyncio.ensure_future(ask(second, b"/wait"))
        while owner.sockets.count("alice") < 2:
            await asyncio.sleep(0)
        third_waits = asyncio.ensure_future(ask(third, b"/wait"))
        assert await first[0].read() == b""  # it was idle
        assert await ask(fourth, b"/") == b"429"
        going.set()
        assert [await waiting, await third_waits] == [b"200", b"200"]


async def test_what_a_principal_may_not_send_now_fails_its_body() -> None:
    async def answer(owner: Owner, request: Request) -> None:
        owner.sockets.take(taken(request), "alice", 2)
        taken(request).go()
        with pytest.raises(Exception, match="too many bytes of this principal"):
            await request.body(10)
        await request.respond(Response(status=429))

    async with serving(answer) as (_, connect):
        reader, writer = await connect()
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n ")
        assert (await reader.readuntil(b"\r\n\r\n"))[9:12] == b"429"


async def test_a_whole_body_that_keeps_others_waiting_for_too_long_is_given_up() -> None:
    async def answer(owner: Owner, request: Request) -> None:
        owner.sockets.take(taken(request), "alice", 2)
        await request.body(10)
        taken(request).go()
        await asyncio.Event().wait()

    async with serving(answer) as (owner, connect):
        reader, writer = await connect()
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
        assert await asyncio.wait_for(reader.read(), DEADLINE) == b""
        assert owner.received.held == 0


async def test_of_requests_that_are_answered_nothing_is_held() -> None:
    """Neither of the body that nobody has taken, nor of requests that came ahead."""

    async def answer(owner: Owner, request: Request) -> None:
        owner.sockets.take(taken(request), "alice", 2)
        if request.path == "/whole":
            await request.body(1 << 20)
        await request.respond(Response())

    async with serving(answer) as (owner, connect):
        reader, writer = await connect()
        head = b" HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n\r\n"
        for path in (b"/whole", b"/late"):
            writer.write(b"POST " + path + head + b"x" * 20_000)
            if path == b"/late":
                await reader.readuntil(b"\r\n\r\n")
            writer.write(b"x" * 30_000 + b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 500 + b"GET ")
            for _ in range(501 - (path == b"/late")):
                await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), DEADLINE)
            while owner.received.held != len(b"GET "):
                await asyncio.sleep(0)
            writer.write(b"/ HTTP/1.1\r\nHost: x\r\n\r\n")
            await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), DEADLINE)
            assert owner.received.held == 0


async def test_strangers_that_never_agree_on_tls_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entrance, "STRANGERS", 3)

    async def answer(owner: Owner, request: Request) -> None:
        raise AssertionError

    async with serving(answer, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)) as (_, connect):
        silent = [await connect() for _ in range(10)]
        for reader, _ in silent[:7]:
            assert await asyncio.wait_for(reader.read(), DEADLINE) == b""


async def test_a_line_that_is_too_much_waits_for_one_that_came_before() -> None:
    server: Any = Owner()
    server.received = Received(100_000)

    async def send(theirs: socket.socket, size: int) -> int:
        theirs.sendall(b"x" * size)
        for _ in range(9):
            await asyncio.sleep(0)
        return int(server.received.held)

    ends = [socket.socketpair() for _ in range(2)]
    first, second = [LinesLink(ours, server, lambda _: None) for ours, _ in ends]
    assert await send(ends[0][1], 80_000) == 80_000
    assert await send(ends[1][1], 80_000) == 160_000
    assert await send(ends[1][1], 20_000) == 160_000
    first.turn_away()
    assert await send(ends[1][1], 1) == 100_001
    second.turn_away()
    for _, theirs in ends:
        theirs.close()
