"""Where the members of a JSON object stand in its text, so that one can be changed and all other
bytes stay as they are. Standard library only."""

import json
import re
from collections.abc import Iterator
from typing import NoReturn

Span = tuple[int, int]
"""The start of a value, and the place behind its end."""


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_value = json.JSONDecoder(parse_constant=_no_constant, parse_int=str, parse_float=str).raw_decode
_space = re.compile(r"[ \t\n\r]*").match


def _skip(text: str, at: int) -> int:
    found = _space(text, at)
    assert found is not None
    return found.end()


def members(text: str, at: int = 0) -> Iterator[tuple[str, Span]]:
    """Name and place of each member of the object at ``at``, in order.

    Raises ValueError where there is no object, or it is broken.
    """
    at = _skip(text, at)
    if text[at : at + 1] != "{":
        raise ValueError("no object")
    at = _skip(text, at + 1)
    while text[at : at + 1] == '"':
        name, at = _value(text, at)
        at = _skip(text, at)
        if text[at : at + 1] != ":":
            raise ValueError("no colon")
        start = _skip(text, at + 1)
        _, end = _value(text, start)
        yield name, (start, end)
        at = _skip(text, end)
        if text[at : at + 1] != ",":
            break
        at = _skip(text, at + 1)
    if text[at : at + 1] != "}":
        raise ValueError("no end")


def member(text: str, name: str, at: int = 0) -> Span | None:
    """Where the member ``name`` stands, the last one if it is repeated. Raises ValueError."""
    found = None
    for each, span in members(text, at):
        if each == name:
            found = span
    return found


def is_empty(text: str, span: Span) -> bool:
    """Whether the array or object there is empty."""
    return _skip(text, span[0] + 1) == span[1] - 1
