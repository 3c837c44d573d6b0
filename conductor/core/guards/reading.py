"""JSON read so that nothing is lost on which two parsers could disagree.

Numbers stay as they were written. An object that repeats a member name, or has a member name that
is no text (half a surrogate pair), is no `dict` but an `Ambiguous`: equal to itself and nothing
else.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
from msgspec import Raw, UnsetType

from conductor.core.json_text import too_many_values
from conductor.patterns import lazy_pattern

if TYPE_CHECKING:
    from json import JSONDecoder, JSONEncoder

Params: TypeAlias = Raw | bytes | UnsetType
Json: TypeAlias = "bool | str | Number | list[Json] | dict[str, Json] | Ambiguous | None"
Object: TypeAlias = dict[str, Json]


class Number(msgspec.Struct, frozen=True):
    """A number; equal if spelled the same, so `1.10` is not `1.1`."""

    text: str


class Ambiguous(msgspec.Struct, frozen=True):
    """An object that parsers may read differently: all its members, in order."""

    pairs: tuple[tuple[str, Json], ...]


class Document(msgspec.Struct, frozen=True):
    """A value read, and every ambiguous object anywhere in it."""

    value: Json
    ambiguous: tuple[Ambiguous, ...] = ()
    unreadable: str = ""
    """Why there is no value, where there is none."""


class Unreadable(Exception):  # noqa: N818 - names the text's state
    """The text is no JSON, or nests too deeply or holds too much to be looked at."""


_number = lazy_pattern('\\{"\ud800number": "([^"]*)"\\}')
_half = lazy_pattern("[\ud800-\udfff]")
MOST_VALUES: Final = 250_000
"""The most values of a text that is read at all."""
MOST_JUDGED: Final = 25_000
"""The most values of a message that a component may change or send of its own: to judge each value
takes time."""


class _Repeated(Exception):  # noqa: N818 - never leaves this module
    """The quick decoder met an ambiguous object."""


class Absent:
    """The type of `ABSENT`."""

    __slots__ = ()


ABSENT: Final = Absent()
"""Stands for a member that is not there; equal to nothing but itself."""


def _is_plain(members: Object, pairs: list[tuple[str, Json]]) -> bool:
    if len(members) != len(pairs):
        return False
    names = "".join(members)
    return names.isascii() or not any("\ud800" <= char <= "\udfff" for char in names)


def _plain(pairs: list[tuple[str, Json]]) -> Object:
    members = dict(pairs)
    if _is_plain(members, pairs):
        return members
    raise _Repeated


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is no JSON")


def _decoder(object_pairs_hook: Callable[[list[tuple[str, Json]]], Json]) -> JSONDecoder:
    import json  # only once something is judged: an editor waits for the start

    return json.JSONDecoder(
        object_pairs_hook=object_pairs_hook,
        parse_int=Number,
        parse_float=Number,
        parse_constant=_no_constant,
    )


@cache
def _quick() -> JSONDecoder:
    return _decoder(_plain)


def value_of(raw: Params) -> Json:
    """The value of a JSON text; None where it cannot be read."""
    try:
        return read(raw).value
    except Unreadable:
        return None


def read(raw: Params, most: int = MOST_VALUES) -> Document:
    """Reads a JSON text of at most `most` values; `UNSET` reads as null.

    Raises `Unreadable`, and nothing else.
    """
    if isinstance(raw, UnsetType):
        return Document(None)
    if too_many_values(bytes(raw), most):
        raise Unreadable(f"it has more than {most:,} values")
    try:
        text = bytes(raw).decode()
        try:
            return Document(_quick().decode(text))
        except _Repeated:
            return _slowly(text)
    except RecursionError:
        raise Unreadable("it nests too deeply") from None
    except ValueError:  # not UTF-8, or not JSON
        raise Unreadable("it is not JSON") from None


def _slowly(text: str) -> Document:
    ambiguous: list[Ambiguous] = []

    def members(pairs: list[tuple[str, Json]]) -> Json:
        plain = dict(pairs)
        if _is_plain(plain, pairs):
            return plain
        node = Ambiguous(tuple(pairs))
        ambiguous.append(node)
        return node

    return Document(_decoder(members).decode(text), tuple(ambiguous))


def as_object(value: Json | Absent) -> Object:
    """`value` if it is a plain object, else an empty object."""
    return value if isinstance(value, dict) else {}


def pairs(value: Json | Absent) -> list[tuple[str, Json]]:
    """All members of an object, repeated ones too; none of any other value."""
    if isinstance(value, Ambiguous):
        return list(value.pairs)
    return list(value.items()) if isinstance(value, dict) else []


@cache
def _encoder() -> JSONEncoder:
    import json

    return json.JSONEncoder(sort_keys=True, ensure_ascii=False, default=_other)


def canonical(value: Json) -> str:
    """A text that is the same for equal values, and for no others."""
    return _encoder().encode(value)


def written(text: str) -> bytes:
    """The JSON of the value that has this canonical text."""
    text = _number.sub(r"\1", text)
    return _half.sub(lambda half: f"\\u{ord(half[0]):04x}", text).encode()


def _other(value: object) -> object:
    """A value for a number as it was written, or for an ambiguous object; no JSON looks so."""
    if isinstance(value, Number):
        return {"\ud800number": value.text}
    return {"\ud800pairs": value.pairs if isinstance(value, Ambiguous) else None}


def token(name: str | int) -> str:
    """One step of a JSON pointer, slash included; half a surrogate pair is written as an escape."""
    text = str(name).replace("~", "~0").replace("/", "~1")
    return "/" + text.encode(errors="backslashreplace").decode()


def member(holder: Object, name: str) -> Json | Absent:
    """A member's value, `ABSENT` where there is none."""
    return holder[name] if name in holder else ABSENT  # noqa: SIM401 - mypy takes no other default


_POINTER_STEPS: Final = 8
"""Each step compares anew, so pointers stop here: a huge deep message must not cost its square."""


def difference(
    before: Json | Absent, after: Json | Absent, at: str = "", steps: int = _POINTER_STEPS
) -> str | None:
    """The pointer to the first place where two values differ; None where they do not.

    It has at most `steps` steps more than `at`.
    """
    if before == after:
        return None
    pairs: Iterator[tuple[str | int, Json | Absent, Json | Absent]] = iter(())
    if isinstance(before, dict) and isinstance(after, dict):
        pairs = ((name, member(before, name), member(after, name)) for name in {**before, **after})
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = ((i, *both) for i, both in enumerate(zip(before, after, strict=True)))
    if steps:
        for name, old, new in pairs:
            if old != new:
                return difference(old, new, at + token(name), steps - 1)
    return at


def changes(
    before: Object, after: Object, but: Container[str] = ()
) -> Iterator[tuple[str, Json | Absent, Json | Absent]]:
    """The members in which two objects differ, each with its former and its present value; without
    those of `but`, which other rules are about."""
    for name in {**before, **after}:
        was, now = member(before, name), member(after, name)
        if was != now and name not in but:
            yield name, was, now


def is_subsequence(kept: list[Json], whole: list[Json]) -> bool:
    """Whether `kept` is `whole` with some elements left out, order kept."""
    rest = iter(whole)
    return all(any(element == other for other in rest) for element in kept)
