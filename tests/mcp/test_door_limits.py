"""The doors under attack: who has the secret is served, whatever those without it do."""

import asyncio
import contextlib
import json
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest

from conductor.http import limits as http_limits
from conductor.mcp import limits
from conductor.mcp.bridge.declarations import HttpDeclaration
from conductor.transports import entrance
from conductor.transports.base import Ended
from conductor.transports.socket import ListeningTransport
from tests.harness.bridge.doors import PATIENCE, Bridge, listener

WRONG = "Bearer 0"


@pytest.fixture(autouse=True)
def _lingers_shortly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is refused here reads until the door closes, which lingers for so long."""
    monkeypatch.setattr(http_limits, "PATIENCE", http_limits.Patience(linger=0.25))


class Raw:
    """A connection to a door, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def rest(self) -> bytes:
        """All that comes until the other side closes."""
        with contextlib.suppress(ConnectionError):
            return await self.reader.read()
        return b""

    async def answer(self) -> tuple[int, bytes]:
        """The next answer: its status and its body."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return int(head[9:12]), await self.reader.readexactly(length)


class Http:
    """The HTTP door of one listener."""

    def __init__(self, bridge: Bridge, declaration: HttpDeclaration) -> None:
        self.bridge = bridge
        where = urlsplit(declaration.url)
        assert where.port is not None
        self.port: int = where.port
        self.path = where.path
        self.secret = dict(declaration.headers)["Authorization"]
        self.opened: list[Raw] = []

    async def connect(self, first: bytes = b"") -> Raw:
        raw = Raw(*await asyncio.open_connection("127.0.0.1", self.port))
        self.opened.append(raw)
        raw.writer.write(first)
        return raw

    def head(self, *more: str, length: int | None = None, secret: str | None = None) -> bytes:
        lines = [
            f"POST {self.path} HTTP/1.1",
            f"Host: 127.0.0.1:{self.port}",
            f"Authorization: {secret or self.secret}",
            "Content-Type: application/json",
            *([f"Content-Length: {length}"] if length is not None else []),
            *more,
        ]
        return "\r\n".join([*lines, "", ""]).encode()

    def request(self, method: str = "initialize", *more: str) -> bytes:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method}).encode()
        return self.head(*more, length=len(body)) + body

    async def served(self) -> None:
        """Fails unless a new client that has the secret is served."""
        raw = await self.connect(self.request())
        assert (await raw.answer())[0] == 200


@asynccontextmanager
async def http(line_limit: int = 1 << 26) -> AsyncIterator[Http]:
    """The HTTP door of one listener."""
    async with listener("http", line_limit) as (bridge, declaration):
        door = Http(bridge, declaration)
        try:
            yield door
        finally:
            for raw in door.opened:
                raw.writer.close()


HALF = {
    "nothing": (b"", b""),
    "a byte": (b"P", b"408"),
    "half a line": (b"POST /1/mcp HT", b"408"),
    "half a head": (b"POST /1/mcp HTTP/1.1\r\nHost: x\r\nX-Y", b"408"),
}


@pytest.mark.proves("1,300 requests whose head does")
@pytest.mark.parametrize("what", HALF)
async def test_a_head_that_does_not_end(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_limits, "PATIENCE", http_limits.Patience(head=0.25))
    sent, status = HALF[what]
    async with http() as door:
        raw = await door.connect(sent)
        assert (await raw.rest())[9:12] == status


async def test_a_head_that_does_not_end_behind_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async with http() as door:
        raw = await door.connect(door.request())
        assert (await raw.answer())[0] == 200
        monkeypatch.setattr(http_limits, "PATIENCE", http_limits.Patience(head=0.25))
        raw.writer.write(b"POST /1/m")
        assert (await raw.rest())[9:12] == b"408"


@pytest.mark.proves("bodies that do not end, or come")
async def test_a_body_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_limits, "PATIENCE", http_limits.Patience(body=0.25))
    async with http() as door:
        for head in (door.head(length=100) + b"{", door.head("Transfer-Encoding: chunked") + b"1"):
            raw = await door.connect(head)
            assert (await raw.rest())[9:12] == b"408"
        assert door.bridge.opens == []


async def test_a_stranger_is_sent_away_with_whatever_it_still_sends() -> None:
    async with http() as door:
        raw = await door.connect(door.head(length=1 << 20, secret=WRONG))
        assert (await raw.rest())[9:12] == b"401"
        raw = await door.connect(door.head("Expect: 100-continue", length=100, secret=WRONG))
        assert (await raw.rest())[9:12] == b"401"
        raw = await door.connect(door.head("Expect: 100-continue", length=2))
        assert (await raw.reader.readuntil(b"\r\n\r\n"))[9:12] == b"100"


@pytest.mark.proves("1,300 requests whose head does")
@pytest.mark.parametrize("first", [b"", b"P", b"POST /1/mcp HTTP/1.1\r\nHost: x\r\n"])
async def test_strangers_at_the_http_door_make_room_for_each_other(
    first: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entrance, "STRANGERS", 8)
    async with http() as door:
        known = await door.connect(door.request())
        assert (await known.answer())[0] == 200
        crowd = [await door.connect(first) for _ in range(40)]
        await asyncio.gather(*(raw.rest() for raw in crowd[:32]))
        await door.served()
        known.writer.write(door.request())
        assert (await known.answer())[0] == 200


@pytest.mark.proves("all descriptors taken")
async def test_descriptors_are_left_to_the_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    async with http() as door:
        free = socket.socket()
        most = free.fileno() + 40  # half of them are our own ends of these connections
        free.close()
        monkeypatch.setattr(entrance, "SPARE", 10)
        monkeypatch.setattr(resource, "getrlimit", lambda _: (most, most))
        crowd = [await door.connect(b"P") for _ in range(30)]
        await crowd[0].rest()
        await door.served()


@contextlib.contextmanager
def few_descriptors(more: int) -> Iterator[None]:
    """This process may open `more` descriptors, or as many as are between those that are open."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = socket.socket()
    most = free.fileno() + more
    free.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.proves("all descriptors taken")
async def test_when_no_descriptor_is_left_strangers_go_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(entrance, "SPARE", 0)
    async with http() as door:
        ours = [socket.socket() for _ in range(20)]
        with few_descriptors(3):
            for one in ours:
                one.setblocking(False)
                await asyncio.get_running_loop().sock_connect(one, ("127.0.0.1", door.port))
            last = ours[-1]
            await asyncio.get_running_loop().sock_sendall(last, door.request())
            said = await asyncio.get_running_loop().sock_recv(last, 1000)
        assert said[9:12] == b"200"
        for one in ours:
            one.close()


@pytest.mark.proves("all descriptors taken")
async def test_without_any_descriptor_the_door_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entrance, "SPARE", 0)
    monkeypatch.setattr(entrance, "REST", 0.05)
    async with http() as door:
        one = socket.socket()
        one.setblocking(False)
        loop = asyncio.get_running_loop()
        with few_descriptors(0):
            await loop.sock_connect(one, ("127.0.0.1", door.port))
            await loop.sock_sendall(one, door.request())
            await door.bridge.until(lambda: bool(door.bridge.logs))
            await asyncio.sleep(0.2)
            assert len(door.bridge.logs) == 1
        assert (await loop.sock_recv(one, 1000))[9:12] == b"200"
        one.close()


async def test_known_clients_that_are_idle_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_limits, "CONNECTIONS", 2)
    async with http() as door:
        first, second = [await door.connect(door.request()) for _ in range(2)]
        for raw in (first, second):
            assert (await raw.answer())[0] == 200
        first.writer.write(door.request())  # now it is `second` that has been idle longest
        assert (await first.answer())[0] == 200
        await door.served()
        assert await second.rest() == b""
        first.writer.write(door.request("wait", "Mcp-Session-Id: x"))
        assert (await first.answer())[0] == 404


async def test_when_all_are_busy_the_next_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_limits, "CONNECTIONS", 2)
    async with http() as door:
        door.bridge.quiet = True
        for _ in range(2):
            await door.connect(door.request())
        await door.bridge.until(lambda: len(door.bridge.frames) == 2)
        raw = await door.connect(door.request())
        assert (await raw.rest())[9:12] == b"503"


async def test_bodies_are_bounded_before_they_are_read() -> None:
    async with http(line_limit=1000) as door:
        raw = await door.connect(door.head(length=2000))
        assert (await raw.rest())[9:12] == b"413"
        raw = await door.connect(door.head("Transfer-Encoding: chunked"))
        raw.writer.write(b"1f4\r\n" + b" " * 500 + b"\r\n")
        raw.writer.write(b"1f5\r\n" + b" " * 501 + b"\r\n")
        assert (await raw.rest())[9:12] == b"413"
        assert door.bridge.frames == []


@pytest.mark.proves("bodies that do not end, or come")
async def test_all_bodies_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BODIES", 3000)
    async with http(line_limit=2000) as door:
        half = [await door.connect(door.head(length=2000)) for _ in range(3)]
        for raw in half:
            raw.writer.write(b" " * 1500)
        ended = [asyncio.ensure_future(raw.rest()) for raw in half]
        done, _ = await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
        assert [one.result()[9:12] for one in done] == [b"503"]
        for raw in half:
            raw.writer.close()
        await asyncio.wait(ended)
        await door.served()  # what they took up is free again


@pytest.mark.proves("large heads, 200 headers, blank")
async def test_heads_are_bounded() -> None:
    async with http() as door:
        raw = await door.connect(door.request("initialize", *["X: y"] * 200))
        assert (await raw.rest())[9:12] == b"431"
        for long in (b"GET /" + b"x" * 300_000, door.head("X: " + "y" * 300_000)):
            raw = await door.connect(long)
            assert (await raw.rest())[9:12] in (b"400", b"")
        raw = await door.connect(b"\r\n" * 1000)
        assert (await raw.rest())[9:12] in (b"400", b"")
        await door.served()


@pytest.mark.proves("large heads, 200 headers, blank")
async def test_requests_sent_ahead_are_served_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async with http() as door:
        door.bridge.quiet = True
        raw = await door.connect(door.request() * 100 + b"POST /")
        await door.bridge.until(lambda: bool(door.bridge.frames))
        assert len(door.bridge.frames) == 1
        door.bridge.quiet = False
        monkeypatch.setattr(http_limits, "PATIENCE", http_limits.Patience(head=0.25))
        door.bridge.send(door.bridge.opens[0][0], {"id": 1, "result": {}})
        for _ in range(100):
            assert (await raw.answer())[0] == 200
        assert (await raw.rest())[9:12] == b"408"


async def test_sessions_that_are_busy_do_not_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SESSIONS", 2)
    async with http() as door:
        door.bridge.quiet = True
        for _ in range(2):
            await door.connect(door.request())
        await door.bridge.until(lambda: len(door.bridge.opens) == 2)
        raw = await door.connect(door.request())
        status, said = await raw.answer()
        assert (status, b"DELETE" in said) == (503, True)
        assert len(door.bridge.opens) == 2


async def test_what_all_together_do_not_read_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "UNSENT", 1000)
    async with http() as door:
        for _ in range(3):
            await door.served()
        names = [name for name, _ in door.bridge.opens]
        for name, size in zip(names, (300, 500, 300), strict=True):
            await asyncio.sleep(0)
            assert not door.bridge.closes
            door.bridge.send(name, {"method": "x" * size})
        await door.bridge.until(lambda: bool(door.bridge.closes))
        assert door.bridge.closes == [names[1]]
        door.bridge.send(names[0], {"method": "x" * 300})  # there is room again
        await asyncio.sleep(0)
        assert door.bridge.closes == [names[1]]


# -- the stdio shims' -----------------------------------------------------------------------------


@asynccontextmanager
async def at(path: str, first: bytes = b"") -> AsyncIterator[Raw]:
    """A connection to a Unix socket."""
    raw = Raw(*await asyncio.open_unix_connection(path))
    raw.writer.write(first)
    try:
        yield raw
    finally:
        raw.writer.close()


@pytest.mark.proves("connections without the secret")
async def test_strangers_at_the_socket_make_room_for_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(entrance, "STRANGERS", 8)
    async with listener("stdio") as (_, declaration):
        path, secret = declaration.args[-1], declaration.env[0][1].encode()
        async with contextlib.AsyncExitStack() as stack:
            enter = stack.enter_async_context
            crowd = [await enter(at(path, b"0" * 70)) for _ in range(40)]
            await asyncio.gather(*(raw.rest() for raw in crowd[:32]))
            client = await enter(at(path, secret + b"\n"))
            client.writer.write(b'{"jsonrpc":"2.0","id":1,"method":"hello"}\n')
            assert json.loads(await client.reader.readline())["id"] == 1


async def test_so_many_clients_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STDIO_CLIENTS", 1)
    async with listener("stdio") as (bridge, declaration):
        path, secret = declaration.args[-1], declaration.env[0][1].encode()
        async with at(path, secret + b"\n"), at(path, secret + b"\n") as second:
            assert await second.rest() == b""
        assert len(bridge.opens) == 1
        assert bridge.logs == ["warning: mcp: a client was sent away: 1 is connected"]


async def test_lines_without_an_end_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PARTIAL_LINES", 1_000_000)
    async with listener("stdio", line_limit=600_000) as (bridge, declaration):
        path, secret = declaration.args[-1], declaration.env[0][1].encode()
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(3):
                raw = await stack.enter_async_context(at(path, secret + b"\n"))
                raw.writer.write(b" " * 500_000)
            await bridge.until(lambda: len(bridge.closes) == 1)
            assert bridge.logs == [
                "warning: mcp: an MCP client does not end its line; it is closed"
            ]


async def test_wrong_secrets_do_not_fill_the_log() -> None:
    async with listener("stdio") as (bridge, declaration):
        for _ in range(20):
            async with at(declaration.args[-1], b"0" * 72 + b"\n") as raw:
                assert await raw.rest() == b""
        assert len(bridge.logs) == 1


# -- the socket of a proxy that launches its successor ---------------------------------------------


class Heard:
    """The reports of a transport."""

    def __init__(self) -> None:
        self.frames: asyncio.Queue[bytes] = asyncio.Queue()

    def received(self, frames: list[bytes]) -> None:
        """Lines came."""
        for frame in frames:
            self.frames.put_nowait(frame)

    def oversized(self, head: bytes, limit: int) -> None:
        """Never here."""

    def undeliverable(self, frame: bytes, why: str) -> None:
        """Never here."""

    def drained(self) -> None:
        """Of no interest."""

    def ended(self, how: Ended) -> None:
        """Of no interest."""


@pytest.mark.proves("connections without the secret")
async def test_who_shows_nothing_does_not_keep_a_successor_out() -> None:
    # The strangers have longer than this test: nothing waits for their time to be over.
    assert entrance.LOGIN < PATIENCE
    listening, heard = ListeningTransport(), Heard()
    async with asyncio.timeout(PATIENCE):
        await listening.open(heard)
        entry = json.loads(listening.server("next"))
        path, secret = entry["args"][-1], entry["env"][0]["value"].encode()
        async with contextlib.AsyncExitStack() as stack:
            enter = stack.enter_async_context
            crowd = [await enter(at(path, b"0" * 10)) for _ in range(20)]
            joined = await enter(at(path, secret + b"\n"))
            joined.writer.write(b'{"x":1}\n')
            assert await heard.frames.get() == b'{"x":1}'
            await asyncio.gather(*(raw.rest() for raw in crowd))
        await listening.close(0)
