"""Modes, models and configuration options: the agent's are shown as it reports them.

A component's own are those that it has added to what the agent lists, where everybody saw them.
"""

from __future__ import annotations

from typing import Final

from conductor.core.guards.common import SESSION_NAMES
from conductor.core.guards.context import Context, Violation
from conductor.core.guards.reading import (
    ABSENT,
    Absent,
    Json,
    Object,
    Unreadable,
    as_object,
    canonical,
    difference,
    member,
    pairs,
    read,
    token,
)
from conductor.core.guards.rules import Answer, Found, Origin, not_originated, relayed_only
from conductor.core.guards.table import SESSION_MODE

_IDS: Final = ("id", "modeId", "modelId", "configId")
_LISTS: Final = ("availableModes", "availableModels", "configOptions")
_CURRENT: Final = "current_mode_update"
_OPTIONS: Final = "configOptions"

_CHOICES: Final = {
    "session/set_mode": "modeId",
    "session/set_model": "modelId",
    "session/set_config_option": "configId",
}
"""The member that names what a request chooses."""
_BESIDE: Final = frozenset({SESSION_NAMES[0], "value", "type", "_meta"})

_not_originated = not_originated(SESSION_MODE)
_relayed_only = relayed_only(SESSION_MODE)


def ids(value: Json) -> frozenset[str]:
    """The ids of all modes, models and options in a session's result or update."""
    lists = [held for name, held in pairs(value) if name in _LISTS]
    for name, held in pairs(value):
        if name in ("modes", "models"):
            lists += [inner for key, inner in pairs(held) if key in _LISTS]
    entries = (one for held in lists if isinstance(held, list) for one in held)
    return frozenset(id_ for one in entries for id_ in _ids(one) if isinstance(id_, str))


def _ids(entry: Json) -> list[Json]:
    """All that an entry may be called by."""
    return [value for name, value in pairs(entry) if name in _IDS]


def _may_add(context: Context, entry: Json) -> bool:
    """Whether an entry is a mode or option that a component may add."""
    named = _ids(entry)
    return (
        isinstance(entry, dict)
        and bool(named)
        and all(isinstance(one, str) and one not in context.modes for one in named)
    )


def _is_own(context: Context, named: Json | Absent) -> bool:
    """Whether an id is one that the component has added, and the agent does not list."""
    return isinstance(named, str) and named in context.added and named not in context.modes


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
    theirs = {str(one) for entry in old for one in _ids(entry)}
    own = after[len(old) :]
    fits = all(_may_add(context, one) and theirs.isdisjoint(map(str, _ids(one))) for one in own)
    if after[: len(old)] != old or not fits:
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
    current = new.get("currentModeId")
    listed = now if isinstance(now, list) else []
    if not old and not any(current in _ids(one) for one in listed):
        text = "the current mode must be one of the component's own"
        yield Violation(SESSION_MODE, text, f"{at}/currentModeId")


def chosen(origin: Origin) -> Found:
    """Rule for a choice of a component's own: among its own modes and options."""
    own = _is_own_choice(origin.context, origin.method, origin.params)
    if not origin.context.grants.modes or not own:
        yield from _not_originated(origin)


def obeyed(answer: Answer) -> Found:
    """Rule for the result of a choice: of its own modes and options, or as the agent gave it with
    own options behind the agent's."""
    context, at = answer.context, token(_OPTIONS)
    result = as_object(answer.result)
    if answer.relayed is ABSENT:
        if not _may_answer(answer):
            yield from _relayed_only(answer)
        elif not {_OPTIONS, "_meta"}.issuperset(result):
            yield Violation(SESSION_MODE, "a choice of its own is answered with options alone", "")
        elif _OPTIONS in result:
            yield from _whole(context, result[_OPTIONS], at)
        return
    relayed = as_object(answer.relayed)
    objects = isinstance(answer.relayed, dict) and isinstance(answer.result, dict)
    if (
        not context.grants.modes
        or not objects
        or any(
            name not in (_OPTIONS, "_meta") and member(relayed, name) != member(result, name)
            for name in {**relayed, **result}
        )
    ):
        yield from _relayed_only(answer)
    else:
        yield from extended(context, member(relayed, _OPTIONS), member(result, _OPTIONS), at)


def denied(answer: Answer) -> Found:
    """Rule for an error in answer to a choice: of its own modes and options alone."""
    if not _may_answer(answer):
        text = f"`{answer.method:.80}` of the agent's modes and options may not be denied"
        yield Violation(SESSION_MODE, text)


def _may_answer(answer: Answer) -> bool:
    """Whether a choice is one of the component's own modes and options."""
    try:
        params = as_object(read(answer.request).value)
    except Unreadable:
        params = {}
    own = _is_own_choice(answer.context, answer.method, params)
    return answer.context.grants.modes and own


def _is_own_choice(context: Context, method: str, params: Object) -> bool:
    name = _CHOICES[method]
    return {name, *_BESIDE}.issuperset(params) and _is_own(context, member(params, name))


def announced(context: Context, kind: str, update: Object) -> Found:
    """Rule for an update of a component's own that tells of modes or options."""
    told, at = ("currentModeId", "") if kind == _CURRENT else (_OPTIONS, f"/update/{_OPTIONS}")
    if not context.grants.modes or not {"sessionUpdate", told, "_meta"}.issuperset(update):
        text = f"a session update of '{kind}' may only be originated of own modes and options"
        yield Violation(SESSION_MODE, text, "/update")
    elif kind != _CURRENT:
        yield from _whole(context, member(update, told), at)
    elif not _is_own(context, member(update, told)):
        text = "the current mode of a session may only be said to be one of the component's own"
        yield Violation(SESSION_MODE, text, f"/update/{told}")


def _whole(context: Context, listed: Json | Absent, at: str) -> Found:
    """A list of a component's own shows all that the agent has listed, as it has, and own ones."""
    entries = listed if isinstance(listed, list) else [None]
    theirs = len(context.options)
    shown = tuple(map(canonical, entries[:theirs]))
    fits = all(_may_add(context, one) for one in entries[theirs:])
    if not context.known or shown != context.options or not fits:
        text = "a list of options begins with those of the agent, as it lists them; own ones follow"
        yield Violation(SESSION_MODE, text, at)
