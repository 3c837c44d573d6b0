"""JSON that a person writes: settings, components and values of options."""

from __future__ import annotations

import json  # msgspec gives neither doubled members nor lines
from typing import Any

from conductor.errors import visible


def refuse_doubled(text: str) -> None:
    """Raises `ValueError` where an object has a member twice: of a text that a person has written,
    one of the two would count in silence. Also raises it, with the line, for what is no JSON."""
    try:
        json.loads(text, object_pairs_hook=_refuse_pairs)
    except RecursionError:
        raise ValueError("JSON nests too deeply") from None


def _refuse_pairs(pairs: list[tuple[str, Any]]) -> None:
    names: set[str] = set()
    for name, _ in pairs:
        if name in names:
            raise ValueError(f"`{visible(name)}` is there twice")
        names.add(name)
