"""Words for blocks of the agent's side whose types the client does not take.

A client may name the types it takes, besides text and links, as `content` in its section of the
editor (docs/conversation.md). A client that names none is taken to show all types, as ACP has it.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from conductor.core import json_text
from conductor.core.adaptation import in_words
from conductor.core.json_text import elements, member_at, read_members, text_of, write_members
from conductor.core.policy.key_table import UPDATE
from conductor.editor.messages import sections

TYPES: Final = frozenset({"image", "audio", "resource"})
"""The types that a client may take or not; it shows all others."""

_notification: Final = b'{"jsonrpc":"2.0","method":"%b","params":' % UPDATE.encode()


def untaken(initialize: bytes) -> frozenset[str]:
    """The types that the client of an `initialize` does not take."""
    for section in sections(initialize):
        content = section.get("content")
        if isinstance(content, list):
            return TYPES - {one for one in content if isinstance(one, str)}
    return frozenset()


def session_and_update(line: bytes) -> tuple[str, Raw] | None:
    """The session of a line to the client that is an update, and its params; None: it is none."""
    if not line.startswith(_notification):
        return None
    params = Raw(line[len(_notification) : line.rindex(b"}")])
    return text_of(member_at(params, "sessionId")), params


def adapted(params: Raw, untaken: frozenset[str]) -> tuple[Raw, tuple[str, ...]]:
    """The params of an update with words for blocks of the types `untaken`, and the types found;
    params without such blocks stay as they are."""
    members = read_members(params) or {}
    update = read_members(members.get("update")) or {}
    found: dict[str, None] = {}
    content = _adapted(update.get("content", Raw(b"null")), untaken, found)
    if not found:
        return params, ()
    shown = write_members({**update, "content": content})
    return write_members({**members, "update": shown}), tuple(found)


def _adapted(raw: Raw, untaken: frozenset[str], found: dict[str, None]) -> Raw:
    """Replaces blocks in a block, in the content of a tool, or in a list of these."""
    if not bytes(raw).startswith(b"["):
        return _of_tool(raw, untaken, found)
    return Raw(json_text.encode([_of_tool(one, untaken, found) for one in elements(raw)]))


def _of_tool(raw: Raw, untaken: frozenset[str], found: dict[str, None]) -> Raw:
    """A block, or the content of a tool with a block inside. It looks no further: no list and no
    block of ACP holds more, and a stranger's nests as deep as they like."""
    members = read_members(raw) or {}
    if text_of(members.get("type")) != "content":
        return _block(raw, untaken, found)
    held = members.get("content", Raw(b"null"))
    inner = _block(held, untaken, found)
    return raw if inner is held else write_members({**members, "content": inner})


def _block(raw: Raw, untaken: frozenset[str], found: dict[str, None]) -> Raw:
    type_ = text_of(member_at(raw, "type"))
    words = in_words(raw, type_, "this editor shows none") if type_ in untaken else None
    if words is None:
        return raw
    found[type_] = None
    return words
