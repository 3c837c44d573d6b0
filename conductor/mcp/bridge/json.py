"""Small helpers for JSON that is passed on raw."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, UnsetType

from conductor.core.json_text import read_members

NULL: Final = b"null"
EMPTY: Final = b"{}"

encode = msgspec.json.Encoder().encode


def text(raw: Raw | bytes | None) -> str | None:
    """The text a raw JSON string stands for, or None if it is none."""
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def read(raw: Raw | bytes | None) -> dict[str, Raw]:
    """The members of an object; none where it is no object."""
    return read_members(raw) or {}


def value(raw: Raw | bytes) -> Any:
    """The value of raw JSON; None where it cannot be read."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def members_of(raw: Raw | bytes | None) -> dict[str, Any]:
    """The members of an object, as values; none where it is no object."""
    held = value(raw) if raw is not None else None
    return held if isinstance(held, dict) else {}


def write(fields: Mapping[str, object]) -> bytes:
    """The object with these members; raw ones stay as they are."""
    return encode(fields)


def code(error: Raw | bytes) -> int | None:
    """The code of an error object."""
    found = value(read(error).get("code", NULL))
    return found if isinstance(found, int) else None


def bytes_of(raw: Raw | UnsetType) -> bytes | None:
    """A member of a message as it was written; None where there is none."""
    return None if isinstance(raw, UnsetType) else bytes(raw)
