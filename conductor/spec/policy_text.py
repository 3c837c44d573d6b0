"""What a component may do, in sentences of conductor's own.

They come from the tables that enforce it, so that neither the page of `conductor inspect` nor a
question to the user can promise anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from conductor.core.policy.key_table import PROMPT, ROWS, Direction, Right, Row
from conductor.core.policy.rule_syntax import parse_grant
from conductor.core.policy.rules import SAYS, Grants, Policy, within

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
    (_UP, "session/update[config_option_update]"): "reports of options",
    (_UP, "session/update[available_commands_update]"): "lists of commands",
    (_UP, "session/update[terminal_update]"): "other updates",
    (_UP, "session/request_permission"): "requests for permission",
    (_UP, "fs/read_text_file"): "requests to read files",
    (_UP, "terminal/*"): "terminals",
    (_UP, "fs/*"): "other files, and forms",
    (_DOWN, "authenticate"): "logins and providers",
    (_UP, "auth/*"): "questions about logins",
    (_DOWN, "session/set_mode"): "changes of mode and model",
    (_DOWN, "session/set_config_option"): "changes of options",
    (_DOWN, "session/close"): "the ends of sessions",
    (_DOWN, "session/archive"): "what is done with sessions",
    (_DOWN, "session/list"): "lists of sessions",
    (_UP, "mcp/*"): "calls of others' MCP servers",
    (_DOWN, "mcp/*"): "messages of others' MCP servers",
}
"""What the keys of a row are about, by the row's first key. `GRANTS` describes all other rows."""

SHORT: Final[dict[tuple[Direction, str], str]] = {
    (_DOWN, "session/prompt"): "your prompts",
    (_UP, "session/update[user_message_chunk]"): "answers",
    (_UP, "session/update[tool_call]"): "tool calls",
    (_UP, "fs/*"): "files",
    (_UP, "session/request_permission"): "permissions",
    (_UP, "mcp/*"): "others' tools",
    (_DOWN, "session/new"): "session set-ups",
}
"""What matters most to a user, in a word each, in that order. `NAMES` has all others."""

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
    "options": "offer options of its own beside the agent's",
    "editor": "{}",
    "methods": "send, change and answer extension methods: {}",
    "texts": "change words inside tool calls, plans and notices, and what terminals show",
    "capabilities": "claim capabilities: {}",
}
_TURNS: Final = {"within": "during a turn of the user", "unprompted": "at any time"}
_EDITOR: Final = {
    "panel": "show panels beside the conversation",
    "comment": "comment in your files",
    "operation": "have the editor do things, such as rename a name everywhere",
    "log": "write to the editor's log",
    "read": "read files of the session's folders, as the editor has them",
    "terminal": "run commands on your machine",
    "widget": "run scripts in its panels",
    "ask": "ask you questions, in its own name",
}
"""What each word of `editor=` lets a component do."""


SERVICES: Final = {
    "clock": "know the time",
    "random": "get random bytes",
    "log": "write to the log",
    "metric": "count for `--metrics`",
    "timer": "be woken by timers",
    "kv": "keep values of its own on this machine",
    "files": "read files in the folders of a session: {}",
    "write": "write files into this folder of a session: {}",
    "fetch": "send web requests to {}",
}
"""What each service lets a component do; `{}` stands for what the grant names."""


def may(policy: Policy, shown: Shown = str) -> list[tuple[str, str]]:
    """What a component may do to the conversation: verbs, or a grant's name, and to what."""
    grants = msgspec.structs.replace(policy.grants, turns=policy.turns)
    return [*_rights(policy), *_named(grants, shown)]


def sees(whole: Policy, shown: Shown = str) -> tuple[list[str], list[str]]:
    """What the messages are about that a component sees, and what those that it does not see are
    about, the most important first; of the latter those of `SHORT` only."""
    held = [(row, _held(whole, row, Right.COPY | Right.CARRY)) for row in _by_importance()]
    seen = [_some(row, keys) for row, keys in held if keys]
    if all(len(keys) == len(row.keys) for row, keys in held if row.full & Right.COPY):
        seen = ["every message"]
    seen += [f"extension methods: {shown(name)}" for name in whole.grants.methods]
    unseen = [_word(row) for row, keys in held if not keys and _heading(row) in SHORT]
    return seen, unseen


def changes(whole: Policy, shown: Shown = str) -> list[str]:
    """What a component may change, and what else it may do to the conversation, the most important
    first."""
    rows = _by_importance()
    plain = msgspec.structs.replace(whole, grants=Grants())
    named = _named(msgspec.structs.replace(whole.grants, turns=whole.turns), shown)
    granted = [f"may {text}" for _, text in named]
    if within(Policy("full"), whole):
        return [SAYS["full"], *granted]
    changed = [
        _some(row, keys) + (" (may drop them)" if _held(whole, row, Right.DROP) else "")
        for row in rows
        if (keys := _held(whole, row, Right.CARRY))
    ]
    others = [
        f"may {RIGHTS[right]} {_word(row)}"
        for right in (Right.ANSWER, Right.ORIGINATE, Right.AMEND)
        for row in rows
        if _held(plain, row, right)
        and not (right is Right.AMEND and _held(plain, row, Right.CARRY))
    ]
    serves = ["may serve tools of its own"] if whole.serves else []
    return [*changed, *granted, *others, *serves]


def _by_importance() -> list[Row]:
    """The rows that have names, those of `SHORT` first."""
    rows = {_heading(row): row for row in ROWS if _heading(row) in NAMES}
    return [rows[heading] for heading in dict.fromkeys((*SHORT, *rows))]


def _heading(row: Row) -> tuple[Direction, str]:
    return row.direction, row.keys[0]


def _word(row: Row) -> str:
    return SHORT.get(_heading(row)) or NAMES[_heading(row)]


def _held(policy: Policy, row: Row, any_of: Right) -> list[str]:
    """The keys of a row on which a policy holds one of some rights."""
    return [key for key in row.keys if policy.rights(row.direction, key) & any_of.value]


def _some(row: Row, keys: list[str]) -> str:
    return _word(row) if len(keys) == len(row.keys) else f"some {_word(row)}"


def grant(word: str, shown: Shown = str) -> str:
    """What a named grant (`turns=within`) lets a component do."""
    return "; ".join(text for _, text in _named(parse_grant(word), shown))


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
        said = _EDITOR.__getitem__ if name == "editor" else shown
        words = map(said, value) if isinstance(value, tuple) else (_TURNS.get(value, ""),)
        listed = "any" if value == ("*",) else ", ".join(words)
        lines.append((name, GRANTS[name].format(listed)))
    return lines
