"""Modes, models and configuration options: the agent's are shown as it reports them."""

from __future__ import annotations

from typing import Final

from conductor.core.guards.context import Context, Violation
from conductor.core.guards.reading import (
    ABSENT,
    Absent,
    Json,
    Object,
    Unreadable,
    as_object,
    difference,
    member,
    read,
    token,
)
from conductor.core.guards.rules import Answer, Found, Origin, not_originated, relayed_only
from conductor.core.guards.table import SESSION_MODE

_IDS: Final = ("id", "configId")
_CHOICES: Final = ("modeId", "modelId", "configId")
"""What a request sets, by the member that names it."""

_not_originated = not_originated(SESSION_MODE)
_relayed_only = relayed_only(SESSION_MODE)


def _id(entry: Json) -> Json | Absent:
    held = as_object(entry)
    return next((held[name] for name in _IDS if name in held), ABSENT)


def _are_own(context: Context, ids: list[Json | Absent]) -> bool:
    """Whether these are ids of a component's own modes and options."""
    return all(isinstance(one, str) and one not in context.modes for one in ids)


def extended(context: Context, before: Json | Absent, after: Json | Absent, at: str) -> Found:
    """Rule for a list of modes or options: own ones may be added behind those of the agent."""
    if before == after:
        return
    old: list[Json] | None = [] if before is None or isinstance(before, Absent) else None
    if isinstance(before, list):
        old = before
    if not context.grants.modes or old is None or not isinstance(after, list):
        text = "modes and options are shown as the agent reports them; hint: `modes` lets add own"
        yield Violation(SESSION_MODE, text, at)
        return
    own, theirs = [_id(one) for one in after[len(old) :]], {str(_id(one)) for one in old}
    if after[: len(old)] != old or not _are_own(context, own) or not theirs.isdisjoint(own):
        text = "modes and options of the agent stay, in order; own ones stand behind, by other ids"
        yield Violation(SESSION_MODE, text, at)


def _holds(before: Json | Absent) -> bool:
    """Whether modes can be added to this: an object, null, or nothing at all."""
    return before is None or isinstance(before, dict | Absent)


def reported(context: Context, before: Json | Absent, after: Json | Absent) -> Found:
    """Rule for `modes` in the result of a set-up: as the agent says, and own ones behind."""
    at = "/modes"
    old, new = as_object(before), as_object(after)
    if not context.grants.modes or not isinstance(after, dict) or not _holds(before):
        text = "`modes` of a session are shown as the agent says; hint: `modes` lets add own"
        yield Violation(SESSION_MODE, text, at)
        return
    for name in {**old, **new} if old else ():
        differs = difference(member(old, name), member(new, name), at + token(name))
        if name != "availableModes" and differs is not None:
            text = f"{name!a:.80} of an agent's modes may not be changed"
            yield Violation(SESSION_MODE, text, differs)
    was, now = member(old, "availableModes"), member(new, "availableModes")
    yield from extended(context, was, now, f"{at}/availableModes")
    if not old and not _are_own(context, [member(new, "currentModeId")]):
        text = "the current mode must be one of the component's own"
        yield Violation(SESSION_MODE, text, f"{at}/currentModeId")


def chosen(origin: Origin) -> Found:
    """Rule for a choice of a component's own: among its own modes and options."""
    if not origin.context.grants.modes or not _is_own_choice(origin.context, origin.params):
        yield from _not_originated(origin)


def obeyed(answer: Answer) -> Found:
    """Rule for the result of a choice: of its own modes and options, or as the agent gave it."""
    try:
        params = as_object(read(answer.request).value)
    except Unreadable:
        params = {}
    context, own = answer.context, answer.relayed is ABSENT
    if not own or not context.grants.modes or not _is_own_choice(context, params):
        yield from _relayed_only(answer)


def _is_own_choice(context: Context, params: Object) -> bool:
    chosen = [params[name] for name in _CHOICES if name in params]
    return bool(chosen) and _are_own(context, list(chosen))


def announced(context: Context, kind: str, update: Object) -> Found:
    """Rule for an update of a component's own that tells of modes or options."""
    if kind == "current_mode_update":
        told: list[Json | Absent] = [member(update, "currentModeId")]
    else:
        entries = update.get("configOptions")
        told = [_id(one) for one in entries] if isinstance(entries, list) else [ABSENT]
    if not context.grants.modes or not _are_own(context, told):
        text = f"a session update of '{kind}' may only be originated of own modes and options"
        yield Violation(SESSION_MODE, text, "/update")
