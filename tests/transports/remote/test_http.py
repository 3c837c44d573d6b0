"""HTTP against a server of the tests: headers, cuts, refusals, the end."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from conductor.transports.remote import client, http, in_pieces
from conductor.transports.remote.address import parse
from conductor.transports.remote.http import HttpTransport
from tests.packages.servers import certified, serving
from tests.transports.ends import Recorder
from tests.transports.remote.http_peer import HttpServer, Served

INITIALIZE = b'{"jsonrpc":"2.0","id":0,"method":"initialize"}'
PROMPT = b'{"jsonrpc":"2.0","id":%d,"method":"session/prompt","params":{"sessionId":"s1"}}'


async def answers(served: Served, frame: bytes) -> None:
    """Answers each request where it belongs, after an update of its session."""
    message = json.loads(frame)
    if "id" not in message or "method" not in message:
        return
    session = (message.get("params") or {}).get("sessionId", "")
    if session:
        served.send(b'{"method":"session/update","params":{"n":%d}}' % message["id"], session)
    answer = {"jsonrpc": "2.0", "id": message["id"], "result": {}}
    served.send(json.dumps(answer).encode(), session)


@asynccontextmanager
async def connected(
    *, numbers: bool = True, open_: bool = True, logged: list[str] | None = None
) -> AsyncIterator[tuple[HttpServer, HttpTransport, Recorder]]:
    """A connection: the server, the transport and its events. `logged` gets its warnings."""
    server, events = HttpServer(answers), Recorder()
    server.numbers = numbers
    address = parse(await server.start())
    log = [] if logged is None else logged
    transport = HttpTransport(address, token=lambda: "t0ken", log=log.append)
    try:
        await transport.open(events)
        if open_:
            transport.write(INITIALIZE + b"\n")
            await events.until(lambda: len(events.frames) == 1)
            events.frames.clear()
        yield server, transport, events
    finally:
        await transport.close(1)
        await server.close()


def ids(events: Recorder) -> list[int]:
    """The ids of the answers that came."""
    frames = [json.loads(frame) for frame in events.frames]
    return [frame["id"] for frame in frames if "id" in frame]


async def test_requests_have_what_a_strict_server_wants() -> None:
    async with connected() as (server, transport, events):
        server.token = "t0ken"  # noqa: S105
        transport.write(PROMPT % 1 + b"\n")
        await events.until(lambda: ids(events) == [1])
    methods = [came.method for came in server.came]
    assert methods == ["POST", "GET", "GET", "POST", "DELETE"]
    opening, own, session, prompt, leave = (came.headers for came in server.came)
    assert "Acp-Connection-Id" not in opening
    for headers in (own, session, prompt, leave):
        assert headers["Acp-Connection-Id"] == "c1"
        assert headers["Cookie"] == "pod=7"
        assert headers["Authorization"] == "Bearer t0ken"
    assert own["Accept"] == session["Accept"] == "text/event-stream"
    assert "Acp-Session-Id" not in own
    assert session["Acp-Session-Id"] == prompt["Acp-Session-Id"] == "s1"
    assert opening["Content-Type"] == prompt["Content-Type"] == "application/json"
    assert "Acp-Message-Number" not in opening
    assert prompt["Acp-Message-Number"] == "1"


async def test_streams_that_are_cut_again_and_again_lose_and_double_nothing() -> None:
    logged: list[str] = []
    async with connected(logged=logged) as (server, transport, events):
        for number in range(1, 41):
            transport.write(PROMPT % number + b"\n")
            if number % 4 == 0:
                server.cut("s1")
            if number % 8 == 0:
                server.cut()
                await events.until(lambda number=number: len(ids(events)) >= number)  # type: ignore[misc]
        await events.until(lambda: len(ids(events)) == 40)
        assert ids(events) == [*range(1, 41)]
        updates = [
            json.loads(frame)["params"]["n"] for frame in events.frames if b"update" in frame
        ]
        assert updates == [*range(1, 41)]
        assert not events.ends
    after = [came.headers.get("Last-Event-ID") for came in server.came if came.method == "GET"]
    assert any(after)
    assert any("again" in text for text in logged)


async def test_without_numbers_what_was_open_gets_an_error_and_the_session_goes_on() -> None:
    async with connected(numbers=False) as (server, transport, events):
        transport.write(PROMPT % 1 + b"\n")
        await events.until(lambda: ids(events) == [1])

        async def silent(served: Served, frame: bytes) -> None:
            del served, frame

        server._took = silent
        came = len(server.came)
        transport.write(PROMPT % 2 + b"\n")
        await events.until(lambda: transport.buffered == 0)
        assert len(server.came) > came
        server.cut("s1")
        await events.until(lambda: ids(events) == [1, 2])
        assert "is lost" in json.loads(events.frames[-1])["error"]["message"]
        server._took = answers
        transport.write(PROMPT % 3 + b"\n")
        await events.until(lambda: ids(events) == [1, 2, 3])


async def test_without_numbers_a_lost_connection_stream_ends_it() -> None:
    async with connected(numbers=False) as (server, transport, events):
        transport.write(b'{"jsonrpc":"2.0","id":1,"method":"x"}\n')
        await events.until(lambda: ids(events) == [1])
        server.cut()
        await events.until(lambda: bool(events.ends))
        assert not events.ends[0].clean
        assert "is lost" in events.ends[0].text


async def test_a_message_that_a_server_does_not_take_is_given_back() -> None:
    async with connected() as (server, transport, events):
        server.refuses["POST"] = 413
        transport.write(PROMPT % 1 + b"\n")
        await events.until(lambda: events.refused == [PROMPT % 1])
        server.refuses.clear()
        transport.write(PROMPT % 2 + b"\n")
        await events.until(lambda: ids(events) == [2])


async def test_a_server_that_says_no_is_named() -> None:
    async with connected(open_=False) as (server, transport, events):
        server.token = "another"  # noqa: S105
        transport.write(INITIALIZE + b"\n")
        await events.until(lambda: bool(events.ends))
        assert "HTTP status 401" in events.ends[0].text
        assert events.ends[0].data["status"] == 401


async def test_a_stream_that_never_begins_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """As behind a proxy that holds back the head of an answer."""
    monkeypatch.setattr(http, "_POSTED", 0.05)
    async with connected(open_=False) as (server, transport, events):
        server.holds_streams = True
        transport.write(INITIALIZE + b"\n" + PROMPT % 1 + b"\n")
        await events.until(lambda: bool(events.ends))
        assert "is lost: its stream" in events.ends[0].text
        assert "did not begin" in events.ends[0].text


async def test_finish_waits_for_the_posts_and_leaves() -> None:
    async with connected() as (server, transport, events):
        for number in (1, 2, 3):
            transport.write(PROMPT % number + b"\n")
        transport.finish()
        await events.until(lambda: bool(events.ends))
        assert events.ends[0].clean
    assert [came.method for came in server.came].count("POST") == 4
    assert server.came[-1].method == "DELETE"


def test_a_connection_of_https_is_encrypted(tmp_path: Path) -> None:
    async def asked(url: str, trusted: Path) -> bytes:
        tls = ssl.create_default_context(cafile=str(trusted))
        async with client.pool(parse(url), tls) as pool:
            return (await pool.request("GET", url)).content

    with certified(tmp_path) as (context, trusted), serving({"/x": b"hi"}, context) as server:
        assert asyncio.run(asked(f"{server.url}/x", trusted)) == b"hi"


async def test_chunks_of_one_byte_leave_others_their_turns() -> None:
    chunks = b"1\r\n:\r\n" * 40_000
    turns = before = seen = most = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%b0\r\n\r\n" % chunks)
        writer.close()

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        address = parse(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        other = asyncio.create_task(others())
        async with client.pool(address, None) as pool, pool.stream("GET", str(address)) as answer:
            async for _ in answer.aiter_stream():
                seen = seen + 1 if turns == before else 1
                before, most = turns, max(most, seen)
        other.cancel()
    assert most <= in_pieces._MOST // len(b"1\r\n:\r\n") + 1


async def test_a_bad_proxy_of_https_is_named_with_its_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "socks5://here:1")
    monkeypatch.setenv("NO_PROXY", "")
    transport, events = HttpTransport(parse("https://example.invalid")), Recorder()
    await transport.open(events)
    transport.write(b'{"jsonrpc":"2.0","id":1,"method":"initialize"}\n')
    await events.until(lambda: bool(events.ends))
    assert "HTTPS_PROXY" in events.ends[0].hint
    await transport.close(0)
