"""Rules for every message: how it is read, its method, `_meta` of others, and its session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from conductor.core.guards import names
from conductor.core.guards.metas import marks
from conductor.core.guards.names import lookalike, squash
from conductor.core.guards.reading import (
    ABSENT,
    Absent,
    Ambiguous,
    Json,
    Number,
    Object,
    as_object,
    canonical,
    difference,
    member,
    pairs,
    token,
)
from conductor.core.guards.rules import Attempt, Breaches
from conductor.core.jsonrpc import AUTH_REQUIRED, REFUSED
from conductor.core.policy.key_table import SESSION_NAMES
from conductor.patterns import lazy_pattern

_SPELLINGS: Final = (*SESSION_NAMES, "_meta")

_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_namespaced = lazy_pattern(rf"({_LABEL}(?:\.{_LABEL})+)/[A-Za-z0-9._-]+")
_LONGEST: Final = 256
_RESERVED: Final = frozenset({"agentclientprotocol", "mcp", "modelcontextprotocol"})
"""Labels that reserve a namespace for a protocol."""
_integer = lazy_pattern(r"-?[0-9]+")
_CONDUCTORS: Final = "conductor"
"""The first label of the conductor's own namespaces."""


# -- how it is read ------------------------------------------------------------------------------


def readable(attempt: Attempt) -> Breaches:
    """The message that is sent, and the one before it, read the same to every parser."""
    before, after = attempt.received, attempt.sent
    for document in (before, after):
        if document is not None and document.unreadable:
            text = "the message cannot be looked at, so it may not be changed: "
            yield text + document.unreadable, ""
    if not after.ambiguous:
        return
    known = frozenset(map(canonical, () if before is None else before.ambiguous))
    for node in after.ambiguous:
        if canonical(node) not in known:
            count = Counter(name for name, _ in node.pairs)
            # Not `most_common`: that imports, and this may run where no file can be opened.
            most, times = max(count.items(), key=lambda item: item[1])
            what = f"repeats {most!a:.80}" if times > 1 else "has a member name that is no text"
            yield f"an object {what}, so parsers may disagree about it", ""


def readable_params(attempt: Attempt) -> Breaches:
    """As `readable`, for params, which are an object of distinct members, null, or absent."""
    yield from readable(attempt)
    for document, how in ((attempt.received, "came"), (attempt.sent, "were sent")):
        if document is not None and not isinstance(document.value, dict | None):
            yield f"params must be an object of distinct members, and these {how} otherwise", ""


def readable_error(attempt: Attempt) -> Breaches:
    """As `readable`, for an error, which is an object."""
    yield from readable(attempt)
    if not isinstance(attempt.after, dict | Ambiguous):
        yield "an error must be an object", ""


def outcome_kept(attempt: Attempt) -> Breaches:
    """A result that came back stays a result, and an error an error.

    `conversations.added` has the rule for an error that becomes a conversation.
    """
    if attempt.came_back and attempt.came_back != attempt.outcome:
        was, now = "a result", "an error"
        if attempt.came_back == b"error":
            was, now = now, was
            if attempt.method in names.CONVERSATIONS:
                return
        yield f"{was} of `{attempt.method:.80}` may not be turned into {now} on its way back", ""


# -- its method ----------------------------------------------------------------------------------


def method_spelled(attempt: Attempt) -> Breaches:
    """The method is no look-alike of another."""
    if names.is_misspelled(attempt.spelled):
        method = f"{attempt.spelled!a:.80}"
        yield f"method {method} is spelled as no method is, but may be taken for one", ""


def not_the_conductors(attempt: Attempt) -> Breaches:
    """The method is not for conductors alone."""
    if names.is_conductors(attempt.method):
        method = f"{attempt.spelled!a:.80}"
        yield f"method {method} is the conductor's own and may not be originated", ""


def method_known(attempt: Attempt) -> Breaches:
    """The method is known, or an extension's."""
    if names.is_unknown(attempt.method):
        text = f"method {attempt.spelled!a:.80} is unknown and may not be originated"
        yield f"{text}; hint: extensions start with _", ""


# -- its session ---------------------------------------------------------------------------------


def session_kept(attempt: Attempt) -> Breaches:
    """The message stays in its session, and nothing else could be taken for its name."""
    for name in SESSION_NAMES if attempt.before is not ABSENT else ():
        if member(attempt.old, name) != member(attempt.new, name):
            yield f"`{name}` may not be changed: a message stays in its session", token(name)
    odd = lookalike(attempt.new, _SPELLINGS, attempt.old)
    if odd is not None:
        yield f"member {odd!a:.80} could be taken for another", token(odd)


def session_named(attempt: Attempt) -> Breaches:
    """A component's own message names its session as ACP does."""
    yield from session_kept(attempt)
    current, older = SESSION_NAMES
    if older in attempt.new and not names.is_mcp(attempt.method):
        yield f"a session is named as `{current}`, not as `{older}`", token(older)


# -- its metadata --------------------------------------------------------------------------------


def meta_kept(attempt: Attempt) -> Breaches:
    """`_meta` of others stays, and new keys anywhere are namespaced.

    `conversations.added` has the rule for additions to a conversation.
    """
    if attempt.method in names.CONVERSATIONS and attempt.came_back:
        return
    may = marks(attempt)
    yield from meta(attempt.old, attempt.new, may={name for at, name in may if at == "/_meta"})
    if not names.is_mcp(attempt.method):  # the inside of those messages is MCP's
        yield from _metas(attempt.before, attempt.after, may)


def meta(
    before: Object, after: Object, at: str = "", may: AbstractSet[str] = frozenset()
) -> Breaches:
    """`_meta` of these two objects: the keys of `before` stay, new keys are namespaced.

    `may`: keys that may be added besides.
    """
    old, new = member(before, "_meta"), member(after, "_meta")
    if old == new:
        return
    at += "/_meta"
    if not _has_keys(old) or not _has_keys(new):
        yield "`_meta` must stay an object", at
        return
    kept, now = as_object(old), as_object(new)
    for name, value in kept.items():
        differs = difference(value, member(now, name), at + token(name))
        if differs is not None:
            yield f"`_meta` key {name!a:.80} is somebody else's", differs
    taken = {name.casefold() for name in kept}
    for name in now:
        fits = name in may or is_namespaced(name)
        if name not in kept and (name.casefold() in taken or not fits):
            yield no_meta_key(name), at + token(name)


def no_meta_key(name: str) -> str:
    """The sentence about a key of `_meta` that may not be added."""
    return f"`_meta` key {name!a:.80} may not be added; hint: use `example.com/key`"


def _metas(
    before: Json | Absent, after: Json | Absent, may: AbstractSet[tuple[str, str]]
) -> Breaches:
    """`_meta` anywhere inside: a key that was nowhere before is namespaced, or a mark of a text."""
    known: frozenset[tuple[str, str]] | None = None
    for at, value in _all_metas(after):
        for name, held in pairs(value):
            if is_namespaced(name) or (at, name) in may:
                continue
            if known is None:
                old = (pair for _, value in _all_metas(before) for pair in pairs(value))
                known = frozenset((key, canonical(was)) for key, was in old)
            if (name, canonical(held)) not in known:
                yield no_meta_key(name), at + token(name)


def _all_metas(value: Json | Absent, at: str = "") -> Iterator[tuple[str, Json]]:
    """Every `_meta` in a value, with the pointer to it."""
    inside: Iterable[tuple[str | int, Json]] = pairs(value)
    if isinstance(value, list):
        inside = enumerate(value)
    for name, held in inside:
        if name == "_meta":
            yield f"{at}/_meta", held
        elif not isinstance(held, str):
            yield from _all_metas(held, at + token(name))


def _has_keys(value: Json | Absent) -> bool:
    """Whether a value can hold keys of `_meta`: an object, null, or nothing at all."""
    return value is None or isinstance(value, dict | Absent)


def is_namespaced(name: str) -> bool:
    """Whether a `_meta` key stands under a domain name that no protocol reserves for itself, nor
    the conductor."""
    match = _namespaced.fullmatch(name) if len(name) <= _LONGEST else None
    if match is None:
        return False
    labels = match[1].casefold().split(".")
    return labels[0] != _CONDUCTORS and _RESERVED.isdisjoint(labels)


# -- errors --------------------------------------------------------------------------------------


_LOGINS: Final = frozenset({"authmethods", "authrequired", "authenticationrequired"})
"""The words in errors by which clients show a login, squashed."""


def no_login(attempt: Attempt) -> Breaches:
    """An error of a component's own, or changed by it, does not have the user log in."""
    if attempt.before == attempt.after:
        return
    code = member(attempt.new, "code")
    if is_login(code) or (is_login(member(attempt.old, "code")) and attempt.old != attempt.new):
        text = f"error {AUTH_REQUIRED} asks the user to log in, which is for the agent"
        yield f"{text}\nhint: a component that refuses answers {REFUSED}", "/code"
    elif not (isinstance(code, Number) and _integer.fullmatch(code.text)) and code != member(
        attempt.old, "code"
    ):
        yield "the code of an error is an integer", "/code"
    data = member(attempt.new, "data")
    found = next(_logins(data, "/data"), None) if data != member(attempt.old, "data") else None
    if found is not None:
        word, at = found
        yield f"an error with {word!a:.80} asks the user to log in, which is for the agent", at


def asks_login(error: Json) -> bool:
    """Whether an error has clients show a login."""
    held = as_object(error)
    return is_login(member(held, "code")) or any(_logins(member(held, "data"), ""))


def is_login(code: Json | Absent) -> bool:
    """Whether a code means a login, however it is written."""
    text = code.text if isinstance(code, Number) else code
    try:
        return isinstance(text, str) and float(text) == AUTH_REQUIRED
    except ValueError:
        return False


def _logins(value: Json | Absent, at: str) -> Iterator[tuple[str, str]]:
    """The words in the data of an error that have clients show a login."""
    if isinstance(value, str) and squash(value) in _LOGINS:
        yield value, at
    inside: Iterable[tuple[str | int, Json]] = pairs(value)
    for name, held in enumerate(value) if isinstance(value, list) else inside:
        if isinstance(name, str) and squash(name) in _LOGINS:
            yield name, at + token(name)
        yield from _logins(held, at + token(name))
