"""Rules for every message: `_meta` of others, and the session it belongs to."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from conductor.core.guards.context import Violation
from conductor.core.guards.methods import lookalike
from conductor.core.guards.reading import (
    Absent,
    Document,
    Json,
    Object,
    as_object,
    difference,
    member,
    token,
)
from conductor.core.guards.rules import Found
from conductor.core.guards.table import DUPLICATE_KEYS, META, SESSION_TARGET

SESSION_NAMES: Final = ("sessionId", "session_id")
_SPELLINGS: Final = (*SESSION_NAMES, "_meta")

_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_namespaced = re.compile(rf"({_LABEL}(?:\.{_LABEL})+)/[A-Za-z0-9._-]+").fullmatch
_LONGEST: Final = 256
_RESERVED: Final = frozenset({"agentclientprotocol", "mcp", "modelcontextprotocol"})
"""Labels that reserve a namespace for a protocol."""


def ambiguities(before: Document | None, after: Document) -> Found:
    """Ambiguous objects in `after` that `before` did not have already."""
    known = () if before is None else before.ambiguous
    for node in after.ambiguous:
        if node not in known:
            count = Counter(name for name, _ in node.pairs)
            # Not `most_common`: that imports, and this may run where no file can be opened.
            most, times = max(count.items(), key=lambda item: item[1])
            what = f"repeats {most!a:.80}" if times > 1 else "has a member name that is no text"
            yield Violation(DUPLICATE_KEYS, f"an object {what}, so parsers may disagree about it")


def session(before: Object, after: Object) -> Found:
    """The session is the same."""
    for name in SESSION_NAMES:
        if member(before, name) != member(after, name):
            text = f"`{name}` may not be changed: a message stays in its session"
            yield Violation(SESSION_TARGET, text, token(name))


def one_session(params: Object) -> Found:
    """What a component sends of its own names its session once."""
    if all(name in params for name in SESSION_NAMES):
        text = f"`{SESSION_NAMES[1]}` may not stand beside `{SESSION_NAMES[0]}`"
        yield Violation(SESSION_TARGET, text, token(SESSION_NAMES[1]))


def spelling(before: Object, after: Object) -> Found:
    """No member was added that could be taken for the session's or for `_meta`."""
    added = {name: value for name, value in after.items() if name not in before}
    odd = lookalike(added, _SPELLINGS)
    if odd is not None:
        text = f"member {odd!a:.80} could be taken for another"
        yield Violation(SESSION_TARGET, text, token(odd))


def meta(before: Object, after: Object, at: str = "") -> Found:
    """`_meta` of these two objects: what was there stays, what is new is namespaced."""
    old, new = member(before, "_meta"), member(after, "_meta")
    if old == new:
        return
    at += "/_meta"
    if not _holds(old) or not _holds(new):
        yield Violation(META, "`_meta` may not be replaced by or for what is no object", at)
        return
    kept, now = as_object(old), as_object(new)
    for name, value in kept.items():
        differs = difference(value, member(now, name), at + token(name))
        if differs is not None:
            yield Violation(META, f"`_meta` key {name!a:.80} is somebody else's", differs)
    taken = {name.casefold() for name in kept}
    for name in now:
        if name not in kept and (name.casefold() in taken or not is_namespaced(name)):
            text = f"`_meta` key {name!a:.80} may not be added; hint: use `example.com/key`"
            yield Violation(META, text, at + token(name))


def _holds(value: Json | Absent) -> bool:
    """Whether `_meta` keys can be in this: an object, null, or nothing at all."""
    return value is None or isinstance(value, dict | Absent)


def is_namespaced(name: str) -> bool:
    """Whether a `_meta` key stands under a domain name that no protocol reserves for itself."""
    found = _namespaced(name) if len(name) <= _LONGEST else None
    return found is not None and _RESERVED.isdisjoint(found[1].casefold().split("."))
