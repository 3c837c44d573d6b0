"""Conversations as data (docs/conversation.md): each component adds under its own name."""

from __future__ import annotations

import re
from typing import Final

from conductor.core.guards.names import CONVERSATIONS
from conductor.core.guards.reading import (
    ABSENT,
    Json,
    Number,
    Object,
    as_object,
    difference,
    member,
    value_of,
)
from conductor.core.guards.rules import Attempt, Breaches
from conductor.patterns import lazy_pattern

_SPACE: Final = "conductor.component/"
_ANYBODY_S: Final = lazy_pattern(re.escape(_SPACE))
_ODD: Final = lazy_pattern(r"[^A-Za-z0-9._-]")
_UNKNOWN: Final = Number("-32601")
"""The code of an error: the method is not known."""


def added(attempt: Attempt) -> Breaches:
    """The answer is the one that came back, but for `_meta` under the component's own name.

    Where nobody knows the request, the component may answer it: `augment` with the conversation
    that was presented, `summarize` with its own knowledge, but in no other component's name.
    """
    own = _SPACE + _ODD.sub("-", attempt.context.component)
    its_own = re.compile(re.escape(own) + r"\Z")
    before: Json = attempt.old
    if attempt.came_back == b"error":
        error = None if attempt.received is None else attempt.received.value
        if member(as_object(error), "code") != _UNKNOWN:
            yield "only where nobody knows the request, an error may become a conversation", ""
        if attempt.method == CONVERSATIONS[0]:
            before = _without(attempt.new, _ANYBODY_S)
        else:
            presented = as_object(value_of(attempt.request))
            before = {"conversation": presented.get("conversation")}
    elif not attempt.came_back:
        yield f"`{attempt.method}` is passed on first: others add to its answer", ""
        return
    at = difference(_without(before, its_own), _without(attempt.new, its_own))
    if at is not None:
        yield f"in a conversation a component adds `{own!a:.80}` to `_meta`, and nothing else", at


def refused(attempt: Attempt) -> Breaches:
    """An error comes unchanged from the last peer that is asked: else one component could make room
    for the conversation that another makes up."""
    if attempt.before is ABSENT:
        yield f"`{attempt.method}` is passed on, and not refused: another may answer it", ""
    elif (at := difference(attempt.before, attempt.after)) is not None:
        yield f"an error of `{attempt.method}` stays as it came back", at


def _without(value: Json, names: re.Pattern[str]) -> Json:
    """A value without the members of any `_meta` that have names which match."""
    if isinstance(value, list):
        return [_without(one, names) for one in value]
    if not isinstance(value, dict):
        return value
    found: Object = {name: _without(held, names) for name, held in value.items()}
    metas = found.pop("_meta", {})
    if not isinstance(metas, dict):
        return {**found, "_meta": metas}
    kept = {name: held for name, held in metas.items() if not names.match(name)}
    return {**found, "_meta": kept} if kept else found
