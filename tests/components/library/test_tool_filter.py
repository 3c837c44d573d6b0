"""The tool filter: `tool-filter`."""

from typing import Any

import pytest

from guest_sdk.python import Playground, ProxyError, Record
from tests.components.library.support import agent, component, play, says
from tests.harness.process.rig import Rig

TOOLS = ("add", "fail", "secret_key")
SERVER = {"type": "acp", "name": "kit", "serverId": "kit:1"}


def provider(request: Record) -> Any:
    """A client whose server `kit` lists three tools, and calls any, in each generation."""
    params = request.raw["params"]
    if request.method in ("mcp/connect", "_mcp/connect"):
        return {"connectionId": "c1"}
    if request.method == "session/request_permission":
        return {"outcome": {"outcome": "selected", "optionId": "yes"}}
    inner = params.get("message", params)
    tools: list[Any] = [{"name": name, "x": 1} for name in TOOLS]
    listed = {"tools": tools, "nextCursor": "n"}
    result = listed if inner["method"] == "tools/list" else {"content": [], "ran": True}
    if "message" in params:
        return {"message": {"jsonrpc": "2.0", "id": 1, "result": result}}
    return {"result": result} if "serverId" in params else result


async def asked(p: Playground, params: Any, method: str = "mcp/message") -> Any:
    """The answer to a message of the agent to a server."""
    return p.result("s", p.agent.request(method, params))


def names(listed: Any) -> list[str]:
    """The tools of a list."""
    return [tool["name"] for tool in listed["tools"]]


@pytest.mark.parametrize(
    ("config", "listed", "called"),
    [
        ({}, TOOLS, TOOLS),
        ({"deny": ["fail"]}, ("add", "secret_key"), ("add", "secret_key")),
        ({"deny": ["kit/*_key", "other/*"]}, ("add", "fail"), ("add", "fail")),
        ({"allow": ["kit/a*"]}, ("add",), ("add",)),
        ({"allow": ["*"], "deny": ["add"]}, ("fail", "secret_key"), ("fail", "secret_key")),
        ({"allow": ["other/*"]}, (), ()),
        ({"hide": ["kit/add"]}, ("fail", "secret_key"), TOOLS),
    ],
)
async def test_rules(config: Any, listed: tuple[str, ...], called: tuple[str, ...]) -> None:
    async with play("tool-filter", config=config, grants=[], client=provider) as p:
        await p.new_session(mcpServers=[SERVER, "odd", {"name": 7}])
        params: Any = {"serverId": "kit:1", "requestId": "r", "method": "tools/list"}
        result = await asked(p, params)
        assert tuple(names(result["result"])) == listed
        assert result["result"]["nextCursor"] == "n"
        ran = []
        for tool in TOOLS:
            params = {**params, "method": "tools/call", "params": {"name": tool}}
            answer = await asked(p, params)
            if "error" in answer:
                assert answer["error"]["message"] == f"the tool `{tool}` of `kit` is denied"
            else:
                ran.append(tool)
        assert tuple(ran) == called
        assert len(p.services.log) == len(TOOLS) - len(called)


async def test_each_generation() -> None:
    async with play("tool-filter", config={"deny": ["kit/fail"]}, client=provider) as p:
        url = {"type": "http", "name": "kit", "url": "acp:u1"}
        await p.new_session(mcpServers={"kit": url})
        await asked(p, {"acp_url": "acp:u1"}, "_mcp/connect")
        for method in ("mcp/message", "_mcp/message", "_mcp/request"):
            said: Any = {"connectionId": "c1", "method": "tools/list"}
            assert names(await asked(p, said, method)) == ["add", "secret_key"]
            said = {**said, "method": "tools/call", "params": {"name": "fail"}}
            with pytest.raises(ProxyError, match="`fail` of `kit` is denied"):
                await asked(p, said, method)
        heard = len(p.heard)
        p.agent.notify("mcp/message", said)  # a call nobody answers is none the less one
        assert len(p.heard) == heard
        for method, ids in (
            ("_mcp/client_to_server/request", {"url": "acp:u1"}),
            ("_scp/mcp", {"name": "kit"}),
        ):
            said = {**ids, "message": {"id": 4, "method": "tools/list"}}
            assert names((await asked(p, said, method))["message"]["result"]) == [
                "add",
                "secret_key",
            ]
            said["message"] = {"id": 5, "method": "tools/call", "params": {"name": "fail"}}
            denied = (await asked(p, said, method))["message"]
            assert (denied["id"], denied["error"]["code"]) == (5, -31900)


async def test_of_an_unknown_server_only_what_denies_speaks() -> None:
    call: Any = {"method": "tools/call", "params": {"name": "add"}}
    said: Any = {"serverId": "?", "requestId": "r", **call}
    for config, refused in (({"deny": ["kit/add"]}, True), ({"allow": ["kit/*"]}, True),
                            ({"allow": ["add"]}, False)):  # fmt: skip
        async with play("tool-filter", config=config, client=provider) as p:
            assert ("error" in await asked(p, said)) is refused
            assert "error" not in await asked(p, {**said, "method": "ping"})
            unnamed = await asked(p, {**said, "params": 7})
            assert ("error" in unnamed) is ("allow" in config)


@pytest.mark.parametrize(
    ("call", "options", "outcome"),
    [
        ({"title": "mcp__kit__fail"}, [("yes", "allow_once"), ("no", "reject_once")], "no"),
        ({"_meta": {"x": {"toolName": "mcp__kit__fail"}}}, [("yes", "allow_once")], None),
        ({"title": "mcp__kit__fail"}, [("x", "reject_once"), ("x", "allow_once")], None),
        ({"title": "mcp__kit__add"}, [("no", "reject_once")], "yes"),
        ({"title": "fail"}, [("no", "reject_once")], "yes"),
        (7, "odd", "yes"),
    ],
)
async def test_permission_for_denied_tools_is_refused(
    call: Any, options: Any, outcome: Any
) -> None:
    async with play("tool-filter", config={"deny": ["kit/fail"]}, client=provider) as p:
        session = await p.new_session()
        if isinstance(options, list):
            options = [{"optionId": o, "name": o, "kind": kind} for o, kind in options]
        params = {"sessionId": session, "toolCall": call, "options": options}
        answer = (await asked(p, params, "session/request_permission"))["outcome"]
        assert answer.get("optionId") == outcome
        params["subject"] = {"type": "tool_call", "toolCall": params.pop("toolCall")}  # ACP v2
        answer = (await asked(p, params, "session/request_permission"))["outcome"]
        assert answer.get("optionId") == outcome


@pytest.mark.parametrize(
    ("config", "call", "passes"),
    [
        ({"deny": ["my__kit/fail"]}, {"title": "mcp__my__kit__fail"}, False),
        ({"deny": ["fail"]}, {"title": "mcp__my__kit__fail"}, False),
        ({"deny": ["my kit/x.y"]}, {"title": "mcp__my_kit__x_y"}, False),
        ({"deny": ["fail"]}, {"_meta": {"toolName": "mcp__kit__fail"}}, False),
        ({"deny": ["fail"]}, {"toolCallId": "t", "title": "Run it"}, False),
        ({"deny": ["fail"]}, {"toolCallId": "over"}, True),
        ({"deny": ["fail"]}, {"toolCallId": ["t"]}, True),
        ({"allow": ["my__kit/add"]}, {"title": "mcp__my__kit__add"}, True),
        ({"allow": ["my__kit/add"]}, {"title": "mcp__my__kit__fail"}, False),
    ],
)
async def test_however_a_permission_request_names_the_tool(
    config: Any, call: Any, passes: bool
) -> None:
    async with play("tool-filter", config=config, client=provider) as p:
        session = await p.new_session()
        for id_ in ("t", "over"):
            p.agent.update(session, "tool_call", toolCallId=id_, title="mcp__kit__fail")
        p.agent.update(session, "tool_call_update", toolCallId="t", status="in_progress")
        p.agent.update(session, "tool_call_update", toolCallId="over", status="completed")
        options = [{"optionId": "never", "name": "Never", "kind": "reject_always"}]
        params = {"sessionId": session, "toolCall": call, "options": options}
        answer = (await asked(p, params, "session/request_permission"))["outcome"]
        assert answer["optionId"] == ("yes" if passes else "never")


REWRITE = {"colour": "color", "a": "A", "cat": "dog", "cat food": "fish", "!x": "?"}


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        ("my colour, colours and a colour", "my color, colours and A color"),
        ("Colour acolour colour_ colour", "Colour acolour colour_ color"),
        ("cat catalogue cat food cat foods cat", "dog catalogue fish dog foods dog"),
        ("a a aa a!x!xx", "A A aa A?!xx"),
        ("nothing", "nothing"),
    ],
)
async def test_words_however_they_are_split(said: str, seen: str) -> None:
    for size in (1, 2, 3, 5, 100):
        async with play("tool-filter", config={"rewrite": REWRITE}, grants=[]) as p:
            p.agent.answer = says(p, *(said[at : at + size] for at in range(0, len(said), size)))
            assert (await p.prompt("x")).text == seen, size


async def test_what_is_held_is_said_before_anything_else() -> None:
    async with play("tool-filter", config={"rewrite": {"colour": "color"}}, grants=[]) as p:
        session = await p.new_session()
        p.agent.update(session, "agent_message_chunk", messageId="m1", _meta={"k": 1},
                       content={"type": "text", "text": "colo"})  # fmt: skip
        p.agent.update(session, "agent_message_chunk", messageId="m2",
                       content={"type": "text", "text": "ur colo"})  # fmt: skip
        p.agent.update(session, "plan", entries=[])
        p.agent.update(session, "agent_thought_chunk", content={"type": "text", "text": "colour"})
        p.agent.update(session, "state_update", state="idle")
        p.agent.update(session, "agent_message_chunk", content={"type": "image", "data": "colo"})
        p.agent.update(session, "agent_message_chunk", content=7)
        updates = [one.raw["params"]["update"] for one in p.heard]
        said = [
            (one["sessionUpdate"], one.get("messageId"), (one.get("content") or {}).get("text"))
            for one in updates[:-2]
        ]
        assert said == [
            ("agent_message_chunk", "m1", "colo"),
            ("plan", None, None),  # has no place among what is said
            ("agent_message_chunk", "m2", "ur colo"),
            ("agent_thought_chunk", None, "color"),
            ("state_update", None, None),
        ]
        assert updates[0]["_meta"] == {"k": 1}  # it goes on with its chunk
        assert [one["content"] for one in updates[-2:]] == [{"type": "image", "data": "colo"}, 7]


def test_behind_a_real_agent(rig: Rig) -> None:
    config = {"deny": ["tools-demo/fail"], "hide": ["*/progress"],
              "rewrite": {"colour": "color", "dots": "points"}}  # fmt: skip
    chain = agent(rig, "tools-demo", component("tool-filter", config), rig.demo("--acp"))
    session = chain.begin()
    listed = chain.prompt(session, "/tools")
    assert [line.split(":")[0] for line in listed.splitlines()] == [
        "tools-demo/add", "tools-demo/echo", "tools-demo/whoami"
    ]  # fmt: skip
    assert chain.prompt(session, '/call tools-demo add {"a":1,"b":2}') == "3"
    assert "done" in chain.prompt(session, "/call tools-demo progress")
    assert "`fail` of `tools-demo` is denied" in chain.prompt(session, "/call tools-demo fail")
    assert chain.prompt(session, "one colour") == "one color"
    # Its echo is cut into chunks after spaces, which the end of a turn follows.
    assert chain.prompt(session, "the colour of dots on dots") == "the color of points on points"
    assert chain.finish() == 0
    assert chain.stderr.count("\n") == 1
    assert "a call of the tool `fail` of `tools-demo` was refused" in chain.stderr
