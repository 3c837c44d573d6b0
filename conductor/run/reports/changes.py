"""How the child that hosts guests tells its parent what they change: one notification on side `c`.

Only for an audit. The child is believed nothing that does not concern its own guests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any, Final

import msgspec
from msgspec import Raw

from conductor.core import Changed
from conductor.core.json_text import read_members, too_deep, write_members
from conductor.core.jsonrpc import MAX_DEPTH

CHANGES: Final = frozenset({"modified", "answered", "originated", "dropped", "reordered"})
_KINDS: Final = frozenset({"request", "response", "notification"})
_DIRECTIONS: Final = frozenset({"up", "down"})

_ROOM: Final = 8 * 1024
"""Bytes that everything else in such a line takes at most, its method and session apart."""

_LEVELS: Final = 2
"""Levels that the line puts around a payload."""


class Sized(msgspec.Struct, frozen=True):
    """Digest and size of a payload, in bytes."""

    sha256: str
    bytes: int


class _Report(msgspec.Struct, frozen=True, kw_only=True):
    changed: Raw
    before_size: Sized | None = None
    """In place of what does not fit in a line."""
    after_size: Sized | None = None


_report = msgspec.json.Decoder(_Report)
_changed = msgspec.json.Decoder(Changed)
_id = msgspec.json.Decoder(int | str | None)


def sized(raw: bytes) -> Sized:
    """The digest and size of a payload."""
    return Sized(hashlib.sha256(raw).hexdigest(), len(raw))


def params(changed: Changed, limit: int) -> dict[str, Any]:
    """What the child says of a change; payloads that would make a line longer than `limit` bytes,
    or too deep, are left out, but for their digests."""
    found: dict[str, Any] = {
        "changed": msgspec.structs.replace(changed, before=None, after=None),
    }
    room = limit - _ROOM - len(changed.method) - len(changed.session or "")
    for name, payload in (("before", changed.before), ("after", changed.after)):
        if payload is None:
            continue
        if len(payload) > room // 2 or too_deep(payload, MAX_DEPTH - _LEVELS):
            found[f"{name}_size"] = sized(payload)
        else:
            found[name] = Raw(payload)
    return found


def read(raw: bytes, guests: Collection[str]) -> tuple[Changed, Sized | None, Sized | None]:
    """The change that was reported, and the sizes of what was left out, before and after.

    Raises `ValueError` for anything else.
    """
    held = read_members(raw)
    if held is None:
        raise ValueError("it is no object")
    payloads = {name: held.pop(name, None) for name in ("before", "after")}
    try:
        report = _report.decode(write_members(held))
        changed = _changed.decode(report.changed)
        ids = [one for one in (changed.source_id, changed.target_id) if one is not None]
        if any("\n" in one or _id.decode(one) is None for one in ids):
            raise ValueError("an id is none")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from None
    if changed.peer not in guests:
        raise ValueError(f"`{changed.peer}` is not one of its guests")
    words = ((changed.change, CHANGES), (changed.kind, _KINDS), (changed.direction, _DIRECTIONS))
    for word, known in words:
        if word not in known:
            raise ValueError(f"no change is called {word!r}")
    before, after = (None if one is None else bytes(one) for one in payloads.values())
    found = msgspec.structs.replace(changed, before=before, after=after)
    return found, report.before_size, report.after_size
