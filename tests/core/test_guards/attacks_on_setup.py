"""Attacks on what an agent works with: servers, directories, sessions, prompts."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.core.test_guards.attack import Attack, makes_up, passes_on
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
            yield makes_up("mcp-servers", what, "session/new", json.dumps({"mcpServers": [entry]}))
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
    for method in ("session/new", "session/load", "session/resume", "session/fork", "SESSION/load"):
        yield makes_up("own-sessions", method, method, '{"cwd":"/","sessionId":"a"}')


def prompts() -> Iterator[Attack]:
    """What stands beside a prompt."""
    for what, after in {
        "an added member": '{"sessionId":"s","prompt":[],"permissionMode":"bypass"}',
        "odd case": '{"sessionId":"s","prompt":[],"Prompt":[]}',
        "a changed member": '{"sessionId":"s","prompt":[],"messageId":"2"}',
        "a removed member": '{"sessionId":"s","prompt":[1]}',
    }.items():
        before = '{"sessionId":"s","prompt":[],"messageId":"1"}'
        yield passes_on("prompt-options", what, "session/prompt", before, after)
