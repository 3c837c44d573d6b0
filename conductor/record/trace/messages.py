"""What a trace tells of a message besides its bytes: session, what it carries, code. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from conductor.core.json_text import read_members, write_members
from conductor.run.segment_spec import Hop

_CARRIERS: Final = frozenset({"mcp/message", "_mcp/message", "_mcp/request", "_mcp/notification"})
"""Methods that carry a message of MCP; it is shown in their place."""


class Carried(msgspec.Struct):
    """A message of MCP within another."""

    method: str
    params: bytes
    numbered: bool
    """Whether it names a `requestId`, as stateless MCP does."""


class _Error(msgspec.Struct):
    code: int


_error = msgspec.json.Decoder(_Error)
_hop = msgspec.json.Decoder(Hop)
_text = msgspec.json.Decoder(str)
_id = msgspec.json.Decoder(int | str | None)


def read_hop(params: bytes) -> tuple[Hop, bytes | None]:
    """A child's report and the payload it holds. Raises `ValueError`."""
    held = read_members(params)
    if held is None:
        raise ValueError("it is no object")
    payload = held.pop("payload", None)
    try:
        hop = _hop.decode(write_members(held))
        if hop.id is not None:
            _id.decode(hop.id)
            if "\n" in hop.id:
                raise ValueError("its id is none")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from None
    return hop, None if payload is None else bytes(payload)


def session_of(payload: bytes | None) -> bytes | None:
    """The session a payload names, as raw JSON."""
    if payload is None or b'"sessionId"' not in payload:
        return None
    raw = bytes((read_members(payload) or {}).get("sessionId", b""))
    return raw if raw[:1] == b'"' else None


def carried_by(method: str, params: bytes) -> Carried | None:
    """The message of MCP that `method` carries."""
    if method not in _CARRIERS:
        return None
    held = read_members(params) or {}
    try:
        inner = _text.decode(held.get("method", b"null"))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # it is shown as it is
    return Carried(inner, bytes(held.get("params", b"null")), "requestId" in held)


def unwrapped(payload: bytes) -> tuple[bytes, str | None]:
    """The outcome of MCP in an answer that carries one, and whose error it is."""
    held = read_members(payload) or {}
    if "result" in held:
        return bytes(held["result"]), None
    if "error" in held:
        return bytes(held["error"]), "mcp"
    return payload, None


def code(error: bytes) -> bytes:
    """The member `code` of an error object, for traces without content."""
    try:
        return b',"code":%d' % _error.decode(error).code
    except (msgspec.DecodeError, UnicodeDecodeError):
        return b""
