"""JSON read so that nothing of it is lost: numbers as they are written, members that repeat."""

from __future__ import annotations

import json
import math
from typing import Any, Final

Json = Any
"""None, bool, int, str, list, dict, `Number` or `Repeated`."""

_LONGEST_INT: Final = 400
"""Digits; Python takes time with their square to read more."""


class Number:
    """A number that is no plain integer. Equal to a number that parsers read as the same double."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Number):
            return False
        mine, theirs = float(self.text), float(other.text)
        return self.text == other.text or (mine == theirs and math.isfinite(mine))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Number({self.text!r})"

    def print(self) -> bytes:
        """A text that is the same for equal numbers: `1.10` and `1.1`, `-0.0` and `0.0`."""
        value = float(self.text) + 0.0
        return (repr(value) if math.isfinite(value) else self.text).encode()


class ExactNumber(Number):
    """A number that equals another only if both are spelled the same: `1.10` is not `1.1`."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and self.text == other.text

    __hash__ = None

    def print(self) -> bytes:
        """The number as it is written."""
        return self.text.encode()


class Repeated(tuple[tuple[str, Json], ...]):
    """The members of an object that has a name more than once, in order."""

    __slots__ = ()


class Nothing:
    """Stands where there is no value."""

    __slots__ = ()


def parse(raw: bytes, *, exact_numbers: bool = False, last_counts: bool = False) -> Json:
    """The value of a JSON text.

    With `exact_numbers` all its numbers are `ExactNumber`. With `last_counts` the last of several
    members with one name counts, as for most parsers; else all of them count (`Repeated`).

    Raises `ValueError` for a text that is no JSON or nested too deep.
    """
    try:
        return json.loads(
            raw,
            object_pairs_hook=dict if last_counts else _object,
            parse_float=ExactNumber if exact_numbers else Number,
            parse_int=ExactNumber if exact_numbers else _int,
            parse_constant=_none,
        )
    except RecursionError:
        raise ValueError("nested too deep") from None


def _int(text: str) -> int | Number:
    return int(text) if len(text) < _LONGEST_INT else Number(text)


def _none(text: str) -> Json:
    raise ValueError(f"{text} is no JSON")


def _object(pairs: list[tuple[str, Json]]) -> Json:
    members = dict(pairs)
    return members if len(members) == len(pairs) else Repeated(pairs)


def encode(value: Json) -> bytes:
    """A value as JSON text without space. Half a surrogate pair stays an escape."""
    return written(value).encode()


def written(value: Json) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, Number):
        return value.text
    if not isinstance(value, (dict, list, Repeated)):
        return json.dumps(value)
    parts = []  # filled by loops: a comprehension adds a frame to the stack for each level
    if isinstance(value, list):
        for held in value:
            parts.append(written(held))  # noqa: PERF401
        return f"[{','.join(parts)}]"
    for name, held in value.items() if isinstance(value, dict) else value:
        parts.append(f"{_quoted(name)}:{written(held)}")
    return f"{{{','.join(parts)}}}"


def name_of(pair: tuple[str, Json]) -> str:
    return pair[0]


def _quoted(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted if quoted.isascii() or _whole(quoted) else json.dumps(text)


def _whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
