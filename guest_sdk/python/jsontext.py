"""JSON texts that are edited, not rewritten.

What passes a proxy must leave it as it came, byte for byte, except where the proxy changed it:
numbers such as `1.10` or `1e400`, escapes, unknown members. So a message keeps its text, and
`merge` writes only the values that differ from what the text says.
"""

from __future__ import annotations

import json
import marshal
import re
from collections.abc import Callable
from json import encoder
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, Final, NamedTuple

_space: Final = re.compile(r"[ \t\n\r]*").match
scan: Final[Callable[[str, int], tuple[Any, int]]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
"""Decodes the value at a place: the value and where it ends. Raises `StopIteration` for none."""

_ascii: Final = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
_NESTED: Final = (dict, list, float)
_LARGE: Final = 4000
"""Characters from which on decoding a text once more costs more than remembering places in it."""

_DEPTH: Final = 2
"""How deep places are remembered: the blocks of a prompt, the members of an update."""


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
        finally:
            inside.clear()  # of a value that cannot be encoded some is left

    return encode


_compact: Final = _compact_encoder()


class Member(NamedTuple):
    """One member of an object: its value, decoded, and where that stands in the text.

    `inside`: the members or elements of the value, where they are remembered.
    """

    name: str
    start: int
    end: int
    value: Any
    inside: list[Member] | None = None


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


def _members(text: str, at: int, depth: int = 0) -> tuple[list[Member], int]:
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
        found.append(_survey(text, _skip(text, at + 1), name, depth))
        at = _skip(text, found[-1].end)
        if text[at] == "}":
            return found, at + 1
        if text[at] != ",":
            raise ValueError(f"no comma at {at}")
        at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    return at if text[at] not in " \t\n\r" else _space(text, at).end()  # type: ignore[union-attr]


def survey(text: str, at: int, name: str = "") -> Member:
    """The value at `at`, as a member of this name; of a large text places inside are remembered.

    Raises `ValueError`, `IndexError` or `StopIteration` for what is no JSON.
    """
    return _survey(text, at, name, _DEPTH if len(text) > _LARGE else 0)


def _survey(text: str, at: int, name: str, depth: int) -> Member:
    if depth and text[at] == "{":
        inside, end = _members(text, at, depth - 1)
        return Member(name, at, end, {one.name: one.value for one in inside}, inside)
    if depth and text[at] == "[":
        inside, end = _elements(text, at, depth - 1)
        return Member(name, at, end, [one.value for one in inside], inside)
    value, end = scan(text, at)
    return Member(name, at, end, value)


def snapshot(value: Any) -> bytes | None:
    """What a decoded value is now, before anybody edits it; None: it cannot be told."""
    try:
        return marshal.dumps(value, 2)  # later versions depend on which strings are one object
    except ValueError:
        return None


def changed(before: bytes | None, now: Any) -> bool:
    """Whether a value is another one than it was at its snapshot."""
    # Compared first: only what equals something decoded is sure not to contain itself.
    return before is None or marshal.loads(before) != now or before != snapshot(now)  # noqa: S302


def same(one: Any, other: Any) -> bool:
    """Whether two values are one JSON value: `1`, `1.0` and `true` are three.

    `one` has been decoded; `other` may be anything.
    """
    if one is other:
        return True
    if type(one) is not type(other) or one != other:
        return False
    if type(one) not in _NESTED:
        return True
    # Equal containers may still differ in the types of what they hold, as may 0.0 and -0.0.
    before = snapshot(one)
    return before is not None and before == snapshot(other)


def merge(text: str, new: Any) -> str:
    """The JSON text of `new`, in the words of `text` wherever that says the same."""
    at = survey(text, _skip(text, 0))
    return merged(text, at, snapshot(at.value), new)


def merged(text: str, at: Member, before: bytes | None, new: Any) -> str:
    """The same of a value within a text.

    `before` is the value's snapshot, taken when it was decoded; `at.value` may have been edited.
    Raises `ValueError` for what is not JSON.
    """
    return edited(text, at, before, new) if changed(before, new) else text[at.start : at.end]


def edited(text: str, at: Member, before: bytes | None, new: Any) -> str:
    """As `merged`, for what is known to have been changed."""
    # Not somebody's bytes, but what `snapshot` has just made here.
    old = marshal.loads(before) if before is not None else scan(text, at.start)[0]  # noqa: S302
    if at.inside is None and _written_as_here(text[at.start : at.end], old):
        return dumps(new)
    return _merge(text, at, old, new)


def _written_as_here(text: str, value: Any) -> bool:
    """Whether writing a value anew gives its text, so that there are no words to keep."""
    try:
        return _compact(value) == text
    except ValueError:
        return False


def _merge(text: str, at: Member, old: Any, new: Any) -> str:
    if same(old, new):
        return text[at.start : at.end]
    if isinstance(old, dict) and isinstance(new, dict):
        return _merge_objects(text, at, old, new)
    if isinstance(old, list) and isinstance(new, list):
        return _merge_arrays(text, at, old, new)
    return dumps(new)


def _merge_objects(text: str, at: Member, old: dict[str, Any], new: dict[str, Any]) -> str:
    inside = at.inside if at.inside is not None else _members(text, at.start)[0]
    held = {one.name: one for one in inside}
    parts = [
        f"{dumps(name)}:{_merge(text, one, old[name], new[name])}"
        for name, one in held.items()
        if name in new
    ]
    parts += [f"{dumps(name)}:{dumps(value)}" for name, value in new.items() if name not in held]
    return "{" + ",".join(parts) + "}"


def _merge_arrays(text: str, at: Member, old: list[Any], new: list[Any]) -> str:
    """Elements are matched from both ends; of what is left in between, pairs are merged."""
    held = at.inside if at.inside is not None else _elements(text, at.start)[0]
    most = min(len(held), len(new))
    head = 0
    while head < most and same(old[head], new[head]):
        head += 1
    tail = 0
    while tail < most - head and same(old[-1 - tail], new[-1 - tail]):
        tail += 1
    parts = [text[one.start : one.end] for one in held[:head]]
    rest, stay = slice(head, len(held) - tail), slice(head, len(new) - tail)
    middle = new[stay]
    if len(middle) == len(held[rest]):
        pairs = zip(held[rest], old[rest], middle, strict=True)
        parts += [_merge(text, one, was, value) for one, was, value in pairs]
    else:
        parts += map(dumps, middle)
    parts += [text[one.start : one.end] for one in held[len(held) - tail :]]
    return "[" + ",".join(parts) + "]"


def _elements(text: str, at: int, depth: int = 0) -> tuple[list[Member], int]:
    found: list[Member] = []
    at = _skip(text, at + 1)
    if text[at] == "]":
        return found, at + 1
    while True:
        found.append(_survey(text, at, "", depth))
        at = _skip(text, found[-1].end)
        if text[at] == "]":
            return found, at + 1
        if text[at] != ",":
            raise ValueError(f"no comma at {at}")
        at = _skip(text, at + 1)
