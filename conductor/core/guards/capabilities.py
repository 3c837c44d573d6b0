"""`initialize`: a component does not invent the peer at the other end, nor its capabilities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from conductor.core.guards.every_message import meta
from conductor.core.guards.reading import (
    ABSENT,
    Absent,
    Json,
    Number,
    Object,
    as_object,
    is_subsequence,
    member,
    token,
)
from conductor.core.guards.rules import Attempt, Breaches, Context, stays

_CLIENTS: Final = ("clientCapabilities", "capabilities")
_AGENTS: Final = ("agentCapabilities", "capabilities")
_LOGINS: Final = "authMethods"

_LIFE: Final[dict[str, tuple[str, ...]]] = {
    "list": ("session/list",),
    "delete": ("session/delete",),
    "fork": ("session/fork",),
    "resume": ("session/resume",),
    "close": ("session/close",),
    "archive": ("session/archive", "session/unarchive"),
    "status": ("session/status",),
    "title": ("session/set_title",),
    "options": ("session/options",),
}

PROMISES: Final[dict[str, tuple[str, ...]]] = {
    # ACP v1; an empty tuple is a container that promises nothing by itself, or a capability that
    # is always there: every proxy shows MCP over ACP, the conductor bridges it.
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
"""The methods that a component must be able to answer to claim an agent's capability, by the
pointer of the capability. Those that are not here (kinds of prompt content, other transports, extra
directories) describe how somebody else works, and cannot be claimed at all."""

ANY: Final = "*"

Claim: TypeAlias = tuple[str, Json]
"""A pointer into a capability object, and the value that is claimed there."""


def _granted(context: Context, claim: Claim) -> bool:
    """Whether a grant names a capability by its pointer, the object that holds it, or a part of
    it."""
    at, named = claim[0], context.grants.capabilities
    return ANY in named or (
        any(f"{at}/".startswith(f"{name}/") or name.startswith(f"{at}/") for name in named)
        and _is_plain(claim, named)
    )


def _is_plain(claim: Claim, named: Iterable[str]) -> bool:
    """Whether a claim says no more than its pointer does.

    Above a named pointer it is an object, and its members are claims of their own; elsewhere it is
    `true` or an empty object.
    """
    at, value = claim
    if any(name.startswith(f"{at}/") for name in named):
        return isinstance(value, dict)
    return value is True or (isinstance(value, dict) and value.keys() <= {"_meta"})


def _claims(before: Json | Absent, after: Json | Absent, at: str = "") -> Iterator[Claim]:
    """All claims of `after` beyond `before`."""
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


def _lowered(before: Object, after: Object) -> Object:
    """The params that a component which speaks ACP v1 only may offer in place of `before`.

    The version on offer is an upper bound, so the component may choose the lower one. Version 1 has
    members of its own, but here only capabilities of the client that v2 has too: never files nor
    terminals.
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


def _offer(attempt: Attempt) -> Object:
    """The params of `initialize` that a component may pass on, or hide capabilities of."""
    offered, chosen = (member(params, "protocolVersion") for params in (attempt.old, attempt.new))
    chooses_lower = (offered, chosen) == (Number("2"), Number("1"))
    return _lowered(attempt.old, attempt.new) if chooses_lower else attempt.old


def offer_kept(attempt: Attempt) -> Breaches:
    """Beside capabilities, `initialize` stays as it is on its way."""
    yield from stays("`initialize`", _offer(attempt), attempt.new, (*_CLIENTS, "_meta"))


def offered(attempt: Attempt) -> Breaches:
    """For the client, a component offers as much as the client does itself, or less."""
    for at, claim in _claimed(_offer(attempt), attempt.new, _CLIENTS):
        if not _granted(attempt.context, claim):
            yield "a capability that the client does not have may not be claimed", at


def answer_kept(attempt: Attempt) -> Breaches:
    """Beside capabilities and login methods that vanish, the result of `initialize` stays."""
    if isinstance(attempt.before, dict) and isinstance(attempt.after, dict):
        elsewhere = (*_AGENTS, _LOGINS, "_meta")
        yield from stays("`initialize`", attempt.old, attempt.new, elsewhere)
        before, after = member(attempt.old, _LOGINS), member(attempt.new, _LOGINS)
        shorter = (
            isinstance(before, list) and isinstance(after, list) and is_subsequence(after, before)
        )
        if before != after and after is not ABSENT and not shorter:
            yield "login methods may be removed, not added, changed or moved", token(_LOGINS)


def promised(attempt: Attempt) -> Breaches:
    """A component promises only capabilities that lie behind it, or that it serves itself."""
    if not isinstance(attempt.before, dict) or not isinstance(attempt.after, dict):
        yield "`initialize` may only be answered with the other side's answer", ""
    for at, claim in _claimed(attempt.old, attempt.new, _AGENTS):
        if not _is_kept(attempt.context, claim) and not _granted(attempt.context, claim):
            yield "a capability may not be claimed that nobody behind has", at


def _claimed(before: Object, after: Object, names: tuple[str, ...]) -> Iterator[tuple[str, Claim]]:
    """The claims of `after` beyond `before` in these members, each with the pointer to it.

    A capability object claims nothing by being there.
    """
    for name in names:
        old, new = member(before, name), member(after, name)
        for claim in _claims(as_object(old) if isinstance(new, dict) else old, new):
            yield token(name) + claim[0], claim


def _is_kept(context: Context, claim: Claim) -> bool:
    """Whether a component may answer all that a capability promises."""
    methods = PROMISES.get(claim[0])
    return (
        methods is not None
        and context.answerable.issuperset(methods)
        and _is_plain(claim, PROMISES)
    )


def metas_kept(attempt: Attempt) -> Breaches:
    """`_meta` of others stays at every level of capabilities."""
    if not attempt.outcome:
        names, before = _CLIENTS, _offer(attempt)
    else:
        names, before = _AGENTS, attempt.old
    for name in names:
        held = as_object(member(before, name)), as_object(member(attempt.new, name))
        yield from _metas(*held, token(name))


def _metas(before: Object, after: Object, at: str) -> Breaches:
    yield from meta(before, after, at)
    for name, value in after.items():
        if name != "_meta" and isinstance(value, dict):
            yield from _metas(as_object(member(before, name)), value, at + token(name))
