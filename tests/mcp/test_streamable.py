"""The client of Streamable HTTP, before servers of all manners."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, TypeAlias

import pytest

from conductor.errors import ComponentError
from conductor.mcp.bridge.declarations import HttpDeclaration
from conductor.mcp.streamable import StreamableHttp
from conductor.transports import backoff
from tests.places import DEADLINE
from tests.transports.ends import Recorder

Json: TypeAlias = dict[str, Any]
LIMIT: Final = 10_000
KEY: Final = "s3cret-token"
ABOUT: Final[Json] = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}}


class Request:
    """A request that the server has received, and the way to answer it."""

    def __init__(self, head: bytes, body: bytes, writer: asyncio.StreamWriter) -> None:
        first, *lines = head.decode().split("\r\n")
        self.verb = first.split(" ")[0]
        pairs = [line.partition(": ") for line in lines if line]
        self.headers = {name.lower(): value for name, _, value in pairs}
        self.message: Json = json.loads(body) if body else {}
        self._writer = writer

    async def raw(self, data: bytes) -> None:
        """Sends bytes as they are."""
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        """A whole answer."""
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        head = "\r\n".join([f"HTTP/1.1 {status} X", *lines, f"Content-Length: {len(body)}"])
        await self.raw(head.encode("latin-1") + b"\r\n\r\n" + body)

    async def json(self, **outcome: Any) -> None:
        """The answer to a request, as JSON."""
        await self.answer(200, self.body(**outcome), Content_Type="application/json")

    async def stream(self, *messages: bytes) -> None:
        """The beginning of a stream that does not end."""
        await self.raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        for message in messages:
            await self.raw(b"data: " + message + b"\n\n")

    def body(self, **outcome: Any) -> bytes:
        """An answer to its message."""
        id_ = self.message.get("id")
        return json.dumps({"jsonrpc": "2.0", "id": id_, **(outcome or {"result": {}})}).encode()


Serve: TypeAlias = Callable[[Request], Awaitable[None]]


class Stage:
    """A server that obeys a test, and the client before it."""

    def __init__(self, serve: Serve, *headers: tuple[str, str]) -> None:
        self._serve = serve
        self._headers = headers
        self.heard: list[Request] = []
        self.events = Recorder()
        self.connections = 0

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lines = head.decode().lower().split("\r\n")
                sizes = [int(line[16:]) for line in lines if line.startswith("content-length: ")]
                asked = Request(head, await reader.readexactly(sum(sizes)), writer)
                self.heard.append(asked)
                await self._serve(asked)
        writer.close()

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[StreamableHttp]:
        """Client and server, until the block ends."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        reach = HttpDeclaration(f"http://127.0.0.1:{port}/mcp?key=1", self._headers)
        client = StreamableHttp(reach, line_limit=LIMIT)
        try:
            await client.open(self.events)
            yield client
        finally:
            await client.close(1.0)
            server.close()

    def begin(self, client: StreamableHttp) -> None:
        """The client asks for a session."""
        self.ask(client, "initialize", 0)

    def ask(self, client: StreamableHttp, method: str, id_: int | None) -> None:
        """The client asks, or without an id says something."""
        about = {} if id_ is None else {"id": id_}
        line = {"jsonrpc": "2.0", **about, "method": method, "params": {}}
        client.write(json.dumps(line).encode() + b"\n")

    async def got(self, count: int) -> list[Json]:
        """So many messages of the server."""
        await self.events.until(lambda: len(self.events.frames) >= count)
        return [json.loads(frame) for frame in self.events.frames]

    def of(self, verb: str) -> list[Request]:
        """The requests with this verb."""
        return [each for each in self.heard if each.verb == verb]


def server(on_request: Serve, session: str = "abc") -> Serve:
    """A server that begins sessions, and has no stream of its own."""

    async def serve(asked: Request) -> None:
        if asked.verb != "POST":
            await asked.answer(405)
        elif asked.message.get("method") == "initialize":
            body = asked.body(result=ABOUT)
            await asked.answer(200, body, Content_Type="application/json", Mcp_Session_Id=session)
        elif "id" not in asked.message:
            await asked.answer(202)
        else:
            await on_request(asked)

    return serve


async def error_of(serve: Serve, *, is_whole: bool = False) -> str:
    """The error that a client gets for a call that the server serves so. `is_whole`: `serve` serves
    all else too."""
    stage = Stage(serve if is_whole else server(serve), ("Authorization", KEY))
    async with stage.open() as client:
        stage.begin(client)
        stage.ask(client, "tools/call", 1)
        await stage.events.until(lambda: b'"id":1,' in b"".join(stage.events.frames))
        told: str = json.loads(stage.events.frames[-1])["error"]["message"]
    assert KEY not in told
    return told


async def test_a_session_over_json() -> None:
    stage = Stage(server(lambda asked: asked.json(result={"x": "\u00e9\n"})), ("X-Key", KEY))
    async with stage.open() as client:
        stage.begin(client)
        await stage.got(1)
        stage.ask(client, "notifications/initialized", None)
        stage.ask(client, "tools/list", 1)
        answers = await stage.got(2)
        assert answers[1] == {"jsonrpc": "2.0", "id": 1, "result": {"x": "\u00e9\n"}}
        assert client.buffered == 0
    begun, *others = stage.of("POST")
    assert "mcp-session-id" not in begun.headers
    for each in (*others, *stage.of("DELETE")):
        assert each.headers["mcp-session-id"] == "abc"
        assert each.headers["mcp-protocol-version"] == "2025-11-25"
    assert [each.message["method"] for each in stage.of("POST")] == [
        "initialize",
        "notifications/initialized",
        "tools/list",
    ]
    assert {each.headers["x-key"] for each in stage.heard} == {KEY}
    assert begun.headers["accept"] == "application/json, text/event-stream"
    assert len(stage.of("DELETE")) == 1


async def test_an_answer_on_a_stream_that_stays_open() -> None:
    note = b'{"jsonrpc":"2.0","method":"notifications/message","params":{}}'

    async def serve(asked: Request) -> None:
        if asked.verb == "POST" and "id" in asked.message:
            await asked.stream(note, asked.body(result=ABOUT))
        else:
            await asked.answer(202 if asked.verb == "POST" else 405)

    stage = Stage(serve)
    async with stage.open() as client:
        stage.begin(client)
        stage.ask(client, "notifications/initialized", None)
        stage.ask(client, "tools/list", 1)
        heard = await stage.got(4)
        assert [each.get("id") for each in heard] == [None, 0, None, 1]


@pytest.mark.parametrize("has_ids", [True, False])
async def test_a_stream_that_breaks_goes_on_where_it_stood(
    has_ids: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backoff, "_FIRST", 0.001)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    asked_for: list[Request] = []

    async def serve(asked: Request) -> None:
        if asked.verb == "GET" and "last-event-id" in asked.headers:
            if len(stage.of("GET")) > 3:
                await asked.stream(asked_for[0].body(result={"at": asked.headers["last-event-id"]}))
                return
            await asked.raw(head + b"id: e2\ndata:\n\n")
            raise ConnectionResetError
        if asked.verb == "GET":
            await asked.answer(405)
        elif asked.message["method"] == "initialize":
            await asked.json(result=ABOUT)
        else:
            asked_for.append(asked)
            await asked.raw(head + (b"id: e1\ndata:\n\n" if has_ids else b": nothing\n\n"))
            raise ConnectionResetError

    stage = Stage(serve)
    async with stage.open() as client:
        stage.begin(client)
        stage.ask(client, "tools/list", 1)
        answer = (await stage.got(2))[1]
        if has_ids:
            assert answer["result"] == {"at": "e2"}
        else:
            assert "the MCP server" in answer["error"]["message"]


async def test_an_answer_that_is_too_long_is_not_asked_for_again() -> None:
    async def serve(asked: Request) -> None:
        if asked.verb == "GET":
            await asked.stream()
        elif asked.message["method"] == "initialize":
            await asked.json(result=ABOUT)
        else:
            await asked.stream()
            await asked.raw(b"id: e1\ndata: " + b"x" * (2 * LIMIT) + b"\n\n")

    assert await error_of(serve, is_whole=True) == f"the MCP server sent more than {LIMIT} bytes"


async def test_a_request_that_is_cancelled_is_closed() -> None:
    gone = asyncio.Event()

    async def serve(asked: Request) -> None:
        if asked.message.get("method") == "slow":
            await asked.stream()
            with contextlib.suppress(OSError):
                while True:
                    await asked.raw(b": here\n\n")
                    await asyncio.sleep(0)
            gone.set()
        elif "id" in asked.message:
            await asked.json(result=ABOUT)
        else:
            await asked.answer(202 if asked.verb == "POST" else 405)

    stage = Stage(serve)
    async with stage.open() as client:
        stage.begin(client)
        await stage.got(1)
        stage.ask(client, "slow", 5)
        while not any(one.message.get("method") == "slow" for one in stage.of("POST")):
            await asyncio.sleep(0)
        client.write(
            b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}\n'
        )
        async with asyncio.timeout(DEADLINE):
            await gone.wait()
        assert len(await stage.got(1)) == 1


async def test_the_servers_own_stream() -> None:
    async def serve(asked: Request) -> None:
        if asked.verb == "GET":
            await asked.stream(b'{"jsonrpc":"2.0","id":7,"method":"ping"}')
        else:
            await asked.json(result=ABOUT)

    stage = Stage(serve)
    async with stage.open() as client:
        stage.begin(client)
        heard = await stage.got(2)
        assert [each.get("method") for each in heard] == [None, "ping"]
        client.write(b'{"jsonrpc":"2.0","id":7,"result":{}}\n')
        while len(stage.of("POST")) < 2:
            await asyncio.sleep(0)
        assert stage.of("POST")[1].message["result"] == {}
        assert stage.of("GET")[0].headers["accept"] == "text/event-stream"


@pytest.mark.parametrize("status", [302, 307, 308])
async def test_a_redirect_is_not_followed(status: int) -> None:
    elsewhere = Stage(server(lambda asked: asked.json()))
    async with elsewhere.open() as other:
        url = other._reach.url

        async def serve(asked: Request) -> None:
            await asked.answer(status, Location=url)

        stage = Stage(serve, ("Authorization", KEY))
        async with stage.open() as client:
            stage.begin(client)
            (answer,) = await stage.got(1)
            message = answer["error"]["message"]
            assert message == f"the MCP server answered with HTTP status {status}"
        assert elsewhere.heard == []


@pytest.mark.parametrize(
    ("status", "says"),
    [(401, "wants a login"), (403, "status 403"), (500, "status 500"), (503, "status 503")],
)
async def test_an_error_status_is_an_error(status: int, says: str) -> None:
    assert says in await error_of(lambda asked: asked.answer(status, KEY.encode()))


async def test_a_forgotten_session_ends_the_link() -> None:
    stage = Stage(server(lambda asked: asked.answer(404)))
    async with stage.open() as client:
        stage.begin(client)
        stage.ask(client, "tools/list", 1)
        await stage.events.until(lambda: bool(stage.events.ends))
        assert [how.text for how in stage.events.ends] == ["has forgotten its session"]


CUT: Final = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: 999\r\n\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"HTTP/1.1 200",
        b"no HTTP\r\n\r\n",
        CUT % b"application/json" + b'{"jsonrpc"',
        CUT % b"text/event-stream" + b"data: {",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: nothing\n\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1_000_000,
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        b'HTTP/1.1 200 OK\r\nContent-Length: 25\r\n\r\n{"id":99,"result":"other"}',
    ],
)
async def test_who_ends_in_the_middle_has_not_answered(sent: bytes) -> None:
    async def serve(asked: Request) -> None:
        await asked.raw(sent)
        raise ConnectionResetError

    assert (await error_of(serve)).startswith("the MCP server ")


async def test_an_answer_that_is_too_deep_has_not_answered() -> None:
    deep = b'{"id":7,"result":%b%b}' % (b"[" * 4000, b"]" * 4000)

    async def serve(asked: Request) -> None:
        await asked.answer(200, deep)

    stage = Stage(serve)
    async with stage.open() as client:
        stage.ask(client, "ping", 7)
        await stage.events.until(lambda: len(stage.events.frames) >= 2)
    passed, error = stage.events.frames
    assert passed == deep
    assert json.loads(error)["error"]["message"].startswith("the MCP server ")


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream", ""])
async def test_a_body_without_an_end_is_given_up(kind: str) -> None:
    async def serve(asked: Request) -> None:
        await asked.raw(b"HTTP/1.1 200 OK\r\nContent-Type: " + kind.encode() + b"\r\n\r\ndata: ")
        while True:
            await asked.raw(b"x" * 1000)

    assert await error_of(serve) == f"the MCP server sent more than {LIMIT} bytes"


@pytest.mark.parametrize("session", ["a b", "\u00e9", "a\tb"])
async def test_a_session_that_cannot_be_named_is_none(session: str) -> None:
    stage = Stage(server(lambda asked: asked.json(), session))
    async with stage.open() as client:
        stage.begin(client)
        (answer,) = await stage.got(1)
        assert "a name that no header can have" in answer["error"]["message"]
        stage.ask(client, "tools/list", 1)
        assert (await stage.got(2))[1]["result"] == {}


async def test_a_version_that_no_header_can_have_is_not_sent() -> None:
    async def serve(asked: Request) -> None:
        await asked.json(result={**ABOUT, "protocolVersion": "1\r\nX: \u00e9"})

    stage = Stage(serve)
    async with stage.open() as client:
        stage.begin(client)
        stage.ask(client, "tools/list", 1)
        assert "result" in (await stage.got(2))[1]
    assert not any("mcp-protocol-version" in each.headers for each in stage.heard)


@pytest.mark.parametrize(
    "header",
    [("X", f"{KEY}\n"), ("X", f"{KEY}\u00e9"), ("X", f" {KEY}"), ("X y", KEY)],
)
async def test_a_header_that_is_none_is_an_error_without_its_value(header: tuple[str, str]) -> None:
    stage = Stage(server(lambda asked: asked.json()), header)
    with pytest.raises(ComponentError, match="no header can have: `X") as raised:
        async with stage.open():
            raise AssertionError("it is open")
    assert KEY not in raised.value.with_hint
    assert stage.heard == []


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x/",
        "http://",
        "x",
        "http://x:99999/",
        "http://[x/",
        "http://x/\u00e9",
        "http://a..b/",
        "http://x/\ud800",
    ],
)
def test_a_url_that_is_none_is_an_error(url: str) -> None:
    client = StreamableHttp(HttpDeclaration(url, ()), line_limit=LIMIT)
    with pytest.raises(ComponentError, match="no URL of http or https"):
        asyncio.run(client.open(Recorder()))


async def test_a_server_that_is_not_there_is_an_error() -> None:
    stage = Stage(server(lambda asked: asked.json()))
    async with stage.open() as client:
        url = client._reach.url
    gone = StreamableHttp(HttpDeclaration(url, (("X", KEY),)), line_limit=LIMIT)
    await gone.open(stage.events)
    stage.begin(gone)
    (answer,) = await stage.got(1)
    assert answer["error"]["message"].startswith("the MCP server ")
    assert KEY not in str(answer)
    await gone.close(1.0)


async def test_while_paused_nothing_of_a_stream_arrives() -> None:
    stage = Stage(server(lambda asked: asked.stream(asked.body())))
    async with stage.open() as client:
        stage.begin(client)
        await stage.got(1)
        client.pause()
        stage.ask(client, "tools/list", 1)
        while len(stage.of("POST")) < 2:
            await asyncio.sleep(0)
        assert len(stage.events.frames) == 1
        client.resume()
        assert (await stage.got(2))[1]["id"] == 1
