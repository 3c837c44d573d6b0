"""Commands in prompts: what an agent would read as one is the user's (POLICY.md, `session/prompt`).

An agent takes a prompt for a command by how its text begins. Some read the first text block, some
the last, some all of them joined; some strip what cannot be seen. So every text of a prompt counts
here that begins, after what cannot be seen, with a slash, or with another mark under which the
agent lists a command.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from itertools import zip_longest
from typing import Final

import msgspec

from conductor.core.guards.context import Context, Violation
from conductor.core.guards.reading import Json, canonical, pairs
from conductor.core.guards.rules import Found
from conductor.core.guards.table import COMMANDS

_SLASHES: Final = frozenset("/\u2044\u2215\u2571\u27cb\u29f8\uff0f")
"""The slash and what looks like it."""

_UNSEEN: Final = (
    r"[\s\x00-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u2028-\u202f\u205f-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    r"\U000e0000-\U000e0fff\ud800-\udfff]*"
)
_unseen = re.compile(_UNSEEN)
_blank = re.compile(r"\s*")
_word = re.compile(r"\S*")
SLASH: Final = "/"
ANY: Final = "*"
_MARKS: Final = "/$!#:@&~%^*+-.?"
"""What a command may begin with in the list of an agent, and then is typed without a slash."""


def spelled(name: str) -> str:
    """A command as a user types it: a name without a mark gets a slash in front."""
    return name if _is_mark(name[:1]) else SLASH + name


def _is_mark(char: str) -> bool:
    return char != "" and char in _MARKS


def granted(context: Context) -> frozenset[str]:
    """The commands that a component was granted by name, as a user types them."""
    return frozenset(spelled(name) for name in context.grants.commands if name != ANY)


def is_own(context: Context, command: str) -> bool:
    """Whether a command is a component's own: it may list it, and take it out of prompts.

    With `commands=*` that is every one which the agent does not list. To make a prompt into a
    command it must have been granted by name.
    """
    if ANY in context.grants.commands and command not in context.commands:
        return True
    return command in granted(context)


class Reading(msgspec.Struct, frozen=True):
    """A text of a prompt that begins like a command.

    `at` and `block` say where it stands, `words` what the command would be: read in this text, and,
    of the first, in all texts joined. `first`, `last`: whether some agent may take it for the
    first, the last text.
    """

    at: int
    block: Json
    words: tuple[str, ...]
    first: bool
    last: bool

    @property
    def is_command(self) -> bool:
        """Whether it is one: a mark and a name. A path such as `/etc/hosts` only looks like it."""
        return any(len(word) > 1 and SLASH not in word[1:] for word in self.words)


class _Text(msgspec.Struct, frozen=True):
    """A text of a prompt: of a block itself, or of the resource in it.

    `plain`: every agent takes it for one; others may pass over what is no block of type `text`.
    """

    at: int
    block: Json
    text: str
    embedded: bool

    @property
    def plain(self) -> bool:
        return isinstance(self.block, dict) and self.block.get("type") == "text"


def _texts(prompt: list[Json]) -> Iterator[_Text]:
    """All texts in which there is something to be seen."""
    for at, block in enumerate(prompt):
        found: list[tuple[Json, bool]] = [(block, False)]
        for name, value in pairs(block):
            if name == "text":
                found.append((value, False))
            if name == "resource":
                found.extend((text, True) for inner, text in pairs(value) if inner == "text")
        for text, embedded in found:
            if isinstance(text, str) and _begins(text) < len(text):
                yield _Text(at, block, text, embedded)


def _begins(text: str) -> int:
    found = _unseen.match(text)
    return 0 if found is None else found.end()


def _mark(char: str) -> str:
    return SLASH if char in _SLASHES else unicodedata.normalize("NFKC", char)[:1]


def _read(text: str, marks: AbstractSet[str], commands: AbstractSet[str]) -> str:
    """The command that a text begins with, mark first; empty if it begins with none.

    What begins with a slash counts as one, whatever follows; other marks need a letter behind them,
    or to be listed so.
    """
    start = _begins(text)
    mark = _mark(text[start : start + 1])
    name = start + 1
    if mark == SLASH:
        name = _end(_blank, text, name)  # some agents take `/ name` for `/name`
    word = mark + text[name : _end(_word, text, name)]
    is_one = mark == SLASH or (mark in marks and word[1:2].isalpha()) or word in commands
    return word if is_one else ""


def _end(pattern: re.Pattern[str], text: str, start: int) -> int:
    found = pattern.match(text, start)
    return start if found is None else found.end()


def readings(prompt: list[Json], commands: AbstractSet[str]) -> list[Reading]:
    """The texts of a prompt that begin like commands.

    `commands` are those the agent lists; their marks count beside the slash. The text of an
    embedded resource counts where no text stands before it.
    """
    marks = {name[0] for name in commands if _is_mark(name[:1])}
    texts = list(_texts(prompt))
    plain = [n for n, one in enumerate(texts) if one.plain]
    start, end = (plain[0], plain[-1]) if plain else (len(texts), -1)
    found = []
    for n, one in enumerate(texts):
        word = _read(one.text, marks, commands) if n < start or not one.embedded else ""
        if word:
            words = [word]
            if n == start:
                joined = "".join(texts[m].text for m in plain)
                words.append(_read(joined, marks, commands))
            last = n >= end and not one.embedded
            found.append(Reading(one.at, one.block, tuple(words), n <= start, last))
    return found


def kept(context: Context, before: list[Json], after: list[Json]) -> Found:
    """Rule for the blocks of a prompt: a command stays that command, nothing else becomes one.

    A component's own prompt has no blocks `before`.
    """
    whole, now = (readings(prompt, context.commands) for prompt in (before, after))
    own = granted(context)
    stay = {canonical(one.block) for one in now}
    old = [
        one
        for one in whole
        if not own.issuperset(one.words)
        and (canonical(one.block) in stay or not all(is_own(context, w) for w in one.words))
    ]
    new = [one for one in now if not own.issuperset(one.words)]
    yield from _front(before, after, old, new)
    yield from _alike(old, new)
    yield from _paths(old, new)


def _front(before: list[Json], after: list[Json], old: list[Reading], new: list[Reading]) -> Found:
    """A command that begins a prompt begins it still, and with its block."""
    first = next((one for one in old if one.first and one.is_command), None)
    if first is None:
        return
    same = next((one for one in new if one.first), None)
    if before[: first.at + 1] != after[: first.at + 1] or same is None or same.words != first.words:
        hint = "put yours at the end, with a line break in front"
        text = f"a prompt that is a command stays that command, its block first; hint: {hint}"
        yield Violation(COMMANDS, text, "/prompt")


def _alike(old: list[Reading], new: list[Reading]) -> Found:
    """The commands in the texts of a prompt are those that were there."""
    were, are = ([one for one in side if one.is_command] for side in (old, new))
    for one, other in zip_longest(were, are):
        if other is None:
            text = "a text that an agent may read as a command may not be changed or removed"
            yield Violation(COMMANDS, text, "/prompt")
        elif (
            one is None
            or one.block != other.block
            or one.first != other.first
            or (other.last and not one.last)
        ):
            word = other.words[-1]
            text = f"an agent may read {word!a:.80} as a command, so it may not be added or moved"
            if one is None:
                text += "\nhint: `,commands=NAME` lets it, for commands that are named"
            yield Violation(COMMANDS, text, f"/prompt/{other.at}")


def _paths(old: list[Reading], new: list[Reading]) -> Found:
    """What begins with a slash and is no command began like that before."""
    words = {word for one in old for word in one.words}
    first = {word for one in old if one.first for word in one.words}
    for one in new:
        if not one.is_command and not (first if one.first else words).issuperset(one.words):
            text = "a text may not be made to begin with a slash: some agent may read a command"
            yield Violation(COMMANDS, text, f"/prompt/{one.at}")


# -- lists of commands -------------------------------------------------------------------------


def _name(entry: Json) -> str:
    """The command of an entry as a user types it; empty where it has no name."""
    name = entry.get("name") if isinstance(entry, dict) else None
    return spelled(name) if isinstance(name, str) else ""


def listed(context: Context, before: list[Json], after: list[Json], at: str) -> Found:
    """Rule for a list of commands: own ones may be added, those of others stay as they are."""
    given = {_name(entry) for entry in before}
    yield from _entries(context, given - granted(context), after, at)
    names = {name for name in map(_name, after) if _is_added(context, given, name)}
    theirs = [entry for entry in before if _name(entry) not in granted(context)]
    if [entry for entry in after if _name(entry) not in names] != theirs:
        text = "commands that others list stay as they are; hint: `commands=NAME` lets add own"
        yield Violation(COMMANDS, text, at)


def _is_added(context: Context, given: AbstractSet[str], name: str) -> bool:
    """Whether an entry of a list is a component's own: of a name nobody else lists, or granted."""
    own = name in granted(context)
    return name != "" and (own or (name not in given and is_own(context, name)))


def _entries(context: Context, given: AbstractSet[str], after: list[Json], at: str) -> Found:
    """What a component lists has plain members and one name each."""
    seen = set(given)
    for n, entry in enumerate(after):
        name = _name(entry)
        if name in given or not is_own(context, name):
            continue
        if name in seen or not isinstance(entry, dict) or not _LISTED.issuperset(entry):
            yield Violation(COMMANDS, "a command is listed once, and plainly", f"{at}/{n}")
        seen.add(name)


_LISTED: Final = frozenset({"type", "name", "description", "input", "_meta"})


def announced(context: Context, entries: list[Json], at: str) -> Found:
    """Rule for a list of a component's own: all that the agent lists, and own ones."""
    theirs = [name for name in map(_name, entries) if not is_own(context, name)]
    expected = {name for name in context.commands if not is_own(context, name)}
    may = bool(context.grants.commands)
    if not may or set(theirs) != expected or len(theirs) != len(expected):
        text = "a list of commands holds those of the agent, and of its own those it was granted"
        yield Violation(COMMANDS, text, at)
    yield from _entries(context, expected, entries, at)
