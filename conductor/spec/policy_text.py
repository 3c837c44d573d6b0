"""What a component may do, in sentences of conductor's own.

They come from the tables that enforce it, so that neither the page of `conductor inspect` nor a
question to the user can promise anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from conductor.core.policy.key_table import PROMPT, ROWS, SEEN, Direction, Right, Row
from conductor.core.policy.rule_syntax import parse_grant
from conductor.core.policy.rules import SAYS, Grants, Policy, within

_DOWN, _UP = Direction.DOWN, Direction.UP

Shown = Callable[[str], str]
"""How a name is shown that the author of a component may have chosen."""

NAMES: Final[dict[tuple[Direction, str], str]] = {
    (_DOWN, "initialize"): "the handshake",
    (_DOWN, "session/new"): "set-ups of sessions (folders, MCP servers and their keys)",
    (_DOWN, "session/prompt"): "prompts",
    (_DOWN, "session/cancel"): "cancellations",
    (_UP, "session/update[user_message_chunk]"): "messages, thoughts and plans",
    (_UP, "session/update[tool_call]"): "tool calls and notices",
    (_UP, "session/update[config_option_update]"): "reports of options",
    (_UP, "session/update[available_commands_update]"): "lists of commands",
    (_UP, "session/update[prompt_suggestions_update]"): "suggested prompts",
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
    Right.ORIGINATE: "make up",
    Right.ANSWER: "answer",
    Right.CARRY: "read and change",
    Right.DROP: "hide",
    Right.AMEND: "change answers to",
}

GRANTS: Final = {
    "editor": "{}",
    "mcp": "READ AND ALTER the calls of all other MCP servers and their results, also calls that "
    "you have allowed",
    "sessions": "set the agent to work in sessions that YOU DO NOT SEE, in your folders; copy your "
    "session, and have your conversation go on in one of its own; answer set-ups",
    "turns": "{}",
    "methods": "send, change and answer extension methods, WHATEVER THEY DO: {}",
    "commands": "put commands into the agent's list, and send them as if you had typed them: {}",
    "texts": "change words in finished tool calls, plans, notices and what terminals show: you "
    "read others than those of the tool; hide prompts that the agent suggests",
    "permission": "refuse in your place what the agent asks you to allow; it allows nothing",
    "options": "add options of its own to those of the agent",
    "capabilities": "tell agent and editor that the other is able to do things: {}",
}
"""What each named grant lets a component do at worst, the worst grant first; capitals where a lay
person must stop."""
_TURNS: Final = {
    "within": "set the agent to work in your turns, by prompts that you may not see",
    "unprompted": "set the agent to work WHEN YOU ARE AWAY, by prompts that you may not see",
}
_EDITOR: Final = {
    "terminal": "RUN COMMANDS ON YOUR MACHINE",
    "operation": "have the editor CHANGE YOUR FILES, open web pages, and do whatever else it can",
    "read": "read all files of your sessions' folders, also what you have not saved",
    "widget": "run scripts in its panels, which can tell other machines a few words",
    "comment": "put comments into your files, and set the agent to work by what you reply",
    "panel": "show panels beside the conversation",
    "ask": "ask you questions, in its own name",
    "log": "write to the editor's log",
}
"""What each word of `editor=` lets a component do at worst, the worst word first."""


SERVICES: Final = {
    "fetch": "SEND what it sees over the network to {}",
    "write": "make and REPLACE files in this folder of your sessions: {}",
    "files": "read files in the folders of your sessions: {}",
    "kv": "keep on this machine what it wants to know in its next runs",
    "timer": "work by itself at any time",
    "metric": "count for `metrics`",
    "log": "write to the log",
    "clock": "know the time",
    "random": "get random bytes",
}
"""What each service lets a component do at worst, the worst service first; `{}` stands for what the
grant names."""

THROUGH: Final = "Through the agent it can do what you let the agent do."
"""What no table of rights can say: they compose."""


def may(policy: Policy, shown: Shown = str) -> list[tuple[str, str]]:
    """What a component may do to the conversation, the worst first: a grant's name or a verb, and
    to what."""
    grants = msgspec.structs.replace(policy.grants, turns=policy.turns)
    return [*_named(grants, shown), *_rights(policy)]


def uses(services: Iterable[str], shown: Shown = str) -> list[str]:
    """What granted services let a component do, the worst first."""
    order = list(SERVICES)
    ordered = sorted(services, key=lambda grant: (order.index(grant.partition(":")[0]), grant))
    return [service(grant, shown) for grant in ordered]


def peers(names: Sequence[str]) -> str:
    """What `peers=` lets a component do."""
    return f"set other agents to work, in sessions that YOU DO NOT SEE: {', '.join(names)}"


def sees(whole: Policy, shown: Shown = str) -> tuple[list[str], list[str]]:
    """What the messages are about that a component sees, and what those that it does not see are
    about, the most important first; of the latter those of `SHORT` only."""
    held = [(row, _held(whole, row, SEEN)) for row in _by_importance()]
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
        lines.append(("give the agent", "tools of its own (MCP servers): it believes them"))
    copied = [row for row in rows if row.full & Right.COPY]
    seen = Right.COPY | Right.CARRY
    if all(policy.rights(row.direction, key) & seen.value for row in copied for key in row.keys):
        copies = "all else but the traffic of MCP servers and extensions"
    else:
        copies = _about(policy, rows, Right.COPY, without=Right.CARRY)
    return [(label, what) for label, what in [*lines, ("read", copies)] if what]


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
    """What the named grants let it do, the worst first."""
    lines = []
    given = grants.names()
    for name in (name for name in GRANTS if name in given):
        value = getattr(grants, name)
        if name == "editor":
            words = [text for word, text in _EDITOR.items() if word in value]
        else:
            words = [*map(shown, value)] if isinstance(value, tuple) else [_TURNS.get(value, "")]
        listed = "any" if value == ("*",) else ("; " if name == "editor" else ", ").join(words)
        lines.append((name, GRANTS[name].format(listed)))
    return lines
