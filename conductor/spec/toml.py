"""Reads TOML of strangers in time that its size bounds. Raises `ValueError` with what is wrong.

The parser's time grows with the square of the dots in a key, and with the dots of a table's name
for each key in it; and it takes integers that nothing else takes.
"""

from __future__ import annotations

import tomllib
from typing import Any, Final

import msgspec

_MOST_WORK: Final = 4_000_000
"""Steps the parser may need for keys with dots; a second or two."""


def loads(text: str) -> dict[str, Any]:
    """The tables of a text, its dates as texts: all of it can be passed on as JSON."""
    dots = [line.count(".") for line in text.split("\n")]
    most = max(dots)
    if sum(number * number for number in dots) + most * len(dots) > _MOST_WORK:
        raise ValueError("it has too many dots to be read: keys and names of tables are short")
    try:
        found = tomllib.loads(text)
        msgspec.json.encode(found)  # an integer may have more digits than can be written
        plain: dict[str, Any] = msgspec.to_builtins(found)
    except RecursionError:
        raise ValueError("it nests too deeply") from None
    return plain
