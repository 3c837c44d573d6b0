"""MCP servers of proxies: tools, resources, prompts, their questions and unasked messages."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import pytest

from guest_sdk.python import (
    Call,
    Contents,
    NotOffered,
    Playground,
    Proxy,
    ProxyError,
    Resource,
    Result,
    ToolError,
    audio,
    embedded,
    gather,
    image,
    resource_link,
    text,
)
from tests.guest_sdk.python.support import example

META = "io.modelcontextprotocol/"


def said(result: Any) -> str:
    """The text of a tool's first block."""
    return str(result["content"][0]["text"])


async def test_resources_are_listed_and_read() -> None:
    async with Playground(example("library")) as p:
        listed = await p.resources(server="library")
        assert listed == [
            {
                "uri": "icon://library",
                "name": "icon",
                "description": "What the library looks like.",
            },
            {"uri": "note://fox", "name": "fox", "mimeType": "text/plain"},
        ]
        templates = await p.mcp("resources/templates/list", {}, server="library")
        assert templates["cacheScope"] == "private"
        assert templates["resourceTemplates"] == [
            {
                "uriTemplate": "note://{name}",
                "name": "note",
                "description": "A note.",
                "mimeType": "text/plain",
            }
        ]
        assert await p.read("note://fox", server="library") == "The quick brown fox."
        assert await p.read("icon://library", server="library") == "iVBORw=="
        with pytest.raises(ProxyError, match="there is no resource note://cat") as missing:
            await p.read("note://cat", server="library")
        assert (missing.value.code, missing.value.data) == (-32602, {"uri": "note://cat"})
        with pytest.raises(ProxyError, match="`uri` must be text"):
            await p.mcp("resources/read", {"uri": 1}, server="library")


async def test_what_can_be_read() -> None:
    proxy = Proxy("files")

    @proxy.resource("file://{+path}", mime_type="text/x-any")
    def anything(path: str) -> str:
        return path

    @proxy.resource("data://exact")
    def exact() -> dict[str, list[int]]:
        return {"n": [1]}

    @proxy.resource("data://{number}")
    def numbered(number: int, kind: Literal["a", "b"] = "a") -> list[Contents]:
        return [Contents(f"{number}{kind}"), Contents(b"\0", "x/y", "data://more")]

    @proxy.resource("both://{name}")
    @proxy.resource("both://{name}/{kind}")
    async def both(name: str, kind: str = "none") -> bytes | None:
        if name == "gone":
            raise FileNotFoundError("it went away")
        await proxy.clock.now()
        return None if name == "nothing" else f"{name} {kind}".encode()

    @proxy.resource("bad://x")
    def bad() -> str:
        raise KeyError("oops")

    async with Playground(proxy) as p:

        async def contents(uri: str) -> Any:
            """The contents at an address."""
            return (await p.mcp("resources/read", {"uri": uri}))["contents"]

        (found,) = await contents("file:///a/b%20c?d#e")
        assert found == {
            "uri": "file:///a/b%20c?d#e",
            "mimeType": "text/x-any",
            "text": "/a/b c?d#e",
        }
        (found,) = await contents("data://exact")
        assert (found["mimeType"], json.loads(found["text"])) == ("application/json", {"n": [1]})
        first, second = await contents("data://12")
        assert (first["text"], first["mimeType"]) == ("12a", "text/plain")
        assert second == {"uri": "data://more", "mimeType": "x/y", "blob": "AA=="}
        (found,) = await contents("both://x%2Fy")
        assert found["blob"] == "eC95IG5vbmU="
        (found,) = await contents("both://x/y")
        assert found["mimeType"] == "application/octet-stream"
        for uri, problem in (
            ("data://x", "`number` must be a whole number"),
            ("both://gone", "it went away"),
            ("both://nothing", "there is no resource both://nothing"),
            ("both://a/b/c", "there is no resource both://a/b/c"),
            ("bad://x", r"resource bad://x failed: KeyError: 'oops' \(test_mcp.py, line"),
        ):
            with pytest.raises(ProxyError, match=problem):
                await p.mcp("resources/read", {"uri": uri})
        assert [one for one in p.services.log if "resource bad://x failed" in one]


@pytest.mark.parametrize(
    ("uri", "problem"),
    [
        ("no-scheme/{name}", "must begin with a scheme"),
        ("x://{name*}", "`{name\\*}` is not understood"),
        ("x://{other}", "the function does not take `other`"),
        ("x://y", "the address does not have `name`"),
    ],
)
def test_addresses_that_cannot_be(uri: str, problem: str) -> None:
    proxy = Proxy("files")
    with pytest.raises(TypeError, match=problem):

        @proxy.resource(uri)
        def read(name: str) -> str:
            return name


async def test_lists_of_resources_that_are_none() -> None:
    proxy = Proxy("files")

    @proxy.resources
    def odd() -> list[Any]:
        return ["x://y"]

    async with Playground(proxy) as p:
        with pytest.raises(ProxyError, match="`odd` returned 'x://y' where a `Resource` is meant"):
            await p.resources()
    assert Resource("x://y", "y", size=3).card() == {"uri": "x://y", "name": "y", "size": 3}


async def test_prompts() -> None:
    async with Playground(example("library")) as p:
        listed = await p.mcp("prompts/list", {}, server="library")
        assert listed["prompts"] == [
            {
                "name": "summarize",
                "description": "Asks for a summary of a note.",
                "arguments": [
                    {"name": "name", "required": True},
                    {"name": "words", "required": False},
                ],
            }
        ]
        asked = {"name": "summarize", "arguments": {"name": "fox", "words": "5"}}
        got = await p.mcp("prompts/get", asked, server="library")
        assert [(one["role"], one["content"]["type"]) for one in got["messages"]] == [
            ("user", "text"),
            ("user", "resource_link"),
            ("assistant", "text"),
        ]
        assert "in 5 words" in got["messages"][0]["content"]["text"]
        for wrong, problem in (
            ({"name": "fox", "words": "many"}, "`words` must be a whole number"),
            ({"name": "fox", "words": 5}, "arguments of prompts are text"),
            ({}, "`name` must be given"),
            ([], "`name` must be given"),
            ([1], "`arguments` must be an object"),
        ):
            with pytest.raises(ProxyError, match=problem):
                await p.mcp(
                    "prompts/get", {"name": "summarize", "arguments": wrong}, server="library"
                )
        with pytest.raises(ProxyError, match="no prompt `x`; prompts are: summarize"):
            await p.mcp("prompts/get", {"name": "x"}, server="library")


@dataclass
class Shape:
    """A shape, as a tool measures it."""

    width: float
    kind: Literal["square", "round"] = "square"


class Named(TypedDict):
    """Something with a name."""

    name: str


async def test_results_richer_than_text() -> None:
    proxy = Proxy("rich")
    shown: dict[str, Callable[[], Any]] = {
        "picture": lambda: image(b"\1", annotations={"priority": 1}),
        "mixed": lambda: ["look", audio(b"\2"), resource_link("a://b", "b")],
        "whole": lambda: Result(["a", embedded("a://b", b"\3")], {"n": Shape(2)}, meta={"x": 1}),
        "failing": lambda: Result("no", is_error=True),
        "texts": lambda: ["a", "b"],
        "value": lambda: {"n": 1},
    }
    for name, function in shown.items():
        proxy.tool(name=name)(function)

    @proxy.tool
    def shape() -> Shape:
        return Shape(1.5)

    @proxy.tool
    def named(right: bool) -> Named:
        return {"name": "n"} if right else {"nam": "n"}  # type: ignore[typeddict-item, typeddict-unknown-key]

    @proxy.tool
    def counts() -> dict[str, int]:
        return {"type": 1}

    @proxy.tool
    def declared() -> Result:
        return Result("a", {"n": 1})

    @proxy.tool
    def sound() -> dict[str, Any]:
        return audio(b"\1")

    @proxy.tool(annotations={"readOnlyHint": True}, title="Refuse")
    def refuse() -> str:
        raise ToolError("not today")

    async with Playground(proxy, grants=[]) as p:
        cards = {one["name"]: one for one in await p.tools()}
        assert not {"value", "declared", "sound"} & {
            n for n, c in cards.items() if "outputSchema" in c
        }
        assert (await p.call("declared"))["structuredContent"] == {"n": 1}
        assert (await p.call("sound"))["content"][0]["type"] == "audio"
        assert cards["shape"]["outputSchema"]["properties"] == {
            "width": {"type": "number"},
            "kind": {"enum": ["square", "round"]},
        }
        assert cards["named"]["outputSchema"]["required"] == ["name"]
        assert cards["counts"]["outputSchema"]["additionalProperties"] == {"type": "integer"}
        assert cards["refuse"]["annotations"] == {"readOnlyHint": True}

        assert (await p.call("picture"))["content"] == [
            {
                "type": "image",
                "data": "AQ==",
                "mimeType": "image/png",
                "annotations": {"priority": 1},
            }
        ]
        mixed = (await p.call("mixed"))["content"]
        assert [one["type"] for one in mixed] == ["text", "audio", "resource_link"]
        whole = await p.call("whole")
        assert whole["structuredContent"] == {"n": {"width": 2, "kind": "square"}}
        assert whole["_meta"] == {"x": 1}
        assert whole["content"][1]["resource"]["blob"] == "Aw=="
        assert (await p.call("failing"))["isError"]
        assert said(await p.call("texts")) == '["a", "b"]'
        assert (await p.call("value"))["structuredContent"] == {"n": 1}
        assert (await p.call("shape"))["structuredContent"] == {"width": 1.5, "kind": "square"}
        assert (await p.call("counts"))["structuredContent"] == {"type": 1}
        assert (await p.call("named", right=True))["structuredContent"] == {"name": "n"}
        assert p.services.log == []
        wrong = await p.call("named", right=False)
        assert wrong["isError"]
        assert "tool `named` returned what it does not declare: `result` needs name" in said(wrong)
        assert len(p.services.log) == 1
        refused = await p.call("refuse")
        assert (refused["isError"], said(refused)) == (True, "not today")
        assert len(p.services.log) == 1, "it is no mistake of the author's"


async def test_what_the_conductor_refuses_the_model_is_told() -> None:
    proxy = Proxy("clock")

    @proxy.tool
    async def when() -> str:
        return str(await proxy.clock.now())

    async with Playground(proxy, grants=[]) as p:
        refused = await p.call("when")
        assert refused["isError"]
        assert "clock" in said(refused)
        assert p.services.log == []


async def test_a_person_is_asked_on_the_way() -> None:
    asked: list[Any] = []

    def answer(request: Any) -> Any:
        asked.append(request)
        content = {"sure": len(asked) == 2, "reason": "old"}
        return {"action": "accept", "content": content}

    async with Playground(example("library")) as p:
        p.agent.input = answer

        async def throw() -> str:
            """The result of the tool."""
            asking = {"name": "throw_away", "arguments": {"name": "fox"}}
            meta = {META + "logLevel": "info"}
            return said(await p.mcp("tools/call", {**asking, "_meta": meta}, server="library"))

        assert await throw() == "It was kept."
        assert await throw() == "It is gone."
        assert await throw() == "there is no note `fox`"
        form = asked[0].params.requested_schema.raw
        assert form == {
            "type": "object",
            "properties": {
                "sure": {"type": "boolean"},
                "reason": {"type": "string", "default": ""},
            },
            "required": ["sure"],
        }
        (told,) = [one for one in p.told if one.method == "notifications/message"]
        assert told.params.raw == {
            "level": "notice",
            "data": {"thrown away": "fox", "reason": "old"},
        }
        with pytest.raises(ProxyError, match="no request of this `requestState` is open"):
            await p.mcp("tools/call", {"name": "rhyme", "requestState": "x"}, server="library")
        assert (await p.mcp("tools/call", {"name": "count"}, server="desk"))[
            "structuredContent"
        ] == {"notes": 0}


async def test_what_is_not_offered_and_answers_that_do_not_fit() -> None:
    proxy = Proxy("asking")

    @proxy.tool
    async def ask(call: Call) -> str:
        if not call.offers("elicitation"):
            try:
                await call.elicit("really?")
            except NotOffered as error:
                return error.capability
        first, second = (
            await call.elicit("really?"),
            await call.sample(("user", "a"), ("assistant", "b"), system="c"),
        )
        return f"{first.action} {bool(first)} {second.content.text}"

    @proxy.tool
    async def form(call: Call) -> str:
        return str((await call.elicit("which?", Shape)).content.width)

    @proxy.tool
    async def sampled(call: Call) -> str:
        return str(await call.sample("x"))

    def answer(request: Any) -> Any:
        if request.method == "sampling/createMessage":
            assert request.params.system_prompt == "c"
            assert [one["role"] for one in request.params.messages] == ["user", "assistant"]
            return {"role": "assistant", "content": text("yes"), "model": "m"}
        shape = "requestedSchema" in request.params and "width" in str(request.params.raw)
        return {"action": "accept", "content": {"width": "x"}} if shape else {"action": "decline"}

    async with Playground(proxy) as p:
        assert said(await p.call("ask")) == "elicitation"
        with pytest.raises(ProxyError, match="takes `sampling/createMessage`") as lacking:
            await p.call("sampled")
        assert lacking.value.code == -32021
        assert lacking.value.data == {"requiredCapabilities": {"sampling": {}}}
        p.agent.input = answer
        assert said(await p.call("ask")) == "decline False yes"
        with pytest.raises(ProxyError, match="the client's answer to `asking: which\\?` is wrong"):
            await p.call("form")


async def test_several_things_may_be_asked_at_once_and_one_after_another() -> None:
    proxy = Proxy("asking")
    asked: list[str] = []

    @proxy.tool
    async def ask(call: Call) -> str:
        async def later() -> str:
            await proxy.clock.now()
            return (await call.elicit("c")).action

        found = await gather(call.elicit("a"), call.elicit("b"), later())
        last = await call.elicit("d")
        return f"{found[0].action} {found[1].action} {found[2]} {last.action}"

    def answer(request: Any) -> Any:
        asked.append(request.params.message)
        return {"action": "decline" if request.params.message[-1] in "bc" else "accept"}

    async with Playground(proxy) as p:
        p.agent.input = answer
        assert said(await p.call("ask")) == "accept decline decline accept"
        assert [one[-3:] for one in asked] == [": a", ": b", ": c", ": d"]
        asking = await p.start_mcp("tools/call", {"name": "ask"})
        wanted = p.result("s", asking)["result"]
        again = {"name": "ask", "requestState": wanted["requestState"], "inputResponses": {}}
        with pytest.raises(ProxyError, match="came back without an answer for `input-1`"):
            await p.mcp("tools/call", again)


async def test_forms_are_flat() -> None:
    @dataclass
    class Deep:
        """A type that no client can show."""

        shape: Shape

    proxy = Proxy("forms")

    @proxy.tool
    async def deep(call: Call) -> str:
        return (await call.elicit("?", Deep)).action

    async with Playground(proxy) as p:
        p.agent.input = lambda request: {"action": "cancel"}
        assert "a form cannot ask for `shape`" in said(await p.call("deep"))


async def test_a_slow_tool_keeps_nobody_waiting_and_can_be_cancelled() -> None:
    proxy = Proxy("slow")
    ended: list[str] = []

    @proxy.tool
    async def slow(name: str) -> str:
        try:
            await proxy.timer.sleep(10)
        finally:
            ended.append(name)
        return name

    async with Playground(proxy) as p:
        asking = [{"name": "slow", "arguments": {"name": one}} for one in ("a", "b")]
        first, second = [await p.start_mcp("tools/call", one) for one in asking]
        assert len(await p.tools()) == 1, "others are answered meanwhile"
        p.agent.notify("$/cancel_request", {"requestId": first})
        answer = p.answer_to("s", first)
        assert answer is not None
        assert answer["error"]["code"] == -32800
        assert ended == ["a"]
        p.services.advance(10)
        assert said(p.result("s", second)["result"]) == "b"
        assert ended == ["a", "b"]


async def test_work_nobody_comes_back_for_is_given_up() -> None:
    proxy = Proxy("forgotten")
    ended: list[int] = []

    @proxy.tool
    async def ask(number: int, call: Call) -> str:
        try:
            await call.elicit("?")
        finally:
            ended.append(number)
        return "done"

    async with Playground(proxy) as p:
        p.agent.input = lambda request: {"action": "accept"}
        for number in range(66):
            asking = {"name": "ask", "arguments": {"number": number}}
            p.result("s", await p.start_mcp("tools/call", asking))
        assert ended == [0, 1], "64 of them are kept"
        await p.request("session/close", {"sessionId": p.session})
        assert sorted(ended) == list(range(66))


async def test_changes_are_told_to_those_who_listen() -> None:
    async with Playground(example("library")) as p:
        wanted = {
            "resourcesListChanged": True,
            "toolsListChanged": True,
            "resourceSubscriptions": ["note://fox"],
        }
        listening = await p.start_mcp(
            "subscriptions/listen", {"notifications": wanted}, server="library"
        )
        (acknowledged,) = p.told
        assert acknowledged.params.notifications.raw == {
            "resourcesListChanged": True,
            "resourceSubscriptions": ["note://fox"],
        }
        for name in ("cat", "fox"):
            keeping = {"name": "keep", "arguments": {"name": name, "said": "a b"}}
            await p.mcp("tools/call", keeping, server="library")
        assert [one.method for one in p.told[1:]] == [
            "notifications/resources/list_changed",
            "notifications/resources/list_changed",
            "notifications/resources/updated",
        ]
        key = p.told[0].params["_meta"][META + "subscriptionId"]
        assert p.told[3].params.raw == {
            "uri": "note://fox",
            "_meta": {META + "subscriptionId": key},
        }
        assert p.answer_to("s", listening) is None
        before = p.session
        await p.new_session()
        keeping = {"name": "keep", "arguments": {"name": "x", "said": "y"}}
        await p.mcp("tools/call", keeping, server="library")
        assert len(p.told) == 4, "another session's notes are another matter"
        await p.request("session/close", {"sessionId": before})
        assert p.result("s", listening)["result"]["resultType"] == "complete"
        with pytest.raises(ProxyError):
            p.result("s", p.agent.request("mcp/message", {"serverId": "library:1"}))


@pytest.mark.parametrize("grants", [["random"], []])
async def test_ids_of_servers_cannot_be_guessed_where_there_is_randomness(
    grants: list[str],
) -> None:
    async with Playground(example("library"), grants=grants) as p:
        ids: list[str] = []
        for _ in range(2):
            await p.new_session()
            servers = p.agent.requests[-1].raw["params"]["mcpServers"]
            ids += [one["serverId"] for one in servers]
        numbers = [one.partition(":")[2] for one in ids]
        secrets = {one.rpartition(".")[0] for one in numbers}
        assert len(secrets) == 1
        assert len(secrets.pop()) == (16 if grants else 0)
        assert [one.rpartition(".")[2] for one in numbers] == ["1", "2", "3", "4"]
        listed = await p.mcp("tools/list", {}, server="library")
        assert listed["tools"]


@pytest.mark.parametrize("refused", [True, False])
async def test_without_its_bytes_ids_are_counted(
    refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none(_count: int) -> bytes:
        if refused:
            raise ProxyError("no more")
        return b"\x01"

    proxy = example("library")
    monkeypatch.setattr(proxy.random, "bytes", none)
    async with Playground(proxy, grants=["random"]) as p:
        await p.new_session()
        servers = p.agent.requests[-1].raw["params"]["mcpServers"]
        assert servers[0]["serverId"] == ("library:1" if refused else "library:01.1")


async def test_connections_have_all_of_it_too() -> None:
    async with Playground(example("library")) as p:
        await p.new_session()
        servers = p.agent.requests[-1].raw["params"]["mcpServers"]
        assert [one["name"] for one in servers] == ["library", "desk"]
        answers: list[Any] = []

        def answer(request: Any) -> Any:
            if request.method != "mcp/message":
                return None
            answers.append(request.params)
            return {"action": "accept", "content": {"sure": True}}

        p.agent.answer = answer
        opened = p.agent.request("mcp/connect", {"serverId": servers[0]["serverId"]})
        connection = p.result("s", opened)["connectionId"]

        def ask(method: str, **params: Any) -> Any:
            """A request over the connection; its result."""
            inner = {"connectionId": connection, "method": method, "params": params}
            return p.result("s", p.agent.request("mcp/message", inner))

        began = ask("initialize", protocolVersion="2025-11-25", capabilities={"elicitation": {}})
        assert began["capabilities"] == {
            "tools": {},
            "resources": {"subscribe": True, "listChanged": True},
            "prompts": {},
            "logging": {},
        }
        assert began["instructions"] == "Notes of this session."
        assert ask("resources/subscribe", uri="note://cat") == {}
        ask("tools/call", name="keep", arguments={"name": "cat", "said": "meow"})
        ask("tools/call", name="keep", arguments={"name": "dog", "said": "woof"})
        assert [one.method for one in p.told] == [
            "notifications/resources/list_changed",
            "notifications/resources/updated",
            "notifications/resources/list_changed",
        ]
        assert ask("resources/unsubscribe", uri="note://cat") == {}
        ask("tools/call", name="keep", arguments={"name": "cat", "said": "meow"})
        assert len(p.told) == 4
        assert ask("logging/setLevel", level="error") == {}
        with pytest.raises(ProxyError, match="levels are: debug, info"):
            ask("logging/setLevel", level="loud")
        gone = ask("tools/call", name="throw_away", arguments={"name": "cat"})
        assert said(gone) == "It is gone."
        assert answers[0].params.message == "library: Throw away the note `cat`?"
        assert len(p.told) == 5, "a notice is less than an error"
        with pytest.raises(ProxyError, match="sampling/createMessage"):
            ask("tools/call", name="rhyme", arguments={"name": "fox"})
        with pytest.raises(ProxyError) as missing:
            ask("resources/read", uri="note://none")
        assert missing.value.code == -32002
        assert p.result("s", p.agent.request("mcp/disconnect", {"connectionId": connection})) == {}


async def test_some_are_there_only_at_times() -> None:
    proxy = Proxy("modes", session=dict)

    @proxy.tool(when=lambda session: session is not None and session.state.get("code"))
    def edit() -> str:
        return "edited"

    @proxy.prompt(when=lambda session: False)
    def never() -> str:
        return ""

    @proxy.request("session/set_mode")
    def mode(request: Any) -> Any:
        request.state["code"] = request.params["modeId"] == "code"
        proxy.list_changed("tools", request.session)
        return {}

    async with Playground(proxy) as p:
        assert await p.tools() == []
        assert (await p.mcp("prompts/list", {}))["prompts"] == []
        able = (await p.mcp("server/discover", {}))["capabilities"]
        assert able == {"tools": {"listChanged": True}, "prompts": {"listChanged": True}}
        with pytest.raises(ProxyError, match="no tool `edit`; tools are: none"):
            await p.call("edit")
        await p.start_mcp("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await p.request("session/set_mode", {"sessionId": p.session, "modeId": "code"})
        assert p.told[-1].method == "notifications/tools/list_changed"
        assert said(await p.call("edit")) == "edited"


def test_what_can_change_is_named() -> None:
    proxy = Proxy("x")
    with pytest.raises(ValueError, match="there is no list of `tool`"):
        proxy.list_changed("tool")  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="inside its handlers only"):
        proxy.list_changed("tools")
