"""Rules for every message: `_meta` of others, and the session it belongs to."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from conductor.core.guards.context import Violation
from conductor.core.guards.methods import lookalike, squash
from conductor.core.guards.reading import (
    Absent,
    Document,
    Json,
    Object,
    as_object,
    canonical,
    difference,
    member,
    pairs,
    token,
)
from conductor.core.guards.rules import Found
from conductor.core.guards.table import DUPLICATE_KEYS, HANDSHAKE, META, SESSION_TARGET

SESSION_NAMES: Final = ("sessionId", "session_id")
_SPELLINGS: Final = (*SESSION_NAMES, "_meta")

_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_namespaced = re.compile(rf"({_LABEL}(?:\.{_LABEL})+)/[A-Za-z0-9._-]+").fullmatch
_LONGEST: Final = 256
_RESERVED: Final = frozenset({"agentclientprotocol", "mcp", "modelcontextprotocol"})
"""Labels that reserve a namespace for a protocol."""


def ambiguities(before: Document | None, after: Document) -> Found:
    """Ambiguous objects in `after` that `before` did not have already."""
    known = frozenset(map(canonical, () if before is None else before.ambiguous))
    for node in after.ambiguous:
        if canonical(node) not in known:
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
    """What a component sends of its own names its session as ACP does."""
    if SESSION_NAMES[1] in params:
        text = f"a session is named as `{SESSION_NAMES[0]}`, not as `{SESSION_NAMES[1]}`"
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


def metas(before: Json | Absent, after: Json | Absent) -> Found:
    """`_meta` anywhere inside: what was nowhere before is namespaced."""
    known: frozenset[tuple[str, str]] | None = None
    for at, held in _metas(after):
        for name, value in pairs(held):
            if is_namespaced(name):
                continue
            if known is None:
                known = frozenset((n, canonical(v)) for _, m in _metas(before) for n, v in pairs(m))
            if (name, canonical(value)) not in known:
                text = f"`_meta` key {name!a:.80} may not be added; hint: use `example.com/key`"
                yield Violation(META, text, at + token(name))


def _metas(value: Json | Absent, at: str = "") -> Iterator[tuple[str, Json]]:
    """Every `_meta` in a value, with where it is."""
    inside: Iterable[tuple[str | int, Json]] = pairs(value)
    if isinstance(value, list):
        inside = enumerate(value)
    for name, held in inside:
        if name == "_meta":
            yield f"{at}/_meta", held
        elif not isinstance(held, str):
            yield from _metas(held, at + token(name))


def error(relayed: Json | Absent, sent: Json) -> Found:
    """An error of a component's own, or changed by it, does not have the user log in."""
    held = as_object(sent)
    data = as_object(member(held, "data"))
    asks = [name for name in data if squash(name) == "authmethods"]
    if asks and member(as_object(relayed), "data") != data:
        text = f"an error with {asks[0]!a:.80} asks the user to log in, which is for the agent"
        yield Violation(HANDSHAKE, text, f"/data{token(asks[0])}")


def _holds(value: Json | Absent) -> bool:
    """Whether `_meta` keys can be in this: an object, null, or nothing at all."""
    return value is None or isinstance(value, dict | Absent)


def is_namespaced(name: str) -> bool:
    """Whether a `_meta` key stands under a domain name that no protocol reserves for itself."""
    found = _namespaced(name) if len(name) <= _LONGEST else None
    return found is not None and _RESERVED.isdisjoint(found[1].casefold().split("."))
