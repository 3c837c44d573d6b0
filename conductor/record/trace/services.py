"""Calls of the conductor's services and their answers, without secrets.

Whether a value is a secret depends on the call; for a kept value, on its key.
"""

from __future__ import annotations

from typing import Final

import msgspec

from conductor.core import Entry, json_text
from conductor.core.json_text import read_members, write_members
from conductor.spec.redaction import REDACTED, is_secret, redacted

_HEADERS: Final = frozenset(
    {
        "age", "allow", "cache-control", "content-encoding", "content-language", "content-length",
        "content-type", "date", "etag", "expires", "last-modified", "retry-after", "vary",
    }
)  # fmt: skip
"""Headers of a fetched answer that are never a secret, and that programs read."""

_text: Final = json_text.Decoder(str)


class ServiceCall(msgspec.Struct):
    """A call of a service of the conductor."""

    service: str
    secret: bool
    """Whether the value it is about is a secret, by its key."""


def called_service(entry: Entry, params: bytes) -> ServiceCall | None:
    """The call that an entry with these params is; None: it is none."""
    if entry.target:
        return None
    return ServiceCall(entry.method, _is_secret_value(entry.method, params))


def _is_secret_value(service: str, params: bytes) -> bool:
    if service not in ("kv/get", "kv/set"):
        return False
    held = read_members(params) or {}
    try:
        return is_secret(_text.decode(held.get("key", msgspec.Raw(b'""'))))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


def clean_service(value: bytes, call: ServiceCall) -> bytes:
    """Params or an outcome of a service without secrets."""
    cleaned = redacted(value)
    if not call.secret and call.service != "fetch":
        return cleaned
    held, before = read_members(cleaned), read_members(value)
    if held is None or before is None:
        return cleaned
    if call.secret and "value" in held:
        held["value"] = msgspec.Raw(REDACTED)
    if call.service == "fetch" and "status" in held:
        headers = read_members(before.get("headers")) or {}
        kept = {k: v if k in _HEADERS else msgspec.Raw(REDACTED) for k, v in headers.items()}
        held["headers"] = write_members(kept)
    return value if held == before else bytes(write_members(held))
