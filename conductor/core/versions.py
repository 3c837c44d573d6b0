"""Which ACP version a chain speaks: chosen from the first `initialize`, as an agent would.

What is chosen is an upper bound: every proxy and the agent negotiate below it. Params pass
unchanged unless the version has to be rewritten (0 becomes 1, anything above 2 becomes 2).
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from conductor.core.jsonrpc import INVALID_PARAMS, Malformed

NEWEST: Final = 2

_members = msgspec.json.Decoder(dict[str, Raw])
_number = msgspec.json.Decoder(int)
_encode = msgspec.json.Encoder().encode


class _Info(msgspec.Struct):
    name: str
    version: str


_info = msgspec.json.Decoder(_Info)


def select(params: Raw | UnsetType) -> tuple[int, Raw]:
    """The version to offer down the chain, and the params to offer it with.

    Raises `Malformed` (-32602) for a version that is no integer of 0..65535, and for exactly
    version 2 without a valid `info`.
    """
    members = _object(params)
    try:
        asked = _number.decode(members.get("protocolVersion", Raw(b"null")))
    except msgspec.DecodeError:
        asked = -1
    if not 0 <= asked <= 65535:
        raise Malformed(
            INVALID_PARAMS, "initialize.protocolVersion must be a valid ACP protocol version"
        )
    chosen = min(max(asked, 1), NEWEST)
    has_info = _has_info(members)
    if asked == NEWEST and not has_info:
        raise Malformed(
            INVALID_PARAMS, "initialize.info with `name` and `version` is required in ACP v2"
        )
    if asked == chosen:
        assert isinstance(params, Raw)
        return chosen, params
    members["protocolVersion"] = Raw(b"%d" % chosen)
    if chosen == NEWEST and not has_info:
        members["info"] = Raw(b'{"name":"unknown","version":"unknown"}')
    return chosen, Raw(_encode(members))


def answered(result: Raw | bytes) -> int | None:
    """The version an `initialize` result settles on, or None if it names none."""
    try:
        return _number.decode(_members.decode(result).get("protocolVersion", Raw(b"null")))
    except msgspec.DecodeError:
        return None


def _object(params: Raw | UnsetType) -> dict[str, Raw]:
    try:
        return _members.decode(b"{}" if params is UNSET else params)
    except (msgspec.DecodeError, RecursionError):
        raise Malformed(INVALID_PARAMS, "initialize params must be an object") from None


def _has_info(members: dict[str, Raw]) -> bool:
    try:
        _info.decode(members.get("info", Raw(b"null")))
    except msgspec.DecodeError:
        return False
    return True
