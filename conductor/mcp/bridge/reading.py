"""A list of a server's offer, read to its end on all its pages."""

from __future__ import annotations

import re
from typing import Any, Final, TypeGuard

import msgspec
from msgspec import Raw

from conductor.core import json_text
from conductor.mcp import limits
from conductor.mcp.bridge.json import NULL, read, write
from conductor.mcp.bridge.offers import Kind

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class Reading(msgspec.Struct):
    """One list, as far as it has been read."""

    kind: Kind
    params: dict[str, Raw]
    """Of the first request."""
    entries: dict[str, dict[str, Any]] = {}
    pages: int = 0
    size: int = 0
    twice: int = 0
    """Entries that were left out: of a name that is in the list already, or of none."""

    def take(self, body: bytes) -> bytes | None:
        """Takes a page. Returns the params that ask for the next page, None after the last page.
        Raises `ValueError` for a list beyond the limits."""
        fields = read(body)
        self.pages += 1
        self.size += len(body)
        for raw in json_text.elements(fields.get(self.kind.member)):
            value = value_of(raw)
            name = value.get(self.kind.key)
            if not is_name(name) or name in self.entries or len(name) > limits.TOOL_NAME:
                self.twice += 1
            else:
                self.entries[name] = value
        cursor = fields.get("nextCursor")
        is_last = cursor is None or bytes(cursor) == NULL
        what = f"{self.kind.word}s"
        if len(self.entries) > limits.TOOLS or self.size > limits.TOOL_BYTES:
            raise ValueError(
                f"offers more than {limits.TOOLS} {what}, or {limits.TOOL_BYTES} bytes"
            )
        if is_last:
            return None
        if self.pages >= limits.TOOL_PAGES:
            raise ValueError(f"has more than {limits.TOOL_PAGES} pages of {what}")
        return write({**self.params, "cursor": cursor})


def value_of(raw: Raw) -> dict[str, Any]:
    """The value of an object; empty: it is none, or cannot be read."""
    try:
        value = json_text.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def is_name(name: object) -> TypeGuard[str]:
    """Whether something is a name that can be written down: a lone surrogate cannot."""
    return isinstance(name, str) and name != "" and not _SURROGATE.search(name)
