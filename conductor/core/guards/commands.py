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
from enum import Enum
from itertools import zip_longest
from typing import Final

import msgspec

from conductor.core.guards.blobs import as_text
from conductor.core.guards.context import Context, Violation
from conductor.core.guards.reading import (
    Json,
    Params,
    Unreadable,
    as_object,
    canonical,
    member,
    pairs,
    read,
)
from conductor.core.guards.rules import Found
from conductor.core.guards.table import COMMANDS
from conductor.core.policy.rules import Grants

_SLASHES: Final = frozenset("/\u2044\u2215\u2571\u27cb\u29f8\uff0f")
"""The slash and what looks like it."""

UNSEEN: Final = (
    r"\s\x00-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u2028-\u202f\u205f-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    r"\U000e0000-\U000e0fff\ud800-\udfff"
)
"""What cannot be seen, as a regular expression has it between brackets."""
_unseen = re.compile(f"[{UNSEEN}]*")
_blank = re.compile(r"\s*")
_word = re.compile(r"\S*")
_letter = re.compile(r"[^\W\d]").search
SLASH: Final = "/"
_FOLDS: Final = 3
"""A word is at most so many times as long as what it is without regard to case, or the other way
round."""
ANY: Final = "*"
_LABELS: Final = frozenset({"uri", "name", "title"})
_MARKS: Final = "/$!#:@&~%^*+-.?"
"""What a command may begin with in the list of an agent, and then is typed without a slash."""


def spelled(name: str) -> str:
    """A command as a user types it: a name without a mark gets a slash in front."""
    return name if _is_mark(name[:1]) else SLASH + name


def _is_mark(char: str) -> bool:
    return char != "" and char in _MARKS


def granted(grants: Grants) -> frozenset[str]:
    """The commands that a component was granted by name, as a user types them."""
    return frozenset(spelled(name) for name in grants.commands if name != ANY)


def is_own(context: Context, command: str) -> bool:
    """Whether a command is a component's own: it may list it, and take it out of prompts.

    With `commands=*` that is every one which the agent does not list. To make a prompt into a
    command it must have been granted by name.
    """
    if ANY in context.grants.commands and command not in context.commands:
        return True
    return command in granted(context.grants)


class Reading(msgspec.Struct, frozen=True):
    """A text of a prompt that begins like a command.

    `at` and `block` say where it stands, `words` what the command would be: read in this text, and,
    of the first, in all texts joined. `is_command`: whether it is one; a path such as `/etc/hosts`
    only looks like it. `first`, `last`: whether some agent may take it for the first, or the last,
    text.
    """

    at: int
    block: Json
    words: tuple[str, ...]
    is_command: bool
    first: bool
    last: bool


class _Kind(Enum):
    """What a text of a prompt is."""

    TEXT = "a block's own"
    EMBEDDED = "that of a resource in it"
    LABEL = "a name or an address, which some agents write into the prompt"


class _Text(msgspec.Struct, frozen=True):
    """A text of a prompt: of a block, or of the resource in it."""

    at: int
    block: Json
    text: str
    kind: _Kind

    @property
    def plain(self) -> bool:
        """Whether every agent takes it for one; some pass over a block that is not of type `text`,
        or not for them."""
        block = as_object(self.block)
        audience = as_object(member(block, "annotations")).get("audience")
        for_all = audience is None or (isinstance(audience, list) and "assistant" in audience)
        return self.kind is _Kind.TEXT and block.get("type") == "text" and for_all


def _texts(prompt: list[Json]) -> Iterator[_Text]:
    """All texts in which there is something to be seen."""
    for at, block in enumerate(prompt):
        for text, kind in _said(block):
            if isinstance(text, str) and _begins(text) < len(text):
                yield _Text(at, block, text, kind)


def _said(block: Json, own: _Kind = _Kind.TEXT) -> Iterator[tuple[Json, _Kind]]:
    if isinstance(block, str):
        yield block, own
    for name, value in pairs(block):
        if name == "text":
            yield value, own
        elif name == "blob":
            yield as_text(value, block), own
        elif name in _LABELS:
            yield value, _Kind.LABEL
        elif name == "resource" and own is _Kind.TEXT:
            yield from _said(value, _Kind.EMBEDDED)


def _begins(text: str) -> int:
    found = _unseen.match(text)
    return 0 if found is None else found.end()


def _mark(char: str) -> str:
    return SLASH if char in _SLASHES else unicodedata.normalize("NFKC", char)[:1]


class _Listed:
    """What the agent lists: the commands, and the marks that they begin with beside the slash."""

    def __init__(self, commands: AbstractSet[str]) -> None:
        self._words = {"".join((name[0], *name[1:].split()[:1])).casefold() for name in commands}
        self._longest = _FOLDS * max(map(len, self._words), default=0)
        self._marks = {name[0] for name in commands if _is_mark(name[:1])}

    def read(self, text: str) -> str:
        """The command that a text begins with, mark first; empty if it begins with none.

        What begins with a slash counts as one, whatever follows, and so does what begins with a
        mark that is listed by itself; other marks need a letter somewhere behind them.
        """
        start = _begins(text)
        mark = _mark(text[start : start + 1])
        name = start + 1
        if mark == SLASH:
            name = _end(_blank, text, name)  # some agents take `/ name` for `/name`
        word = mark + text[name : _end(_word, text, name)]
        if mark == SLASH or (mark in self._marks and _letter(word, 1)) or self._has(word):
            return word
        return ""

    def _has(self, word: str) -> bool:
        listed = len(word) <= self._longest and word.casefold() in self._words
        return listed or word[:1] in self._words

    def is_command(self, word: str) -> bool:
        """Whether a word is a command and no path: it is listed, or no slash is in its name."""
        return self._has(word) or (len(word) > 1 and SLASH not in word[1:])


def _end(pattern: re.Pattern[str], text: str, start: int) -> int:
    found = pattern.match(text, start)
    return start if found is None else found.end()


def readings(prompt: list[Json], commands: AbstractSet[str]) -> list[Reading]:
    """The texts of a prompt that begin like commands.

    `commands` are those the agent lists; their marks count beside the slash. The text of an
    embedded resource counts where no text stands before it, a label where it is no path.
    """
    listed = _Listed(commands)
    texts = list(_texts(prompt))
    plain = [n for n, one in enumerate(texts) if one.plain]
    start, end = (plain[0], plain[-1]) if plain else (len(texts), -1)
    found = []
    for n, one in enumerate(texts):
        embedded = one.kind is _Kind.EMBEDDED
        word = listed.read(one.text) if n < start or not embedded else ""
        if not word or (one.kind is _Kind.LABEL and not listed.is_command(word)):
            continue
        words = [word]
        if n == start:
            words.append(listed.read("".join(texts[m].text for m in plain)))
        is_one = any(map(listed.is_command, words))
        last = n >= end and not embedded
        found.append(Reading(one.at, one.block, tuple(words), is_one, n <= start, last))
    return found


def asks_for_one(params: Params, commands: AbstractSet[str], grants: Grants) -> bool:
    """Whether a prompt, by its params, holds a command that is not a component's own."""
    own = granted(grants)
    try:
        members = pairs(read(params).value)
    except Unreadable:
        return True
    return any(
        one.is_command and not own.issuperset(one.words)
        for name, prompt in members
        if name == "prompt" and isinstance(prompt, list)
        for one in readings(prompt, commands)
    )


def kept(context: Context, before: list[Json], after: list[Json]) -> Found:
    """Rule for the blocks of a prompt: a command stays that command, nothing else becomes one.

    A component's own prompt has no blocks `before`.
    """
    whole, now = (readings(prompt, context.commands) for prompt in (before, after))
    own = granted(context.grants)
    stay = {canonical(one.block) for one in now}
    old = [
        one
        for one in whole
        if not own.issuperset(one.words)
        and (canonical(one.block) in stay or not all(_may_go(context, w) for w in one.words))
    ]
    new = [one for one in now if not own.issuperset(one.words)]
    yield from _front(before, after, old, new)
    yield from _alike(old, new)
    yield from _paths(old, new)


def _may_go(context: Context, command: str) -> bool:
    """Whether a component may take a command out of a prompt: in a session that nobody knows, all
    may be the agent's."""
    return context.known and is_own(context, command)


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
                text += f"\nhint: `,commands=NAME` lets it, for commands that are named; {_HINT}"
            yield Violation(COMMANDS, text, f"/prompt/{other.at}")


_HINT: Final = "what is none may stand behind words of yours, in one text with them"


def _paths(old: list[Reading], new: list[Reading]) -> Found:
    """What begins with a slash and is no command began like that before."""
    words = {word for one in old for word in one.words}
    first = {word for one in old if one.first for word in one.words}
    for one in new:
        if not one.is_command and not (first if one.first else words).issuperset(one.words):
            text = "a text may not be made to begin with a slash: some agent may read a command"
            yield Violation(COMMANDS, f"{text}\nhint: {_HINT}", f"/prompt/{one.at}")


# -- lists of commands -------------------------------------------------------------------------


def _name(entry: Json) -> str:
    """The command of an entry as a user types it; empty where it has no name."""
    name = entry.get("name") if isinstance(entry, dict) else None
    return spelled(name) if isinstance(name, str) else ""


def listed(context: Context, before: list[Json], after: list[Json], at: str) -> Found:
    """Rule for a list of commands: own ones may be added, those of others stay as they are."""
    given = {_name(entry) for entry in before}
    yield from _entries(context, given - granted(context.grants), after, at)
    names = {name for name in map(_name, after) if _is_added(context, given, name)}
    theirs = [entry for entry in before if _name(entry) not in granted(context.grants)]
    if [entry for entry in after if _name(entry) not in names] != theirs:
        text = "commands that others list stay as they are; hint: `commands=NAME` lets add own"
        yield Violation(COMMANDS, text, at)


def _is_added(context: Context, given: AbstractSet[str], name: str) -> bool:
    """Whether an entry of a list is a component's own: of a name nobody else lists, or granted."""
    own = name in granted(context.grants)
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
