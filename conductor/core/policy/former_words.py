"""The former words of rights: each error names the words of now."""

from __future__ import annotations

from typing import Final

from conductor.core.policy.key_table import COPY, RIGHTS, UPDATE, Direction
from conductor.core.policy.word_table import split, word_for

_FORMER: Final = {
    "tools": "serve:tools",
    "kv": "storage",
    "files:": "read:",
    "fetch:": "web:",
    "turns=within": "prompt:within",
    "turns=unprompted": "prompt:anytime",
    "permission=narrow": "refuse:permissions",
    "mcp=others": "change:mcp",
    "sessions=own": "prompt:unseen",
    "texts=": "change:tool-calls",
    "options=": "offer:modes",
    "editor=panel": "show:panel",
    "editor=widget": "web:panel",
    "editor=comment": "show:comment",
    "editor=operation": "do:operations",
    "editor=log": "log:editor",
    "editor=read": "read:editor",
    "editor=terminal": "run:commands",
    "editor=ask": "ask:user",
    "commands=": "command:",
    "methods=": "extension:",
    "capabilities=": "claim:",
    "peers=": "peer:",
}
"""The former words of rights, with the words of now; behind `:` and `=` stands a scope."""
_LISTS: Final = ("profile", "grant", "grants")
"""Options whose values were rights as they are here; the values of others stand behind `=`."""
FORMER_OPTIONS: Final = (
    *_LISTS,
    *dict.fromkeys(name.partition("=")[0] for name in _FORMER if "=" in name),
)
"""Options that gave rights."""


def former(text: str) -> str:
    """The words of now for a former right, or a former option with its value; empty: it was
    none."""
    option, _, values = text.partition("=")
    if option not in FORMER_OPTIONS:
        return _now(text)
    head = "" if option in _LISTS else f"{option}="
    return "+".join(_now(head + each) or each for each in split(values))


def _now(word: str) -> str:
    direction, _, rest = word.partition(":")
    if direction in ("down", "up"):
        key, _, rights = rest.rpartition(":")
        named = [right for name, right in RIGHTS.items() if name in rights.split("+")]
        given = [_of_cell(Direction(direction), key, each) for each in named]
        return "+".join(dict.fromkeys(filter(None, given)))
    for was, now in _FORMER.items():
        if word == was or (was[-1] in ":=" and word.startswith(was)):
            return now + word.removeprefix(was) if now[-1] == ":" else now
    return ""


def _of_cell(direction: Direction, key: str, right: int) -> str:
    if key == UPDATE:
        return "see:updates" if right == COPY else "change:words"
    return word_for(direction, key, right)
