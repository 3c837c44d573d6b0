"""Tests of proxies, as authors write them: services, tools, sub-sessions, settings."""

from __future__ import annotations

import asyncio
import datetime
import enum
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypedDict

import pytest

from guest_sdk.python import Playground, Proxy, ProxyError, Record, Refused, gather
from guest_sdk.python.playground import Agent
from tests.guest_sdk.python.support import example

Code = Callable[[], Awaitable[Any]]


def asked(code: Code, **more: Any) -> Any:
    """The result of `code` in a handler of a playground."""
    proxy = Proxy("asks")

    @proxy.request("_run")
    async def handler(request: Any) -> Any:
        return await code()

    async def work() -> Any:
        async with Playground(proxy, **more) as p:
            return await p.request("_run", {})

    return asyncio.run(work())


P = Proxy("p")
"""Services are the same for all proxies."""


async def test_three_lines_are_a_test() -> None:
    async with Playground(example("datetime_proxy"), grants=["clock"]) as p:
        turn = await p.prompt("hello")
        assert turn.text == "It is Wednesday 08 October 2025, 12:34.\nhello"
        assert p.agent.prompts == [turn.text]


def test_the_store() -> None:
    async def code() -> Any:
        await gather(*(P.kv.set(f"k/{n}", {"n": n}) for n in range(3)))
        await P.kv.set("other", None)
        await P.kv.set("k/0", "mine", scope="user")
        deleted = [await P.kv.delete("k/1"), await P.kv.delete("k/1")]
        values = [await P.kv.get("k/0"), await P.kv.get("k/0", scope="user")]
        absent = await P.kv.get("k/1", "gone")
        return [await P.kv.keys("k/"), deleted, values, absent, await P.kv.get("other", 1)]

    keys, deleted, values, absent, null = asked(code)
    assert keys == ["k/0", "k/2"]
    assert deleted == [True, False]
    assert values == [{"n": 0}, "mine"]
    assert (absent, null) == ("gone", None)


def test_a_value_is_changed_though_others_set_it() -> None:
    async def code() -> Any:
        assert await P.kv.found("n") == (None, 0)
        first = await P.kv.set("n", 1, if_revision=0)
        with pytest.raises(Refused) as caught:
            await P.kv.set("n", 2, if_revision=0)
        made = []

        def plus(count: int) -> int:
            made.append(count)
            return count + 1

        both = await gather(P.kv.change("n", plus), P.kv.change("n", plus))
        new = await P.kv.change("m", plus, 10)
        revision = caught.value.data["revision"]
        return [both, new, made, caught.value.reason, revision == first, await P.kv.get("n")]

    both, new, made, reason, same, left = asked(code)
    assert sorted(both) == [2, 3]
    assert made == [1, 1, 2, 10]
    assert (new, reason, same, left) == (11, "conflict", True, 3)


def test_files_randomness_and_the_network() -> None:
    async def code() -> Any:
        read = await P.files.read("AGENTS.md")
        part = await P.files.read_bytes("/project/AGENTS.md", offset=1, max_bytes=2)
        found = [(each.path, each.mtime_ms) for each in await P.files.list(glob="**/*.md")]
        there = [await P.files.exists("AGENTS.md"), await P.files.exists("nothing")]
        page = await P.fetch("https://example.com/x", headers={"a": "b"}, timeout=1)
        posted = await P.fetch("https://example.com/y", method="POST", body=b"\xff")
        drawn = [len(await P.random.bytes(4)), await P.random.integer(1)]
        number = await P.random.uuid()
        roots = await P.files.roots()
        return [read, part.decode(), found, there, page.text, posted.json(), drawn, number, roots]

    def fetch(params: dict[str, Any]) -> Any:
        if params.get("method") == "POST":
            return {"status": 200, "headers": {}, "base64": "eyJhIjoxfQ=="}
        return f"{params['url']} {params['headers']} {params['timeoutMs']}"

    files = {"/project/AGENTS.md": "héllo", "/project/src/x.py": ""}
    read, part, found, there, page, posted, drawn, number, roots = asked(
        code, files=files, fetch=fetch
    )
    assert (read, part) == ("héllo", "é")
    assert found == [["/project/AGENTS.md", 0]]
    assert there == [True, False]
    assert page == "https://example.com/x {'a': 'b'} 1000"
    assert posted == {"a": 1}
    assert drawn == [4, 0]
    assert len(number) == 36
    assert roots == ["/project"]


def test_a_missing_file_is_an_error_that_can_be_caught() -> None:
    async def code() -> Any:
        try:
            await P.files.read("nothing")
        except Refused as refused:
            return [refused.service, refused.granted, refused.data["reason"]]

    assert asked(code) == ["files/read", True, "not-found"]


def test_files_are_written_where_that_is_granted() -> None:
    async def code() -> Any:
        done = [await P.files.write("notes/a", "é"), await P.files.write("notes/b", b"x")]
        reasons = []
        for path, root in (("other/a", None), ("notes/../a", None), ("notes/a", "/elsewhere")):
            try:
                await P.files.write(path, "no", root=root)
            except Refused as refused:
                reasons.append([refused.service, refused.granted])
        paths = [entry.path for entry in await P.files.list()]
        return [done, reasons, await P.files.read("notes/a"), paths]

    done, reasons, read, listed = asked(code, grants=["write:notes", "read:**"])
    assert done == ["/project/notes/a", "/project/notes/b"]
    assert reasons == [["files/write", True]] * 3
    assert read == "é"
    assert listed == done


def test_timers_run_in_the_background() -> None:
    proxy = Proxy("timers")
    fired: list[str] = []

    @proxy.on_start
    async def begin() -> None:
        proxy.log("begun", grants=proxy.grants)
        proxy.metric.count("started", kind="x")
        proxy.metric.gauge("level", 3)
        every = await proxy.timer.every(10, lambda: fired.append("every"))
        await proxy.timer.sleep(25)
        fired.append("slept")
        await every.stop()

        async def fails() -> None:
            raise ValueError("oh")

        await proxy.timer.after(1, fails)

    with Playground(proxy) as p:
        assert fired == []
        p.services.advance(20)
        assert fired == ["every", "every"]
        p.services.advance(100)
        assert fired == ["every", "every", "slept"]
        p.services.advance(1)
        assert p.services.log[0] == "info: begun"
        assert p.services.log[1].startswith("error: a timer's function failed: ValueError: oh")
        assert [one["name"] for one in p.services.metrics] == ["started", "level"]


async def test_work_in_the_background_speaks_for_itself() -> None:
    proxy = Proxy("greeter")

    @proxy.request("session/prompt")
    async def prompt(request: Any, following: Any) -> Any:
        async def later() -> None:
            await proxy.timer.sleep(5)
            request.session.say("still there?")

        proxy.start(later())
        return await following(request)

    async with Playground(proxy) as p:
        await p.prompt("hi")
        heard = len(p.heard)
        p.services.advance(5)
        (last,) = p.heard[heard:]
        assert last.params.update.content.text == "still there?"


def test_a_sub_session_stays_behind_the_clients_back() -> None:
    seen: list[str] = []
    proxy = Proxy("judge")

    @proxy.request("session/request_permission")
    async def judge(request: Any, following: Any) -> Any:
        def allow(asked: Any) -> Any:
            seen.append(asked.method)
            return {"content": "x"}

        async with proxy.subsession(cwd="/elsewhere", on_request=allow) as sub:
            turn = await sub.prompt("is this safe?", {"type": "text", "text": "really?"})
            seen.append(turn.text)
        return await following(request)

    async def work() -> None:
        async with Playground(proxy, client=lambda _: {"outcome": {"outcome": "cancelled"}}) as p:
            session = await p.new_session()

            def answer(request: Record) -> Any:
                if request.method == "session/prompt" and "safe" in str(request.raw):
                    p.agent.request("fs/read_text_file", {"sessionId": "session-2", "path": "/x"})

            p.agent.answer = answer
            held = p.agent.request("session/request_permission", {"sessionId": session})
            assert p.result("s", held) == {"outcome": {"outcome": "cancelled"}}
            assert [one.method for one in p.heard] == ["session/request_permission"]

    asyncio.run(work())
    assert seen == ["fs/read_text_file", "is this safe?\nreally?"]


async def test_cancelling_in_a_playground() -> None:
    proxy = Proxy("plain")
    async with Playground(proxy, answer=lambda r: None) as p:
        await p.new_session()
        p.agent.answer = lambda _: Agent.HOLD
        turn = await p.start_prompt("wait")
        assert p.answer_to("p", turn) is None
        with pytest.raises(AssertionError, match="not answered yet"):
            p.turn(turn)
        p.cancel(turn)
        assert p.agent.notifications[-1].params.request_id == turn
        p.agent.reply(p.agent.requests[-1], {"stopReason": "cancelled"})
        assert p.turn(turn).stop_reason == "cancelled"


# -- settings --------------------------------------------------------------------------------------


class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"


@dataclass
class Inner:
    names: list[str] = field(default_factory=list)


@dataclass
class Settings:
    count: int
    ratio: float = 0.5
    mode: Literal["a", "b"] = "a"
    level: Level = Level.LOW
    inner: Inner = field(default_factory=Inner)
    table: dict[str, int | None] = field(default_factory=dict)
    anything: Any = None


def configured(**config: Any) -> Any:
    proxy = Proxy("set", config=Settings)
    found: list[Any] = []

    @proxy.request("initialize")
    async def handler(request: Any, following: Any) -> Any:
        found.append(proxy.config)
        return await following(request)

    async def work() -> None:
        async with Playground(proxy, config=config) as p:
            await p.initialize()

    asyncio.run(work())
    return found[0]


def test_settings_are_read_into_the_model() -> None:
    table = {"x": 1, "y": None}
    found = configured(count=1, ratio=2, level="high", inner={"names": ["n"]}, table=table)
    assert found == Settings(1, 2.0, "a", Level.HIGH, Inner(["n"]), table)


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({}, "`count` is missing"),
        ({"count": "1"}, "`count` must be a whole number"),
        ({"count": True}, "`count` must be a whole number"),
        ({"count": 1, "mode": "c"}, "`mode` must be one of 'a', 'b'"),
        ({"count": 1, "level": "mid"}, "`level` must be one of 'low', 'high'"),
        ({"count": 1, "inner": {"names": [1]}}, "`inner.names[0]` must be text"),
        (
            {"count": 1, "inner": {"nam": []}},
            "there is no `inner.nam`; in `inner` there can be: names",
        ),
        ({"count": 1, "table": {"x": "y"}}, "must be a whole number or null"),
        ({"count": 1, "cuont": 1}, "there is no setting `cuont`; settings are: count, ratio"),
    ],
)
def test_wrong_settings_are_told_to_who_initializes(config: dict[str, Any], problem: str) -> None:
    with pytest.raises(ProxyError) as caught:
        configured(**config)
    assert problem in caught.value.message
    assert caught.value.message.startswith("the configuration of `set` is wrong")


# -- tools -----------------------------------------------------------------------------------------


class Place(TypedDict):
    name: str


def test_schemas_come_from_the_hints() -> None:
    proxy = Proxy("tools")

    @proxy.tool
    def everything(
        word: Annotated[str, "one word"],
        place: Place,
        inner: Inner,
        level: Level = Level.LOW,
        many: list[float] | None = None,
        extra: dict[str, bool] = {},  # noqa: B006 - as authors write it
    ) -> None:
        """Takes everything."""

    schema = proxy.tools["everything"].schema
    assert schema["required"] == ["word", "place", "inner"]
    held = schema["properties"]
    assert held["word"] == {"type": "string", "description": "one word"}
    assert held["place"]["properties"] == {"name": {"type": "string"}}
    assert held["place"]["required"] == ["name"]
    assert held["inner"]["properties"]["names"] == {"type": "array", "items": {"type": "string"}}
    assert held["level"] == {"enum": ["low", "high"], "default": "low"}
    assert held["many"]["anyOf"] == [
        {"type": "array", "items": {"type": "number"}},
        {"type": "null"},
    ]
    assert held["extra"] == {
        "type": "object", "additionalProperties": {"type": "boolean"}, "default": {},
    }  # fmt: skip


@dataclass
class Part:
    name: str
    parts: list[Part] = field(default_factory=list)
    marks: set[int] = field(default_factory=set)


def test_a_parameter_may_hold_its_own_kind_and_lists_become_what_is_asked_for() -> None:
    proxy = Proxy("tools")
    got: list[Any] = []

    @proxy.tool
    def take(part: Part, names: tuple[str, ...] = (), few: frozenset[int] = frozenset()) -> None:
        """Takes a part of parts."""
        got.append((part, names, few))

    held = proxy.tools["take"].schema["properties"]
    assert held["part"]["properties"]["parts"] == {"type": "array", "items": {"type": "object"}}
    assert held["part"]["properties"]["marks"] == {"type": "array", "items": {"type": "integer"}}

    async def work() -> None:
        async with Playground(proxy) as p:
            inner = {"name": "b", "parts": [], "marks": [2, 2]}
            await p.call("take", part={"name": "a", "parts": [inner]}, names=["n"], few=[1, 1])
            refused = await p.call("take", part={"name": "a", "parts": [{"nam": "b"}]})
            said = "`take`: there is no `part.parts[0].nam`; in `part.parts[0]` there can be: name"
            assert refused["content"][0]["text"].startswith(said)

    asyncio.run(work())
    assert got == [(Part("a", [Part("b", [], {2})]), ("n",), frozenset({1}))]


def test_what_settings_cannot_be_is_told_where_it_is_declared() -> None:
    @dataclass
    class Config:
        since: datetime.date

    with pytest.raises(TypeError) as caught:
        Proxy("p", config=Config)
    told = "proxy `p`, `config`: <class 'datetime.date'> has no JSON form; str, int, float, bool"
    assert str(caught.value).startswith(told)


@pytest.mark.parametrize("rights", [["clock"], {"clock": True}, "clock", {"clock": None}])
def test_rights_are_asked_for_with_a_reason(rights: Any) -> None:
    problem = '`rights` says what for, as in `rights={"clock": '
    with pytest.raises(TypeError, match=re.escape(problem)):
        Proxy("p", rights=rights)


@pytest.mark.parametrize(
    ("grants", "problem"),
    [
        (["clok"], "no service `clok`; services are: "),
        (["kv"], "no service `kv`"),
        ("clock", "are a list"),
    ],
)
def test_a_playground_grants_what_there_is(grants: Any, problem: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        Playground(Proxy("p"), grants=grants)
    assert problem in str(caught.value)


def test_a_failure_is_told_without_its_notes() -> None:
    async def fail() -> None:
        error = LookupError("what is wrong")
        error.add_note("when it was looked for")
        raise error

    with pytest.raises(ProxyError) as caught:
        asked(fail)
    assert "LookupError: what is wrong (test_playground.py, line " in caught.value.message


class Unusual(BaseException):
    """Like `asyncio.CancelledError`, no `Exception`."""


def test_a_request_is_answered_whatever_its_handler_or_tool_raises() -> None:
    async def fail() -> None:
        raise Unusual("oh")

    with pytest.raises(ProxyError, match="Unusual: oh"):
        asked(fail)
    proxy = Proxy("tools")
    proxy.tool(fail)

    async def work() -> None:
        async with Playground(proxy) as p:
            await p.call("fail")

    with pytest.raises(ProxyError, match="Unusual: oh"):
        asyncio.run(work())


def test_what_has_no_json_form_cannot_be_a_parameter() -> None:
    proxy = Proxy("tools")
    with pytest.raises(TypeError, match="tool `bad`, parameter `when`"):

        @proxy.tool
        def bad(when: bytes) -> None:
            """Takes bytes."""


def test_tools_are_called_with_values_of_their_types() -> None:
    proxy = Proxy("tools")
    got: list[Any] = []

    @proxy.tool
    async def take(place: Place, inner: Inner, level: Level = Level.LOW) -> Inner:
        """Takes some."""
        got.append((place, inner, level))
        await proxy.clock.now()
        return inner

    @proxy.tool(name="raw")
    def blocks() -> list[dict[str, str]]:
        return [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]

    @proxy.tool
    def nothing() -> None:
        """Returns nothing."""

    @proxy.tool
    def wrong() -> None:
        """Raises."""
        raise LookupError("no such thing")

    async def work() -> None:
        async with Playground(proxy) as p:
            assert [one["name"] for one in await p.tools()] == ["take", "raw", "nothing", "wrong"]
            out = await p.call("take", place={"name": "x"}, inner={"names": ["n"]}, level="high")
            assert out["structuredContent"] == {"names": ["n"]}
            assert [one["text"] for one in (await p.call("raw"))["content"]] == ["a", "b"]
            assert (await p.call("nothing"))["content"] == []
            failed = await p.call("wrong")
            assert failed["isError"]
            assert failed["content"][0]["text"].startswith("LookupError: no such thing (test_play")
            assert any("tool `wrong` failed" in one for one in p.services.log)
            for call, said in (
                (p.call("take", place={}, inner={}), "`take`: `place` needs name"),
                (p.call("take", inner={}), "`take`: `place` must be given"),
                (p.call("raw", x=1), "`raw`: there is no argument `x`; arguments are: none"),
            ):
                refused = await call
                assert (refused["isError"], refused["content"][0]["text"]) == (True, said)

    asyncio.run(work())
    assert got == [({"name": "x"}, Inner(["n"]), Level.HIGH)]


async def test_names_and_ids_of_servers_are_ones_nobody_else_has() -> None:
    declared = [
        {"type": "acp", "name": "add-tool", "serverId": "add-tool:1"},
        {"type": "acp", "name": "x", "serverId": "add-tool:2"},
        {"name": "stdio", "command": "x", "args": [], "env": []},
    ]
    async with Playground(example("add_tool")) as p:
        await p.new_session(mcpServers=declared)
        await p.new_session(mcpServers=[])
        first, second = (one.raw["params"]["mcpServers"] for one in p.agent.requests)
        assert first[:3] == declared
        assert first[3]["name"] == "add-tool-2"
        assert len({one["serverId"] for one in [*first, *second] if "serverId" in one}) == 4


def test_mcp_in_its_stateless_form_says_its_version() -> None:
    async def work() -> None:
        async with Playground(example("add_tool")) as p:
            await p.new_session()

            def outer(method: str, **params: Any) -> Any:
                inner = {"serverId": "add-tool:1", "requestId": "r", "method": method}
                return p.result("s", p.agent.request("mcp/message", {**inner, "params": params}))

            assert outer("tools/list")["error"]["code"] == -32602
            assert outer("initialize")["error"]["code"] == -32601
            old = {"io.modelcontextprotocol/protocolVersion": "2025-06-18"}
            refused = outer("tools/list", _meta=old)["error"]
            assert (refused["code"], refused["data"]["supported"]) == (-32022, ["2026-07-28"])
            found = await p.mcp("server/discover", {})
            assert found["supportedVersions"] == ["2026-07-28"]
            assert await p.mcp("ping", {}) == {"resultType": "complete"}

    asyncio.run(work())
