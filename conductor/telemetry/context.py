"""Writes the trace context of W3C into the params of a request. Pure.

Only this member changes: all other values keep their bytes.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from conductor.core import json_text
from conductor.core.json_text import read_members, write_members
from conductor.telemetry.span import Context, read_traceparent

_META: Final = "_meta"
_TRACEPARENT: Final = "traceparent"
_text = json_text.Decoder(str)


def with_context(params: bytes, context: Context, *, sampled: bool) -> bytes:
    """Params that name `context` as `traceparent` in `_meta`.

    They stay as they are where that could break something: they are no object, `_meta` is none, or
    there is a `traceparent` already that is not valid or is of another trace.
    """
    members = read_members(params)
    if members is None:
        return params
    meta = bytes(members.get(_META, b"null"))
    within = {} if meta == b"null" else read_members(meta)
    if within is None:
        return params
    there = within.get(_TRACEPARENT)
    if there is not None and not _is_of(there, context):
        return params
    value = b'"%b"' % context.traceparent(sampled=sampled).encode()
    written = _with(meta, within, _TRACEPARENT, value) if within else _only(value)
    return _with(params, members, _META, written)


def _is_of(there: Raw, context: Context) -> bool:
    """Whether it names a place in the same trace."""
    try:
        found = read_traceparent(_text.decode(there))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return found is not None and found.trace == context.trace


def _only(value: bytes) -> bytes:
    return b'{"%b":%b}' % (_TRACEPARENT.encode(), value)


def _with(raw: bytes, members: dict[str, Raw], name: str, value: bytes) -> bytes:
    """An object with a member in it; `members`: all that it has."""
    if members and name not in members:  # nothing of it need be written anew
        return b'{"%b":%b,%b' % (name.encode(), value, raw.lstrip()[1:])
    return bytes(write_members({**members, name: Raw(value)}))
