"""Frames of a connection without their secrets, before they are written for others to read.

Whether a value is a secret depends on the method of a message and on the names in it
(`conductor.spec.redaction`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from conductor.core import jsonrpc
from conductor.core.json_text import read_members, too_many_values, write_members
from conductor.core.jsonrpc import Malformed, Message
from conductor.spec.redaction import (
    MOST_VALUES,
    clean_id,
    clean_name,
    is_whole,
    redacted,
)

_PLAIN: Final = ("jsonrpc", "id", "method")
"""Members of a message with values in which no name makes a secret."""


def clean_frame(frame: bytes) -> bytes | None:
    """A frame of plain ACP without secrets; None: no message, or too many values to look
    through."""
    if too_many_values(frame, MOST_VALUES):
        return None
    try:
        message = jsonrpc.parse(frame)
    except Malformed:
        return None
    if not isinstance(message, Message):
        return redacted(frame)
    method = message.method if isinstance(message.method, str) else None
    cleaned = {
        name: redacted(bytes(value), method)
        for name in ("params", "result", "error")
        if isinstance(value := getattr(message, name), msgspec.Raw)
    }
    return _clean_members(frame, cleaned)


def _clean_members(text: bytes, cleaned: Mapping[str, bytes]) -> bytes:
    """The text of a message without secrets; of some members that is known already."""
    held = {name: bytes(value) for name, value in (read_members(text) or {}).items()}
    shown = {
        clean_name(name): clean_id(value)
        if name in _PLAIN
        else cleaned[name]
        if name in cleaned
        else redacted(value)
        for name, value in held.items()
    }
    return text if shown == held and _stands_once(text, held) else _written(shown)


def _stands_once(text: bytes, held: Mapping[str, bytes]) -> bool:
    """Whether no member of an object stands in its text twice: only the last one is searched."""
    twice = b"\\u" in text or any(text.count(f'"{name}"'.encode()) > 1 for name in held)
    return not twice or is_whole(text.strip(), held)


def _written(members: Mapping[str, bytes]) -> bytes:
    """The text of an object."""
    return bytes(write_members({name: msgspec.Raw(value) for name, value in members.items()}))
