"""What a hub reads of params; all else stays as it came."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Raw, UnsetType

from conductor.core.json_text import member_at, read_members, write_members
from conductor.core.jsonrpc import INVALID_PARAMS, Malformed, Params
from conductor.core.policy import headings

_ESCAPED: Final = re.compile(rb"\\u00[4-7]")
"""An ASCII letter written as an escape: nobody writes so, and a name of a member might hide."""
_NAME: Final = b'"sessionId"'


def session_of(params: Params) -> str | None:
    """The session of params, if they name one.

    Raises:
        Malformed: (-32602) its id is no string.
    """
    session = headings.session_of(params)
    if session is None and member_at(params, "sessionId") is not None:
        raise Malformed(INVALID_PARAMS, "`sessionId` must be a string")
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


def inner(whole: Raw | bytes | UnsetType | None, *names: str) -> dict[str, Raw]:
    """The members of an object within objects; none where one is missing or no object."""
    return read_members(member_at(whole, *names) if names else whole) or {}
