"""What a policy has to know of a message: its key, its session, and which of many it is about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

import msgspec
from msgspec import Raw, UnsetType

from conductor.core.json_text import hide_surrogates
from conductor.core.jsonrpc import Params
from conductor.core.policy.key_table import KINDS, MCP_FAMILIES, UPDATE, update


class Heading(NamedTuple):
    """What is read of a message before anything is decided about it."""

    key: str
    session: str | None
    detail: str | tuple[str, ...] | None = None
    """The tool call or message an update is about, or the addresses of an MCP message."""


class _Update(msgspec.Struct):
    sessionUpdate: str = ""  # noqa: N815 - the wire's names
    toolCallId: str | None = None  # noqa: N815
    messageId: str | None = None  # noqa: N815


class _Told(msgspec.Struct):
    sessionId: str | None = None  # noqa: N815
    session_id: str | None = None
    update: _Update | None = None


class _Session(msgspec.Struct):
    sessionId: str | None = None  # noqa: N815
    session_id: str | None = None


_told: Final = msgspec.json.Decoder(_Told).decode
_session: Final = msgspec.json.Decoder(_Session).decode
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_text: Final = msgspec.json.Decoder(str).decode

_KEYS: Final = {kind: update(kind) for kind in KINDS}
_UNKNOWN: Final = update("")
_ADDRESSES: Final = (
    "connectionId",
    "connection_id",
    "serverId",
    "acpId",
    "acp_id",
    "acp_url",
    "url",
)
_SCP: Final = ("name",)


_Read = TypeVar("_Read")


def _read(decode: Callable[[Raw | bytes], _Read], params: Raw) -> _Read | None:
    """What is read of params, where that can be; half an emoji somewhere in them is no obstacle."""
    try:
        return decode(params)
    except (msgspec.DecodeError, UnicodeDecodeError):
        hidden = hide_surrogates(bytes(params))
    try:
        return None if hidden is None else decode(hidden)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def session_of(params: Params) -> str | None:
    """The session a message belongs to, or None if it names none."""
    if isinstance(params, UnsetType):
        return None
    found = _read(_session, params)
    return None if found is None else found.sessionId or found.session_id


def heading(method: str, params: Params) -> Heading:
    """Reads a message's key and what else a policy needs; never raises, whatever the bytes."""
    if method == UPDATE:
        if isinstance(params, UnsetType):
            return Heading(_UNKNOWN, None)
        told = _read(_told, params)
        if told is None:
            return Heading(_UNKNOWN, session_of(params))
        found, session = told.update, told.sessionId or told.session_id
        if found is None:
            return Heading(_UNKNOWN, session)
        key = _KEYS.get(found.sessionUpdate, _UNKNOWN)
        return Heading(key, session, found.toolCallId or found.messageId)
    if method.startswith(MCP_FAMILIES):
        return Heading(method, session_of(params), addresses(method, params))
    return Heading(method, session_of(params))


def addresses(method: str, params: Params) -> tuple[str, ...]:
    """The servers and connections that an MCP message names."""
    if isinstance(params, UnsetType):
        return ()
    held = _read(_members, params) or {}
    found = []
    for name in _SCP if method == "_scp/mcp" else _ADDRESSES:
        if name in held:
            try:
                found.append(_text(held[name]))
            except (msgspec.DecodeError, UnicodeDecodeError):
                found.append("")  # nobody's
    return tuple(found)


class _Inner(msgspec.Struct):
    method: str | None = None


_inner: Final = msgspec.json.Decoder(_Inner).decode


def inner_method(method: str, params: Params) -> str | None:
    """The method of MCP that a message of MCP over ACP is about."""
    if not method.startswith(MCP_FAMILIES) or isinstance(params, UnsetType):
        return None
    found = _read(_inner, params)
    return None if found is None else found.method


def size_of(params: Params) -> int:
    """Bytes that params take."""
    return 0 if isinstance(params, UnsetType) else memoryview(params).nbytes
