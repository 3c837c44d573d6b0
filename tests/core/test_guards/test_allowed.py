"""What the guards leave be: a guard that refuses everything would be no guard."""

from __future__ import annotations

import json

import pytest
from msgspec import UNSET, Raw

from conductor.core.guards import (
    Context,
    answered,
    forwarded,
    originated,
)
from tests.core.test_guards.attack import CONTEXT
from tests.core.test_guards.routes import SETUPS, may_answer, may_send, passes
from tests.core.test_guards.samples import (
    ALLOW,
    ALWAYS,
    CLIENT,
    HTTP,
    MINE,
    NEVER,
    NO,
    REJECT,
    SEALED,
    STDIO,
    V1,
    V2,
    YES,
)


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


def test_cancelling_is_judged_by_the_router() -> None:
    twice = Raw(b'{"requestId":1,"requestId":2,"_meta":{"x":1}}')
    assert originated(CONTEXT, "down", "$/cancel_request", twice) is None


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
        for upstream in (None, (b"result", b"{}"), (b"error", b'{"code":1}')):
            assert answered(CONTEXT, "up", method, UNSET, b"error", error, upstream) is None
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
        none_yet = {"tools": {"mcpServers": None}}
        assert passes(method, none_yet, {"tools": {"mcpServers": {name: entry}}})
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
