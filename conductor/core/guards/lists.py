"""Lists of sessions: what the agent has, less at most."""

from __future__ import annotations

from typing import Final

from conductor.core.guards.context import Context, Violation
from conductor.core.guards.reading import (
    ABSENT,
    Json,
    as_object,
    difference,
    is_subsequence,
    member,
    token,
)
from conductor.core.guards.rules import Answer, Found, relayed_only
from conductor.core.guards.table import SESSION_LISTS

_ENTRIES: Final = "sessions"
_relayed_only = relayed_only(SESSION_LISTS)


def shortened(answer: Answer) -> Found:
    """Rule for the result of `session/list` or `session/status`: entries may vanish.

    With `sessions=own`, those of own sessions may be added.
    """
    if not isinstance(answer.relayed, dict) or not isinstance(answer.result, dict):
        yield from _relayed_only(answer)
        return
    relayed, result = answer.relayed, answer.result
    for name in {**relayed, **result}:
        at = difference(member(relayed, name), member(result, name), token(name))
        if at is not None and name not in (_ENTRIES, "_meta"):
            text = f"{name!a:.80} of a list of sessions may not be changed or added"
            yield Violation(SESSION_LISTS, text, at)
    whole, kept = member(relayed, _ENTRIES), member(result, _ENTRIES)
    if whole == kept:
        return
    if not isinstance(whole, list) or not isinstance(kept, list):
        text = "a list of sessions may not be replaced by or for what is none"
        yield Violation(SESSION_LISTS, text, token(_ENTRIES))
        return
    taken = {one for one in map(_id, whole) if isinstance(one, str)}
    rest = [one for one in kept if not _is_own(answer.context, one, taken)]
    if not is_subsequence(rest, whole):
        text = "entries of a list of sessions may be removed, not added, changed or moved"
        yield Violation(SESSION_LISTS, text, token(_ENTRIES))


def _id(entry: Json) -> object:
    return as_object(entry).get("sessionId", ABSENT)


def _is_own(context: Context, entry: Json, taken: set[str]) -> bool:
    """Whether an entry is one of a component's own sessions."""
    held, named = as_object(entry), _id(entry)
    if not context.grants.sessions or not isinstance(named, str) or named in taken:
        return False
    more = held.get("additionalDirectories")
    shown = [held.get("cwd"), *(more if isinstance(more, list) else [])]
    folders = context.own_sessions.get(named)
    return folders is not None and all(one is None or one in folders for one in shown)
