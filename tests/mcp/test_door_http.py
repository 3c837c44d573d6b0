"""The loopback HTTP server: who gets in, the road of each request, the things left behind."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from conductor.mcp import limits
from conductor.mcp.bridge.declarations import HttpDeclaration
from tests.harness.bridge.doors import PATIENCE, Bridge, Json, descriptors, listener

STATELESS = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientCapabilities": {},
}


class DoorClient:
    """A client of one listener."""

    def __init__(self, declaration: HttpDeclaration) -> None:
        self.url = declaration.url
        self.headers = {
            **dict(declaration.headers),
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
        }
        self.http = httpx2.AsyncClient(timeout=PATIENCE, trust_env=False)

    async def post(self, body: Json | bytes, **headers: str | None) -> httpx2.Response:
        """Sends one POST; a header given as None is left out."""
        return await self.http.post(
            self.url,
            content=body if isinstance(body, bytes) else json.dumps(body).encode(),
            headers=self.with_headers(headers),
        )

    def with_headers(self, changed: dict[str, str | None]) -> dict[str, str]:
        named = {name.replace("_", "-"): value for name, value in changed.items()}
        merged = {**{k.lower(): v for k, v in self.headers.items()}, **named}
        return {name: value for name, value in merged.items() if value is not None}

    async def begin(self) -> None:
        """Opens a session."""
        response = await self.post(request(0, "initialize"))
        assert response.status_code == 200
        self.headers["mcp-session-id"] = response.headers["mcp-session-id"]

    async def alone(self, number: object, method: str, **params: Any) -> httpx2.Response:
        """A POST of 2026-07-28."""
        body = request(number, method, **{**params, "_meta": {**META, **params.get("_meta", {})}})
        named = {"mcp_name": params["name"]} if "name" in params else {}
        return await self.post(
            body,
            mcp_session_id=None,
            mcp_protocol_version=STATELESS,
            mcp_method=method,
            **named,
        )

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[AsyncIterator[Json]]:
        """The stream of a GET."""
        async with self.http.stream("GET", self.url, headers=self.headers) as response:
            assert response.status_code == 200
            assert response.headers["content-type"] == "text/event-stream"
            yield events(response)


async def events(response: httpx2.Response) -> AsyncIterator[Json]:
    """The messages of a stream."""
    async for line in response.aiter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


def said(response: httpx2.Response) -> list[Json]:
    """The messages of a response, whichever form it took."""
    if response.headers["content-type"] == "application/json":
        return [response.json()]
    lines = response.text.splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]


def request(number: object, method: str, **params: Any) -> Json:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


@asynccontextmanager
async def connected(line_limit: int = 64 * 1024 * 1024) -> AsyncIterator[tuple[Bridge, DoorClient]]:
    """A bridge, and a client of its one listener, which is called `7:tools`."""
    async with listener("http", line_limit) as (bridge, declaration):
        client = DoorClient(declaration)
        async with client.http:
            yield bridge, client


async def test_the_declaration_names_loopback_and_keeps_the_secret_out_of_the_url() -> None:
    async with connected() as (bridge, client):
        assert client.url.startswith("http://127.0.0.1:")
        secret = client.headers["Authorization"].removeprefix("Bearer ")
        assert len(secret) == 64
        assert secret not in client.url
        other = await bridge.doors.listen("8:more", "http")
        assert isinstance(other, HttpDeclaration)
        assert urlsplit(other.url).netloc == urlsplit(client.url).netloc
        assert other.url != client.url
        # Agents have a way with paths that do not end like this.
        assert client.url.endswith("/mcp")
        assert dict(other.headers)["Authorization"] != client.headers["Authorization"]


async def test_a_session_from_initialize_to_delete() -> None:
    async with connected() as (bridge, client):
        await client.begin()
        response = await client.post(request(1, "hello", n=1))
        assert response.headers["content-type"] == "application/json"
        assert response.json() == {
            "jsonrpc": "2.0",
            "id": 1,
            "result": {"listener": "7:tools", "method": "hello", "params": {"n": 1}},
        }
        told = await client.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert (told.status_code, told.content) == (202, b"")
        assert len(bridge.opens) == 1
        gone = await client.http.delete(client.url, headers=client.headers)
        assert gone.status_code == 200
        assert bridge.closes == [bridge.opens[0][0]]
        late = await client.post(request(2, "hello"))
        assert late.status_code == 404
        assert "initialize" in late.json()["error"]["message"]


async def test_a_session_that_is_refused_is_none() -> None:
    async with connected() as (bridge, client):
        bridge.quiet = True
        asked = asyncio.ensure_future(client.post(request(0, "initialize")))
        await bridge.until(lambda: bool(bridge.frames))
        bridge.send(bridge.opens[0][0], {"id": 0, "error": {"code": -32602, "message": "no"}})
        assert (await asked).json()["error"]["message"] == "no"
        await bridge.until(lambda: bool(bridge.closes))


REFUSALS: dict[str, tuple[dict[str, str | None], int]] = {
    "no secret": ({"authorization": None}, 401),
    "a wrong secret": ({"authorization": "Bearer " + "0" * 64}, 401),
    "a secret cut short": ({"authorization": "Bearer 0"}, 401),
    "another scheme": ({"authorization": "Basic " + "0" * 64}, 401),
    "a secret that is no ASCII": ({"authorization": "Bearer \xff\xfe"}, 401),
    "a name rebound to loopback": ({"host": "evil.example:80"}, 421),
    "another port": ({"host": "127.0.0.1:1"}, 421),
    "a web page": ({"origin": "https://evil.example"}, 403),
    "no origin to speak of": ({"origin": "null"}, 403),
    "no JSON": ({"content-type": "text/plain"}, 415),
    "only HTML back": ({"accept": "text/html"}, 406),
    "a version that is none": ({"mcp-protocol-version": "latest"}, 400),
    "an unknown session": ({"mcp-session-id": "nobody"}, 404),
    "no session": ({}, 400),
}


@pytest.mark.proves("from MCP clients to the conductor")
@pytest.mark.parametrize("why", REFUSALS)
async def test_who_is_refused(why: str) -> None:
    changed, status = REFUSALS[why]
    async with connected() as (bridge, client):
        headers = client.with_headers(dict(changed))
        encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        content = json.dumps(request(1, "hello")).encode()
        response = await client.http.post(client.url, content=content, headers=encoded)
        assert response.status_code == status
        error = response.json()["error"]
        assert error["message"]
        assert "0" * 64 not in response.text
        assert bridge.opens == []
        assert bridge.frames == []


async def test_a_listener_that_is_not_there_looks_like_a_wrong_secret() -> None:
    async with connected() as (_, client):
        wrong = await client.post(request(1, "hello"), authorization="Bearer " + "0" * 64)
        client.url += "f"
        missing = await client.post(request(1, "hello"), authorization="Bearer " + "0" * 64)
        assert (missing.status_code, missing.content) == (wrong.status_code, wrong.content)
        client.url = client.url.rpartition("/")[0] + "/other"
        elsewhere = await client.post(request(1, "hello"))
        assert elsewhere.status_code == 401


@pytest.mark.proves("from MCP clients to the conductor")
async def test_the_secret_of_one_listener_does_not_open_another() -> None:
    async with connected() as (bridge, client):
        declaration = await bridge.doors.listen("8:more", "http")
        assert isinstance(declaration, HttpDeclaration)
        other = DoorClient(declaration)
        async with other.http:
            await client.begin()
            stolen = await other.post(
                request(1, "hello"), authorization=client.headers["Authorization"]
            )
            assert stolen.status_code == 401
            # Nor does a session of another listener.
            other.headers["mcp-session-id"] = client.headers["mcp-session-id"]
            assert (await other.post(request(1, "hello"))).status_code == 404


async def test_this_machine_may_be_called_localhost() -> None:
    async with connected() as (_, client):
        port = httpx2.URL(client.url).port
        await client.begin()
        named = await client.post(
            request(1, "hello"), host=f"localhost:{port}", origin=f"http://localhost:{port}"
        )
        assert named.status_code == 200


@pytest.mark.parametrize(
    ("body_sent", "status", "code"),
    [
        (b"", 400, -32700),
        (b"{", 400, -32700),
        (b'"text"', 400, -32600),
        (b"[]", 400, -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"hello"}]', 400, -32600),
        (b"{}", 400, -32600),
        (b'{"id":null,"method":"hello"}', 400, -32600),
        (b'{"id":[1],"method":"hello"}', 400, -32600),
        (b'{"id":1.5,"method":"hello"}', 400, -32600),
        (b'{"id":1,"method":7}', 400, -32600),
        (b"[" * 100_000, 400, -32600),
    ],
)
async def test_what_is_no_message_goes_no_further(body_sent: bytes, status: int, code: int) -> None:
    async with connected() as (bridge, client):
        await client.begin()
        response = await client.post(body_sent)
        assert (response.status_code, response.json()["error"]["code"]) == (status, code)
        assert len(bridge.frames) == 1


async def test_a_message_may_stand_on_several_lines() -> None:
    async with connected() as (_, client):
        await client.begin()
        response = await client.post(json.dumps(request(1, "hello", a="\n"), indent=2).encode())
        assert response.json()["result"]["params"] == {"a": "\n"}


async def test_a_message_that_is_too_long_is_refused_and_the_next_served() -> None:
    async with connected(line_limit=4096) as (bridge, client):
        await client.begin()
        response = await client.post(request(1, "hello", x="y" * 5000))
        assert response.status_code == 413
        assert "longer than 4096 bytes" in response.json()["error"]["message"]

        async def parts() -> AsyncIterator[bytes]:
            for _ in range(5):
                yield b"x" * 1000

        chunked = await client.http.post(client.url, content=parts(), headers=client.headers)
        assert chunked.status_code == 413
        assert (await client.post(request(2, "hello"))).status_code == 200
        assert len(bridge.frames) == 2


async def test_twenty_megabytes_pass_both_ways_as_json() -> None:
    size = 20 * 1024 * 1024
    async with connected() as (_, client):
        await client.begin()
        response = await client.post(request(1, "large", x="y" * size))
        assert response.headers["content-type"] == "application/json"
        assert response.json()["result"]["params"] == {"x": "y" * size}


async def test_progress_comes_on_the_request_it_belongs_to() -> None:
    async with connected() as (bridge, client):
        await client.begin()
        waiting = asyncio.ensure_future(client.post(request(9, "wait", _meta={"progressToken": 5})))
        await bridge.until(lambda: bool(bridge.waiting))
        response = await client.post(request(1, "progress 3", _meta={"progressToken": "5"}))
        assert response.headers["content-type"] == "text/event-stream"
        messages = said(response)
        assert [m["params"]["n"] for m in messages[:3]] == [0, 1, 2]
        assert messages[3] == {"jsonrpc": "2.0", "id": 1, "result": {"done": True}}
        bridge.answer(*bridge.waiting[0])
        assert said(await waiting) == [{"jsonrpc": "2.0", "id": 9, "result": {}}]


async def test_what_names_no_request_goes_to_the_only_one_open() -> None:
    async with connected() as (_, client):
        await client.begin()
        messages = said(await client.post(request(1, "log 2")))
        assert [m.get("method") for m in messages] == ["notifications/message"] * 2 + [None]


async def test_what_belongs_to_no_request_waits_for_a_get() -> None:
    async with connected() as (bridge, client):
        await client.begin()
        connection = bridge.opens[0][0]
        bridge.send(connection, {"method": "notifications/tools/list_changed"})
        async with client.listen() as stream:
            assert (await anext(stream))["method"] == "notifications/tools/list_changed"
            bridge.send(connection, {"method": "notifications/second"})
            assert (await anext(stream))["method"] == "notifications/second"
            second = await client.http.get(client.url, headers=client.headers)
            assert second.status_code == 409
        # A client may come back to listen.
        while True:
            again = client.http.stream("GET", client.url, headers=client.headers)
            async with again as response:
                if response.status_code == 200:
                    bridge.send(connection, {"method": "notifications/third"})
                    assert (await anext(events(response)))["method"] == "notifications/third"
                    return


async def test_a_question_to_the_client_is_answered_by_a_post() -> None:
    async with connected() as (_, client):
        await client.begin()
        async with client.http.stream(
            "POST", client.url, json=request(1, "ask"), headers=client.headers
        ) as response:
            stream = events(response)
            question = await anext(stream)
            assert question["method"] == "sampling/createMessage"
            answer = {"jsonrpc": "2.0", "id": question["id"], "result": {"text": "x"}}
            assert (await client.post(answer)).status_code == 202
            assert (await anext(stream))["result"] == {"answered": {"text": "x"}}


async def test_an_id_that_is_open_is_not_taken_twice() -> None:
    async with connected() as (bridge, client):
        await client.begin()
        first = asyncio.ensure_future(client.post(request("a", "wait")))
        await bridge.until(lambda: bool(bridge.waiting))
        raw = b'{"jsonrpc":"2.0","id":"\\u0061","method":"hello"}'
        assert (await client.post(raw)).status_code == 400
        bridge.answer(*bridge.waiting[0])
        assert (await first).status_code == 200
        assert (await client.post(raw)).status_code == 200


async def test_a_request_that_gets_no_answer_ends_empty() -> None:
    async with connected() as (bridge, client):
        await client.begin()
        asked = asyncio.ensure_future(client.post(request(1, "wait")))
        await bridge.until(lambda: bool(bridge.waiting))
        bridge.no_response(bridge.opens[0][0], b"1")
        response = await asked
        assert said(response) == []
        assert (await client.post(request(1, "hello"))).status_code == 200


async def test_a_client_that_leaves_its_request_keeps_its_session() -> None:
    async with connected() as (bridge, client):
        await client.begin()
        asked = asyncio.ensure_future(client.post(request(1, "wait")))
        await bridge.until(lambda: bool(bridge.waiting))
        asked.cancel()
        await asyncio.wait([asked])
        assert (await client.post(request(2, "hello"))).status_code == 200
        bridge.answer(*bridge.waiting[0])
        assert (await client.post(request(3, "hello"))).status_code == 200
        assert bridge.closes == []


async def test_a_post_without_a_session_is_a_connection_of_its_own() -> None:
    async with connected() as (bridge, client):
        one, two = await asyncio.gather(client.alone(1, "hello"), client.alone(1, "hello"))
        for response in (one, two):
            assert response.json()["id"] == 1
            assert "mcp-session-id" not in response.headers
        await bridge.until(lambda: len(bridge.closes) == 2)
        assert {name for name, _ in bridge.opens} == set(bridge.closes)
        streamed = await client.alone(2, "progress 2", _meta={"progressToken": 1})
        assert len(said(streamed)) == 3


async def test_errors_have_a_status_without_a_session_and_none_within() -> None:
    async with connected() as (_, client):
        assert (await client.alone(1, "refuse")).status_code == 404
        await client.begin()
        assert (await client.post(request(1, "refuse"))).status_code == 200


async def test_leaving_a_post_without_a_session_ends_its_connection() -> None:
    async with connected() as (bridge, client):
        asked = asyncio.ensure_future(client.alone(1, "wait"))
        await bridge.until(lambda: bool(bridge.waiting))
        assert bridge.closes == []
        asked.cancel()
        await bridge.until(lambda: bool(bridge.closes))
        bridge.answer(*bridge.waiting[0])


@pytest.mark.parametrize(
    ("headers", "params"),
    [
        ({"mcp_protocol_version": None}, {}),
        ({"mcp_protocol_version": "2027-01-01"}, {}),
        ({"mcp_protocol_version": "latest"}, {}),
        ({"mcp_method": None}, {}),
        ({"mcp_method": "tools/list"}, {}),
        ({"mcp_name": None}, {"name": "add"}),
        ({"mcp_name": "other"}, {"name": "add"}),
        ({"mcp_name": "=?base64?!?="}, {"name": "add"}),
    ],
)
async def test_headers_that_contradict_a_post_are_refused(
    headers: dict[str, str | None], params: Json
) -> None:
    async with connected() as (bridge, client):
        right = {"mcp_protocol_version": STATELESS, "mcp_method": "tools/call", "mcp_name": "add"}
        message = request(1, "tools/call", **params, _meta=META)
        response = await client.post(message, **{**right, **headers})
        assert response.status_code == 400
        assert (response.json()["id"], response.json()["error"]["code"]) == (1, -32020)
        assert bridge.opens == []
        for name, header in (
            ("\xe9", "=?base64?w6k=?="),
            ("=?base64?w6k=", "=?base64?w6k="),
            ("w6k=?=", "w6k=?="),
        ):
            coded = request(1, "tools/call", name=name, _meta=META)
            served = await client.post(coded, **{**right, "mcp_name": header})
            assert served.status_code == 200, header


@pytest.mark.parametrize(
    ("method", "meta", "status", "code"),
    [
        ("tools/list", {}, 400, -32602),
        ("tools/list", {"io.modelcontextprotocol/protocolVersion": STATELESS}, 400, -32602),
        ("tools/list", {"io.modelcontextprotocol/clientCapabilities": {}}, 400, -32602),
        ("tools/list", {**META, "io.modelcontextprotocol/protocolVersion": 7}, 400, -32020),
        ("initialize", META, 404, -32601),
        ("ping", META, 404, -32601),
    ],
)
async def test_what_a_post_without_a_session_has_to_say(
    method: str, meta: Json, status: int, code: int
) -> None:
    async with connected() as (bridge, client):
        response = await client.post(
            request("a", method, _meta=meta), mcp_protocol_version=STATELESS, mcp_method=method
        )
        answer = response.json()
        assert (response.status_code, answer["id"], answer["error"]["code"]) == (status, "a", code)
        assert bridge.opens == []


async def test_another_revision_is_told_which_is_served() -> None:
    async with connected() as (bridge, client):
        later = "2031-01-01"
        meta = {**META, "io.modelcontextprotocol/protocolVersion": later}
        response = await client.post(
            request(1, "tools/list", _meta=meta),
            mcp_protocol_version=later,
            mcp_method="tools/list",
        )
        error = response.json()["error"]
        assert (response.status_code, error["code"]) == (400, -32022)
        assert error["data"] == {"supported": [STATELESS], "requested": later}
        assert bridge.opens == []


async def test_a_notification_without_a_session_is_taken_and_dropped() -> None:
    async with connected() as (bridge, client):
        response = await client.post(
            {"jsonrpc": "2.0", "method": "notifications/cancelled"}, mcp_protocol_version=STATELESS
        )
        assert response.status_code == 202
        assert bridge.opens == []


async def test_methods_that_make_no_sense_are_named() -> None:
    async with connected() as (_, client):
        put = await client.http.put(client.url, headers=client.headers)
        assert (put.status_code, put.headers["allow"]) == (405, "GET, POST, DELETE")
        modern = {**client.headers, "mcp-protocol-version": STATELESS}
        get = await client.http.get(client.url, headers=modern)
        assert (get.status_code, get.headers["allow"]) == (405, "POST")
        assert (await client.http.get(client.url, headers=client.headers)).status_code == 400
        await client.begin()
        html = {**client.headers, "accept": "text/html"}
        assert (await client.http.get(client.url, headers=html)).status_code == 406


async def test_a_header_that_came_twice_is_refused() -> None:
    async with connected() as (_, client):
        twice = [*client.headers.items(), ("Authorization", "Bearer x")]
        content = json.dumps(request(1, "hello")).encode()
        response = await client.http.post(client.url, content=content, headers=twice)
        assert response.status_code == 400


async def test_silence_shows_that_a_stream_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SILENCE_SECONDS", 0.01)
    async with connected() as (bridge, client):
        await client.begin()
        async with client.http.stream(
            "POST", client.url, json=request(1, "wait"), headers=client.headers
        ) as response:
            lines = response.aiter_lines()
            alive = [line for line in [await anext(lines) for _ in range(6)] if line]
            assert alive == [": alive"] * 3
            bridge.answer(*bridge.waiting[0])
            async for line in lines:
                if line.startswith("data: "):
                    assert json.loads(line[6:])["id"] == 1


async def test_a_held_client_waits() -> None:
    async with connected() as (bridge, client):
        await client.begin()
        connection = bridge.opens[0][0]
        bridge.doors.hold(connection, True)
        asked = asyncio.ensure_future(client.post(request("held", "hello")))
        other = await client.alone("free", "hello")
        assert other.status_code == 200
        assert "held" not in [m["id"] for m in bridge.messages()]
        bridge.doors.hold(connection, False)
        assert (await asked).json()["id"] == "held"
        # A held request is told of the end of its session.
        bridge.doors.hold(connection, True)
        asked = asyncio.ensure_future(client.post(request("late", "hello")))
        assert (await client.alone("free", "hello")).status_code == 200
        bridge.close(connection)
        late = await asked
        assert (late.status_code, late.json()["id"]) in ((404, "late"), (404, None))


async def test_a_client_that_never_listens_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "UNSENT", 1000)
    async with connected() as (bridge, client):
        await client.begin()
        connection = bridge.opens[0][0]
        bridge.send(connection, {"method": "x" * 600})
        bridge.send(connection, {"method": "x" * 600})
        await bridge.until(lambda: bridge.closes == [connection])
        assert bridge.logs == [
            "warning: mcp: an MCP client does not read its messages; it is closed"
        ]
        assert (await client.post(request(1, "hello"))).status_code == 404


async def test_a_listener_keeps_so_many_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SESSIONS", 2)
    async with connected() as (bridge, client):
        await client.begin()
        busy = asyncio.ensure_future(client.post(request(1, "wait")))
        await bridge.until(lambda: bool(bridge.waiting))
        del client.headers["mcp-session-id"]
        await client.begin()
        del client.headers["mcp-session-id"]
        await client.begin()
        assert bridge.closes == [bridge.opens[1][0]]
        bridge.answer(*bridge.waiting[0])
        assert (await busy).status_code == 200


async def test_closing_a_listener_answers_who_waits_and_lets_nobody_in() -> None:
    async with connected() as (bridge, client):
        await client.begin()
        async with client.listen() as stream:
            asked = asyncio.ensure_future(client.post(request(1, "wait")))
            alone = asyncio.ensure_future(client.alone(2, "wait"))
            await bridge.until(lambda: len(bridge.waiting) == 2)
            bridge.close_listener("7:tools")
            bridge.close_listener("7:tools")
            for number, response in ((1, await asked), (2, await alone)):
                (answer,) = said(response)
                assert answer["id"] == number
                assert "has ended" in answer["error"]["message"]
            assert [each async for each in stream] == []
        assert (await client.post(request(3, "hello"))).status_code == 401
        assert bridge.closes == []
        # An answer that comes too late finds nobody.
        bridge.answer(*bridge.waiting[0])
        bridge.close(bridge.opens[0][0])


async def test_many_clients_keep_their_answers_apart() -> None:
    async with connected() as (bridge, client):
        declaration = HttpDeclaration(client.url, tuple(client.headers.items())[:1])
        clients = [DoorClient(declaration) for _ in range(8)]

        async def converse(one: DoorClient, number: int) -> None:
            async with one.http:
                await one.begin()
                asked = [one.post(request(n, f"m{number}.{n}")) for n in range(10)]
                for n, response in enumerate(await asyncio.gather(*asked)):
                    assert response.json()["id"] == n
                    assert response.json()["result"]["method"] == f"m{number}.{n}"

        await asyncio.gather(*(converse(one, n) for n, one in enumerate(clients)))
        assert len(bridge.open) == 8


async def test_five_hundred_listeners_leave_nothing_behind() -> None:
    async with connected() as (bridge, client):
        await client.begin()
        before = 0
        for n in range(501):
            each = await bridge.doors.listen(f"{n}:x", "http")
            assert isinstance(each, HttpDeclaration)
            if n % 100 == 0:
                # Over the connection that is open already: same server.
                response = await client.http.post(
                    each.url,
                    json=request(0, "initialize"),
                    headers={**client.with_headers({"mcp-session-id": None}), **lower(each)},
                )
                assert response.status_code == 200
            bridge.close_listener(f"{n}:x")
            if n == 0:  # by now the event loop has what it needs itself
                before = descriptors()
        assert descriptors() == before
        url = client.url
        await client.http.aclose()
        await bridge.doors.aclose()
        async with httpx2.AsyncClient(trust_env=False) as late:
            with pytest.raises(httpx2.ConnectError):
                await late.get(url)
        assert descriptors() < before


def lower(declaration: HttpDeclaration) -> dict[str, str]:
    return {name.lower(): value for name, value in declaration.headers}


def test_nothing_of_http_is_loaded_before_it_is_needed() -> None:
    code = (
        "import sys, conductor.mcp.doors.doors, conductor.mcp.doors.stdio;"
        "print([n for n in ('httptools', 'mcp', 'conductor.http', 'conductor.mcp.http')"
        " if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"[]\n"
