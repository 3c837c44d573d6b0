"""JSON text in and out, and slices of it as received.

The demo agent shows people and tests what reached it *byte for byte*, so besides decoding it
can cut a member out of a text it was sent without re-encoding it. Only the standard library is
used: the agent must start in a few tens of milliseconds.
"""

import json
import re
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

# The default limit would make a long but valid number a parse error; this one still keeps
# the quadratic conversion harmless.
sys.set_int_max_str_digits(100_000)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_decoder = json.JSONDecoder(parse_constant=_no_constant)
_scan = json.JSONDecoder(parse_constant=_no_constant).raw_decode
_plain = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode
_ascii = json.JSONEncoder(check_circular=False, separators=(",", ":")).encode
_space = re.compile(r"[ \t\n\r]*").match


def loads(text: str) -> Any:
    """Decode one JSON text. Raises ValueError for anything that is not RFC 8259 JSON, and for
    nesting deeper than the decoder can follow."""
    try:
        return _decoder.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def dumps(value: object) -> str:
    """Compact JSON of ``value``, encodable as UTF-8 whatever strings are in it."""
    text = _plain(value)
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, legal in JSON only when escaped
        return _ascii(value)
    return text


def raw_members(text: str) -> dict[str, str]:
    """The members of a JSON object, each value as the exact text it was written in."""
    return dict(_members(text))


def raw_items(text: str) -> list[str]:
    """The items of a JSON array, each as the exact text it was written in."""
    items = []
    at = _end(text, _end(text, 0) + 1)
    while text[at] != "]":
        start = at
        _, at = _scan(text, at)
        items.append(text[start:at])
        at = _after_comma(text, at)
    return items


def raw_at(text: str, *path: str) -> str | None:
    """The exact text of the value at ``path`` (object keys); None when there is none."""
    for key in path:
        if text[_end(text, 0)] != "{":
            return None
        found = raw_members(text).get(key)
        if found is None:
            return None
        text = found
    return text


def compose(members: dict[str, str]) -> str:
    """A JSON object of values that are already JSON text."""
    return "{" + ",".join(f"{dumps(key)}:{value}" for key, value in members.items()) + "}"


def _members(text: str) -> Iterator[tuple[str, str]]:
    at = _end(text, _end(text, 0) + 1)
    while text[at] != "}":
        key, at = _scan(text, at)
        start = _end(text, _end(text, at) + 1)  # past the colon
        _, at = _scan(text, start)
        yield key, text[start:at]
        at = _after_comma(text, at)


def _end(text: str, at: int) -> int:
    match = _space(text, at)
    return match.end() if match else at


def _after_comma(text: str, at: int) -> int:
    at = _end(text, at)
    return _end(text, at + 1) if text[at] == "," else at
