"""JSON texts that are edited, not rewritten.

What passes a proxy must leave it as it came, byte for byte, except where the proxy changed it:
numbers such as `1.10` or `1e400`, escapes, unknown members. So a message keeps its text, and
`merging` writes only the values that differ from what the text says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from json import encoder
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, Final, TypeAlias

_space: Final = re.compile(r"[ \t\n\r]*").match
scan: Final[Callable[[str, int], tuple[Any, int]]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
"""Decodes the value at a place: the value and where it ends. Raises `StopIteration` for none."""

_ascii: Final = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
_SPACES: Final = " \t\n\r"
_LARGE: Final = 4000
"""Characters from which on decoding a text once more costs more than remembering places in it."""

_DEPTH: Final = 3
"""How deep places are remembered then: the members of a prompt's blocks, or of an update's
content."""


def _compact_encoder() -> Callable[[Any], str]:
    """Encodes without spaces. `json.JSONEncoder` does, but makes its machinery at every call."""
    plain = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    make: Any = getattr(encoder, "c_make_encoder", None)
    if make is None:
        return plain.encode
    inside: dict[int, Any] = {}
    quoted = encoder.encode_basestring
    chunks = make(inside, plain.default, quoted, None, ":", ",", False, False, False)

    def encode(value: Any) -> str:
        try:
            return "".join(chunks(value, 0))
        except BaseException:
            # Of a value that cannot be encoded some is left. Not in any other case: while one value
            # is encoded, what is left of a coroutine may be collected, and encode another.
            inside.clear()
            raise

    return encode


_compact: Final = _compact_encoder()


Place: TypeAlias = "tuple[int, int, int, dict[str, Place] | list[Place] | None]"
"""Where a value stands in a text: where its name begins if it is a member (else the value itself),
where the value begins, where it ends; and the places of its members or elements, if remembered."""


class Member:
    """A member of an object: its value, decoded, and the place of the value in the text."""

    __slots__ = ("end", "name", "start", "value")

    def __init__(self, name: str, start: int, end: int, value: Any) -> None:
        self.name = name
        self.start = start
        self.end = end
        self.value = value


DEEPEST: Final = 200
"""How deep JSON of strangers may nest."""

_strings: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_brackets: Final = re.compile(r"[\[{\]}]")


def loads(text: str) -> Any:
    """Decodes one JSON text. Raises `ValueError`."""
    return json.loads(text)


def read_json(text: str | bytes) -> Any:
    """Decodes JSON of strangers, in UTF-8, with or without a byte order mark. Raises `ValueError`
    for what is none, and for what nests deeper than 200 levels."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogatepass").removeprefix("\ufeff")
    if nests_deeper(text, DEEPEST):
        raise ValueError(f"it nests deeper than {DEEPEST} levels")
    return json.loads(text)


def nests_deeper(text: str, most: int, at: int = 0) -> bool:
    """Whether the JSON from a place on nests deeper than so many levels."""
    if text.count("[", at) + text.count("{", at) <= most:
        return False
    depth = 0
    for bracket in _brackets.finditer(_strings.sub("", text[at:])):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > most:
            return True
    return False


def dumps(value: Any) -> str:
    """Encodes a value without spaces; always valid Unicode. Raises `ValueError` for NaN."""
    text = _compact(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:  # a lone surrogate has no UTF-8 form, but an escape
            return _ascii(value)
    return text


def members(text: str, at: int = 0) -> tuple[list[Member], int]:
    """The members of the object at `at`, and where it ends. Raises `ValueError`.

    Of those that are repeated the last one counts, and is the only one.
    """
    try:
        values, places, end = _object(text, _skip(text, at), 0)
    except (IndexError, StopIteration):
        raise ValueError("not a JSON object") from None
    return [Member(name, one[1], one[2], values[name]) for name, one in places.items()], end


def survey(text: str, at: int) -> tuple[Any, Place]:
    """The value at `at`, and where it stands; the places of its members are remembered.

    Raises `ValueError`, `IndexError` or `StopIteration` for a text that is no JSON.
    """
    return _survey(text, at, at, _DEPTH if len(text) > _LARGE else 1)


def _survey(text: str, named: int, at: int, depth: int) -> tuple[Any, Place]:
    if depth:
        first = text[at]
        if first == "{":
            values, places, end = _object(text, at, depth - 1)
            return values, (named, at, end, places)
        if first == "[":
            elements, spots, end = _array(text, at, depth - 1)
            return elements, (named, at, end, spots)
    value, end = scan(text, at)
    return value, (named, at, end, None)


def _object(text: str, at: int, depth: int) -> tuple[dict[str, Any], dict[str, Place], int]:
    """The members of an object, their places, and where it ends."""
    values: dict[str, Any] = {}
    places: dict[str, Place] = {}
    named = at + 1
    if text[at] != "{":
        raise ValueError("not a JSON object")
    if text[named] != '"':
        named = _skip(text, named)
        if text[named] == "}":
            return values, places, named + 1
    while True:
        if text[named] != '"':
            named = _skip(text, named)
            if text[named] != '"':
                raise ValueError(f"no member name at {named}")
        name, at = scanstring(text, named + 1, True)
        # Conductors write no spaces; whoever does is read a little more slowly.
        if text[at] != ":":
            at = _skip(text, at)
            if text[at] != ":":
                raise ValueError(f"no colon at {at}")
        at += 1
        try:
            if depth:
                values[name], place = _survey(text, named, at, depth)
                places[name] = place
                end = place[2]
            else:
                values[name], end = scan(text, at)
                places[name] = (named, at, end, None)
        except StopIteration:
            at = _space(text, at).end()  # type: ignore[union-attr]
            values[name], place = _survey(text, named, at, depth)
            places[name] = place
            end = place[2]
        after = text[end]
        if after == ",":
            named = end + 1
        elif after == "}":
            return values, places, end + 1
        else:
            end = _skip(text, end)
            if text[end] == "}":
                return values, places, end + 1
            if text[end] != ",":
                raise ValueError(f"no comma at {end}")
            named = end + 1


def _array(text: str, at: int, depth: int) -> tuple[list[Any], list[Place], int]:
    """The elements of an array, their places, and where it ends."""
    values: list[Any] = []
    places: list[Place] = []
    at = _skip(text, at + 1)
    if text[at] == "]":
        return values, places, at + 1
    while True:
        value, place = _survey(text, at, at, depth)
        values.append(value)
        places.append(place)
        at = _skip(text, place[2])
        if text[at] == "]":
            return values, places, at + 1
        if text[at] != ",":
            raise ValueError(f"no comma at {at}")
        at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    return at if text[at] not in _SPACES else _space(text, at).end()  # type: ignore[union-attr]
