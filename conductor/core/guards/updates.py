"""Session updates: a component changes words; what is shown of the rest is the agent's word."""

from __future__ import annotations

from typing import Final

from conductor.core.guards import commands, modes
from conductor.core.guards.common import SESSION_NAMES, meta
from conductor.core.guards.context import Context, Violation
from conductor.core.guards.methods import lookalike
from conductor.core.guards.reading import (
    Absent,
    Json,
    Object,
    as_object,
    difference,
    member,
    token,
)
from conductor.core.guards.rules import Change, Found, Origin
from conductor.core.guards.table import (
    AGENT_STATE,
    COMMANDS,
    NOTICES,
    SESSION_MODE,
    TOOL_CALLS,
    UNKNOWN_UPDATES,
    UPDATE_TEXTS,
)
from conductor.core.guards.words import NOTED, reworded, reworded_call, said
from conductor.core.policy.rules import COMMANDS_KIND, MODE_KINDS, OTHER_KINDS, TEXT_KINDS

_KIND: Final = ("sessionUpdate",)
_COMMANDS: Final = "availableCommands"
_OPTIONS: Final = "config_option_update"

_CALLS: Final = ("tool_call", "tool_call_update")
_NOTICES: Final = ("notice", "compaction_summary_chunk")

KINDS: Final[dict[str, str]] = {
    **dict.fromkeys(OTHER_KINDS, AGENT_STATE),
    **dict.fromkeys(TEXT_KINDS, UPDATE_TEXTS),
    **dict.fromkeys(_NOTICES, NOTICES),
    **dict.fromkeys(_CALLS, TOOL_CALLS),
    "tool_call_content_chunk": TOOL_CALLS,
    "terminal_update": TOOL_CALLS,
    "terminal_output_chunk": TOOL_CALLS,
    **dict.fromkeys(MODE_KINDS, SESSION_MODE),
    COMMANDS_KIND: COMMANDS,
}
"""The kinds of update of ACP v1 and v2 and their guards. Others are guarded as unknown."""


def _guard(kind: Json | Absent) -> str:
    return KINDS.get(kind, UNKNOWN_UPDATES) if isinstance(kind, str) else UNKNOWN_UPDATES


def made_up(origin: Origin) -> Found:
    """Rule for an update of a component's own: only of kinds that nothing depends on."""
    update = as_object(member(origin.params, "update"))
    kind = member(update, "sessionUpdate")
    for name in origin.params:
        if name not in ("update", "_meta", *SESSION_NAMES):
            text = f"{name!a:.80} may not be in a session update of a component's own"
            yield Violation(UNKNOWN_UPDATES, text, token(name))
    yield from _spelling({}, update, _KIND, "/update")
    yield from _of_own(origin.context, kind, update)


def _of_own(context: Context, kind: Json | Absent, update: Object) -> Found:
    if isinstance(kind, str) and kind in TEXT_KINDS:
        if not said(kind, update):
            text = f"a session update of '{kind}' may only be originated with text, and plainly"
            yield Violation(UPDATE_TEXTS, text, "/update")
    elif not context.known:
        text = "a session update may only be originated in a session that is known"
        yield Violation(_guard(kind), text, "/update")
    elif isinstance(kind, str) and kind in MODE_KINDS:
        yield from modes.announced(context, kind, update)
    elif kind == COMMANDS_KIND:
        listed = update.get(_COMMANDS)
        entries: list[Json] = listed if isinstance(listed, list) else [None]
        yield from commands.announced(context, entries, f"/update/{_COMMANDS}")
    else:
        what = f"{kind!a:.80}" if isinstance(kind, str) else "no known kind"
        text = f"a session update of {what} may not be originated"
        yield Violation(_guard(kind), text, "/update")


def shown(change: Change) -> Found:
    """Rule for an update on its way."""
    for name in {**change.before, **change.after}:
        if name not in ("update", "_meta", *SESSION_NAMES):
            at = difference(member(change.before, name), member(change.after, name), token(name))
            if at is not None:
                text = f"{name!a:.80} of a session update may not be changed or added"
                yield Violation(UNKNOWN_UPDATES, text, at)
    before, after = member(change.before, "update"), member(change.after, "update")
    if not isinstance(before, dict) or not isinstance(after, dict):
        if before != after:
            text = "a session update may not be replaced by or for what is no object"
            yield Violation(UNKNOWN_UPDATES, text, "/update")
        return
    yield from _spelling(before, after, _KIND, "/update")
    yield from meta(before, after, "/update")
    yield from _of_kind(change.context, before, after)


def _spelling(before: Object, after: Object, names: tuple[str, ...], at: str) -> Found:
    odd = lookalike({name: v for name, v in after.items() if name not in before}, names)
    if odd is not None:
        text = f"member {odd!a:.80} could be taken for `{names[0]}`"
        yield Violation(UNKNOWN_UPDATES, text, at + token(odd))


def _of_kind(context: Context, before: Object, after: Object) -> Found:
    old, new = member(before, "sessionUpdate"), member(after, "sessionUpdate")
    if old != new:
        guard = _guard(old) if _guard(new) == UPDATE_TEXTS else _guard(new)
        text = "a session update may not be turned into one of another kind"
        yield Violation(guard, text, "/update/sessionUpdate")
        return
    for name in {**before, **after}:
        was, now = member(before, name), member(after, name)
        if name != "_meta" and was != now:
            yield from _member(context, before, name, was, now)


def _member(
    context: Context, update: Object, name: str, was: Json | Absent, now: Json | Absent
) -> Found:
    """What may become of one member of an update, by its kind."""
    kind, at = update.get("sessionUpdate"), "/update" + token(name)
    if kind == COMMANDS_KIND and name == _COMMANDS and isinstance(now, list):
        yield from commands.listed(context, was if isinstance(was, list) else [], now, at)
    elif kind == _OPTIONS and name == "configOptions":
        yield from modes.extended(context, was, now, at)
    elif not _is_reworded(context, update, name, was, now):
        what = difference(was, now, at) or at
        text = f"{name!a:.80} of a session update of {kind!a:.80} may not be changed or added"
        yield Violation(_guard(kind), text, what)


def _is_reworded(
    context: Context, update: Object, name: str, was: Json | Absent, now: Json | Absent
) -> bool:
    """Whether only such words differ as may be changed."""
    kind = update.get("sessionUpdate")
    if kind in TEXT_KINDS:
        return reworded(was, now, name)
    if not context.grants.texts:
        return False
    if kind in _NOTICES:
        return reworded(was, now, name, NOTED)
    return kind in _CALLS and reworded_call(update, name, was, now)
