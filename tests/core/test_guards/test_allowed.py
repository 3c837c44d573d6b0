"""Acts that the guards leave be: a guard that refuses everything would be no guard."""

import json

import msgspec
import pytest
from msgspec import UNSET, Raw

from conductor.core.guards import (
    Context,
    answered,
    forwarded,
    originated,
)
from conductor.core.policy.key_table import SETTINGS
from tests.core.test_guards.attack import PLAIN, granted
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

NARROW = granted(permission="narrow")


@pytest.mark.proves("the guards neither read nor refuse")
@pytest.mark.parametrize("params", [b'{"a":1,"a":2}', b"[1,2]", b"{", b"\xff", b"NaN", b""])
def test_the_same_bytes_are_never_looked_at(params: bytes) -> None:
    for method in (*SEALED, *SETUPS, "initialize", "session/update", "_x/y"):
        assert forwarded(PLAIN, "down", method, Raw(params), Raw(params)) is None
        same = (b"result", params)
        assert answered(PLAIN, "up", method, UNSET, b"result", params, same) is None
    assert forwarded(PLAIN, "up", "session/cancel", UNSET, UNSET) is None


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
        assert forwarded(PLAIN, "down", method, Raw(before), Raw(after)) is None
        given = (b"result", before)
        if method != "initialize":
            assert answered(PLAIN, "up", method, UNSET, b"result", after, given) is None


def test_no_params_and_null_are_the_same() -> None:
    for before, after in ((UNSET, Raw(b"null")), (Raw(b"null"), UNSET), (UNSET, Raw(b"{}"))):
        for method in (*SEALED, "initialize", "session/update", "session/request_permission"):
            assert forwarded(PLAIN, "down", method, before, after) is None
    assert originated(PLAIN, "down", "_x/y", UNSET) is None
    assert originated(PLAIN, "down", "_x/y", Raw(b"null")) is None


def test_repeated_names_of_others_may_stay_where_they_were() -> None:
    before = b'{"prompt":[],"_meta":{"x":{"a":1,"a":2}}}'
    after = b'{"prompt":[{"type":"text"}],"_meta":{"x":{"a":1, "a":2}}}'
    assert forwarded(PLAIN, "down", "session/prompt", Raw(before), Raw(after)) is None
    other = after.replace(b'"a":2', b'"a":3')
    assert forwarded(PLAIN, "down", "session/prompt", Raw(before), Raw(other)) is not None
    given = (b"result", before)
    assert answered(PLAIN, "up", "_x/y", UNSET, b"result", after, given) is None


@pytest.mark.parametrize("method", ["_x/y", "_Vendor/Ask", "_scp/other"])
def test_extension_methods_are_a_matter_of_grants(method: str) -> None:
    context = granted(methods=("_x/*", "_Vendor/Ask", "_vendor/ask", "_scp/other"))
    assert may_send(method, {"a": [1.5, True, None]}, context)
    assert passes(method, {"sessionId": "s", "a": 1}, {"sessionId": "s", "b": [2]}, context)
    assert may_answer(method, {}, None, context=context)
    assert may_answer(method, [1], {"a": 1}, context=context)


def test_methods_of_the_editor_are_a_matter_of_grants() -> None:
    context = granted(editor=("panel", "comment", "operation", "browser", "log"))
    for method in (
        *("_scp/html_panel", "_scp/file_comment", "_scp/ide_operation", "_scp/log"),
        "_zed/open_url",
    ):
        assert originated(context, "up", method, Raw(b'{"a":1}')) is None
        assert forwarded(context, "up", method, Raw(b'{"a":1}'), Raw(b'{"a":2}')) is not None
        assert originated(context, "down", method, Raw(b'{"a":1}')) is not None
    panel = granted(editor=("panel",))
    scripts = Raw(b'{"id":"w","scripts":true}')
    assert originated(panel, "up", "_scp/html_panel/show", Raw(b'{"scripts":false}')) is None
    refused = originated(panel, "up", "_scp/html_panel/show", scripts)
    assert refused is not None
    assert (refused.guard, refused.pointer) == ("editor", "/scripts")
    widget = granted(editor=("panel", "widget"))
    assert originated(widget, "up", "_scp/html_panel/show", scripts) is None
    assert originated(panel, "up", "_scp/panel/new", UNSET) is None
    assert originated(panel, "up", "_zed/open_url", UNSET) is not None


def test_what_an_agent_may_ask_of_a_client_is_a_matter_of_grants() -> None:
    context = granted(editor=("read", "terminal"))
    home = context.folders[0]

    def judged(context: Context, method: str, **params: object) -> str:
        found = originated(context, "up", method, Raw(json.dumps(params).encode()))
        return "" if found is None else found.guard

    unknown = msgspec.structs.replace(context, known=False, of_client=False)
    for path, guard in (
        (f"{home}/a", ""),
        ("/etc/passwd", "sealed"),
        ("a", "sealed"),
        (1, "sealed"),
    ):
        assert judged(context, "fs/read_text_file", path=path) == guard
        assert judged(PLAIN, "fs/read_text_file", path=path) == "sealed"
        assert judged(unknown, "fs/read_text_file", path=path) == "sealed"
    assert judged(context, "terminal/create", command="ls") == ""
    assert judged(unknown, "terminal/create", command="ls") == "sealed"
    assert judged(PLAIN, "terminal/create", command="ls") == "sealed"
    opened = msgspec.structs.replace(context, terminals=frozenset({"t"}))
    for of, params, guard in (
        (opened, {"terminalId": "t"}, ""),
        (opened, {"terminalId": "u"}, "sealed"),
        (opened, {"terminalId": ["t"]}, "sealed"),
        (opened, {"terminal_id": "t"}, "sealed"),
        (opened, {"terminalId": "t", "terminal_id": "u"}, "sealed"),
        (opened, {}, "sealed"),
        (context, {"terminalId": "t"}, "sealed"),
    ):
        for word in ("output", "wait_for_exit", "kill", "release"):
            assert judged(of, f"terminal/{word}", **params) == guard


def test_cancelling_is_judged_by_the_engine() -> None:
    assert may_send("session/cancel", {"sessionId": "s"})
    twice = Raw(b'{"requestId":1,"requestId":2,"_meta":{"x":1}}')
    assert originated(PLAIN, "down", "$/cancel_request", twice) is None


def test_prompts_may_be_rewritten() -> None:
    prompt = {"sessionId": "s", "prompt": [{"type": "text", "text": "a"}], "_meta": {"k": 1}}
    assert passes("session/prompt", prompt, {**prompt, "prompt": []})
    assert passes("session/prompt", prompt, {**prompt, "_meta": {"k": 1, "example.com/x": {}}})
    assert passes("session/prompt", {"prompt": []}, {"prompt": [], "_meta": {"a.example/x": 1}})
    assert passes("session/prompt", {"prompt": [], "_meta": None}, {"prompt": []})
    assert may_send("session/prompt", prompt | {"_meta": {"a-b.c.d/e_f": 1}})
    assert may_answer("session/prompt", {"stopReason": "refusal"}, {"stopReason": "end_turn"})
    assert may_answer("session/prompt", {"stopReason": "end_turn"})


def test_errors_deny_and_so_are_right_where_nothing_came_back() -> None:
    error = b'{"code":-31900,"message":"no"}'
    for method in (*SEALED, *SETUPS, "initialize", "session/request_permission", "mcp/message"):
        if method in SETTINGS:
            continue  # of the agent's modes nobody else denies one
        for upstream in (None, (b"error", b'{"code":1}')):
            assert answered(PLAIN, "up", method, UNSET, b"error", error, upstream) is None
    assert answered(PLAIN, "up", "_x/y", UNSET, b"error", b"7", None) is not None
    assert answered(PLAIN, "up", "_x/y", UNSET, b"error", b'{"a":1,"a":2}', None) is not None


def test_an_error_from_behind_is_no_result_to_pass_on() -> None:
    for method in (*SEALED, "mcp/message", "initialize"):
        given = (b"error", b"{}")
        assert answered(PLAIN, "up", method, UNSET, b"result", b"{}", given) is not None


@pytest.mark.parametrize("request_", [V1, V2], ids=["v1", "v2"])
def test_permission_requests_may_be_narrowed(request_: dict[str, object]) -> None:
    for options in (
        [ALLOW, REJECT],
        [REJECT],
        [ALLOW, ALWAYS, REJECT],
        [REJECT, NEVER],
    ):
        after = {**request_, "options": options}
        assert passes("session/request_permission", request_, after, NARROW)
    for_ever = {**request_, "options": [ALLOW, ALWAYS, NEVER]}
    assert passes("session/request_permission", for_ever, {**for_ever, "options": [NEVER]}, NARROW)
    only_yes = {**request_, "options": [ALLOW, ALWAYS]}
    for options in ([ALLOW], []):
        after = {**only_yes, "options": options}
        assert passes("session/request_permission", only_yes, after, NARROW)


@pytest.mark.parametrize("request_", [V1, V2], ids=["v1", "v2"])
def test_permissions_may_be_refused(request_: dict[str, object]) -> None:
    method = "session/request_permission"
    never = {"outcome": {"outcome": "selected", "optionId": "v"}}
    for refusal in ({"outcome": {"outcome": "cancelled"}}, json.loads(NO), never):
        assert may_answer(method, refusal, None, request_, NARROW)
        assert may_answer(method, refusal, json.loads(YES), request_, NARROW)
    client = {**json.loads(YES), "_meta": {"k": 1}}
    text = json.dumps(client, indent=1).encode()
    asked = Raw(json.dumps(request_).encode())
    given = (b"result", json.dumps(client).encode())
    assert answered(PLAIN, "up", method, asked, b"result", text, given) is None
    assert may_answer(method, {**json.loads(NO), "_meta": {"k": 1}}, client, request_, NARROW)


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
    for name, ident in (
        ("tools-demo-2", "tools-demo-2:1"),
        ("fs_more", "mine:1"),
        ("mine__x", "mine:1/fs"),
        ("mine.fs", "mine.fs:1"),
        ("fss", "fss:1"),
        ("--", ":1"),
    ):
        named = {**MINE, "name": name, "serverId": ident}
        assert passes(method, CLIENT, {**CLIENT, "mcpServers": [STDIO, HTTP, named]})
    numbered = [{**MINE, "name": f"tools-{i}", "serverId": f"tools:{i}"} for i in range(10)]
    assert passes(method, CLIENT, {**CLIENT, "mcpServers": [STDIO, HTTP, *numbered]})


OWN = msgspec.structs.replace(
    granted(sessions="own"), own_sessions={"in-use": ("/w", "/home/me/proj")}
)


def test_sessions_of_its_own_are_a_matter_of_grants() -> None:
    setup = {"cwd": "/w/a", "additionalDirectories": ["/home/me/proj"], "mcpServers": [MINE]}
    for method in SETUPS:
        named = {} if method == "session/new" else {"sessionId": "in-use"}
        assert may_send(method, {**setup, **named}, OWN)
        assert may_send(method, {"cwd": "/w", **named, "additionalDirectories": None}, OWN)
        assert not may_send(method, {"cwd": "/", **named, "mcpServers": [STDIO]}, OWN)
    held = msgspec.structs.replace(OWN, prompted=frozenset({"s"}))
    assert may_send("session/fork", {"cwd": "/w", "sessionId": "s"}, held)
    assert not may_send("session/load", {"cwd": "/w", "sessionId": "s"}, held)
    for method in ("session/new", "session/fork"):
        assert may_answer(method, {"sessionId": "fresh"}, None, context=OWN)
    for result in ({}, {"sessionId": "a"}, None):
        assert may_answer("session/load", result, None, {"sessionId": "a"}, OWN)


def test_the_result_of_a_setup_may_be_amended_by_what_was_granted() -> None:
    modes = {"currentModeId": "ask", "availableModes": [{"id": "ask"}]}
    result = {"sessionId": "s", "modes": modes, "models": {}, "configOptions": [{"id": "model"}]}
    assert may_answer("session/new", {**result, "_meta": {"example.com/x": 1}}, result)
    context = granted(options=True, commands=("plan",))
    options = [{"id": "model"}, {"configId": "tone"}]
    after = {**result, "configOptions": options}
    assert may_answer("session/new", after, result, context=context)
    listed = {**after, "availableCommands": [{"name": "plan", "description": "p"}]}
    assert may_answer("session/new", listed, result, context=context)
    for before in ({"sessionId": "s"}, {"sessionId": "s", "modes": None}):
        with_options = {**before, "configOptions": [{"id": "tone"}]}
        assert may_answer("session/load", with_options, before, context=context)
    assert may_answer("session/load", None, None, context=OWN)
    given = (b"result", b"[1]")
    assert answered(PLAIN, "up", "session/load", UNSET, b"result", b"[ 1]", given) is None


@pytest.mark.parametrize("method", ["session/list", "session/status"])
def test_entries_of_a_list_may_vanish(method: str) -> None:
    entries = [{"sessionId": one, "cwd": f"/{one}"} for one in "abcd"]
    page = {"sessions": entries, "nextCursor": "c"}
    for kept in ([], entries[1:], entries[:2], [entries[0], entries[3]]):
        assert may_answer(method, {**page, "sessions": kept}, page)
        assert may_answer(method, {**page, "sessions": kept, "_meta": {"a.b/c": 1}}, page)
    there = {"sessionId": "in-use", "cwd": "/w", "additionalDirectories": ["/home/me/proj"]}
    own = [there, *entries[1:], {"sessionId": "in-use"}]
    assert may_answer(method, {**page, "sessions": own}, page, context=OWN)
    assert not may_answer(method, {**page, "sessions": own}, page)
