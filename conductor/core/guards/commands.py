"""Commands in prompts: a text that an agent would read as a command comes from the user.

An agent takes a prompt for a command by how its text begins. Some agents read the first text block,
some the last, some all of them joined; some strip invisible characters. So every text of a prompt
counts here that begins, after invisible characters, with a slash, or with another mark under which
the agent lists a command. A skill, which version 2 calls by a block of its own, is a command.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from enum import Enum
from functools import lru_cache
from itertools import zip_longest
from typing import Final, TypeGuard

import msgspec

from conductor.core.guards.prompts import SKILL, UNSEEN, blob_text, blocks
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
from conductor.core.guards.rules import Attempt, Breaches, Context
from conductor.core.policy.rules import Grants
from conductor.patterns import lazy_pattern

_SLASHES: Final = frozenset("/\u2044\u2215\u2571\u27cb\u29f8\uff0f")
"""The slash and its look-alikes."""

_unseen = lazy_pattern(f"[{UNSEEN}]*")
_blank = lazy_pattern(r"\s*")
_word = lazy_pattern(r"\S*")
_letter = lazy_pattern(r"[^\W\d]")
SLASH: Final = "/"
_FOLDS: Final = 3
"""How many times longer a word can be than the same word without regard to case."""
ANY: Final = "*"
_LABELS: Final = frozenset({"uri", "name", "title"})
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789<([{_")
"""No command begins with one of these, unless an agent lists it so."""
_MARKS: Final = "/$!#:@&~%^*+-.?"
"""The signs with which a command may begin in the list of an agent; it is typed without a slash."""


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

    With `command:*` every command is its own that the agent does not list. To make a prompt into a
    command, the component must have been granted it by name.
    """
    if ANY in context.grants.commands and command not in context.commands:
        return True
    return command in granted(context.grants)


class Reading(msgspec.Struct, frozen=True):
    """A text of a prompt that begins like a command."""

    at: int
    """Index of its block."""
    block: Json
    words: tuple[str, ...]
    """The command as it is read in this text and, for the first text, in all texts joined."""
    is_command: bool
    """False for a word that only looks like a command, as a path does: `/etc/hosts`."""
    first: bool
    """Whether some agent may take it for the first text."""
    last: bool
    """Whether some agent may take it for the last text."""


class _Kind(Enum):
    """The kinds of texts in a prompt."""

    TEXT = "the text of a block"
    EMBEDDED = "the text of a resource in a block"
    LABEL = "a name or an address, which some agents write into the prompt"
    SKILL = "the name of a skill, as a user would type it"


class _Text(msgspec.Struct, frozen=True):
    """A text of a prompt: of a block, or of the resource in it."""

    at: int
    block: Json
    text: str
    kind: _Kind

    @property
    def plain(self) -> bool:
        """Whether every agent reads it as text.

        Some agents skip a block that is not of type `text`, or not meant for them.
        """
        block = as_object(self.block)
        audience = as_object(member(block, "annotations")).get("audience")
        for_all = audience is None or (isinstance(audience, list) and "assistant" in audience)
        return self.kind is _Kind.TEXT and block.get("type") == "text" and for_all


def _texts(prompt: list[Json]) -> Iterator[_Text]:
    """All texts in which anything is visible."""
    for at, block in enumerate(prompt):
        for text, kind in _texts_of(block):
            if isinstance(text, str) and _begins(text) < len(text):
                yield _Text(at, block, text, kind)


def _texts_of(block: Json, own: _Kind = _Kind.TEXT) -> Iterator[tuple[Json, _Kind]]:
    if isinstance(block, str):
        yield block, own
    if own is _Kind.TEXT and (skill := _skill(block)) is not None:
        yield skill, _Kind.SKILL
    for name, value in pairs(block):
        if name == "text":
            yield value, own
        elif name == "blob":
            yield blob_text(value, block), own
        elif name in _LABELS:
            yield value, _Kind.LABEL
        elif name == "resource" and own is _Kind.TEXT:
            yield from _texts_of(value, _Kind.EMBEDDED)


def _skill(block: Json) -> str | None:
    """The skill that a block calls, as a command; None: it calls none."""
    members = pairs(block)
    if ("type", SKILL) not in members:
        return None
    return next((spelled(name) for of, name in members if of == "name" and _is_name(name)), None)


def _is_name(value: Json) -> TypeGuard[str]:
    return isinstance(value, str) and value != ""


def _begins(text: str) -> int:
    return _end(_unseen, text, 0)


def _mark(char: str) -> str:
    return SLASH if char in _SLASHES else unicodedata.normalize("NFKC", char)[:1]


class _Listed:
    """The agent's list: the commands, and the marks that they begin with beside the slash."""

    def __init__(self, commands: AbstractSet[str]) -> None:
        self._words = {"".join((name[0], *name[1:].split()[:1])).casefold() for name in commands}
        self._longest = _FOLDS * max(map(len, self._words), default=0)
        self._marks = {name[0] for name in commands if _is_mark(name[:1])}
        # Most texts begin with one of these, and nearly no command does.
        self.plain = _PLAIN - {sign for word in self._words for sign in _cases(word[0])}

    def read(self, text: str) -> str:
        """The command that a text begins with, mark first; empty if it begins with none.

        A text that begins with a slash counts as a command, whatever follows, and so does one that
        begins with a mark that is listed by itself; other marks need a letter somewhere behind
        them.
        """
        if text[:1] in self.plain:
            return ""
        start = _begins(text)
        mark = _mark(text[start : start + 1])
        name = start + 1
        if mark == SLASH:
            name = _end(_blank, text, name)  # some agents take `/ name` for `/name`
        word = mark + text[name : _end(_word, text, name)]
        if mark == SLASH or (mark in self._marks and _letter.search(word, 1)) or self._has(word):
            return word
        return ""

    def _has(self, word: str) -> bool:
        listed = len(word) <= self._longest and word.casefold() in self._words
        return listed or word[:1] in self._words

    def is_command(self, word: str) -> bool:
        """Whether a word is a command and no path: it is listed, or no slash is in its name."""
        return self._has(word) or (len(word) > 1 and SLASH not in word[1:])


def _cases(sign: str) -> tuple[str, str]:
    return sign.lower(), sign.upper()


@lru_cache(maxsize=8)
def _listed(commands: frozenset[str]) -> _Listed:
    return _Listed(commands)


def _end(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return start if match is None else match.end()


def readings(prompt: list[Json], commands: AbstractSet[str]) -> list[Reading]:
    """The texts of a prompt that begin like commands.

    `commands` are those the agent lists; their marks count beside the slash. The text of an
    embedded resource counts where no text stands before it, a label where it is no path.
    """
    listed = _listed(frozenset(commands))
    texts = list(_texts(prompt))
    if not any(text.kind is _Kind.SKILL or listed.read(text.text) for text in texts):
        return []  # nearly all
    plain = [n for n, text in enumerate(texts) if text.plain]
    start, end = (plain[0], plain[-1]) if plain else (len(texts), -1)
    like_commands = []
    for n, text in enumerate(texts):
        embedded, skill = text.kind is _Kind.EMBEDDED, text.kind is _Kind.SKILL
        word = listed.read(text.text) if n < start or not embedded else ""
        word = text.text if skill else word
        if not word or (text.kind is _Kind.LABEL and not listed.is_command(word)):
            continue
        words = [word]
        if n == start:
            words.append(listed.read("".join(texts[m].text for m in plain)))
        is_command = skill or any(map(listed.is_command, words))
        last = n >= end and not embedded
        like_commands.append(
            Reading(text.at, text.block, tuple(words), is_command, n <= start, last)
        )
    return like_commands


def plainly_begins_none(commands: AbstractSet[str]) -> bool:
    """Whether a text that begins, after line breaks, with a letter or a digit of ASCII, or with one
    of `<([{_`, is never a command."""
    return not commands or _listed(frozenset(commands)).plain == _PLAIN


def asks_for_one(params: Params, commands: AbstractSet[str], grants: Grants) -> bool:
    """Whether a prompt, by its params, holds a command that is not a component's own."""
    own = granted(grants)
    try:
        members = pairs(read(params).value)
    except Unreadable:
        return True
    return any(
        reading.is_command and not own.issuperset(reading.words)
        for name, prompt in members
        if name == "prompt" and isinstance(prompt, list)
        for reading in readings(prompt, commands)
    )


def kept(attempt: Attempt) -> Breaches:
    """A command in a prompt stays that command, and nothing else becomes one.

    A component's own prompt has no blocks before.
    """
    context = attempt.context
    before, after = blocks(attempt)
    whole, now = (readings(prompt, context.commands) for prompt in (before, after))
    if not whole and not now:
        return  # nearly all
    own = granted(context.grants)
    stay = {canonical(reading.block) for reading in now}
    old = [
        reading
        for reading in whole
        if not own.issuperset(reading.words)
        and (
            canonical(reading.block) in stay
            or not all(_may_go(context, word) for word in reading.words)
        )
    ]
    new = [reading for reading in now if not own.issuperset(reading.words)]
    yield from _front_kept(before, after, old, new)
    yield from _commands_kept(old, new)
    yield from _no_slash_added(old, new)


def _may_go(context: Context, command: str) -> bool:
    """Whether a component may take a command out of a prompt: in an unknown session each may be
    one of the agent's."""
    return context.known and is_own(context, command)


def _front_kept(
    before: list[Json], after: list[Json], old: list[Reading], new: list[Reading]
) -> Breaches:
    """A command that begins a prompt begins it still, and with its block."""
    first = next((reading for reading in old if reading.first and reading.is_command), None)
    if first is None:
        return
    same = next((reading for reading in new if reading.first and reading.at == first.at), None)
    if before[: first.at + 1] != after[: first.at + 1] or same is None or same.words != first.words:
        hint = "put yours at the end, with a line break in front"
        text = f"a prompt that is a command stays that command, its block first; hint: {hint}"
        yield text, "/prompt"


def _commands_kept(old: list[Reading], new: list[Reading]) -> Breaches:
    """The commands in the texts of a prompt are those that were there."""
    were, are = ([reading for reading in side if reading.is_command] for side in (old, new))
    for was, now in zip_longest(were, are):
        if now is None:
            text = "a text that an agent may read as a command may not be changed or removed"
            yield text, "/prompt"
        elif (
            was is None
            or was.block != now.block
            or was.first != now.first
            or (now.last and not was.last)
        ):
            word = now.words[-1]
            text = f"an agent may read {word!a:.80} as a command, so it may not be added or moved"
            if was is None:
                text += (
                    f"\nhint: `,allow=command:NAME` lets it, for commands that are named; {_HINT}"
                )
            yield text, f"/prompt/{now.at}"


_HINT: Final = "other words with a slash may stand behind words of yours, in one text with them"


def _no_slash_added(old: list[Reading], new: list[Reading]) -> Breaches:
    """A text that begins with a slash and is no command began with a slash before."""
    words = {word for reading in old for word in reading.words}
    first = {word for reading in old if reading.first for word in reading.words}
    for reading in new:
        known = first if reading.first else words
        if not reading.is_command and not known.issuperset(reading.words):
            text = "a text may not be made to begin with a slash: some agent may read a command"
            yield f"{text}\nhint: {_HINT}", f"/prompt/{reading.at}"
