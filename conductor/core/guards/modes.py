"""Modes, models and configuration options: the agent's are shown as it reports them.

A component's own are those that it has added to what the agent lists, where everybody saw them.
"""

from __future__ import annotations

from typing import Final

from conductor.core.guards.every_message import SESSION_NAMES
from conductor.core.guards.reading import (
    ABSENT,
    Absent,
    Json,
    Object,
    as_object,
    canonical,
    difference,
    member,
    pairs,
    token,
    value_of,
)
from conductor.core.guards.rules import Attempt, Breaches, Context, not_originated, relayed_only

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


def ids(value: Json) -> frozenset[str]:
    """The ids of all modes, models and options in a session's result or update."""
    lists = [held for name, held in pairs(value) if name in _LISTS]
    for name, held in pairs(value):
        if name in ("modes", "models"):
            lists += [inner for key, inner in pairs(held) if key in _LISTS]
    entries = (entry for held in lists if isinstance(held, list) for entry in held)
    return frozenset(id_ for entry in entries for id_ in _ids(entry) if isinstance(id_, str))


def _ids(entry: Json) -> list[Json]:
    """All that an entry may be called by."""
    return [value for name, value in pairs(entry) if name in _IDS]


def _may_add(context: Context, entry: Json) -> bool:
    """Whether an entry is a mode or option that a component may add."""
    ids_ = _ids(entry)
    return (
        isinstance(entry, dict)
        and bool(ids_)
        and all(isinstance(id_, str) and id_ not in context.modes for id_ in ids_)
    )


def _is_own(context: Context, id_: Json | Absent) -> bool:
    """Whether the component has added an id that the agent does not list."""
    return isinstance(id_, str) and id_ in context.added and id_ not in context.modes


def extended(context: Context, before: Json | Absent, after: Json | Absent, at: str) -> Breaches:
    """Own modes or options may be added to a list, behind those of the agent."""
    if before == after:
        return
    old: list[Json] | None = [] if before is None or isinstance(before, Absent) else None
    if isinstance(before, list):
        old = before
    if not context.grants.modes or old is None or not isinstance(after, list):
        text = "modes and options are shown as the agent reports them; hint: `modes` lets add own"
        yield text, at
        return
    theirs = {str(id_) for entry in old for id_ in _ids(entry)}
    own = after[len(old) :]
    fits = all(_may_add(context, new) and theirs.isdisjoint(map(str, _ids(new))) for new in own)
    if after[: len(old)] != old or not fits:
        text = "modes and options of the agent stay, in order; own ones stand behind, by other ids"
        yield text, at


def reported(attempt: Attempt) -> Breaches:
    """In the result of a set-up modes and options are those of the agent, and own ones behind."""
    if not isinstance(attempt.before, dict) or not isinstance(attempt.after, dict):
        return
    was, now = member(attempt.old, _OPTIONS), member(attempt.new, _OPTIONS)
    yield from extended(attempt.context, was, now, token(_OPTIONS))
    before, after = member(attempt.old, "modes"), member(attempt.new, "modes")
    if before != after:
        yield from _modes_reported(attempt.context, before, after)


def _modes_reported(context: Context, before: Json | Absent, after: Json | Absent) -> Breaches:
    at = "/modes"
    old, new = as_object(before), as_object(after)
    extensible = before is None or isinstance(before, dict | Absent)
    if not context.grants.modes or not isinstance(after, dict) or not extensible:
        yield "`modes` of a session are shown as the agent says; hint: `modes` lets add own", at
        return
    for name in {**old, **new} if old else ():
        differs = difference(member(old, name), member(new, name), at + token(name))
        if name != "availableModes" and differs is not None:
            yield f"{name!a:.80} of an agent's modes may not be changed", differs
    was, now = member(old, "availableModes"), member(new, "availableModes")
    yield from extended(context, was, now, f"{at}/availableModes")
    current = new.get("currentModeId")
    listed = now if isinstance(now, list) else []
    if not old and not any(current in _ids(entry) for entry in listed):
        yield "the current mode must be one of the component's own", f"{at}/currentModeId"


def chosen(attempt: Attempt) -> Breaches:
    """A component's own choice is among its own modes and options, or of a session of its own."""
    if attempt.context.own:
        return
    own = _is_own_choice(attempt.context, attempt.method, attempt.new)
    if not attempt.context.grants.modes or not own:
        yield from not_originated(attempt)


def obeyed(attempt: Attempt) -> Breaches:
    """The result of a choice: of its own modes and options, or as the agent gave it with own
    options behind the agent's."""
    context, at, old, new = attempt.context, token(_OPTIONS), attempt.old, attempt.new
    if attempt.before is ABSENT:
        if not _may_answer(attempt):
            yield from relayed_only(attempt)
        elif not {_OPTIONS, "_meta"}.issuperset(new):
            yield "a choice of its own is answered with options alone", ""
        elif _OPTIONS in new:
            yield from _whole(context, new[_OPTIONS], at)
        return
    objects = isinstance(attempt.before, dict) and isinstance(attempt.after, dict)
    others = {**old, **new}.keys() - {_OPTIONS, "_meta"}
    changed = any(member(old, name) != member(new, name) for name in others)
    if not context.grants.modes or not objects or changed:
        yield from relayed_only(attempt)
    else:
        yield from extended(context, member(old, _OPTIONS), member(new, _OPTIONS), at)


def denied(attempt: Attempt) -> Breaches:
    """An error of its own answers a choice of its own modes and options alone."""
    if not attempt.came_back and not _may_answer(attempt):
        yield f"`{attempt.method:.80}` of the agent's modes and options may not be denied", ""


def _may_answer(attempt: Attempt) -> bool:
    """Whether a choice is one of the component's own modes and options."""
    params = as_object(value_of(attempt.request))
    return attempt.context.grants.modes and _is_own_choice(attempt.context, attempt.method, params)


def _is_own_choice(context: Context, method: str, params: Object) -> bool:
    name = _CHOICES[method]
    return {name, *_BESIDE}.issuperset(params) and _is_own(context, member(params, name))


def announced(attempt: Attempt, kind: str, update: Object) -> Breaches:
    """An update of a component's own reports its own modes or options."""
    context = attempt.context
    name, at = ("currentModeId", "") if kind == _CURRENT else (_OPTIONS, f"/update/{_OPTIONS}")
    if not context.grants.modes or not {"sessionUpdate", name, "_meta"}.issuperset(update):
        text = f"a session update of '{kind}' may only be originated of own modes and options"
        yield text, "/update"
    elif kind != _CURRENT:
        yield from _whole(context, member(update, name), at)
    elif not _is_own(context, member(update, name)):
        text = "a component may report a mode as the session's current mode only if that is its own"
        yield text, f"/update/{name}"


def _whole(context: Context, listed: Json | Absent, at: str) -> Breaches:
    """A list of a component's own shows all that the agent has listed, unchanged, and own ones."""
    entries = listed if isinstance(listed, list) else [None]
    theirs = len(context.options)
    shown = tuple(map(canonical, entries[:theirs]))
    fits = all(_may_add(context, entry) for entry in entries[theirs:])
    if not context.known or shown != context.options or not fits:
        text = "a list of options begins with those of the agent, as it lists them; own ones follow"
        yield text, at
