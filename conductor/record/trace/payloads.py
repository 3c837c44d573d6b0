"""Values that a trace looks up in payloads: digests, messages of MCP, codes of errors."""

from __future__ import annotations

import contextlib
import hashlib
from typing import Final

import msgspec

from conductor.core import json_text
from conductor.core.json_text import read_members

_MCP_CARRIERS: Final = frozenset(
    {"mcp/message", "_mcp/message", "_mcp/request", "_mcp/notification"}
)
"""Methods that carry a message of MCP; the trace shows that in their place."""


class _McpMessage(msgspec.Struct):
    """A message of MCP within another."""

    method: str
    params: bytes
    numbered: bool
    """Whether it names a `requestId`, as stateless MCP does."""


class _Error(msgspec.Struct):
    code: int


_error = json_text.Decoder(_Error)
texts = json_text.Decoder(str)
_any = json_text.Decoder().decode
_sorted = json_text.encode_sorted


def value_digest(payload: bytes, key: bytes) -> str:
    """A digest of the value of a payload: spelling and order of members do not count."""
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        payload = _sorted(_any(payload))
    return hashlib.blake2b(payload, digest_size=8, key=key).hexdigest()


def mcp_message(method: str, params: bytes) -> _McpMessage | None:
    """The message of MCP that `method` carries."""
    if method not in _MCP_CARRIERS:
        return None
    held = read_members(params) or {}
    try:
        inner = texts.decode(held.get("method", b"null"))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # it is shown as it is
    return _McpMessage(inner, bytes(held.get("params", b"null")), "requestId" in held)


def unwrapped(payload: bytes) -> tuple[bytes, str]:
    """The outcome of MCP that an answer carries, and the domain of its error."""
    held = read_members(payload) or {}
    if "result" in held:
        return bytes(held["result"]), ""
    if "error" in held:
        return bytes(held["error"]), "mcp"
    return payload, ""


def code_of(error: bytes) -> int | None:
    """The code of an error object: traces without content have nothing else of it."""
    try:
        return _error.decode(error).code
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
