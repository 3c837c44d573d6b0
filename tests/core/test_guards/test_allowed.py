"""What the guards leave be: a guard that refuses everything would be no guard."""

from __future__ import annotations

import json

import pytest
from msgspec import UNSET, Raw, UnsetType

from conductor.core.guards import (
    Context,
    answered,
    connected,
    declared,
    forwarded,
    originated,
)
from tests.core.test_guards.attack import CONTEXT
from tests.core.test_guards.samples import (
    AGENT,
    AGENT2,
    ALLOW,
    ALWAYS,
    CALL,
    CLIENT,
    HELLO,
    HELLO2,
    HTTP,
    MINE,
    NEVER,
    NO,
    REJECT,
    SEALED,
    STDIO,
    THEIRS,
    USES,
    V1,
    V2,
    YES,
)

SETUPS = ("session/new", "session/load", "session/resume", "session/fork")


def passes(method: str, before: object, after: object, context: Context = CONTEXT) -> bool:
    """Whether one message may be passed on as another."""
    texts = (Raw(json.dumps(params).encode()) for params in (before, after))
    return forwarded(context, "down", method, *texts) is None


def may_answer(
    method: str,
    result: object,
    upstream: object = None,
    request: object = None,
    context: Context = CONTEXT,
) -> bool:
    """Whether a result may be given; `upstream` is the one that was received, if any."""
    given = None if upstream is None else (b"result", json.dumps(upstream).encode())
    asked = UNSET if request is None else Raw(json.dumps(request).encode())
    body = json.dumps(result).encode()
    return answered(context, "up", method, asked, b"result", body, given) is None


def may_send(method: str, params: object, context: Context = CONTEXT) -> bool:
    """Whether a message may be a component's own."""
    held = UNSET if params is None else Raw(json.dumps(params).encode())
    return originated(context, "down", method, held) is None


@pytest.mark.parametrize("params", [b'{"a":1,"a":2}', b"[1,2]", b"{", b"\xff", b"NaN", b""])
def test_the_same_bytes_are_never_looked_at(params: bytes) -> None:
    for method in (*SEALED, *SETUPS, "initialize", "session/update", "_x/y"):
        assert forwarded(CONTEXT, "down", method, Raw(params), Raw(params)) is None
        same = (b"result", params)
        assert answered(CONTEXT, "up", method, UNSET, b"result", params, same) is None
    assert forwarded(CONTEXT, "up", "session/cancel", UNSET, UNSET) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'{"a": 1, "b":[]}', b'{"b":[ ],"a":1}'),
        (b'{"a":"\\u0041\\/"}', b'{"\\u0061":"A/"}'),
        (b'{"a":"\\ud83d\\ude00"}', '{"a":"\N{GRINNING FACE}"}'.encode()),
        (b'{"a":"\\uD800"}', b'{"a": "\\ud800"}'),
    ],
)
def test_another_spelling_of_the_same_values_passes(before: bytes, after: bytes) -> None:
    for method in (*SEALED, *SETUPS, "initialize", "session/prompt"):
        assert forwarded(CONTEXT, "down", method, Raw(before), Raw(after)) is None
        given = (b"result", before)
        if method != "initialize":
            assert answered(CONTEXT, "up", method, UNSET, b"result", after, given) is None


def test_no_params_and_null_are_the_same() -> None:
    for before, after in ((UNSET, Raw(b"null")), (Raw(b"null"), UNSET), (UNSET, Raw(b"{}"))):
        for method in (*SEALED, "initialize", "session/update", "session/request_permission"):
            assert forwarded(CONTEXT, "down", method, before, after) is None
    assert originated(CONTEXT, "down", "_x/y", UNSET) is None
    assert originated(CONTEXT, "down", "_x/y", Raw(b"null")) is None


def test_repeated_names_of_others_may_stay_where_they_were() -> None:
    before = b'{"prompt":[],"_meta":{"x":{"a":1,"a":2}}}'
    after = b'{"prompt":[{"type":"text"}],"_meta":{"x":{"a":1, "a":2}}}'
    assert forwarded(CONTEXT, "down", "session/prompt", Raw(before), Raw(after)) is None
    other = after.replace(b'"a":2', b'"a":3')
    assert forwarded(CONTEXT, "down", "session/prompt", Raw(before), Raw(other)) is not None
    given = (b"result", before)
    assert answered(CONTEXT, "up", "_x/y", UNSET, b"result", after, given) is None


@pytest.mark.parametrize(
    "method", ["_x/y", "_Vendor/Ask", "_scp/log", "session/list", "$/cancel_request"]
)
def test_harmless_methods_may_be_originated(method: str) -> None:
    assert may_send(method, {"a": [1.5, True, None]})


def test_extensions_and_prompts_are_a_matter_of_verbs() -> None:
    assert passes("_x/y", {"sessionId": "s", "a": 1}, {"sessionId": "s", "b": [2]})
    assert passes("session/list", {"cwd": "/w"}, {"cwd": "/v"})
    prompt = {"sessionId": "s", "prompt": [{"type": "text", "text": "a"}], "_meta": {"k": 1}}
    assert passes("session/prompt", prompt, {**prompt, "prompt": []})
    assert passes("session/prompt", prompt, {**prompt, "_meta": {"k": 1, "example.com/x": {}}})
    assert passes("session/prompt", {"prompt": []}, {"prompt": [], "_meta": {"a.example/x": 1}})
    assert passes("session/prompt", {"prompt": [], "_meta": None}, {"prompt": []})
    assert may_send("session/prompt", prompt | {"_meta": {"a-b.c.d/e_f": 1}})
    assert may_answer("session/prompt", {"stopReason": "refusal"}, {"stopReason": "end_turn"})
    assert may_answer("session/prompt", {"stopReason": "end_turn"})
    assert may_answer("session/new", {"sessionId": "of-its-own"})
    assert may_answer("_x/y", [1], {"a": 1})


def test_errors_deny_and_so_are_always_right() -> None:
    error = b'{"code":-32000,"message":"no"}'
    for method in (*SEALED, *SETUPS, "initialize", "session/request_permission", "mcp/message"):
        for upstream in (None, (b"result", b"{}"), (b"error", b'{"code":1}'), (b"error", b"\xff")):
            found = answered(CONTEXT, "up", method, UNSET, b"error", error, upstream)
            if upstream is None or upstream[1] != b"\xff":
                assert found is None
    assert answered(CONTEXT, "up", "_x/y", UNSET, b"error", b"7", None) is not None
    assert answered(CONTEXT, "up", "_x/y", UNSET, b"error", b'{"a":1,"a":2}', None) is not None


def test_an_error_from_behind_is_no_result_to_pass_on() -> None:
    for method in (*SEALED, "mcp/message", "initialize"):
        given = (b"error", b"{}")
        assert answered(CONTEXT, "up", method, UNSET, b"result", b"{}", given) is not None


@pytest.mark.parametrize("request_", [V1, V2], ids=["v1", "v2"])
def test_permission_requests_may_be_narrowed(request_: dict[str, object]) -> None:
    for options in (
        [ALLOW, REJECT],
        [REJECT],
        [NEVER],
        [ALLOW, NEVER],
        [ALLOW, ALWAYS, REJECT],
        [REJECT, NEVER],
    ):
        assert passes("session/request_permission", request_, {**request_, "options": options})
    only_yes = {**request_, "options": [ALLOW, ALWAYS]}
    assert passes("session/request_permission", only_yes, {**only_yes, "options": [ALLOW]})
    assert passes("session/request_permission", only_yes, {**only_yes, "options": []})


@pytest.mark.parametrize("request_", [V1, V2], ids=["v1", "v2"])
def test_permissions_may_be_refused(request_: dict[str, object]) -> None:
    method = "session/request_permission"
    never = {"outcome": {"outcome": "selected", "optionId": "v"}}
    for refusal in ({"outcome": {"outcome": "cancelled"}}, json.loads(NO), never):
        assert may_answer(method, refusal, None, request_)
        assert may_answer(method, refusal, json.loads(YES), request_)
    client = {**json.loads(YES), "_meta": {"k": 1}}
    text = json.dumps(client, indent=1).encode()
    asked = Raw(json.dumps(request_).encode())
    given = (b"result", json.dumps(client).encode())
    assert answered(CONTEXT, "up", method, asked, b"result", text, given) is None
    assert may_answer(method, {**json.loads(NO), "_meta": {"k": 1}}, client, request_)


@pytest.mark.parametrize("method", SETUPS)
def test_servers_reached_over_the_channel_may_be_appended(method: str) -> None:
    for entry in (
        MINE,
        {"type": "acp", "name": "x", "id": "new"},
        {**MINE, "_meta": {"example.com/x": 1}},
        {"type": "http", "name": "x", "url": "acp:550e8400-e29b", "headers": []},
        {"transport": "http", "name": "x", "url": "acp:mcp-server:1", "headers": {}},
        {"name": "x", "url": "acp:mine"},
        {"type": "scp", "name": "x"},
    ):
        other = {"type": "acp", "name": "other", "serverId": "other"}
        for servers in ([STDIO, HTTP, entry], [STDIO, HTTP, other, entry]):
            assert passes(method, CLIENT, {**CLIENT, "mcpServers": servers})
        for before in ({"cwd": "/"}, {"cwd": "/", "mcpServers": None}):
            assert passes(method, before, {"cwd": "/", "mcpServers": [entry]})
        keyed = {"tools": {"mcpServers": {"fs": STDIO}}}
        name = str(entry["name"])
        nameless = {k: v for k, v in entry.items() if k != "name"}
        for value in (entry, nameless):
            after = {"tools": {"mcpServers": {"fs": STDIO, name: value}}}
            assert passes(method, keyed, after)
            assert passes(method, {}, {"tools": {"mcpServers": {name: value}}})
        assert passes(method, {}, {"mcp_servers": [entry]})
    assert passes(method, {}, {"mcpServers": []})
    assert passes(method, CLIENT, {**CLIENT, "_meta": {"example.com/x": 1}})


def test_a_lifted_guard_leaves_the_others() -> None:
    context = Context(lifted=frozenset({"own-sessions"}))
    assert may_send("session/new", {"cwd": "/", "mcpServers": [MINE]}, context)
    assert not may_send("session/new", {"cwd": "/", "mcpServers": [STDIO]}, context)
    lifted = Context(lifted=frozenset({"session-setup"}))
    assert passes("session/new", CLIENT, {**CLIENT, "cwd": "/"}, lifted)
    assert not passes("session/new", CLIENT, {**CLIENT, "mcpServers": [STDIO]}, lifted)


def test_the_result_of_a_setup_may_be_amended() -> None:
    result = {"sessionId": "s", "modes": {"currentModeId": "ask"}, "configOptions": []}
    assert may_answer("session/new", {**result, "availableCommands": []}, result)
    assert may_answer("session/load", {}, None)
    assert may_answer("session/load", None, "odd")


def updated(before: object, after: object) -> bool:
    """Whether one session update may be passed on as another."""
    return passes(
        "session/update", {"sessionId": "s", "update": before}, {"sessionId": "s", "update": after}
    )


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
    for params in ({"update": "word"}, {"update": {}}, {"update": {"sessionUpdate": 1}}, {}):
        text = json.dumps(params)
        respelled = Raw(f" {text}".encode())
        assert forwarded(CONTEXT, "up", "session/update", Raw(text.encode()), respelled) is None


@pytest.mark.parametrize("method", ["initialize", "proxy/initialize"])
def test_a_client_may_be_said_to_do_less(method: str) -> None:
    for capabilities in ({}, {"fs": {}}, {"fs": None}, {"fs": {"readTextFile": False}}, None):
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
    assert may_answer("initialize", AGENT, able)
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
