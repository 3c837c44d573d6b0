"""Which ACP version a chain speaks: chosen from the first `initialize`, as an agent would.

What is chosen is an upper bound: every proxy and the agent negotiate below it. Params pass
unchanged unless the version has to be rewritten (0 becomes 1, anything above 2 becomes 2).
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw, UnsetType

from conductor.core.json_text import read_members, write_members
from conductor.core.jsonrpc import INVALID_PARAMS, Malformed

NEWEST: Final = 2

_NONE: Final = Raw(b"null")
_number = msgspec.json.Decoder(int)


def select(params: Raw | UnsetType) -> Raw:
    """The params to offer down the chain, with the version that was chosen.

    Raises `Malformed` (-32602) for a version that is no integer of 0..65535, and for exactly
    version 2 without a valid `info`.
    """
    held = read_members(params)
    asked = version_of(held) if held is not None else None
    if held is None or asked is None or not 0 <= asked <= 65535:
        raise Malformed(
            INVALID_PARAMS, "initialize.protocolVersion must be a valid ACP protocol version"
        )
    chosen = min(max(asked, 1), NEWEST)
    has_info = _has_info(held)
    if asked == NEWEST and not has_info:
        raise Malformed(
            INVALID_PARAMS, "initialize.info with `name` and `version` is required in ACP v2"
        )
    if asked == chosen:
        assert isinstance(params, Raw)
        return params
    held["protocolVersion"] = Raw(b"%d" % chosen)
    if chosen == NEWEST and not has_info:
        held["info"] = Raw(b'{"name":"unknown","version":"unknown"}')
    return write_members(held)


def version_of(held: dict[str, Raw]) -> int | None:
    """The `protocolVersion` among the members of an `initialize` request or result, if any."""
    try:
        return _number.decode(held.get("protocolVersion", _NONE))
    except msgspec.DecodeError:
        return None


def answered(result: Raw | bytes) -> int | None:
    """The version an `initialize` result settles on, or None if it names none."""
    return version_of(read_members(result) or {})


def _has_info(held: dict[str, Raw]) -> bool:
    info = read_members(held.get("info")) or {}
    return all(bytes(info.get(name, _NONE)).startswith(b'"') for name in ("name", "version"))
