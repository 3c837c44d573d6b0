"""What the guards leave be in `initialize`, session updates and MCP messages."""

from __future__ import annotations

import json

import pytest
from msgspec import UNSET, Raw, UnsetType

from conductor.core.guards import (
    Context,
    connected,
    declared,
    forwarded,
)
from tests.core.test_guards.attack import CONTEXT
from tests.core.test_guards.routes import SETUPS, may_answer, may_send, passes
from tests.core.test_guards.samples import (
    AGENT,
    AGENT2,
    CALL,
    HELLO,
    HELLO2,
    HTTP,
    MINE,
    STDIO,
    THEIRS,
    USES,
    Object,
)


def updated(before: object, after: object) -> bool:
    """Whether one session update may be passed on as another."""
    return passes(
        "session/update", {"sessionId": "s", "update": before}, {"sessionId": "s", "update": after}
    )


def test_what_stands_beside_an_update_stays() -> None:
    before = {"sessionId": "s", "turn": {"n": 1}, "update": {"sessionUpdate": "plan"}}
    after = {**before, "update": {"sessionUpdate": "plan", "entries": []}}
    assert passes("session/update", before, after)
    assert not passes("session/update", before, {**after, "turn": {"n": 2}})


def test_words_may_be_changed_and_made_up() -> None:
    for kind in ("agent_message_chunk", "agent_thought_chunk", "user_message", "plan", "notice"):
        update = {"sessionUpdate": kind, "content": {"type": "text", "text": "a"}}
        assert updated(update, {**update, "content": {"type": "text", "text": "b"}, "x": 1})
        assert updated(update, {"sessionUpdate": "plan", "entries": []})
        assert may_send("session/update", {"sessionId": "s", "update": update})
    meta = {"sessionId": "s", "update": {"sessionUpdate": "plan", "_meta": {"a.b/c": 1}}}
    assert may_send("session/update", meta)


def test_the_text_of_a_finished_tool_call_may_be_filtered() -> None:
    text, diff, terminal = CALL["content"]
    for kind in ("tool_call", "tool_call_update"):
        for status in ("completed", "failed", "cancelled"):
            call = {**CALL, "sessionUpdate": kind, "status": status}
            other = {**text, "content": {"type": "text", "text": "***"}}
            assert updated(call, {**call, "content": [other, diff, terminal]})
            assert updated(call, {**call, "content": [diff, terminal], "rawOutput": None})
            assert updated(call, {**call, "_meta": {"example.com/x": 1}})
            assert updated({**call, "content": [text]}, {**call, "content": None})
            assert updated(
                {**call, "content": [text]}, {k: v for k, v in call.items() if k != "content"}
            )
    # Without a word of what is in it, there is nothing to keep.
    bare = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"}
    assert updated(bare, {**bare, "rawOutput": "x"})


def test_odd_updates_pass_as_they_are() -> None:
    odd: list[Object] = [{"update": "word"}, {"update": {}}, {"update": {"sessionUpdate": 1}}, {}]
    for params in odd:
        text = json.dumps(params)
        respelled = Raw(f" {text}".encode())
        assert forwarded(CONTEXT, "up", "session/update", Raw(text.encode()), respelled) is None


@pytest.mark.parametrize("method", ["initialize", "proxy/initialize"])
def test_a_component_that_speaks_version_1_only_chooses_it(method: str) -> None:
    """The version on offer is an upper bound; what it then writes is as the Rust SDK writes it."""
    terminal = {"auth": {"terminal": {}}, "elicitation": {"form": {}}, "_meta": {"a": 1}}
    before = {**HELLO2, "capabilities": {**terminal, "fs": {"x": 1}}, "_meta": {"t": 1}, "_x": 1}
    lowered = {
        "protocolVersion": 1,
        "clientCapabilities": {
            "fs": {"readTextFile": False, "writeTextFile": False},
            "terminal": False,
            "session": {"configOptions": {"boolean": {}}},
            "auth": {"terminal": True},
            "elicitation": {"form": {}},
            "_meta": {"a": 1},
        },
        "clientInfo": HELLO2["info"],
        "_meta": {"t": 1},
    }
    assert passes(method, before, lowered)
    assert passes(method, before, {**lowered, "_x": 1, "info": HELLO2["info"]})
    assert passes(method, HELLO2, {"protocolVersion": 1})
    assert passes(method, {"protocolVersion": 2}, {"protocolVersion": 1, "clientCapabilities": {}})


@pytest.mark.parametrize("method", ["initialize", "proxy/initialize"])
def test_a_client_may_be_said_to_do_less(method: str) -> None:
    less: list[Object | None] = [{}, {"fs": {}}, {"fs": {"readTextFile": False}}, None]
    for capabilities in less:
        assert passes(method, HELLO, {**HELLO, "clientCapabilities": capabilities})
    assert passes(method, HELLO, {k: v for k, v in HELLO.items() if k != "clientCapabilities"})
    harmless = {"fs": {"readTextFile": True}, "terminal": False, "Terminal": None}
    assert passes(method, HELLO, {**HELLO, "clientCapabilities": harmless})
    assert passes(method, {}, {"clientCapabilities": {}})
    assert passes(method, HELLO2, {**HELLO2, "capabilities": {"elicitation": None}})
    marked = {**HELLO2, "capabilities": {"_meta": {"example.com/x": True}}}
    assert passes(method, HELLO2, marked)


def test_an_agent_may_be_said_to_do_less() -> None:
    able = {**AGENT, "agentCapabilities": {"loadSession": True, "mcpCapabilities": {"http": True}}}
    assert may_answer("initialize", {**AGENT, "agentCapabilities": {}}, able)
    claims_nothing = {"loadSession": True, "promptCapabilities": None, "x": False}
    assert may_answer("initialize", {**AGENT, "agentCapabilities": claims_nothing}, able)
    assert may_answer("initialize", {**AGENT, "authMethods": []}, AGENT)
    less = {k: v for k, v in AGENT.items() if k != "authMethods"}
    assert may_answer("initialize", less, AGENT)
    for name, capabilities in (
        ("agentCapabilities", {"mcpCapabilities": {"acp": True}}),
        ("capabilities", {"session": {"mcp": {"acp": {}}}}),
    ):
        base = AGENT if name == "agentCapabilities" else AGENT2
        assert may_answer("initialize", {**base, name: capabilities}, base)


@pytest.mark.parametrize(
    ("place", "capability", "methods"),
    [
        ("agentCapabilities", {"loadSession": True}, "session/load"),
        ("agentCapabilities", {"sessionCapabilities": {"fork": {}}}, "session/fork"),
        ("agentCapabilities", {"sessionCapabilities": {"list": {}}}, "session/list"),
        ("capabilities", {"session": {"fork": {}}}, "session/fork"),
    ],
)
def test_what_a_component_answers_it_may_promise(
    place: str, capability: object, methods: str
) -> None:
    base = AGENT if place == "agentCapabilities" else AGENT2
    after = {**base, place: capability}
    assert not may_answer("initialize", after, base)
    able = Context(answerable=frozenset(methods.split()))
    assert may_answer("initialize", after, base, context=able)


def test_nothing_is_promised_that_a_guard_forbids_to_answer() -> None:
    after = {**AGENT, "agentCapabilities": {"sessionCapabilities": {"archive": {}}}}
    methods = frozenset({"session/archive", "session/unarchive"})
    assert not may_answer("initialize", after, AGENT, context=Context(answerable=methods))
    lifted = Context(answerable=methods, lifted=frozenset({"session-lifecycle"}))
    assert may_answer("initialize", after, AGENT, context=lifted)
    half = Context(
        answerable=frozenset({"session/archive"}), lifted=frozenset({"session-lifecycle"})
    )
    assert not may_answer("initialize", after, AGENT, context=half)


@pytest.mark.parametrize("method", USES)
def test_own_servers_may_be_used_and_served(method: str) -> None:
    name, other = USES[method]
    for address in ("mine", "my-connection", "acp:mine"):
        params = {name: address, other: {"x": 1}, "params": {"url": "theirs"}}
        assert may_send(method, params)
        assert may_answer(method, {"result": 1, "connectionId": "new"}, None, params)
        assert passes(method, params, {**params, other: 2})
        assert may_answer(method, {"result": 2}, {"result": 1}, params)
    theirs = {name: "theirs", other: 1}
    assert may_answer(method, {"result": [1]}, {"result": [1]}, theirs)


@pytest.mark.parametrize(
    ("params", "addresses"),
    [
        ({"mcpServers": [MINE, THEIRS, STDIO, HTTP]}, "mine theirs"),
        ({"mcpServers": [{"type": "acp", "name": "n", "id": "old"}]}, "old"),
        ({"mcpServers": [{"type": "http", "name": "n", "url": "acp:u"}]}, "acp:u u"),
        ({"mcp_servers": [{"name": "n", "url": "acp:u"}]}, "acp:u u"),
        ({"mcpServers": [{"type": "scp", "name": "n"}]}, "n"),
        (
            {"tools": {"mcpServers": {"k": {"type": "scp"}, "l": MINE, "x": {"url": "acp:u"}}}},
            "k mine acp:u u",
        ),
        ({"mcpServers": {"k": {"transport": "http", "url": "acp:u"}}}, "acp:u u"),
        ({"mcpServers": "mine", "tools": ["mine"], "x": [MINE]}, ""),
        ({"mcpServers": [None, 1, "x", {"type": "acp", "serverId": 1}, {"url": 1}]}, ""),
        ([MINE], ""),
    ],
)
def test_declared_finds_the_addresses_of_every_generation(params: object, addresses: str) -> None:
    raw = Raw(json.dumps(params).encode())
    for method in (*SETUPS, "Session/New"):
        assert declared(method, raw) == frozenset(addresses.split())
    assert declared("session/prompt", raw) == frozenset()


@pytest.mark.parametrize("raw", [UNSET, Raw(b"{"), Raw(b"\xff"), Raw(b"null")])
def test_what_cannot_be_read_declares_and_connects_nothing(raw: Raw | UnsetType) -> None:
    assert declared("session/new", raw) == frozenset()
    assert connected("mcp/connect", raw) == frozenset()


def test_declared_sees_what_is_said_twice() -> None:
    raw = Raw(b'{"mcpServers":[],"mcpServers":[{"type":"acp","serverId":"a","serverId":"b"}]}')
    assert declared("session/new", raw) == {"a", "b"}


def test_connected_finds_the_connection() -> None:
    assert connected("mcp/connect", Raw(b'{"connectionId":"c"}')) == {"c"}
    assert connected("_mcp/connect", b'{"connection_id":"c"}') == {"c"}
    assert connected("mcp/connect", Raw(b'{"connectionId":1}')) == frozenset()
    assert connected("mcp/message", Raw(b'{"connectionId":"c"}')) == frozenset()
