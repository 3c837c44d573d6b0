"""The differences of two JSON texts, as operations on JSON pointers (RFC 6901).

The operations are those of RFC 6902 (`add`, `remove`, `replace`): applied in order to the first
text they give the second, whatever the spelling of both. No parser hides anything: of a name that
an object has twice both values are kept.

Pure functions. Time and memory are in proportion to the texts, whatever they hold: components
choose them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, NamedTuple

from conductor.core.text_pairs import align
from conductor.record.exact_json import (
    Json,
    Nothing,
    Number,
    Repeated,
    encode,
    name_of,
    parse,
    written,
)

Path = tuple[str | int, ...]
_MOST_COMPARED: Final = 40_000
"""The most pairs of entries that one diff compares, in all lists, to find equal entries."""

_MOST_ALIGNED: Final = 1_000
"""The most pairs of entries of one list that are compared as texts, which takes longer."""
_LOOKED_AT: Final = 4_096
"""Bytes of an entry that show which entry it is a version of."""

_DEEPEST: Final = 24
"""Levels; below them a container that differs is replaced as a whole."""

_SHORT_PRINT: Final = 32
_MARK: Final = b"#"
"""Begins a print that is a digest; no JSON text begins with it."""
_PRINT: Final = 16
NOTHING: Final = Nothing()


class Operation(NamedTuple):
    """One difference."""

    op: str
    path: Path
    """Where, once the operations before it have been applied."""
    before: Json
    """`NOTHING` for `add`."""
    after: Json
    """`NOTHING` for `remove`."""
    was: Path
    """The place of the value `before` in the first text."""
    now: Path
    """The place of the value `after` in the second text."""


def same(
    text: bytes, other: bytes, *, exact_numbers: bool = False, last_counts: bool = False
) -> bool:
    """Whether two JSON texts hold the same value, however they are spelled (see `parse`).

    Texts that are no JSON are the same only byte by byte.
    """
    if text == other:
        return True
    try:
        first, second = (
            parse(each, exact_numbers=exact_numbers, last_counts=last_counts)
            for each in (text, other)
        )
        return not diff(first, second)
    except (ValueError, RecursionError):
        return False


def print_of(text: bytes) -> bytes:
    """A few bytes that are the same for texts of the same value (see `same`), and for no others."""
    try:
        return _Work().print(parse(text))
    except (ValueError, RecursionError):
        return _digest(b"", text)


def diff(before: Json, after: Json) -> list[Operation]:
    """The operations that turn `before` into `after`; none if they hold the same value.

    Either may be `NOTHING`: the whole is then added or removed.
    """
    if isinstance(before, Nothing) or isinstance(after, Nothing):
        if isinstance(before, Nothing) and isinstance(after, Nothing):
            return []
        op = "add" if isinstance(before, Nothing) else "remove"
        return [Operation(op, (), before, after, (), ())]
    return list(_differences(before, after, ((), ()), _Work()))


class _Work:
    """The prints of one diff, and the number of comparisons that it has left."""

    __slots__ = ("left", "prints")

    def __init__(self) -> None:
        self.prints: dict[int, bytes] = {}
        """Of containers, by identity: without it each level would compute them again."""
        self.left = _MOST_COMPARED
        """Pairs of entries that it may still compare."""

    def may_compare(self, pairs: int, most: int = _MOST_COMPARED) -> bool:
        """Whether it may compare so many pairs; if so, they are taken off its budget."""
        if pairs > min(most, self.left):
            return False
        self.left -= pairs
        return True

    def print(self, value: Json) -> bytes:
        """A few bytes that are the same for equal values, whatever the order of members, and for
        no others."""
        if not isinstance(value, (dict, list, Repeated)):
            text = value.print() if isinstance(value, Number) else encode(value)
            return text if len(text) <= _SHORT_PRINT else _digest(b'"', text)
        known = self.prints.get(id(value))
        if known is None:
            digest = hashlib.blake2b(digest_size=_PRINT)
            if isinstance(value, list):
                digest.update(b"[")
                for held in value:
                    _put(digest, self.print(held))
            else:
                digest.update(b"{")
                pairs = value.items() if isinstance(value, dict) else value
                for name, held in sorted(pairs, key=name_of):
                    _put(digest, self.print(name))
                    _put(digest, self.print(held))
            known = self.prints[id(value)] = _MARK + digest.digest()
        return known


def _digest(kind: bytes, text: bytes) -> bytes:
    return _MARK + hashlib.blake2b(kind + text, digest_size=_PRINT).digest()


def _put(digest: hashlib.blake2b, text: bytes) -> None:
    # With its length, so that no two sequences of prints give the same digest.
    digest.update(b"%c%b" % (len(text), text))


def _differences(
    before: Json, after: Json, paths: tuple[Path, Path], work: _Work
) -> Iterator[Operation]:
    was, now = paths
    if len(now) == _DEEPEST:
        if work.print(before) != work.print(after):
            yield Operation("replace", now, before, after, was, now)
    elif type(before) is type(after) is dict:
        yield from _in_objects(before, after, paths, work)
    elif type(before) is type(after) is list:
        yield from _in_lists(before, after, paths, work)
    elif type(before) is not type(after) or before != after:
        yield Operation("replace", now, before, after, was, now)


def _in_objects(
    before: dict[str, Json],
    after: dict[str, Json],
    paths: tuple[Path, Path],
    work: _Work,
) -> Iterator[Operation]:
    was, now = paths
    for name, value in before.items():
        if name not in after:
            yield Operation("remove", (*now, name), value, NOTHING, (*was, name), (*now, name))
    for name, value in after.items():
        if name not in before:
            yield Operation("add", (*now, name), NOTHING, value, (*was, name), (*now, name))
    for name, value in after.items():
        if name in before:
            yield from _differences(before[name], value, ((*was, name), (*now, name)), work)


def _in_lists(
    before: list[Json],
    after: list[Json],
    paths: tuple[Path, Path],
    work: _Work,
) -> Iterator[Operation]:
    """Entries removed, last first, so that places before them stay; then added; then changed."""
    was, now = paths
    partners = _partners(before, after, work)
    kept = {place for place in partners if place is not None}
    for at in range(len(before) - 1, -1, -1):
        if at not in kept:
            yield Operation("remove", (*now, at), before[at], NOTHING, (*was, at), (*now, at))
    for at, place in enumerate(partners):
        if place is None:
            yield Operation("add", (*now, at), NOTHING, after[at], (*was, at), (*now, at))
    for at, place in enumerate(partners):
        if place is not None and work.print(before[place]) != work.print(after[at]):
            yield from _differences(before[place], after[at], ((*was, place), (*now, at)), work)


def _partners(was: list[Json], now: list[Json], work: _Work) -> list[int | None]:
    """For each entry of `now` the place of its former version in `was`, in order, or None."""
    before, after = [work.print(entry) for entry in was], [work.print(entry) for entry in now]
    head = _common(before, after)
    tail = _common(before[head:][::-1], after[head:][::-1])
    left = before[head : len(before) - tail]
    right = after[head : len(after) - tail]
    middle: list[int | None]
    if not work.may_compare(len(left) * len(right)):
        middle = [at if at < len(left) else None for at in range(len(right))]
    else:
        middle = []
        for what, i, j, k, m in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
            if what == "equal":
                middle += range(i, j)
            else:
                places = _block(was[head + i : head + j], now[head + k : head + m], work)
                middle += [None if at is None else i + at for at in places]
    last = len(before) - len(after)
    return [
        *range(head),
        *(None if at is None else head + at for at in middle),
        *(at + last for at in range(len(after) - tail, len(after))),
    ]


def _block(left: list[Json], right: list[Json], work: _Work) -> list[int | None]:
    """The partners in a part of two lists where no entry is the same."""
    if len(left) == len(right) == 1:
        return [0]
    if not work.may_compare(len(left) * len(right), _MOST_ALIGNED):
        return [at if at < len(left) else None for at in range(len(right))]
    return align([_beginning(entry) for entry in left], [_beginning(entry) for entry in right])


def _beginning(value: Json) -> bytes:
    """As much of a value's text as shows which value it is a version of."""
    parts: list[str] = []
    room, left = _LOOKED_AT, [value]
    while left and room > 0:
        held = left.pop()
        if isinstance(held, list):
            parts.append("[")
            left += reversed(held)
        elif isinstance(held, (dict, Repeated)):
            parts.append("{")
            pairs = held.items() if isinstance(held, dict) else held
            left += (
                part for pair in sorted(pairs, key=name_of, reverse=True) for part in pair[::-1]
            )
        else:
            parts.append(written(held[:room] if isinstance(held, str) else held))
        room -= len(parts[-1])
    return ",".join(parts).encode()[:_LOOKED_AT]


def _common(left: Sequence[bytes], right: Sequence[bytes]) -> int:
    """How many entries are the same at the beginning."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(left), len(right)))


def repeated(value: Json) -> list[Path]:
    """Where objects have a name more than once."""
    paths: list[Path] = []
    left: list[tuple[Path, Json]] = [((), value)]
    while left:
        path, held = left.pop()
        if isinstance(held, Repeated):
            paths.append(path)
        elif isinstance(held, (dict, list)):
            items = held.items() if isinstance(held, dict) else enumerate(held)
            left += (((*path, step), entry) for step, entry in items)
    return sorted(paths, key=str)


def pointer(path: Path) -> str:
    """A path as a JSON pointer."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)


def at(value: Json, path: Path) -> Json:
    """The value at a path, or the last on it that is no container."""
    for step in path:
        if isinstance(value, (dict, list)):
            value = value[step]  # type: ignore[index]
    return value
