"""Session updates: what is shown of tool calls, modes and terminals is the agent's word."""

from __future__ import annotations

from typing import Final

from conductor.core.guards.common import SESSION_NAMES, meta
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
    SESSION_MODE,
    TOOL_CALLS,
    UNKNOWN_UPDATES,
    Violation,
)

_KIND: Final = ("sessionUpdate",)
_UPDATE: Final = ("update",)

KINDS: Final[dict[str, str | None]] = {
    **dict.fromkeys(
        (
            "user_message_chunk",
            "user_message",
            "agent_message_chunk",
            "agent_message",
            "agent_thought_chunk",
            "agent_thought",
            "plan",
            "plan_update",
            "plan_removed",
            "available_commands_update",
            "session_info_update",
            "usage_update",
            "notice",
            "compaction_update",
            "compaction_summary_chunk",
            "state_update",
        )
    ),
    "tool_call": TOOL_CALLS,
    "tool_call_update": TOOL_CALLS,
    "tool_call_content_chunk": TOOL_CALLS,
    "terminal_update": TOOL_CALLS,
    "terminal_output_chunk": TOOL_CALLS,
    "current_mode_update": SESSION_MODE,
    "config_option_update": SESSION_MODE,
}
"""The kinds of update of ACP v1 and v2 and their guards; None: what it says may be changed and
made up, as far as verbs allow. Kinds that are not here are guarded as unknown."""

_FILTERABLE: Final = ("tool_call", "tool_call_update")
_FINISHED: Final = ("completed", "failed", "cancelled")
_LOOSE: Final = frozenset({"content", "rawOutput", "_meta"})
_TEXT_MEMBERS: Final = frozenset({"type", "content", "_meta"})


def _guard(kind: Json | Absent) -> str | None:
    return KINDS.get(kind, UNKNOWN_UPDATES) if isinstance(kind, str) else UNKNOWN_UPDATES


def made_up(origin: Origin) -> Found:
    """Rule for an update of a component's own: only of kinds that nothing depends on."""
    update = as_object(member(origin.params, "update"))
    kind = member(update, "sessionUpdate")
    guard = _guard(kind)
    if guard is not None:
        what = f"{kind!a:.80}" if isinstance(kind, str) else "no known kind"
        yield Violation(guard, f"a session update of {what} may not be originated", "/update")
    yield from _spelling({}, origin.params, _UPDATE, "")
    yield from _spelling({}, update, _KIND, "/update")
    yield from meta({}, update, "/update")


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
    yield from _of_kind(before, after)


def _spelling(before: Object, after: Object, names: tuple[str, ...], at: str) -> Found:
    odd = lookalike({name: v for name, v in after.items() if name not in before}, names)
    if odd is not None:
        text = f"member {odd!a:.80} could be taken for `{names[0]}`"
        yield Violation(UNKNOWN_UPDATES, text, at + token(odd))


def _of_kind(before: Object, after: Object) -> Found:
    old, new = member(before, "sessionUpdate"), member(after, "sessionUpdate")
    guard = _guard(new) or _guard(old)
    if guard is None:
        return
    if old != new:
        text = "a session update may not be turned into or from one of a guarded kind"
        yield Violation(guard, text, "/update/sessionUpdate")
        return
    loose = old in _FILTERABLE and before.get("status") in _FINISHED
    for name in {**before, **after}:
        at = difference(member(before, name), member(after, name), "/update" + token(name))
        if at is not None and name != "_meta" and not (loose and name in _LOOSE):
            text = f"{name!a:.80} of a session update of {old!a:.80} may not be changed or added"
            yield Violation(guard, text, at)
    if loose:
        yield from _content(member(before, "content"), member(after, "content"))


def _content(before: Json | Absent, after: Json | Absent) -> Found:
    """A finished call's texts may be fewer or others; its diffs and terminals stay."""
    if before == after:
        return
    now: Json | Absent = [] if after is None or isinstance(after, Absent) else after
    if not isinstance(before, list) or not isinstance(now, list):
        text = "the content of a tool call may not be replaced by or for what is no list"
        yield Violation(TOOL_CALLS, text, "/update/content")
    elif _firm(before) != _firm(now):
        text = "diffs, terminals and content of unknown kind of a tool call may not be changed"
        yield Violation(TOOL_CALLS, text, "/update/content")
    elif len(now) > len(before):
        text = "content may not be added to a tool call"
        yield Violation(TOOL_CALLS, text, "/update/content")


def _firm(content: list[Json]) -> list[Json]:
    """The entries that are not plainly text."""
    return [entry for entry in content if not _is_text(entry)]


def _is_text(entry: Json) -> bool:
    return (
        isinstance(entry, dict)
        and entry.get("type") == "content"
        and all(name in _TEXT_MEMBERS for name in entry)
    )
