"""The server of HTTP, over real sockets: what it answers, and whom it lets wait for how long."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC
from email.utils import parsedate_to_datetime

import pytest

from conductor.http import limits
from conductor.http.request import Handler, Request, Response
from conductor.http.server import HttpServer
from conductor.transports.private import listening_socket
from tests.places import DEADLINE

HOST = b"host: x\r\n"


class Talk:
    """A client that writes bytes, and reads answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, *pieces: bytes) -> None:
        """Writes bytes."""
        for piece in pieces:
            self.writer.write(piece)

    async def answer(self) -> tuple[int, bytes]:
        """Status and body of the next answer."""
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), DEADLINE)
        status = int(head.split()[1])
        if status == 100:
            return status, b""
        size = next(
            int(line.partition(b":")[2])
            for line in head.lower().split(b"\r\n")
            if line.startswith(b"content-length")
        )
        return status, await asyncio.wait_for(self.reader.readexactly(size), DEADLINE)

    async def rest(self) -> bytes:
        """All that comes until the server closes."""
        return await asyncio.wait_for(self.reader.read(), DEADLINE)


@asynccontextmanager
async def serving(
    handler: Handler,
) -> AsyncIterator[tuple[Callable[[], Awaitable[Talk]], list[str]]]:
    """Serves with `handler`; a function that connects a client, and the complaints."""
    complaints: list[str] = []
    listening = listening_socket(socket.AF_INET, ("127.0.0.1", 0))
    opened: list[Talk] = []

    async def connect() -> Talk:
        opened.append(Talk(*await asyncio.open_connection("127.0.0.1", server.port)))
        return opened[-1]

    async with HttpServer(handler, listening, complaints.append) as server:
        yield connect, complaints
    for talk in opened:
        talk.writer.close()


async def echo(request: Request) -> None:
    """Answers with the body of the request; a path `/late` reads no body."""
    if request.path != "/stranger":
        request.admit()
    if request.path in ("/late", "/stranger"):
        await request.respond(Response(b"late"))
        return
    got = await request.body(100_000)
    said = f"{request.method} {request.path} {sorted(request.query.items())} ".encode()
    await request.respond(Response(said + got, kind="text/plain"))


async def test_requests_behind_one_another_are_answered_in_order() -> None:
    async with serving(echo) as (connect, complaints):
        talk = await connect()
        one = b"POST /a%20b%2fc?x=1&x=2&y= HTTP/1.1\r\n" + HOST + b"content-length: 3\r\n\r\none"
        talk.send(one * 3 + b"GET / HTTP/1.1\r\n" + HOST + b"connection: close\r\n\r\n")
        for _ in range(3):
            assert await talk.answer() == (200, b"POST /a b%2Fc [('x', '2'), ('y', '')] one")
        assert await talk.answer() == (200, b"GET / [] ")
        assert await talk.rest() == b""
        assert complaints == []


@pytest.mark.parametrize("size", [1, 7, 70_000])
async def test_a_body_comes_whole_however_it_is_cut(size: int) -> None:
    async with serving(echo) as (connect, _):
        talk = await connect()
        sent = b"x" * min(70_000, size * 2_000)
        talk.send(b"POST / HTTP/1.1\r\n" + HOST + b"transfer-encoding: chunked\r\n\r\n")
        for at in range(0, len(sent), size):
            piece = sent[at : at + size]
            talk.send(b"%x\r\n%b\r\n" % (len(piece), piece))
        talk.send(b"0\r\n\r\n")
        assert await talk.answer() == (200, b"POST / [] " + sent)


async def test_an_answer_may_come_before_the_body_and_the_next_request_after_it() -> None:
    async with serving(echo) as (connect, _):
        talk = await connect()
        talk.send(b"POST /late HTTP/1.1\r\n" + HOST + b"content-length: 200000\r\n\r\n" + b"x" * 9)
        assert await talk.answer() == (200, b"late")
        talk.send(b"y" * 199_991 + b"GET /next HTTP/1.1\r\n" + HOST + b"\r\n")
        assert await talk.answer() == (200, b"GET /next [] ")
        talk.send(
            b"POST / HTTP/1.1\r\n" + HOST + b"content-length: 200000\r\n\r\n" + b"x" * 200_000
        )
        assert await talk.answer() == (413, b"a message has at most 100000 bytes")
        talk.send(b"GET /next HTTP/1.1\r\n" + HOST + b"\r\n")
        assert (await talk.answer())[0] == 200


async def test_a_body_that_nobody_takes_is_thrown_away_for_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "PATIENCE", limits.Patience(linger=0.01))
    async with serving(echo) as (connect, _):
        talk = await connect()
        talk.send(b"POST /stranger HTTP/1.1\r\n" + HOST + b"content-length: 5000\r\n\r\nx")
        assert await talk.answer() == (200, b"late")
        assert await talk.rest() == b""
        # A client that sends no body stays, and may ask for more.
        talk = await connect()
        for _ in range(2):
            talk.send(b"GET /stranger HTTP/1.1\r\n" + HOST + b"\r\n")
            assert await talk.answer() == (200, b"late")


async def test_who_waits_for_leave_to_send_a_body_gets_it() -> None:
    async with serving(echo) as (connect, _):
        talk = await connect()
        head = HOST + b"expect: 100-continue\r\ncontent-length: 3\r\n\r\n"
        talk.send(b"POST / HTTP/1.1\r\n" + head)
        assert await talk.answer() == (100, b"")
        talk.send(b"yes")
        assert await talk.answer() == (200, b"POST / [] yes")


async def test_in_an_answer_that_has_begun_no_leave_is_given() -> None:
    async def early(request: Request) -> None:
        request.begin(200, ())
        await request.send(b"early ")
        await request.send(await request.body(10))
        request.end()

    async with serving(early) as (connect, _):
        talk = await connect()
        head = HOST + b"expect: 100-continue\r\ncontent-length: 3\r\nconnection: close\r\n\r\n"
        talk.send(b"POST / HTTP/1.1\r\n" + head)
        talk.send(b"yes")
        assert (await talk.rest()).endswith(b"\r\n\r\n6\r\nearly \r\n3\r\nyes\r\n0\r\n\r\n")


async def test_an_answer_without_content_names_no_length() -> None:
    async def nothing(request: Request) -> None:
        await request.respond(Response(status=204))

    async with serving(nothing) as (connect, _):
        talk = await connect()
        for _ in range(2):
            talk.send(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
        talk.send(b"GET / HTTP/1.1\r\n" + HOST + b"connection: close\r\n\r\n")
        *heads, last, end = (await talk.rest()).split(b"\r\n\r\n")
        assert end == b""
        for head, more in [*((head, []) for head in heads), (last, [b"connection: close"])]:
            *lines, date = head.split(b"\r\n")
            assert lines == [b"HTTP/1.1 204 ", *more]
            assert parsedate_to_datetime(date.removeprefix(b"Date: ").decode()).tzinfo is UTC


async def test_a_target_with_the_name_of_the_server_is_taken() -> None:
    async def told(request: Request) -> None:
        request.admit()
        text = f"{request.headers['host']} {request.path} {request.query}"
        await request.respond(Response(text.encode()))

    async with serving(told) as (connect, _):
        talk = await connect()
        for target, seen in (
            (b"http://own:1/a?b=c", b"own:1 /a {'b': 'c'}"),
            (b"HTTPS://own?b=c", b"own / {'b': 'c'}"),
            (b"http://own", b"own / {}"),
        ):
            talk.send(b"GET " + target + b" HTTP/1.1\r\nhost: other\r\n\r\n")
            assert await talk.answer() == (200, seen)


async def test_an_answer_to_head_has_no_body() -> None:
    async with serving(echo) as (connect, _):
        talk = await connect()
        talk.send(b"HEAD / HTTP/1.1\r\n" + HOST + b"connection: close\r\n\r\n")
        got = await talk.rest()
        assert b"content-length: 10\r\n" in got
        assert got.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n" + HOST + b"x: y\r\n" * limits.HEADERS + b"\r\n", b"431"),
        (b"GET / HTTP/1.1\r\n" + HOST + b"x: " + b"y" * limits.HEAD_BYTES, b"431"),
        (b"POST / HTTP/1.1\r\n" + HOST + b"content-length: 1\r\ncontent-length: 2\r\n\r\n", b"400"),
        (
            b"POST / HTTP/1.1\r\n"
            + HOST
            + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n"
            b"0\r\n\r\nGET / HTTP/1.1\r\n" + HOST + b"\r\n",
            b"400",
        ),
        (b"POST / HTTP/1.0\r\n" + HOST + b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n", b"400"),
        (b"PRI * HTTP/2.0\r\n" + HOST + b"\r\n", b"505"),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Encoding: gzip\r\n\r\n", b"415"),
        (b"CONNECT x:1 HTTP/1.1\r\n" + HOST + b"\r\n", b"405"),
        (b"POST / HTTP/1.1\r\n" + HOST + b"transfer-encoding: gzip\r\n\r\n", b"501"),
        (b"POST / HTTP/1.1\r\n" + HOST + b"transfer-encoding: chunked\r\n\r\nzz\r\n", b"400"),
    ],
)
async def test_what_is_no_http_is_refused_and_the_connection_closed(
    sent: bytes, status: bytes
) -> None:
    async with serving(echo) as (connect, complaints):
        talk = await connect()
        talk.send(sent)
        got = await talk.rest()
        assert (got.split()[1], got.count(b"HTTP/1.1 ")) == (status, 1)
        assert complaints == []


async def test_a_defect_costs_one_answer() -> None:
    async def defect(request: Request) -> None:
        if request.path == "/half":
            request.begin(200, (("content-length", "5"),))
            await request.send(b"ha")
        if request.path != "/none":
            raise ValueError("no")

    async with serving(defect) as (connect, complaints):
        for path, got in ((b"/", b"500"), (b"/none", b"500")):
            talk = await connect()
            talk.send(b"GET %b HTTP/1.1\r\n" % path + HOST + b"\r\n")
            assert (await talk.rest()).split()[1] == got
        talk = await connect()
        talk.send(b"GET /half HTTP/1.1\r\n" + HOST + b"\r\n")
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await talk.answer()
        assert len(complaints) == 2
        assert all("a defect of conductor" in each for each in complaints)


async def test_who_leaves_is_noticed() -> None:
    begun: list[str] = []
    seen: list[str] = []

    async def waiting(request: Request) -> None:
        request.admit()
        begun.append(request.method)
        try:
            await (asyncio.Event().wait() if request.method == "GET" else request.body(10))
        finally:
            seen.append(request.method)

    async with serving(waiting) as (connect, complaints):
        for method in (b"GET", b"POST"):
            talk = await connect()
            size = b"content-length: 5\r\n" if method == b"POST" else b""
            talk.send(method + b" / HTTP/1.1\r\n" + HOST + size + b"\r\n")
            async with asyncio.timeout(DEADLINE):
                while len(begun) == len(seen):
                    await asyncio.sleep(0.001)
                talk.writer.close()
                while len(begun) > len(seen):
                    await asyncio.sleep(0.001)
        assert complaints == []


@pytest.mark.parametrize(
    ("limit", "sent", "answers"),
    [
        ("head", b"", 0),
        ("head", b"GET / HT", 1),
        ("body", b"POST / HTTP/1.1\r\n" + HOST + b"content-length: 5\r\n\r\nx", 1),
        ("idle", b"GET / HTTP/1.1\r\n" + HOST + b"\r\n", 0),
    ],
)
async def test_a_missing_part_has_its_time(
    limit: str, sent: bytes, answers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PATIENCE", limits.Patience(**{limit: 0.01}))
    async with serving(echo) as (connect, _):
        talk = await connect()
        talk.send(sent)
        assert (await talk.rest()).count(b"HTTP/1.1 408") == answers


async def test_a_client_that_does_not_read_makes_its_answer_wait_alone() -> None:
    sent: list[int] = []

    async def much(request: Request) -> None:
        request.admit()
        if request.path == "/":
            await request.respond(Response(b"here"))
            return
        request.begin(200, ())
        while True:
            await request.send(b"x" * 100_000)
            sent.append(1)

    async with serving(much) as (connect, _):
        slow, other = await connect(), await connect()
        slow.send(b"GET /much HTTP/1.1\r\n" + HOST + b"\r\n")
        before = -1
        while len(sent) != before:
            before = len(sent)
            for _ in range(20):
                other.send(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
                assert await other.answer() == (200, b"here")
        assert len(sent) < 500


async def test_a_client_that_does_not_read_is_gone_soon_after_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "PATIENCE", limits.Patience(leave=0.01))
    served: list[Request] = []

    async def last(request: Request) -> None:
        served.append(request)
        request.admit()
        request.begin(200, (("connection", "close"),))
        request.connection.write(b"x" * 10_000_000)
        request.end()

    async with serving(last) as (connect, _):
        talk = await connect()
        talk.writer.transport.pause_reading()  # type: ignore[attr-defined]
        talk.send(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
        async with asyncio.timeout(DEADLINE):
            while not served or served[0].connection.is_full:
                await asyncio.sleep(0.001)
