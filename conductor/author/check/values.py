"""Whether two JSON texts say the same: byte for byte, or in every value. Pure."""

from __future__ import annotations

import json
from typing import Any, Final

CUT: Final = 200
"""Characters of a message that are shown."""


class Number(str):
    """A number as it is written: `1.10` is not `1.1`, and no text."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and str(self) == str(other)

    __hash__ = str.__hash__


def read(text: bytes) -> Any:
    """The value of a JSON text, with nothing lost. Raises `ValueError`."""
    try:
        return json.loads(text, parse_float=Number, parse_int=Number, object_pairs_hook=_members)
    except RecursionError:
        raise ValueError("it nests too deeply") from None


def _members(pairs: list[tuple[str, Any]]) -> tuple[tuple[str, Any], ...]:
    """An object, its repeated members included, by the order of names; arrays are lists."""
    return tuple(sorted(pairs, key=lambda pair: pair[0]))


def same(one: bytes, other: bytes) -> bool:
    """Whether they say the same, however they are spelled."""
    if one == other:
        return True
    try:
        return bool(read(one) == read(other))
    except ValueError:
        return False


def shown(text: bytes) -> str:
    """A text for people, cut."""
    said = text.decode("utf-8", "backslashreplace")
    return said if len(said) <= CUT else f"{said[:CUT]}… ({len(text):,} bytes)"


def parted(one: bytes, other: bytes) -> str:
    """Where two texts part, for people."""
    at = next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
    start = max(0, at - 30)
    left, right = one[start : at + 40], other[start : at + 40]
    return f"from byte {at}: {shown(left)} became {shown(right)}"
