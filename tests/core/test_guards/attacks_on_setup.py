"""Attacks on the set-up of an agent's work: servers, directories, sessions, prompts."""

import json
from collections.abc import Iterator

from msgspec import UNSET

from tests.core.test_guards.attack import Attack, answers, denies, makes_up, passes_on
from tests.core.test_guards.samples import (
    BAD_SERVERS,
    CLIENT,
    HTTP,
    KEYED,
    MINE,
    SETUP,
    STDIO,
    Object,
)


def sets_up(guard: str, what: str, before: Object, after: object) -> Iterator[Attack]:
    """A session's setup changed on its way, for every method that has one."""
    for method in ("session/new", "session/load", "session/resume", "session/fork", "Session/New"):
        yield passes_on(guard, f"{method}, {what}", method, json.dumps(before), json.dumps(after))


def bad_servers() -> Iterator[Attack]:
    """MCP servers that start or reach something."""
    for what, entry in BAD_SERVERS.items():
        yield from sets_up(
            "mcp-servers", what, CLIENT, {**CLIENT, "mcpServers": [STDIO, HTTP, entry]}
        )
        if not what.startswith("a taken name"):
            own = json.dumps({"cwd": "/w", "mcpServers": [entry]})
            yield makes_up("mcp-servers", what, "session/new", own).having(sessions="own")
        key = entry.get("name") if isinstance(entry, dict) else None
        if what not in ("no name", "a taken name"):
            entries = {"fs": STDIO, str(key if key is not None else "x"): entry}
            keyed = {"tools": {"mcpServers": {"fs": STDIO}}}
            yield from sets_up(
                "mcp-servers", f"keyed, {what}", keyed, {"tools": {"mcpServers": entries}}
            )
    mismatch = {"tools": {"mcpServers": {"x": MINE}}}
    nameless = {"tools": {"mcpServers": {"fs": STDIO, "FS ": {"type": "acp", "serverId": "x"}}}}
    yield from sets_up("mcp-servers", "keyed by a taken name, nearly", KEYED, nameless)
    yield from sets_up("mcp-servers", "keyed by another name", {}, mismatch)


def servers_of_others() -> Iterator[Attack]:
    """Servers of others changed, removed or shadowed."""
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
        yield from sets_up("mcp-servers", what, CLIENT, {**CLIENT, "mcpServers": servers})
    for what, held in {
        "changed": {"fs": HTTP},
        "removed": {},
        "a list": [STDIO],
        "null": None,
    }.items():
        yield from sets_up("mcp-servers", f"keyed: {what}", KEYED, {"tools": {"mcpServers": held}})
    yield from sets_up(
        "mcp-servers", "snake case", {}, {"mcp_servers": [{"name": "x", "command": "sh"}]}
    )
    yield from sets_up(
        "mcp-servers", "under tools", CLIENT, {**CLIENT, "tools": {"mcpServers": {"x": STDIO}}}
    )
    yield passes_on(
        "mcp-servers",
        "an escaped member name",
        "session/new",
        SETUP,
        '{"cwd":"/w","mcpServers":[{"name":"x","\\u0063ommand":"sh","args":[]}]}',
    )


def surroundings() -> Iterator[Attack]:
    """Everything else in a setup."""
    changes: dict[str, Object] = {
        "cwd": {"cwd": "/"},
        "no cwd": {"cwd": None},
        "directories": {"additionalDirectories": ["/lib", "/"]},
        "roots": {"roots": ["/"]},
        "an unknown member": {"allowAll": True},
        "odd case of servers": {"McpServers": [{"name": "x", "command": "sh"}]},
        "odd case of cwd": {"CWD": "/"},
        "an unknown member changed": {"x": 1.1},
        "tools": {"tools": {"bash": True}},
        "servers elsewhere": {"extra": {"mcpServers": [{"name": "x", "command": "sh"}]}},
        "tools that are no object": {"tools": ["bash"]},
        "an option": {"configOptions": [{"configId": "mode", "value": "bypass"}]},
        "an option by type": {"configOptions": [{"configId": "x", "type": "boolean", "value": 1}]},
        "an option in odd case": {"config_options": [{"configId": "mode", "value": "bypass"}]},
        "a cursor": {"cursorId": "c"},
    }
    for what, change in changes.items():
        before = json.dumps(CLIENT).replace("1.1", "1.10")
        for method in ("session/new", "session/load", "session/resume", "session/fork"):
            yield passes_on(
                "session-setup",
                f"{method}, {what}",
                method,
                before,
                json.dumps({**CLIENT, **change}),
            )
    yield from sets_up(
        "system-prompt", "changed", CLIENT, {**CLIENT, "systemPrompt": {"mode": "override"}}
    )
    yield from sets_up(
        "system-prompt", "removed", CLIENT, {k: v for k, v in CLIENT.items() if k != "systemPrompt"}
    )
    yield from sets_up("system-prompt", "added", {}, {"systemPrompt": {"mode": "append"}})
    chosen = {**CLIENT, "configOptions": [{"configId": "mode", "value": "ask"}], "cursorId": "c"}
    for what, forged in {
        "option changed": {**chosen, "configOptions": [{"configId": "mode", "value": "bypass"}]},
        "option gone": {**chosen, "configOptions": []},
        "option more": {
            **chosen,
            "configOptions": [*chosen["configOptions"], {"configId": "mode", "value": "bypass"}],
        },
        "options gone": {k: v for k, v in chosen.items() if k != "configOptions"},
        "cursor changed": {**chosen, "cursorId": "d"},
        "cursor gone": {k: v for k, v in chosen.items() if k != "cursorId"},
    }.items():
        for attack in sets_up("session-setup", what, chosen, forged):
            yield attack
            yield attack.having(options=True, sessions="own")
    for method in ("session/new", "session/load", "session/resume", "session/fork"):
        yield makes_up("own-sessions", method, method, '{"cwd":"/","sessionId":"a"}')


def answers_of_its_own() -> Iterator[Attack]:
    """Sessions that a component opens, or answers for."""
    for method in ("session/new", "session/load", "session/resume", "session/fork"):
        yield answers("own-sessions", method, method, '{"sessionId":"fresh"}')
    for method in ("session/new", "session/fork"):
        for what, result in {
            "an id in use": '{"sessionId":"in-use"}',
            "no id": "{}",
            "an empty id": '{"sessionId":""}',
            "no text": '{"sessionId":1}',
            "no object": "null",
            "a look-alike": '{"SessionId":"fresh"}',
        }.items():
            yield answers("session-target", f"{method}, {what}", method, result).having(
                sessions="own"
            )
    for request in ('{"sessionId":"a"}', "{", UNSET):
        yield answers(
            "session-target", "another id", "session/load", '{"sessionId":"x"}', None, request
        ).having(sessions="own")
    for method in ("session/load", "session/resume", "session/fork"):
        for what, params in {
            "the user's": {"sessionId": "old", "cwd": "/w"},
            "none": {"cwd": "/w"},
            "no text": {"sessionId": 1, "cwd": "/w"},
            "an object": {"sessionId": {"s": "s"}, "cwd": "/w"},
            "a list": {"sessionId": ["s"], "cwd": "/w"},
            "in another spelling": {"session_id": "s", "cwd": "/w"},
        }.items():
            yield makes_up("own-sessions", f"{method}, {what}", method, json.dumps(params)).having(
                sessions="own"
            )
    for method in ("session/load", "session/resume", "session/fork"):
        params = json.dumps({"sessionId": "s", "cwd": "/w", "mcpServers": []})
        yield makes_up("own-sessions", f"{method} of a live one", method, params).having(
            sessions="own"
        )
    for what, guard, params in (
        ("without a folder", "own-sessions", {}),
        ("elsewhere", "own-sessions", {"cwd": "/etc"}),
        ("climbing", "own-sessions", {"cwd": "/w/../etc"}),
        ("no folder", "own-sessions", {"cwd": 1}),
        ("an empty folder", "own-sessions", {"cwd": ""}),
        ("directories", "own-sessions", {"cwd": "/w", "additionalDirectories": ["/w/a", "/"]}),
        ("a system prompt", "system-prompt", {"cwd": "/w", "systemPrompt": {"mode": "append"}}),
        ("an option", "session-setup", {"cwd": "/w", "allowAll": True}),
        ("options of an agent", "session-setup", {"cwd": "/w", "_meta": {"claudeCode": {}}}),
        ("a mode", "session-setup", {"cwd": "/w", "_meta": {"example.com/mode": "bypass"}}),
        ("a configuration", "session-setup", {"cwd": "/w", "configOptions": []}),
        ("a cursor", "session-setup", {"cwd": "/w", "cursorId": "c"}),
        ("one that is there", "session-setup", {"cwd": "/w", "sessionId": "s"}),
        ("an object for a name", "session-setup", {"cwd": "/w", "sessionId": {"s": "s"}}),
    ):
        yield makes_up(guard, f"a session, {what}", "session/new", json.dumps(params)).having(
            sessions="own"
        )


NEW: Object = {
    "sessionId": "a",
    "modes": {"currentModeId": "ask", "availableModes": [{"id": "ask"}, {"id": "bypass"}]},
    "models": {"currentModelId": "big", "availableModels": [{"modelId": "big"}]},
    "configOptions": [{"id": "model", "currentValue": "big"}],
    "availableCommands": [{"name": "review"}],
}
ASK, BYPASS = NEW["modes"]["availableModes"]


def results() -> Iterator[Attack]:
    """Forged reports of an agent about a new session."""
    mine = {"id": "mine"}
    for method in ("session/new", "session/prompt", "initialize", "_x/y", "mcp/message"):
        for code in ("-32000", "-32000.0", "-3.2e4", '"-32000"', "-1.5", "null", '"x"'):
            login = f'{{"code":{code},"message":"no"}}'
            yield denies("handshake", f"{method}, by the code {code}", method, login)
        for data in (
            '{"authMethods":[{"type":"terminal"}]}',
            '{"auth_methods":[]}',
            '{"a":[{"AuthMethods":1}]}',
            '"auth_required"',
            '{"type":"authentication_required"}',
            '{"auth-required":true}',
        ):
            login = f'{{"code":-32603,"message":"no","data":{data}}}'
            yield denies("handshake", f"{method}, by {data}", method, login)
    modes = NEW["modes"]
    for what, guard, change in (
        ("models", "session-mode", {"models": {"currentModelId": "other"}}),
        ("no models", "session-mode", {"models": None}),
        ("an unknown member", "session-setup", {"trusted": True}),
        ("another id", "session-target", {"sessionId": "b"}),
        ("commands", "commands", {"availableCommands": [{"name": "review"}, {"name": "yolo"}]}),
        ("commands that are none", "session-setup", {"availableCommands": None}),
        ("the current mode", "session-mode", {"modes": {**modes, "currentModeId": "bypass"}}),
        ("no modes", "session-mode", {"modes": None}),
        ("a member", "session-mode", {"modes": {**modes, "x": 1}}),
        ("fewer", "session-mode", {"modes": {**modes, "availableModes": [ASK]}}),
        ("moved", "session-mode", {"modes": {**modes, "availableModes": [BYPASS, ASK]}}),
        ("put before", "session-mode", {"modes": {**modes, "availableModes": [mine, ASK, BYPASS]}}),
        ("twice", "session-mode", {"modes": {**modes, "availableModes": [ASK, BYPASS, ASK]}}),
        ("no id", "session-mode", {"modes": {**modes, "availableModes": [ASK, BYPASS, {}]}}),
        ("no list", "session-mode", {"modes": {**modes, "availableModes": {}}}),
        ("options", "session-mode", {"configOptions": [{"id": "model", "currentValue": "x"}]}),
        ("an option gone", "session-mode", {"configOptions": []}),
        (
            "an option of the agent's",
            "session-mode",
            {"configOptions": [*NEW["configOptions"], {"configId": "model"}]},
        ),
    ):
        attack = answers(guard, what, "session/new", json.dumps({**NEW, **change}), json.dumps(NEW))
        yield attack
        yield attack.having(options=True)
    more = json.dumps({**NEW, "modes": {**modes, "availableModes": [ASK, BYPASS, mine]}})
    attack = answers("session-mode", "a mode more", "session/new", more, json.dumps(NEW))
    yield attack
    yield attack.having(options=True)
    for method, forged, told in (
        ("session/load", {"modes": []}, {"modes": None}),
        ("session/load", {"modes": {}}, {"modes": []}),
        ("session/load", {"modes": {"currentModeId": "mine", "availableModes": [mine]}}, {}),
        ("session/load", {"models": {"currentModelId": None, "availableModels": []}}, {}),
        ("session/new", {"sessionId": "fresh", "modes": {"currentModeId": "ask"}}, None),
        ("session/new", {"sessionId": "fresh", "models": NEW["models"]}, None),
        ("session/load", {"configOptions": [{"id": "tone", "category": "mode"}]}, None),
    ):
        upstream = None if told is None else json.dumps(told)
        attack = answers("session-mode", f"{forged}", method, json.dumps(forged), upstream)
        yield attack.having(options=True, sessions="own")


def posing() -> Iterator[Attack]:
    """Options of a component's own that look like the agent's mode or model."""
    tone = {"id": "tone", "name": "Tone", "type": "select", "currentValue": "warm"}
    value = {"value": "warm", "name": "Warm"}
    for name in (
        "Ask", "ask", "ASK ", "A s k", "\uff21\uff53\uff4b", "\u0410sk", "As\u03ba", "ask-2",
        "Ask2", "Ask (current)", "\u2713 Ask", "as\u212a", "A\u200bsk", "\u202eksA", "8ypass",
        "Ask\u3164", "\u1d00s\u1d0b", "\u0250sk", "\u13aask",
        "\U0001f170sk", "\U0001f170\U0001f182\U0001f17a", "\U0001f150sk",
        "\U0001f1e6\U0001f1f8\U0001f1f0", "State: Ask", "Modus: Ask", "Ask (safe)", "It is Ask",
        "Session \u2013 Ask", "Ask/Other", "tone=ask", "Asking | Ask", "\u15e9sk", "\ua4eesk",
        "\U000102a0sk", "As\U000104bc", "\u039code", "\u028dode", "\ua4dfode", "M\U0001f17edel",
        "big", "Big 4", "Mode", "mode", "m\u043ede", "Session mode", "permissionMode", "Model",
        "mod\u0435l", "Permissions", "Auto-approve", "bypassPermissions", "x" * 201,
        "rnode", "Mocle", "rnoclel", "Ask only", "Just ask", "Always Ask", "Betriebsart", "Modus",
        "Modo de trabajo", "Modalita\u0300", "режим", "模式", "當前模式", "モード", "모드",
        "Sprachmodell", "Berechtigungen", "权限",
    ):  # fmt: skip
        for what, option in (
            ("id", {**tone, "id": name}),
            ("name", {**tone, "name": name}),
            ("value", {**tone, "options": [value, {**value, "value": name}]}),
            ("name of a value", {**tone, "options": [{**value, "name": name}]}),
            ("name in a group", {**tone, "options": [{"group": "g", "name": "G", "options": [
                {**value, "name": name}]}]}),
            ("group", {**tone, "options": [{"group": "g", "name": name, "options": [value]}]}),
        ):  # fmt: skip
            yield from _offered(f"the {what} {name!a:.30}", option)
    for category in ("mode", "Mode", "model", "thought_level", "_mode", "x", None):
        yield from _offered(f"the category {category}", {**tone, "category": category})
    odd: dict[str, object] = {
        "a description": {**tone, "description": "Ask"},
        "a description of the mode": {**tone, "description": "The mode the agent is in"},
        "a description of a posing mode": {**tone, "description": "The m\u043ede it is in"},
        "a description of a value": {**tone, "options": [{**value, "description": "b\u00fdpass"}]},
        "a description with a mark": {**tone, "description": "x\u202ey"},
        "a category in another spelling": {**tone, "Category": "mode"},
        "two ids": {**tone, "configId": "tone"},
        "an odd id": {**tone, "id": 1},
        "no id": {"name": "Tone"},
        "no object": ["tone"],
        "a value with more": {**tone, "options": [{**value, "category": "mode"}]},
        "the id of another": {**tone, "id": "model"},
        "an id without letters": {**tone, "id": "\u2713"},
    }
    for what, other in odd.items():
        yield from _offered(what, other)


def _offered(what: str, option: object) -> list[Attack]:
    before = [{"id": "model"}]
    listed = {"sessionId": "s", "configOptions": [*before, option]}
    update = {"sessionUpdate": "config_option_update", "configOptions": listed["configOptions"]}
    attacks = [
        answers("session-mode", what, "session/new", json.dumps(listed),
                json.dumps({**listed, "configOptions": before})),
        answers("session-mode", f"{what}, alone", "session/new",
                json.dumps({**listed, "configOptions": [option]}), '{"sessionId":"s"}'),
        makes_up("session-mode", what, "session/update",
                 json.dumps({"sessionId": "s", "update": update})),
    ]  # fmt: skip
    return [attack.having(options=True) for attack in attacks]


def names() -> Iterator[Attack]:
    """Servers under names that look like those of others."""
    for name in (
        "tools-demo", "tools_demo", "Tools Demo", "toolsdemo", "t00ls-demo", "too1s-demo",
        "tools.demo", "context", "CONTEXT", "con text", "fs", "F-S", "f5", "F$", "7ools-d3mo",
        "fs__evil", "FS__x", "f5__x", "__fs__x", "fs/x", "fs:x", "fs.x", "fs  x", "fs, x", "fs@_x",
        "tools_demo__x",
    ):  # fmt: skip
        after = {**CLIENT, "mcpServers": [STDIO, HTTP, {**MINE, "name": name}]}
        yield from sets_up("mcp-servers", f"named {name!a}", CLIENT, after)
    for name in ("t\u043e\u043els-demo", "\u0441ontext", "\uff46s", "caf\u00e9", "x\u200b"):
        after = {**CLIENT, "mcpServers": [STDIO, HTTP, {**MINE, "name": name}]}
        yield from sets_up("mcp-servers", f"named {name!a}", CLIENT, after)
    for ident in (
        "tools-demo:1", "TOOLS_DEMO:2", "fs:1", "tools-demo", "fs/1", "fs.1", "fs__1", ":fs:1",
        "fs\uff1a1", "\uff46\uff53:1", "f5:1",
    ):  # fmt: skip
        after = {**CLIENT, "mcpServers": [STDIO, HTTP, {**MINE, "serverId": ident}]}
        yield from sets_up("mcp-servers", f"under the id {ident!a}", CLIENT, after)
    for url in ("acp:fs.1", "acp:tools-demo__1", "acp:.fs:1"):
        entry = {"type": "http", "name": "x", "url": url}
        after = {**CLIENT, "mcpServers": [STDIO, HTTP, entry]}
        yield from sets_up("mcp-servers", f"under the URL {url!a}", CLIENT, after)
    for entry, twin in (
        ({**MINE, "serverId": "new"}, {"name": "x", "url": "acp:new"}),
        ({"type": "scp", "name": "new"}, {"name": "x", "url": "acp:new"}),
        ({"name": "x", "url": "acp:new"}, {**MINE, "serverId": "new"}),
    ):
        given = {**CLIENT, "mcpServers": [entry]}
        after = {**CLIENT, "mcpServers": [entry, twin]}
        yield from sets_up("mcp-servers", f"as another generation's {entry}", given, after)
    cyrillic = {**CLIENT, "mcpServers": [{**STDIO, "name": "\u0441\u0430\u0440"}]}
    after = {**CLIENT, "mcpServers": [*cyrillic["mcpServers"], {**MINE, "name": "cap"}]}
    yield from sets_up("mcp-servers", "as one in Cyrillic", cyrillic, after)
