"""Lists of commands: a component adds its own to those of the agent."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

from conductor.core.guards.commands import granted, is_own, spelled
from conductor.core.guards.reading import Absent, Json, Object, member, token
from conductor.core.guards.rules import Attempt, Breaches, Context

MEMBER: Final = "availableCommands"
_ENTRY: Final = frozenset({"type", "name", "description", "input", "_meta"})


def _name(entry: Json) -> str:
    """The command of an entry as a user types it; empty where it has no name."""
    name = entry.get("name") if isinstance(entry, dict) else None
    return spelled(name) if isinstance(name, str) else ""


def set_up(attempt: Attempt) -> Breaches:
    """In the result of a set-up own commands may be added to a list."""
    if isinstance(attempt.before, dict) and isinstance(member(attempt.new, MEMBER), list):
        before, after = member(attempt.old, MEMBER), member(attempt.new, MEMBER)
        yield from listed(attempt.context, before, after, token(MEMBER))


def listed(context: Context, before: Json | Absent, after: Json | Absent, at: str) -> Breaches:
    """Own commands may be added to a list, those of others stay as they are."""
    if before == after:
        return
    old, new = (entries if isinstance(entries, list) else [] for entries in (before, after))
    given = {_name(entry) for entry in old}
    yield from _entries(context, given - granted(context.grants), new, at)
    names = {name for name in map(_name, new) if _is_added(context, given, name)}
    theirs = [entry for entry in old if _name(entry) not in granted(context.grants)]
    if [entry for entry in new if _name(entry) not in names] != theirs:
        yield "commands that others list stay as they are; hint: `command:NAME` lets add own", at


def _is_added(context: Context, given: AbstractSet[str], name: str) -> bool:
    """Whether an entry of a list is a component's own: of a name nobody else lists, or granted."""
    own = name in granted(context.grants)
    return name != "" and (own or (name not in given and is_own(context, name)))


def _entries(context: Context, given: AbstractSet[str], after: list[Json], at: str) -> Breaches:
    """The commands that a component lists have plain members and one name each."""
    seen = set(given)
    for n, entry in enumerate(after):
        name = _name(entry)
        if name in given or not is_own(context, name):
            continue
        if name in seen or not isinstance(entry, dict) or not _ENTRY.issuperset(entry):
            yield "a command is listed once, and plainly", f"{at}/{n}"
        seen.add(name)


def announced(attempt: Attempt, kind: str, update: Object) -> Breaches:
    """A list of a component's own holds all commands that the agent lists, and own ones."""
    context, at = attempt.context, f"/update/{MEMBER}"
    held = update.get(MEMBER)
    entries: list[Json] = held if isinstance(held, list) else [None]
    theirs = [name for name in map(_name, entries) if not is_own(context, name)]
    expected = {name for name in context.commands if not is_own(context, name)}
    may = bool(context.grants.commands)
    if not may or set(theirs) != expected or len(theirs) != len(expected):
        yield "a list of commands holds those of the agent, and of its own those it was granted", at
    yield from _entries(context, expected, entries, at)
