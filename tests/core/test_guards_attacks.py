"""Every guard against those who try to get past it, by every route.

Each attack is refused; by the guard it is meant for even if all others are lifted; and no longer
by that guard once it is lifted itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec
import pytest
from msgspec import UNSET, Raw, UnsetType

from conductor.core.guards import (
    GUARDS,
    Context,
    Violation,
    answered,
    forwarded,
    originated,
)

ALL = frozenset(guard.name for guard in GUARDS)
CONTEXT = Context(
    version=1,
    servers=frozenset({"mine", "my-connection", "acp:mine"}),
    foreign=frozenset({"theirs", "their-connection", "acp:theirs"}),
)
Route = Callable[[Context], Violation | None]
Text = str | UnsetType


class Attack(msgspec.Struct, frozen=True):
    """What is tried, and the guard it runs into."""

    guard: str
    what: str
    route: Route


ATTACKS: list[Attack] = []


def _raw(text: Text) -> Raw | UnsetType:
    return text if isinstance(text, UnsetType) else Raw(text.encode())


def passes_on(guard: str, what: str, method: str, before: Text, after: Text) -> None:
    """A message changed on its way."""

    def route(context: Context) -> Violation | None:
        return forwarded(context, "down", method, _raw(before), _raw(after))

    ATTACKS.append(Attack(guard, f"forwarded: {what}", route))


def makes_up(guard: str, what: str, method: str, params: Text = "{}") -> None:
    """A message of the component's own."""

    def route(context: Context) -> Violation | None:
        return originated(context, "up", method, _raw(params))

    ATTACKS.append(Attack(guard, f"originated: {what}", route))


def answers(
    guard: str,
    what: str,
    method: str,
    result: str,
    upstream: str | None = None,
    request: Text = "{}",
) -> None:
    """A result, of its own or (with `upstream`) changed on its way."""
    given = None if upstream is None else (b"result", upstream.encode())

    def route(context: Context) -> Violation | None:
        return answered(context, "up", method, _raw(request), b"result", result.encode(), given)

    ATTACKS.append(Attack(guard, f"answered: {what}", route))


# ------------------------------------------------------------------ JSON that is read in two ways

SETUP = '{"cwd":"/w","mcpServers":[]}'
for what, after in {
    "two commands": '{"cwd":"/w","mcpServers":[{"name":"x","command":"a","command":"b"}]}',
    "two types": '{"cwd":"/w","mcpServers":[{"type":"acp","name":"x","serverId":"m","type":"http"}]}',
    "an escaped twin": '{"cwd":"/w","mcpServers":[],"_meta":{"a.b/c":1,"\\u0061.b/c":2}}',
    "two lists": '{"cwd":"/w","mcpServers":[],"mcpServers":[{"command":"sh","name":"x"}]}',
    "half a surrogate pair in a name": '{"cwd":"/w","mcpServers":[],"_meta":{"a.b/\\ud800":1}}',
    "an array": "[]",
    "a text": '"session"',
    "a number": "1",
}.items():
    passes_on("duplicate-keys", what, "session/new", SETUP, after)
passes_on(
    "duplicate-keys", "deep inside a block", "session/prompt", "{}", '{"prompt":[{"a":1,"a":2}]}'
)
passes_on("duplicate-keys", "no JSON", "_x/y", "{}", '{"a":NaN}')
passes_on("duplicate-keys", "what came was no object", "_x/y", "[1]", '{"a":1}')
passes_on("duplicate-keys", "what came was ambiguous", "_x/y", '{"a":1,"a":2}', '{"a":1}')
makes_up("duplicate-keys", "twice", "_x/y", '{"a":{"b":[{"c":1,"c":1}]}}')
makes_up("duplicate-keys", "an array", "_x/y", "[]")
answers("duplicate-keys", "twice", "_x/y", '{"a":1,"a":2}')
answers("duplicate-keys", "twice, relayed once", "_x/y", '{"a":1,"a":2}', '{"a":1}')

# ----------------------------------------------------------------------------------------- methods

for method in (
    "FS/write_text_file",
    "Fs/new_thing",
    "fs\u2215write_text_file",
    "\uff46\uff53/write_text_file",
    "f\u0455/write_text_file",
    "Session/Request_Permission",
    "session/requestPermission",
    "session/request_permission ",
    " session/new",
    "session/\u200bnew",
    "/session/new",
    "session//new",
    "session\\new",
    "session/new\x00",
    "_session/new",
    "Initialize",
    "PROXY/successor",
    "Proxy/Something",
    "_Conductor/clock",
    "$/Cancel_Request",
    "",
    "x" * 300,
):
    makes_up("method-spelling", f"{method[:40]!a}", method)
for method in (
    "initialize",
    "proxy/initialize",
    "_proxy/initialize",
    "proxy/successor",
    "_proxy/successor",
    "_proxy/successor/request",
    "_proxy/successor/send/request",
    "_proxy/anything",
    "_conductor/clock",
    "_scp/proxy",
):
    makes_up("conductor-methods", method, method)
for method in ("session/teleport", "workspace/run", "$/progress", "x"):
    makes_up("unknown-methods", method, method)

# --------------------------------------------------------------------------- sessions and metadata

for method in ("session/prompt", "session/update", "session/cancel", "_x/y", "session/list"):
    passes_on("session-target", method, method, '{"sessionId":"a"}', '{"sessionId":"b"}')
passes_on("session-target", "gone", "session/prompt", '{"sessionId":"a"}', "{}")
passes_on("session-target", "gone altogether", "session/prompt", '{"sessionId":"a"}', UNSET)
passes_on("session-target", "added", "session/prompt", "{}", '{"sessionId":"a"}')
passes_on(
    "session-target", "an older name", "_mcp/connect", '{"session_id":"a"}', '{"session_id":"b"}'
)
passes_on(
    "session-target",
    "another case beside it",
    "_x/y",
    '{"sessionId":"a"}',
    '{"sessionId":"a","SessionID":"b"}',
)
passes_on("session-target", "a look-alike", "_x/y", "{}", '{"sessi\\u2134nId":"b"}')
passes_on("session-target", "a number respelled", "_x/y", '{"sessionId":1.10}', '{"sessionId":1.1}')
answers(
    "session-target", "a new session's id", "session/new", '{"sessionId":"b"}', '{"sessionId":"a"}'
)
answers("session-target", "no object", "session/fork", "null", '{"sessionId":"a"}')
answers("session-target", "no object, without an id", "session/load", "[]", "{}")
makes_up("session-target", "a look-alike", "session/prompt", '{"session-id":"a"}')

OPTIONS = '{"claudeCode":{"options":{"mcpServers":{"x":{"command":"sh"}}}}}'
for what, before, after in (
    ("options of an agent", '{"cwd":"/w"}', f'{{"cwd":"/w","_meta":{OPTIONS}}}'),
    ("an escaped name", "{}", f'{{"_met\\u0061":{OPTIONS}}}'),
    ("somebody's value", '{"_meta":{"a.b/c":1}}', '{"_meta":{"a.b/c":2}}'),
    ("a number respelled", '{"_meta":{"a.b/c":1.10}}', '{"_meta":{"a.b/c":1.1}}'),
    ("somebody's key", '{"_meta":{"a":1,"b":2}}', '{"_meta":{"a":1}}'),
    ("all of it", '{"_meta":{"a":1}}', "{}"),
    ("all of it, by null", '{"_meta":{"a":1}}', '{"_meta":null}'),
    ("a text instead", '{"_meta":{}}', '{"_meta":"x"}'),
    ("for a text", '{"_meta":"x"}', '{"_meta":{}}'),
    ("trace context", "{}", '{"_meta":{"traceparent":"00-1-1-00"}}'),
    ("a reserved domain", "{}", '{"_meta":{"io.modelcontextprotocol/x":1}}'),
    ("another case", '{"_meta":{"a.b/c":1}}', '{"_meta":{"a.b/c":1,"A.b/c":2}}'),
    ("no domain", "{}", '{"_meta":{"x/y":1}}'),
    ("a very long key", "{}", '{"_meta":{"a.b/%s":1}}' % ("x" * 600)),
):
    passes_on("meta", what, "session/new", before, after)
    passes_on("meta", f"of an extension, {what}", "_x/y", before, after)
answers("meta", "a result's", "session/prompt", '{"stopReason":"end_turn"}', '{"_meta":{"a":1}}')
answers("meta", "a result of its own", "_x/y", '{"_meta":{"claudeCode":1}}')
makes_up("meta", "its own message", "session/prompt", f'{{"_meta":{OPTIONS}}}')
passes_on(
    "meta",
    "of a tool call",
    "session/update",
    '{"update":{"sessionUpdate":"tool_call","toolCallId":"t"}}',
    '{"update":{"sessionUpdate":"tool_call","toolCallId":"t","_meta":{"terminal_info":{}}}}',
)
makes_up(
    "meta",
    "of an update",
    "session/update",
    '{"update":{"sessionUpdate":"plan","_meta":{"terminal_info":{}}}}',
)
passes_on(
    "meta",
    "of a capability",
    "initialize",
    '{"clientCapabilities":{"fs":{"_meta":{"a":1}}}}',
    '{"clientCapabilities":{"fs":{"_meta":{"a":2}}}}',
)
passes_on(
    "meta",
    "of capabilities altogether",
    "initialize",
    '{"capabilities":{"_meta":{"terminal-auth":true}}}',
    "{}",
)
answers(
    "meta",
    "of an agent's capabilities",
    "initialize",
    '{"agentCapabilities":{"_meta":{"x":true}}}',
    '{"agentCapabilities":{}}',
)
passes_on(
    "meta",
    "of an added server",
    "session/new",
    SETUP,
    '{"cwd":"/w","mcpServers":[{"type":"acp","name":"x","serverId":"m","_meta":{"command":"sh"}}]}',
)

# ------------------------------------------------------------------------------------- permissions

ALLOW = {"optionId": "y", "name": "Yes", "kind": "allow_once"}
ALWAYS = {"optionId": "a", "name": "Always", "kind": "allow_always"}
REJECT = {"optionId": "n", "name": "No", "kind": "reject_once"}
NEVER = {"optionId": "v", "name": "Never", "kind": "reject_always"}
V1 = {
    "sessionId": "s",
    "toolCall": {"toolCallId": "t", "title": "rm", "rawInput": {"n": 1.5}},
    "options": [ALLOW, ALWAYS, REJECT, NEVER],
    "_meta": {"k": 1},
}
V2 = {
    "sessionId": "s",
    "title": "Run rm",
    "description": "It removes",
    "subject": {"type": "command", "command": "rm", "cwd": "/w"},
    "options": [ALLOW, ALWAYS, REJECT, NEVER],
}


def asks(what: str, before: dict[str, object], **changes: object) -> None:
    """A permission request with some members changed; `None` takes one out."""
    after = {k: v for k, v in {**before, **changes}.items() if v is not None}
    passes_on(
        "permission-widening",
        what,
        "session/request_permission",
        json.dumps(before),
        json.dumps(after),
    )


for version, request in (("v1", V1), ("v2", V2)):
    for what, options in {
        "an added option": [ALLOW, ALWAYS, REJECT, NEVER, {**ALLOW, "optionId": "z"}],
        "a renamed option": [{**ALLOW, "name": "No"}, ALWAYS, REJECT, NEVER],
        "another kind": [ALLOW, ALWAYS, {**REJECT, "kind": "allow_once"}, NEVER],
        "another id": [ALLOW, ALWAYS, {**REJECT, "optionId": "y"}, NEVER],
        "a member more": [{**ALLOW, "Kind": "reject_once"}, ALWAYS, REJECT, NEVER],
        "another order": [ALWAYS, ALLOW, REJECT, NEVER],
        "one twice": [ALLOW, ALLOW, REJECT],
        "no refusal left": [ALLOW, ALWAYS],
        "none left": [],
        "only the wider approval left": [ALWAYS, REJECT, NEVER],
        "no list": {},
        "none at all": None,
    }.items():
        asks(f"{version}, {what}", request, options=options)
    asks(f"{version}, other session", request, sessionId="other")
    asks(f"{version}, metadata", request, _meta={"k": 1, "a.b/c": 2})
    asks(f"{version}, an unknown member", request, autoApprove=True)
    asks(f"{version}, odd case", request, Options=[ALLOW])
for name in ("toolCall", "title", "description", "subject"):
    asks(f"{name} added or changed in v1", V1, **{name: {"title": "ls"}})
    asks(f"{name} added or changed in v2", V2, **{name: {"title": "ls"}})
asks("a number respelled", V1, toolCall={**V1["toolCall"], "rawInput": {"n": 15e-1 + 1e-9}})  # type: ignore[dict-item]
UNKNOWN_KIND = {"optionId": "u", "name": "?", "kind": "allow_forever"}
asks(
    "an unknown kind counts as wide",
    {"options": [ALLOW, UNKNOWN_KIND, REJECT]},
    options=[UNKNOWN_KIND, REJECT],
)

ASKED = json.dumps(V1)
TWINS = json.dumps({"options": [REJECT, {**ALLOW, "optionId": "n"}]})
SELECTED = '{"outcome":{"outcome":"selected","optionId":"%s"}}'
YES, ALWAYS_YES, NO = (SELECTED % name for name in "yan")
for what, result in {
    "allow_once": YES,
    "allow_always": ALWAYS_YES,
    "an option nobody offered": SELECTED % "zz",
    "odd case of the option": SELECTED % "N",
    "no object": "null",
    "an empty result": "{}",
    "a text outcome": '{"outcome":"cancelled"}',
    "allowed in odd case": '{"outcome":{"outcome":"Selected","optionId":"n"}}',
    "a number as option": '{"outcome":{"outcome":"selected","optionId":1}}',
    "a list as option": '{"outcome":{"outcome":"selected","optionId":["n"]}}',
    "both in one": '{"outcome":{"outcome":"cancelled","optionId":"y"}}',
    "two spellings": '{"outcome":{"outcome":"selected","optionId":"n","OptionId":"y"}}',
    "two outcomes": '{"outcome":{"outcome":"cancelled"},"Outcome":{"optionId":"y"}}',
    "metadata": '{"outcome":{"outcome":"cancelled"},"_meta":{"a.b/allow":true}}',
}.items():
    answers("permission-answers", what, "session/request_permission", result, None, ASKED)
    if result != YES:
        answers(
            "permission-answers",
            f"{what}, to a yes",
            "session/request_permission",
            result,
            YES,
            ASKED,
        )
    if result != NO:
        answers(
            "permission-answers",
            f"{what}, to a no",
            "session/request_permission",
            result,
            NO,
            ASKED,
        )
answers("permission-answers", "an id of two options", "session/request_permission", NO, None, TWINS)
for what, asked in {
    "ambiguous options": ASKED[:-1] + ',"options":[]}',
    "an ambiguous option": '{"options":[{"optionId":"n","kind":"reject_once","kind":"allow_once"}]}',
    "no options": "{}",
    "no list of options": '{"options":{}}',
    "nothing": UNSET,
    "no JSON": "{",
}.items():
    answers("permission-answers", what, "session/request_permission", NO, None, asked)
answers("permission-answers", "odd case", "Session/Request_Permission", YES, None, ASKED)
makes_up("permission-requests", "v1", "session/request_permission", ASKED)
makes_up("permission-requests", "v2", "session/request_permission", json.dumps(V2))
makes_up("permission-requests", "odd case", "session/Request_Permission", ASKED)

# ------------------------------------------------------------------------------- session and prompt

STDIO = {"name": "fs", "command": "mcp-fs", "args": [], "env": []}
HTTP = {"type": "http", "name": "web", "url": "https://x.example", "headers": []}
THEIRS = {"type": "acp", "name": "peer", "serverId": "theirs"}
MINE = {"type": "acp", "name": "mine", "serverId": "mine"}
CLIENT: dict[str, object] = {
    "cwd": "/w",
    "additionalDirectories": ["/lib"],
    "mcpServers": [STDIO, HTTP],
    "systemPrompt": {"mode": "append", "content": []},
    "x": 1.10,
}
BAD_SERVERS: dict[str, object] = {
    "a command": {"name": "x", "command": "sh", "args": ["-c", "id"], "env": []},
    "a typed command": {"type": "stdio", "name": "x", "command": "/bin/sh"},
    "a command beside an id": {**MINE, "command": "sh"},
    "a command in odd case": {**MINE, "Command": "sh"},
    "a URL": {**HTTP, "name": "x"},
    "a URL beside an id": {**MINE, "url": "https://x"},
    "a URL in odd case": {**MINE, "URL": "https://x"},
    "sse": {"type": "sse", "name": "x", "url": "https://x", "headers": []},
    "acp in odd case": {**MINE, "type": "ACP"},
    "an unknown type": {**MINE, "type": "ws"},
    "no type": {"name": "x", "serverId": "mine"},
    "two ids": {**MINE, "id": "mine"},
    "an id that is no text": {**MINE, "serverId": 1},
    "an empty id": {**MINE, "serverId": ""},
    "no name": {"type": "acp", "serverId": "mine"},
    "an empty name": {**MINE, "name": ""},
    "a name of control characters": {**MINE, "name": "x\x1b[2J"},
    "a taken name": {**MINE, "name": "fs"},
    "a taken name, nearly": {**MINE, "name": "FS "},
    "somebody's id": {**MINE, "serverId": "theirs"},
    "somebody's URL": {"type": "http", "name": "x", "url": "acp:theirs"},
    "a host behind acp:": {"type": "http", "name": "x", "url": "acp://x.example/"},
    "ACP: in odd case": {"type": "http", "name": "x", "url": "ACP:mine"},
    "a newline in the URL": {"type": "http", "name": "x", "url": "acp:mine\n"},
    "a URL that is no text": {"type": "http", "name": "x", "url": ["acp:mine"]},
    "headers": {"type": "http", "name": "x", "url": "acp:mine", "headers": [{"name": "a"}]},
    "two transports": {"type": "http", "transport": "http", "name": "x", "url": "acp:mine"},
    "another transport": {"transport": "stdio", "name": "x", "url": "acp:mine"},
    "a command beside acp:": {"name": "x", "url": "acp:mine", "command": "sh"},
    "scp and more": {"type": "scp", "name": "x", "command": "sh"},
    "somebody's scp name": {"type": "scp", "name": "theirs"},
    "a text": "sh",
    "a list": ["sh"],
}


def sets_up(guard: str, what: str, before: dict[str, object], after: object) -> None:
    """A session's setup changed on its way, for every method that has one."""
    for method in ("session/new", "session/load", "session/resume", "session/fork", "Session/New"):
        passes_on(guard, f"{method}, {what}", method, json.dumps(before), json.dumps(after))


for what, entry in BAD_SERVERS.items():
    sets_up("mcp-servers", what, CLIENT, {**CLIENT, "mcpServers": [STDIO, HTTP, entry]})
    if not what.startswith("a taken name"):
        makes_up("mcp-servers", what, "session/new", json.dumps({"mcpServers": [entry]}))
    key = entry.get("name") if isinstance(entry, dict) else None
    if what not in ("no name", "a taken name"):
        entries = {"fs": STDIO, str(key if key is not None else "x"): entry}
        keyed = {"tools": {"mcpServers": {"fs": STDIO}}}
        sets_up("mcp-servers", f"keyed, {what}", keyed, {"tools": {"mcpServers": entries}})
mismatch = {"tools": {"mcpServers": {"x": MINE}}}
sets_up("mcp-servers", "keyed by another name", {}, mismatch)
for what, servers in {
    "one removed": [STDIO],
    "all removed": [],
    "none": None,
    "another order": [HTTP, STDIO],
    "put before": [MINE, STDIO, HTTP],
    "a changed command": [{**STDIO, "command": "sh"}, HTTP],
    "a changed argument": [{**STDIO, "args": ["x"]}, HTTP],
    "an added variable": [{**STDIO, "env": [{"name": "LD_PRELOAD", "value": "x"}]}, HTTP],
    "a changed URL": [STDIO, {**HTTP, "url": "https://y"}],
    "an added header": [STDIO, {**HTTP, "headers": [{"name": "a", "value": "b"}]}],
    "a member in odd case": [{**STDIO, "Command": "sh"}, HTTP],
    "an object": {"fs": STDIO},
    "one name twice": [STDIO, HTTP, MINE, {**MINE, "serverId": "m2"}],
    "one id twice": [STDIO, HTTP, MINE, {**MINE, "name": "m2"}],
}.items():
    sets_up("mcp-servers", what, CLIENT, {**CLIENT, "mcpServers": servers})
KEYED = {"tools": {"mcpServers": {"fs": STDIO}}}
for what, held in {"changed": {"fs": HTTP}, "removed": {}, "a list": [STDIO], "null": None}.items():
    sets_up("mcp-servers", f"keyed: {what}", KEYED, {"tools": {"mcpServers": held}})
sets_up("mcp-servers", "snake case", {}, {"mcp_servers": [{"name": "x", "command": "sh"}]})
sets_up("mcp-servers", "under tools", CLIENT, {**CLIENT, **{"tools": {"mcpServers": {"x": STDIO}}}})
passes_on(
    "mcp-servers",
    "an escaped member name",
    "session/new",
    SETUP,
    '{"cwd":"/w","mcpServers":[{"name":"x","\\u0063ommand":"sh","args":[]}]}',
)

for what, change in {
    "cwd": {"cwd": "/"},
    "no cwd": {"cwd": None},
    "directories": {"additionalDirectories": ["/lib", "/"]},
    "roots": {"roots": ["/"]},
    "an unknown member": {"allowAll": True},
    "odd case of servers": {"McpServers": [{"name": "x", "command": "sh"}]},
    "odd case of cwd": {"CWD": "/"},
    "an unknown member changed": {"x": 1.1},
    "tools": {"tools": {"bash": True}},
    "tools that are no object": {"tools": ["bash"]},
}.items():
    before = json.dumps(CLIENT).replace("1.1", "1.10")
    for method in ("session/new", "session/load", "session/resume", "session/fork"):
        passes_on(
            "session-setup", f"{method}, {what}", method, before, json.dumps({**CLIENT, **change})
        )
sets_up("system-prompt", "changed", CLIENT, {**CLIENT, "systemPrompt": {"mode": "override"}})
sets_up(
    "system-prompt", "removed", CLIENT, {k: v for k, v in CLIENT.items() if k != "systemPrompt"}
)
sets_up("system-prompt", "added", {}, {"systemPrompt": {"mode": "append"}})
for method in ("session/new", "session/load", "session/resume", "session/fork", "SESSION/load"):
    makes_up("own-sessions", method, method, '{"cwd":"/","sessionId":"a"}')

for what, after in {
    "an added member": '{"sessionId":"s","prompt":[],"permissionMode":"bypass"}',
    "odd case": '{"sessionId":"s","prompt":[],"Prompt":[]}',
    "a changed member": '{"sessionId":"s","prompt":[],"messageId":"2"}',
    "a removed member": '{"sessionId":"s","prompt":[1]}',
}.items():
    before = '{"sessionId":"s","prompt":[],"messageId":"1"}'
    passes_on("prompt-options", what, "session/prompt", before, after)

# ------------------------------------------------------------------------- what is only passed on

SEALED = {
    "fs/read_text_file": "files",
    "fs/write_text_file": "files",
    "fs/delete_file": "files",
    "terminal/create": "terminals",
    "terminal/output": "terminals",
    "terminal/release": "terminals",
    "terminal/wait_for_exit": "terminals",
    "terminal/kill": "terminals",
    "terminal/cancel": "terminals",
    "elicitation/create": "elicitation",
    "elicitation/complete": "elicitation",
    "authenticate": "authentication",
    "logout": "authentication",
    "auth/login": "authentication",
    "auth/logout": "authentication",
    "auth/status": "authentication",
    "auth/status_update": "authentication",
    "providers/list": "providers",
    "providers/set": "providers",
    "providers/disable": "providers",
    "session/set_mode": "session-mode",
    "session/set_model": "session-mode",
    "session/set_config_option": "session-mode",
    "session/cancel": "session-lifecycle",
    "session/close": "session-lifecycle",
    "session/delete": "session-lifecycle",
    "session/archive": "session-lifecycle",
    "session/unarchive": "session-lifecycle",
    "session/set_title": "session-lifecycle",
    "tool_call/cancel": "session-lifecycle",
}
for method, guard in SEALED.items():
    for spelled in (method, method.upper()):
        for what, after in {
            "another value": '{"sessionId":"s","path":["/x",{"a":2}]}',
            "a member more": '{"sessionId":"s","path":["/x",{"a":1}],"y":1}',
            "a member less": '{"sessionId":"s"}',
            "a shorter list": '{"sessionId":"s","path":["/x"]}',
            "a member in odd case": '{"sessionId":"s","path":["/x",{"a":1}],"Path":"/y"}',
            "metadata": '{"sessionId":"s","path":["/x",{"a":1}],"_meta":{"a.b/c":1}}',
            "nothing": UNSET,
        }.items():
            before = '{"sessionId":"s","path":["/x",{"a":1}]}'
            passes_on(guard, f"{spelled}, {what}", spelled, before, after)
        makes_up(guard, spelled, spelled, '{"sessionId":"s"}')
        answers(guard, f"{spelled}, of its own", spelled, "{}")
        answers(guard, f"{spelled}, changed", spelled, '{"content":"b"}', '{"content":"a"}')
        answers(guard, f"{spelled}, respelled", spelled, "1.1", "1.10")

# ----------------------------------------------------------------------------------------- updates

CALL: dict[str, object] = {
    "sessionUpdate": "tool_call",
    "toolCallId": "t",
    "title": "Edit",
    "name": "edit",
    "kind": "edit",
    "status": "completed",
    "rawInput": {"command": "rm"},
    "rawOutput": {"exit": 0},
    "locations": [{"path": "/w/a"}],
    "content": [
        {"type": "content", "content": {"type": "text", "text": "secret"}},
        {"type": "diff", "path": "/w/a", "newText": "x"},
        {"type": "terminal", "terminalId": "1"},
    ],
}


def updates(guard: str, what: str, before: object, after: object) -> None:
    """A session update changed on its way."""
    texts = (json.dumps({"sessionId": "s", "update": update}) for update in (before, after))
    passes_on(guard, what, "session/update", *texts)


TEXT, DIFF, TERMINAL = CALL["content"]  # type: ignore[misc]
for kind in ("tool_call", "tool_call_update"):
    call = {**CALL, "sessionUpdate": kind}
    for name in ("toolCallId", "title", "name", "kind", "status", "rawInput", "locations", "new"):
        updates("tool-calls", f"{kind}, {name}", call, {**call, name: "other"})
    for what, content in {
        "another diff": [TEXT, {**DIFF, "newText": "y"}, TERMINAL],  # type: ignore[dict-item]
        "no diff": [TEXT, TERMINAL],
        "no terminal": [TEXT, DIFF],
        "another order": [TERMINAL, DIFF, TEXT],
        "a diff in text's clothes": [{**TEXT, "newText": "y"}, DIFF, TERMINAL],  # type: ignore[dict-item]
        "a text more": [TEXT, TEXT, DIFF, TERMINAL],
        "an unknown kind": [{"type": "panel"}, DIFF, TERMINAL],
        "no list": {},
        "nothing": [],
        "null": None,
    }.items():
        updates("tool-calls", f"{kind}, content: {what}", call, {**call, "content": content})
    running = {**call, "status": "pending"}
    updates("tool-calls", f"{kind}, its text too soon", running, {**running, "content": []})
    updates("tool-calls", f"{kind}, its output too soon", running, {**running, "rawOutput": 1})
    updates("tool-calls", f"{kind}, turned into a word", call, {"sessionUpdate": "plan"})
    updates("tool-calls", f"{kind}, made of a word", {"sessionUpdate": "plan"}, call)
odd_content = {**CALL, "content": "text"}
updates("tool-calls", "content that was no list", odd_content, {**CALL, "content": []})
for kind in ("tool_call_content_chunk", "terminal_update", "terminal_output_chunk"):
    update = {"sessionUpdate": kind, "toolCallId": "t", "status": "completed", "content": []}
    updates("tool-calls", kind, update, {**update, "content": [TEXT]})
for kind in ("current_mode_update", "config_option_update"):
    update = {"sessionUpdate": kind, "currentModeId": "ask", "status": "completed", "content": 1}
    updates("session-mode", kind, update, {**update, "currentModeId": "bypass"})
    updates("session-mode", f"{kind}, made of a word", {"sessionUpdate": "plan"}, update)
for kind in ("tool_call", "tool_call_update", "tool_call_content_chunk", "terminal_update"):
    makes_up("tool-calls", kind, "session/update", f'{{"update":{{"sessionUpdate":"{kind}"}}}}')
for kind in ("current_mode_update", "config_option_update"):
    makes_up("session-mode", kind, "session/update", f'{{"update":{{"sessionUpdate":"{kind}"}}}}')
for what, made_up in {
    "odd case": '{"update":{"sessionUpdate":"Tool_Call"}}',
    "no kind": '{"update":{}}',
    "a kind that is no text": '{"update":{"sessionUpdate":["plan"]}}',
    "no update": "{}",
    "a text": '{"update":"plan"}',
    "an unknown kind": '{"update":{"sessionUpdate":"subagent_update"}}',
    "two spellings of the kind": '{"update":{"sessionUpdate":"plan","SessionUpdate":"tool_call"}}',
    "two spellings": '{"update":{"sessionUpdate":"plan"},"Update":{"sessionUpdate":"tool_call"}}',
}.items():
    makes_up("unknown-updates", what, "session/update", made_up)
WORD = {"sessionUpdate": "agent_message_chunk", "content": TEXT}
for what, other in {
    "made unknown": {**WORD, "sessionUpdate": "html_panel"},
    "of no kind": {"content": TEXT},
    "of two kinds": {**WORD, "session_update": "tool_call"},
    "a text": "word",
    "null": None,
}.items():
    updates("unknown-updates", what, WORD, other)
updates(
    "unknown-updates",
    "an unknown one changed",
    {"sessionUpdate": "new"},
    {"sessionUpdate": "new", "a": 1},
)
passes_on(
    "unknown-updates",
    "a member beside it",
    "session/update",
    '{"update":{"sessionUpdate":"plan"}}',
    '{"update":{"sessionUpdate":"plan"},"Update":{"sessionUpdate":"tool_call"}}',
)
answers(
    "session-mode",
    "modes of a new session",
    "session/new",
    '{"sessionId":"s","modes":{"currentModeId":"ask"}}',
    '{"sessionId":"s","modes":{"currentModeId":"bypass"}}',
)
answers("session-mode", "options", "session/resume", "{}", '{"configOptions":[{"id":"mode"}]}')

# -------------------------------------------------------------------------------------- initialize

HELLO: dict[str, object] = {
    "protocolVersion": 1,
    "clientInfo": {"name": "editor", "version": "1"},
    "clientCapabilities": {"fs": {"readTextFile": True, "writeTextFile": False}},
}
HELLO2: dict[str, object] = {
    "protocolVersion": 2,
    "info": {"name": "editor", "version": "1"},
    "capabilities": {"elicitation": {"form": {}}, "auth": None},
}
for method in ("initialize", "proxy/initialize", "_proxy/initialize", "Initialize"):
    for version, hello in (("v1", HELLO), ("v2", HELLO2)):
        for what, name, value in (
            ("another version", "protocolVersion", 0),
            ("a version respelled", "protocolVersion", 1.0),
            ("another client", "clientInfo", {"name": "other"}),
            ("another client, v2", "info", {"name": "other"}),
            ("a member more", "trusted", True),
            ("capabilities in odd case", "ClientCapabilities", {"terminal": True}),
        ):
            after = json.dumps({**hello, name: value})
            passes_on("handshake", f"{method} {version}, {what}", method, json.dumps(hello), after)
for what, capabilities in {
    "a terminal": {"terminal": True},
    "writing": {"fs": {"readTextFile": True, "writeTextFile": True}},
    "fs as a flag": {"fs": True},
    "a marker": {"elicitation": {}},
    "a number": {"fs": {"readTextFile": 1}},
    "odd case": {"Terminal": True},
    "a text": "all",
    "a list": [],
}.items():
    for name in ("clientCapabilities", "capabilities"):
        after = json.dumps({**HELLO, name: capabilities})
        passes_on("capability-claims", f"{name}, {what}", "initialize", json.dumps(HELLO), after)
for what, capabilities in {
    "a URL form": {"elicitation": {"form": {}, "url": {}}},
    "login in a terminal": {"elicitation": {"form": {}}, "auth": {"terminal": {}}},
}.items():
    after = json.dumps({**HELLO2, "capabilities": capabilities})
    passes_on("capability-claims", f"v2, {what}", "initialize", json.dumps(HELLO2), after)

AGENT: dict[str, object] = {
    "protocolVersion": 1,
    "agentInfo": {"name": "agent", "version": "1"},
    "agentCapabilities": {"promptCapabilities": {"image": False}},
    "authMethods": [{"id": "a", "name": "A"}, {"id": "b", "name": "B"}],
}
AGENT2 = {
    "protocolVersion": 2,
    "info": {"name": "agent", "version": "1"},
    "capabilities": {"session": {"prompt": {}}},
}
for what, name, capabilities in (
    ("loading", "agentCapabilities", {"loadSession": True}),
    ("images", "agentCapabilities", {"promptCapabilities": {"image": True}}),
    ("deleting", "agentCapabilities", {"sessionCapabilities": {"delete": {}}}),
    ("forking", "agentCapabilities", {"sessionCapabilities": {"fork": {}}}),
    ("http servers", "agentCapabilities", {"mcpCapabilities": {"http": True}}),
    ("more than a promise", "agentCapabilities", {"mcpCapabilities": {"acp": {"x": True}}}),
    ("an unknown one", "agentCapabilities", {"teleport": True}),
    ("odd case", "agentCapabilities", {"LoadSession": True}),
    ("no object", "agentCapabilities", True),
    ("status", "agentCapabilities", {"auth": {"status": {}}}),
    ("sessions, v2", "capabilities", {"session": {"prompt": {}, "fork": {}}}),
    ("servers, v2", "capabilities", {"session": {"mcp": {"stdio": {}}}}),
    ("providers, v2", "capabilities", {"providers": {}}),
):
    base = AGENT if name == "agentCapabilities" else AGENT2
    result = json.dumps({**base, name: capabilities})
    answers("capability-claims", what, "initialize", result, json.dumps(base))
for what, claimed in {"no object": "null", "a list": "[]"}.items():
    answers("capability-claims", what, "initialize", claimed, json.dumps(AGENT))
answers("capability-claims", "never passed on", "initialize", json.dumps(AGENT))
answers("capability-claims", "for what was no object", "initialize", json.dumps(AGENT), "1")
METHOD_A, METHOD_B = AGENT["authMethods"]  # type: ignore[misc]
for what, name, value in (
    ("another version", "protocolVersion", 2),
    ("another agent", "agentInfo", {"name": "other"}),
    ("another agent, v2", "info", {"name": "other"}),
    ("a member more", "x", 1),
    ("a login method more", "authMethods", [METHOD_A, METHOD_B, {"id": "c"}]),
    ("a changed login method", "authMethods", [{**METHOD_A, "args": ["-x"]}, METHOD_B]),  # type: ignore[dict-item]
    ("another order", "authMethods", [METHOD_B, METHOD_A]),
    ("login methods that are no list", "authMethods", {}),
    ("null", "authMethods", None),
):
    answers("handshake", what, "initialize", json.dumps({**AGENT, name: value}), json.dumps(AGENT))

# ------------------------------------------------------------------------------ MCP over the chain

USES: dict[str, tuple[str, str]] = {
    "mcp/message": ("serverId", "requestId"),
    "mcp/connect": ("acpId", "x"),
    "mcp/disconnect": ("connectionId", "x"),
    "_mcp/connect": ("acp_url", "session"),
    "_mcp/message": ("connectionId", "method"),
    "_mcp/request": ("connection_id", "method"),
    "_mcp/notification": ("connection_id", "method"),
    "_mcp/disconnect": ("connection_id", "x"),
    "_mcp/client_to_server/request": ("url", "message"),
    "_mcp/server_to_client/notification": ("url", "message"),
    "_scp/mcp": ("name", "message"),
    "mcp/something_new": ("serverId", "x"),
}
for method, (name, other) in USES.items():
    for address in ("theirs", "nobody's", "their-connection", "", "MINE"):
        held = json.dumps({name: address, other: 1})
        makes_up("mcp-connections", f"{method} {address}", method, held)
        answers("mcp-connections", f"{method} {address}", method, "{}", None, held)
        answers("mcp-connections", f"{method} {address}, changed", method, "{}", "[]", held)
        changed = json.dumps({name: address, other: 2})
        passes_on("mcp-connections", f"{method} {address}", method, held, changed)
        taken_over = json.dumps({name: "mine", other: 1})
        passes_on("mcp-connections", f"{method} {address}, turned", method, held, taken_over)
        passes_on("mcp-connections", f"{method} {address}, turned away", method, taken_over, held)
    for what, params in {
        "no address": "{}",
        "nothing": UNSET,
        "no text": f'{{"{name}":["mine"]}}',
        "two spellings": f'{{"{name}":"mine","{name.upper()}":"theirs"}}',
    }.items():
        makes_up("mcp-connections", f"{method}, {what}", method, params)
        answers("mcp-connections", f"{method}, {what}", method, "{}", None, params)
both = '{"serverId":"mine","connectionId":"their-connection"}'
makes_up("mcp-connections", "one own, one not", "mcp/message", both)
for name in ("connectionId", "connection_id"):
    result = f'{{"{name}":"their-connection"}}'
    answers("mcp-connections", f"a stolen {name}", "mcp/connect", result, None, '{"acpId":"mine"}')
answers("mcp-connections", "no JSON asked", "mcp/message", "{}", None, "{")


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda a: f"{a.guard}: {a.what}")
def test_attacks_are_refused(attack: Attack) -> None:
    assert attack.route(CONTEXT) is not None
    alone = attack.route(msgspec.structs.replace(CONTEXT, lifted=ALL - {attack.guard}))
    assert alone is not None
    assert alone.guard == attack.guard
    assert alone.text
    assert alone.pointer == "" or (alone.pointer.startswith("/") and len(alone.pointer) <= 500)
    without = attack.route(msgspec.structs.replace(CONTEXT, lifted=frozenset({attack.guard})))
    assert without is None or without.guard != attack.guard
    assert attack.route(msgspec.structs.replace(CONTEXT, lifted=ALL)) is None


@pytest.mark.parametrize("version", [None, 0, 1, 2, 3, 65535])
def test_no_version_opens_a_door(version: int | None) -> None:
    context = msgspec.structs.replace(CONTEXT, version=version)
    passed = [a.what for a in ATTACKS if a.route(context) is None]
    assert passed == []


@pytest.mark.parametrize("guard", GUARDS, ids=lambda g: g.name)
def test_every_guard_is_attacked(guard: object) -> None:
    name = getattr(guard, "name", "")
    assert any(attack.guard == name for attack in ATTACKS)


def test_attacks_name_guards_that_exist() -> None:
    assert {attack.guard for attack in ATTACKS} == ALL


def test_the_table_is_fit_to_be_shown() -> None:
    assert len(ALL) == len(GUARDS)
    for guard in GUARDS:
        assert guard.lifted_by == f"unguard={guard.name}"
        assert guard.protects.endswith(".")
        assert guard.attack.endswith(".")
