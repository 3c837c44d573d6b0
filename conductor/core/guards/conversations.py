"""Conversations as data (docs/conversation.md): each component adds under its own name."""

from __future__ import annotations

import re
from typing import Final

from conductor.core.guards.names import CONVERSATIONS
from conductor.core.guards.reading import (
    Json,
    Number,
    Object,
    as_object,
    difference,
    member,
    value_of,
)
from conductor.core.guards.rules import Attempt, Breaches

_SPACE: Final = "conductor.component/"
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]")
_UNKNOWN: Final = Number("-32601")
"""The code of an error: the method is not known."""


def added(attempt: Attempt) -> Breaches:
    """What comes back is as it was, but for `_meta` under the component's own name.

    Where nobody knows the request, the component may answer it: of `augment` with what was
    presented, of `summarize` with what it knows.
    """
    own = _SPACE + _ODD.sub("-", attempt.context.component)
    before = attempt.old
    if attempt.came_back == b"error":
        error = None if attempt.received is None else attempt.received.value
        if member(as_object(error), "code") != _UNKNOWN:
            yield "only where nobody knows the request, an error may become a conversation", ""
        if attempt.method == CONVERSATIONS[0]:
            return
        presented = as_object(value_of(attempt.request))
        before = {"conversation": presented.get("conversation")}
    elif not attempt.came_back:
        yield f"`{attempt.method}` is passed on first: others add to what it is answered with", ""
        return
    at = difference(_of_others(before, own), _of_others(attempt.new, own))
    if at is not None:
        yield f"in a conversation a component adds `{own!a:.80}` to `_meta`, and nothing else", at


def _of_others(value: Json, own: str) -> Json:
    """A value without what is under a component's own name in any `_meta`."""
    if isinstance(value, list):
        return [_of_others(one, own) for one in value]
    if not isinstance(value, dict):
        return value
    found: Object = {name: _of_others(held, own) for name, held in value.items()}
    metas = found.get("_meta")
    if isinstance(metas, dict):
        metas.pop(own, None)
        if not metas:
            del found["_meta"]
    return found
