"""JSON cut into pieces of text, so that what nobody decodes stays as it was written."""

from __future__ import annotations

import json
import re

_scan = json.JSONDecoder(parse_int=str, parse_float=str).raw_decode
_space = re.compile(r"[ \t\n\r]*").match


def members(text: str) -> dict[str, str]:
    """The members of a JSON object, each value as the exact text it was written in."""
    found: dict[str, str] = {}
    at = _skip(text, 0)
    if text[at : at + 1] != "{":
        raise ValueError("not an object")
    at = _skip(text, at + 1)
    while text[at] != "}":
        key, at = _scan(text, at)
        start = _skip(text, _skip(text, at) + 1)  # past the colon
        _, at = _scan(text, start)
        found[str(key)] = text[start:at]
        at = _skip(text, at)
        at = _skip(text, at + 1) if text[at] == "," else at
    return found


def compose(parts: dict[str, str]) -> str:
    """A JSON object of values that are JSON text already."""
    return "{" + ",".join(f"{json.dumps(key)}:{value}" for key, value in parts.items()) + "}"


def _skip(text: str, at: int) -> int:
    match = _space(text, at)
    return match.end() if match else at
