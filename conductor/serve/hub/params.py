"""What a hub reads of params and results; all else stays as it came."""

from __future__ import annotations

import re
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from conductor.core import json_text
from conductor.core.json_text import read_members, write_members
from conductor.core.jsonrpc import INVALID_PARAMS, Malformed, Params

_ESCAPED: Final = re.compile(rb"\\u00[4-7]")
"""An ASCII letter written as an escape: nobody writes so, and a name of a member might hide."""
_NAME: Final = b'"sessionId"'


class Scope(msgspec.Struct, frozen=True, gc=False):
    """The session of a message."""

    sessionId: str | UnsetType = UNSET  # noqa: N815 - the wire's name


class _Kind(msgspec.Struct, frozen=True, gc=False):
    sessionUpdate: str = ""  # noqa: N815 - the wire's name
    state: str = ""
    stopReason: str | None = None  # noqa: N815 - the wire's name


class _Update(msgspec.Struct, frozen=True, gc=False):
    sessionId: str = ""  # noqa: N815 - the wire's name
    update: _Kind = _Kind()


class _Notification(msgspec.Struct, frozen=True, gc=False):
    params: _Update
    id: Raw | UnsetType = UNSET


class Update(msgspec.Struct, frozen=True, gc=False):
    """What a hub reads of a `session/update`; what is malformed counts as absent."""

    session: str
    kind: str
    state: str
    reason: str | None


_scope: Final = json_text.Decoder(Scope)
_update: Final = json_text.Decoder(_Update)
_notification: Final = json_text.Decoder(_Notification)
_HEAD: Final = b'{"jsonrpc":"2.0","method":"session/update","params":'
_text: Final = json_text.Decoder(str)
_list: Final = json_text.Decoder(list[Raw])
encode: Final = json_text.encode


def text_of(raw: Raw | bytes | None) -> str | None:
    """A JSON text that is a string; None: it is none."""
    return _text.find(raw)


def session_of(params: Params) -> str | None:
    """The `sessionId` of params, if they have any.

    Raises:
        Malformed: (-32602) it is no string.
    """
    if isinstance(params, UnsetType):
        return None
    try:
        found = _scope.decode(params).sessionId
        return None if isinstance(found, UnsetType) else found
    except (msgspec.DecodeError, UnicodeDecodeError):
        members = read_members(params)
        if members is None or "sessionId" not in members:
            return None
        session = text_of(members["sessionId"])
        if session is None:
            raise Malformed(INVALID_PARAMS, "`sessionId` must be a string") from None
        return session


def plain(params: Params) -> Params:
    """Params in which `sessionId` stands once, as the hub has read it.

    What a chain makes of a second one, or of one whose name is written with escapes, nobody knows.
    """
    if isinstance(params, UnsetType):
        return params
    if bytes(params).count(_NAME) == 1 and _ESCAPED.search(params) is None:
        return params
    members = read_members(params)
    return params if members is None else write_members(members)


def update_at(frame: bytes) -> Update | None:
    """What a frame says that is a `session/update` as a router writes it: nearly all are. It was
    read there, so it is read once here. None: it must be looked at as any other."""
    if not frame.startswith(_HEAD):
        return None
    try:
        message = _notification.decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if message.id is not UNSET:
        return None
    update = message.params.update
    return Update(message.params.sessionId, update.sessionUpdate, update.state, update.stopReason)


def update_of(params: Params) -> Update:
    """What a `session/update` says."""
    try:
        found = _update.decode(b"{}" if isinstance(params, UnsetType) else params)
    except (msgspec.DecodeError, UnicodeDecodeError):
        members = read_members(params)
        update = inner(members, "update")
        kind, state = (text_of(update.get(name)) for name in ("sessionUpdate", "state"))
        session = text_of((members or {}).get("sessionId"))
        return Update(session or "", kind or "", state or "", text_of(update.get("stopReason")))
    update_ = found.update
    return Update(found.sessionId, update_.sessionUpdate, update_.state, update_.stopReason)


def blocks_of(params: Params) -> list[Raw]:
    """The content blocks of a prompt."""
    return list_of((read_members(params) or {}).get("prompt")) or []


def list_of(raw: Raw | None) -> list[Raw] | None:
    """The entries of an array; None: it is none."""
    return _list.find(raw)


def inner(members: dict[str, Raw] | None, *names: str) -> dict[str, Raw]:
    """The members of an object within objects; none where one is missing or no object."""
    for name in names:
        members = read_members((members or {}).get(name))
    return members or {}


def same(raw: Raw | None) -> bytes:
    """A JSON text in one spelling, to compare it."""
    try:
        return json_text.encode(json_text.decode(raw or b"{}"), order="sorted")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return bytes(raw or b"")
