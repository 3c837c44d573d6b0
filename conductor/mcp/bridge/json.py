"""JSON that the bridge passes on: objects opened one level deep, with raw values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, UnsetType

from conductor.core import json_text
from conductor.core.json_text import read_members

NULL: Final = b"null"
EMPTY: Final = b"{}"

write = json_text.encode
_text: Final = json_text.Decoder(str)
"""JSON of a value; raw members stay as they are."""


def read(raw: Raw | bytes | None) -> dict[str, Raw]:
    """The members of an object; none if `raw` is no object."""
    return read_members(raw) or {}


def text(raw: Raw | bytes | None) -> str | None:
    """The text of a JSON string, or None if it is no string."""
    return _text.find(raw)


def value(raw: Raw | bytes | None) -> Any:
    """The value of raw JSON; None if it cannot be read."""
    if raw is None:
        return None
    try:
        return json_text.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def decoded(raw: Raw | bytes | None) -> dict[str, Any]:
    """The members of an object with their values; none if `raw` is no object."""
    held = value(raw)
    return held if isinstance(held, dict) else {}


def objects(raw: Raw | bytes | None) -> dict[str, dict[str, Any]]:
    """The members of an object that are objects, such as MCP's capabilities."""
    return {name: item for name, item in decoded(raw).items() if isinstance(item, dict)}


def meta(fields: Mapping[str, Raw]) -> dict[str, Raw]:
    """The members of `_meta`."""
    return read(fields.get("_meta"))


def with_meta(fields: Mapping[str, Raw], new: Mapping[str, object]) -> bytes:
    """The object with `new` as its `_meta`; without `_meta` if that is empty."""
    if new:
        return write({**fields, "_meta": new})
    return write({name: raw for name, raw in fields.items() if name != "_meta"})


def error_code(error: Raw | bytes) -> int | None:
    """The code of an error object."""
    code = value(read(error).get("code"))
    return code if isinstance(code, int) else None


def bytes_of(raw: Raw | UnsetType) -> bytes | None:
    """A member of a message as it was written; None where it is missing."""
    return None if isinstance(raw, UnsetType) else bytes(raw)
