"""The parts of params that a hub reads; the rest stays as it came."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from conductor.core.json_text import Decoder, member_at, read_members, write_members
from conductor.core.jsonrpc import INVALID_PARAMS, Malformed, Params
from conductor.core.policy import headings
from conductor.core.policy.headings import SessionUpdate

_ESCAPE: Final = b"\\u00"
"""How an ASCII letter is escaped: nobody writes so, and a name of a member might hide."""
_UPDATE: Final = b'{"jsonrpc":"2.0","method":"session/update","params":'


class _Notification(msgspec.Struct, frozen=True, gc=False):
    params: SessionUpdate
    id: Raw | UnsetType = UNSET


class _Prompt(msgspec.Struct, frozen=True, gc=False):
    prompt: list[Raw] = []


_prompt: Final = Decoder(_Prompt)
_notification: Final = Decoder(_Notification)
_update: Final = Decoder(SessionUpdate)
_NAME: Final = b'"sessionId"'
_FORMER_NAME: Final = b'"session_id"'


def session_of(params: Params) -> str | None:
    """The session of params, if they name one.

    Raises:
        Malformed: (-32602) its id is no string.
    """
    session = headings.session_of(params)
    if session is None and member_at(params, "sessionId") is not None:
        raise Malformed(INVALID_PARAMS, "`sessionId` must be a string")
    return session


def update_at(frame: bytes) -> SessionUpdate | None:
    """The update of a frame that is a `session/update` as a router writes it: nearly all are. The
    router has read it, so one look is enough here. None: the frame must be read in full."""
    read = _notification.find(frame) if frame.startswith(_UPDATE) else None
    return None if read is None or read.id is not UNSET else read.params


def update_of(params: Params) -> SessionUpdate:
    """The update in the params of a `session/update`."""
    return _update.find(params) or SessionUpdate(sessionId=headings.session_of(params))


def blocks_of(params: Params) -> list[Raw]:
    """The content blocks of a prompt."""
    found = _prompt.find(params)
    return found.prompt if found is not None else []


def plain(params: Params) -> Params:
    """Params in which the session stands once, as the hub has read it.

    Nobody knows how a chain reads a second session, or a name that is written with escapes,
    nor what an agent does with `session_id` beside `sessionId`.
    """
    if isinstance(params, UnsetType):
        return params
    text = bytes(params)
    if text.count(_NAME) == 1 and text.find(_ESCAPE) < 0 and text.find(_FORMER_NAME) < 0:
        return params
    members = read_members(params)
    if members is None:
        return params
    if "sessionId" in members:
        members.pop("session_id", None)
    return write_members(members)


def inner(whole: Raw | bytes | UnsetType | None, *names: str) -> dict[str, Raw]:
    """The members of an object within objects; empty where an object is missing or is no object."""
    return read_members(member_at(whole, *names) if names else whole) or {}
