"""What a component may do, in sentences of conductor's own.

They come from the tables that enforce it, so that neither the page of `conductor inspect` nor a
question to the user can promise anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from conductor.core.policy.key_table import PROMPT, ROWS, Direction, Right, Row
from conductor.core.policy.rules import Grants, Policy

_DOWN, _UP = Direction.DOWN, Direction.UP

Shown = Callable[[str], str]
"""How a name is shown that the author of a component may have chosen."""

NAMES: Final[dict[tuple[Direction, str], str]] = {
    (_DOWN, "initialize"): "the handshake",
    (_DOWN, "session/new"): "a session's set-up",
    (_DOWN, "session/prompt"): "prompts",
    (_DOWN, "session/cancel"): "cancellations",
    (_UP, "session/update[user_message_chunk]"): "messages, thoughts and plans",
    (_UP, "session/update[tool_call]"): "tool calls and notices",
    (_UP, "session/update[current_mode_update]"): "reports of modes and options",
    (_UP, "session/update[available_commands_update]"): "lists of commands",
    (_UP, "session/update[terminal_update]"): "other updates",
    (_UP, "session/request_permission"): "requests for permission",
    (_UP, "fs/*"): "files, terminals and forms",
    (_DOWN, "authenticate"): "logins and providers",
    (_UP, "auth/*"): "questions about logins",
    (_DOWN, "session/set_mode"): "changes of modes and options",
    (_DOWN, "session/close"): "the ends of sessions",
    (_DOWN, "session/list"): "lists of sessions",
    (_UP, "mcp/*"): "calls of others' MCP servers",
    (_DOWN, "mcp/*"): "messages of others' MCP servers",
}
"""What the keys of a row are about, by the row's first key. `GRANTS` describes all other rows."""

RIGHTS: Final = {
    Right.CARRY: "change",
    Right.AMEND: "change answers to",
    Right.ANSWER: "answer",
    Right.DROP: "drop",
    Right.ORIGINATE: "send of its own",
}

GRANTS: Final = {
    "turns": "send prompts of its own, {}",
    "commands": "list and send commands: {}",
    "permission": "remove options of permission requests, and reject the requests",
    "mcp": "read, change and answer the traffic of others' MCP servers",
    "sessions": "open sessions of its own, and answer set-ups",
    "modes": "have modes and options of its own, and switch them",
    "editor": "reach the user outside the session: {}",
    "methods": "send, change and answer extension methods: {}",
    "texts": "change words inside tool calls, plans and notices",
    "capabilities": "claim capabilities: {}",
}
_TURNS: Final = {"within": "during a turn of the user", "unprompted": "at any time"}


SERVICES: Final = {
    "clock": "know the time",
    "random": "get random bytes",
    "log": "write to the log",
    "metric": "count for `--metrics`",
    "timer": "be woken by timers",
    "kv": "keep values of its own on this machine",
    "files": "read files in the folders of a session: {}",
    "fetch": "send web requests to {}",
}
"""What each service lets a component do; `{}` stands for what the grant names."""


def may(policy: Policy, shown: Shown = str) -> list[tuple[str, str]]:
    """What a component may do to the conversation: verbs, or a grant's name, and to what."""
    grants = msgspec.structs.replace(policy.grants, turns=policy.turns)
    return [*_rights(policy), *_named(grants, shown)]


def service(grant: str, shown: Shown = str) -> str:
    """What a granted service lets a component do."""
    name, _, scope = grant.partition(":")
    return SERVICES[name].format(shown(scope))


def _rights(whole: Policy) -> list[tuple[str, str]]:
    """What it may do to which messages, by right, without what named grants add."""
    policy = msgspec.structs.replace(whole, grants=Grants())
    rows = [row for row in ROWS if (row.direction, row.keys[0]) in NAMES]
    lines = [(label, _about(policy, rows, right)) for right, label in RIGHTS.items()]
    if policy.serves:
        lines.append(("serve", "MCP servers of its own"))
    copied = [row for row in rows if row.full & Right.COPY]
    seen = Right.COPY | Right.CARRY
    if all(policy.rights(row.direction, key) & seen.value for row in copied for key in row.keys):
        copies = "all else but the traffic of MCP servers and extensions"
    else:
        copies = _about(policy, rows, Right.COPY, without=Right.CARRY)
    return [(label, what) for label, what in [*lines, ("get copies of", copies)] if what]


def _about(policy: Policy, rows: Iterable[Row], right: Right, without: Right = Right.NONE) -> str:
    """What the keys are about on which it holds a right, and not the right `without`."""
    names: list[str] = []
    for row in rows:
        if right is Right.ORIGINATE and PROMPT in row.keys:
            continue  # the grant `turns` describes it
        held = []
        for key in row.keys:
            rights = Right(policy.rights(row.direction, key))
            if right in rights and not (without and without in rights):
                held.append(key)
        if len(held) == len(row.keys):
            names.append(NAMES[row.direction, row.keys[0]])
        else:
            names += [key.removeprefix("session/update").strip("[]") for key in held]
    return ", ".join(dict.fromkeys(names))


def _named(grants: Grants, shown: Shown) -> list[tuple[str, str]]:
    """What the named grants let it do."""
    lines = []
    for name in grants.names():
        value = getattr(grants, name)
        words = map(shown, value) if isinstance(value, tuple) else (_TURNS.get(value, ""),)
        listed = "any" if value == ("*",) else ", ".join(words)
        lines.append((name, GRANTS[name].format(listed)))
    return lines
