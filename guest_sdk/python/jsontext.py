"""JSON texts that are edited, not rewritten.

What passes a proxy must leave it as it came, byte for byte, except where the proxy changed it:
numbers such as `1.10` or `1e400`, escapes, unknown members. So a message keeps its text, and
`merge` writes only the values that differ from what the text says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, Final, NamedTuple

_space: Final = re.compile(r"[ \t\n\r]*").match
scan: Final[Callable[[str, int], tuple[Any, int]]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
"""Decodes the value at a place: the value and where it ends. Raises `StopIteration` for none."""

_compact: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":")
).encode
_ascii: Final = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
_exact: Final = json.JSONEncoder(separators=(",", ":")).encode
_NESTED: Final = (dict, list, float)


class Member(NamedTuple):
    """One member of an object: its value, decoded, and where that stands in the text."""

    name: str
    start: int
    end: int
    value: Any


def loads(text: str) -> Any:
    """Decodes one JSON text. Raises `ValueError`."""
    return json.loads(text)


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
    """The members of the object at `at`, and where it ends. Raises `ValueError`."""
    try:
        return _members(text, _space(text, at).end())  # type: ignore[union-attr]
    except (IndexError, StopIteration):
        raise ValueError("not a JSON object") from None


def _members(text: str, at: int) -> tuple[list[Member], int]:
    found: list[Member] = []
    if text[at] != "{":
        raise ValueError("not a JSON object")
    at = _skip(text, at + 1)
    if text[at] == "}":
        return found, at + 1
    while True:
        if text[at] != '"':
            raise ValueError(f"no member name at {at}")
        name, at = scanstring(text, at + 1, True)
        at = _skip(text, at)
        if text[at] != ":":
            raise ValueError(f"no colon at {at}")
        start = _skip(text, at + 1)
        value, end = scan(text, start)
        found.append(Member(name, start, end, value))
        at = _skip(text, end)
        if text[at] == "}":
            return found, at + 1
        if text[at] != ",":
            raise ValueError(f"no comma at {at}")
        at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    return at if text[at] not in " \t\n\r" else _space(text, at).end()  # type: ignore[union-attr]


def same(one: Any, other: Any) -> bool:
    """Whether two values are one JSON value: `1`, `1.0` and `true` are three."""
    if one is other:
        return True
    if type(one) is not type(other) or one != other:
        return False
    # Equal containers may still differ in the types of what they hold, as may 0.0 and -0.0.
    return type(one) not in _NESTED or bool(_exact(one) == _exact(other))


def merge(text: str, new: Any) -> str:
    """The JSON text of `new`, in the words of `text` wherever that says the same."""
    start = _skip(text, 0)
    old, end = scan(text, start)
    if same(old, new):
        return text[start:end]
    if _written_as_here(text[start:end], old):
        return dumps(new)
    return _merge(text, start, end, old, new)


def _written_as_here(text: str, value: Any) -> bool:
    """Whether writing a value anew gives its text, so that there are no words to keep."""
    try:
        return _compact(value) == text
    except ValueError:
        return False


def _merge(text: str, start: int, end: int, old: Any, new: Any) -> str:
    if same(old, new):
        return text[start:end]
    if isinstance(old, dict) and isinstance(new, dict):
        return _merge_objects(text, start, new)
    if isinstance(old, list) and isinstance(new, list):
        return _merge_arrays(text, start, new)
    return dumps(new)


def _merge_objects(text: str, start: int, new: dict[str, Any]) -> str:
    held = {one.name: one for one in members(text, start)[0]}
    parts = [
        f"{dumps(name)}:{_merge(text, one.start, one.end, one.value, new[name])}"
        for name, one in held.items()
        if name in new
    ]
    parts += [f"{dumps(name)}:{dumps(value)}" for name, value in new.items() if name not in held]
    return "{" + ",".join(parts) + "}"


def _merge_arrays(text: str, start: int, new: list[Any]) -> str:
    """Elements are matched from both ends; of what is left in between, pairs are merged."""
    held = _elements(text, start)
    most = min(len(held), len(new))
    head = 0
    while head < most and same(held[head].value, new[head]):
        head += 1
    tail = 0
    while tail < most - head and same(held[-1 - tail].value, new[-1 - tail]):
        tail += 1
    parts = [text[one.start : one.end] for one in held[:head]]
    middle, rest = new[head : len(new) - tail], held[head : len(held) - tail]
    if len(middle) == len(rest):
        pairs = zip(rest, middle, strict=True)
        parts += [_merge(text, one.start, one.end, one.value, value) for one, value in pairs]
    else:
        parts += map(dumps, middle)
    parts += [text[one.start : one.end] for one in held[len(held) - tail :]]
    return "[" + ",".join(parts) + "]"


def _elements(text: str, at: int) -> list[Member]:
    found: list[Member] = []
    at = _skip(text, at + 1)
    while text[at] != "]":
        value, end = scan(text, at)
        found.append(Member("", at, end, value))
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return found
