"""`initialize`: who is at the other end, and what it can do, is not for a component to invent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from conductor.core.guards.common import meta
from conductor.core.guards.context import Context, Violation
from conductor.core.guards.reading import (
    ABSENT,
    Absent,
    Json,
    Number,
    Object,
    as_object,
    difference,
    is_subsequence,
    member,
    token,
)
from conductor.core.guards.rules import Answer, Change, Found
from conductor.core.guards.table import CAPABILITY_CLAIMS, HANDSHAKE

_CLIENTS: Final = ("clientCapabilities", "capabilities")
_AGENTS: Final = ("agentCapabilities", "capabilities")

_LIFE: Final[dict[str, tuple[str, ...]]] = {
    "list": ("session/list",),
    "delete": ("session/delete",),
    "fork": ("session/fork",),
    "resume": ("session/resume",),
    "close": ("session/close",),
    "archive": ("session/archive", "session/unarchive"),
    "status": ("session/status",),
    "title": ("session/set_title",),
}

PROMISES: Final[dict[str, tuple[str, ...]]] = {
    # ACP v1; an empty tuple is a container that promises nothing by itself, or what is always
    # there: every proxy shows MCP over ACP, the conductor bridges it.
    "/loadSession": ("session/load",),
    "/mcpCapabilities": (),
    "/mcpCapabilities/acp": (),
    "/sessionCapabilities": (),
    **{f"/sessionCapabilities/{name}": methods for name, methods in _LIFE.items()},
    "/auth/logout": ("logout",),
    # both
    "/auth": (),
    "/auth/status": ("auth/status",),
    "/providers": ("providers/list", "providers/set", "providers/disable"),
    # ACP v2
    "/session": ("session/new", "session/prompt", "session/list", "session/resume"),
    "/session/mcp": (),
    "/session/mcp/acp": (),
    **{f"/session/{name}": methods for name, methods in _LIFE.items()},
}
"""What must be answerable for an agent's capability to be claimed, by its place in the capability
object. What is not here (kinds of prompt content, other transports, extra directories) describes
how somebody else works, and cannot be claimed at all."""

ANY: Final = "*"


Claim: TypeAlias = tuple[str, Json]
"""A pointer into a capability object, and what is claimed there."""


def _granted(context: Context, claim: Claim) -> bool:
    """Whether a grant names a capability by its pointer, what holds it, or what is in it."""
    at, named = claim[0], context.grants.capabilities
    return ANY in named or (
        any(f"{at}/".startswith(f"{one}/") or one.startswith(f"{at}/") for one in named)
        and _is_plain(claim, named)
    )


def _is_plain(claim: Claim, named: Iterable[str]) -> bool:
    """Whether a claim says no more than its pointer does: above what is named it is an object,
    whose members are claims of their own, elsewhere `true` or an empty object."""
    at, value = claim
    if any(one.startswith(f"{at}/") for one in named):
        return isinstance(value, dict)
    return value is True or (isinstance(value, dict) and value.keys() <= {"_meta"})


def _claims(before: Json | Absent, after: Json | Absent, at: str = "") -> Iterator[Claim]:
    """Everything that `after` claims beyond `before`."""
    if isinstance(after, Absent) or after is None or after is False:
        return
    claimed_before = not (before is ABSENT or before is None or before is False)
    if not isinstance(after, dict) or (claimed_before and not isinstance(before, dict)):
        if before != after:
            yield at, after
        return
    if not claimed_before:
        yield at, after  # in ACP v2 the empty object is the claim
    for name, value in after.items():
        if name != "_meta":  # looked at as `_meta`
            yield from _claims(member(as_object(before), name), value, at + token(name))


def _all_claims(before: Json | Absent, after: Json | Absent) -> Iterator[Claim]:
    """The claims of a whole capability object, which claims nothing by being there."""
    return _claims(as_object(before) if isinstance(after, dict) else before, after)


def _metas(before: Object, after: Object, at: str) -> Found:
    """`_meta` at every level of a capability object that is there on both sides."""
    yield from meta(before, after, at)
    for name, value in after.items():
        if name != "_meta" and isinstance(value, dict):
            yield from _metas(as_object(member(before, name)), value, at + token(name))


def _fixed(before: Object, after: Object, but: tuple[str, ...]) -> Found:
    for name in {**before, **after}:
        if name not in but and name != "_meta":
            at = difference(member(before, name), member(after, name), token(name))
            if at is not None:
                text = f"{name!a:.80} of `initialize` may not be changed or added"
                yield Violation(HANDSHAKE, text, at)


def _lowered(before: Object, after: Object) -> Object:
    """What may be offered in place of `before` by a component that speaks ACP v1 only.

    The version on offer is an upper bound, so it may choose the lower one. That has members of its
    own, and no more of the client's capabilities than v2 has as well: never files nor terminals.
    """
    held = as_object(member(before, "capabilities"))
    lowered: Object = {name: before[name] for name in before if name in after or name == "_meta"}
    lowered["protocolVersion"] = Number("1")
    lowered.pop("capabilities", None)
    login = as_object(member(held, "auth")).get("terminal")
    lowered["clientCapabilities"] = {
        **{name: held[name] for name in ("elicitation", "_meta") if name in held},
        "auth": {"terminal": login not in (None, False)},
        "fs": {},
        "session": {"configOptions": {"boolean": {}}},
    }
    if "clientInfo" in after and "info" in before:
        lowered["clientInfo"] = before["info"]
    return lowered


def _chooses_lower(before: Object, after: Object) -> bool:
    versions = (member(before, "protocolVersion"), member(after, "protocolVersion"))
    return versions == (Number("2"), Number("1"))


def offered(change: Change) -> Found:
    """Rule for `initialize` on its way: the client can do as much as it said, or less."""
    sent, given = change.after, change.before
    if _chooses_lower(given, sent):
        given = _lowered(given, sent)
    yield from _fixed(given, sent, _CLIENTS)
    for name in _CLIENTS:
        before, after = member(given, name), member(sent, name)
        for claim in _all_claims(before, after):
            if _granted(change.context, claim):
                continue
            text = "a capability that the client does not have may not be claimed"
            yield Violation(CAPABILITY_CLAIMS, text, token(name) + claim[0])
        yield from _metas(as_object(before), as_object(after), token(name))


def promised(answer: Answer) -> Found:
    """Rule for the result of `initialize`: no more than what lies behind, or is answered here."""
    if not isinstance(answer.relayed, dict) or not isinstance(answer.result, dict):
        text = "`initialize` may only be answered with what the other side answered it"
        yield Violation(CAPABILITY_CLAIMS, text)
        return
    relayed, result = answer.relayed, answer.result
    yield from _fixed(relayed, result, (*_AGENTS, "authMethods"))
    yield from _logins(member(relayed, "authMethods"), member(result, "authMethods"))
    for name in _AGENTS:
        before, after = member(relayed, name), member(result, name)
        for claim in _all_claims(before, after):
            if not _is_kept(answer.context, claim) and not _granted(answer.context, claim):
                text = "a capability may not be claimed that nobody behind has"
                yield Violation(CAPABILITY_CLAIMS, text, token(name) + claim[0])
        yield from _metas(as_object(before), as_object(after), token(name))


def _is_kept(context: Context, claim: Claim) -> bool:
    """Whether a component may answer all that a capability promises."""
    methods = PROMISES.get(claim[0])
    return (
        methods is not None
        and context.answerable.issuperset(methods)
        and _is_plain(claim, PROMISES)
    )


def _logins(before: Json | Absent, after: Json | Absent) -> Found:
    if before == after or after is ABSENT:
        return
    if isinstance(before, list) and isinstance(after, list) and is_subsequence(after, before):
        return
    text = "login methods may be removed, not added, changed or moved"
    yield Violation(HANDSHAKE, text, "/authMethods")
