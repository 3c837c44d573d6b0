"""Members of `_meta` that hold text for people, a closed list: `texts` lets those be reworded.

Programs obey what else is in a `_meta`, whatever it looks like: a mode, a kind of event, a trace.
Every rule sees the words of the list as they were: so a change of them breaks none, and all else
stays as the rules have it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from conductor.core.guards.marks import SUBCONVERSATION
from conductor.core.guards.reading import Absent, Document, Json, Object, as_object, member
from conductor.core.guards.updates import CALLS
from conductor.core.policy.key_table import TEXT_KINDS, UPDATE

_FOR_PEOPLE: Final = (
    # What a terminal has written since the last update: an agent runs it, and the client shows it.
    (CALLS, ("terminal_output", "data")),
    # The title below which a client shows a part of the conversation.
    (TEXT_KINDS, (SUBCONVERSATION, "title")),
)
"""Kinds of updates, and where in the update's own `_meta` the text stands."""


def as_given(method: str, given: Document, sent: Document) -> Document:
    """What a component passes on, with those words as they were that it may change."""
    if method != UPDATE:
        return sent
    before, after = given.value, sent.value
    kind = as_object(member(as_object(before), "update")).get("sessionUpdate")
    for kinds, path in _FOR_PEOPLE:
        if kind in kinds:
            after = _restored(before, after, ("update", "_meta", *path))
    return msgspec.structs.replace(sent, value=after)


def _restored(before: Json | Absent, after: Json, path: tuple[str, ...]) -> Json:
    """A value with the one text behind these members as it was."""
    if not path:
        return before if isinstance(before, str) and isinstance(after, str) else after
    name, rest = path[0], path[1:]
    if not isinstance(before, dict) or not isinstance(after, dict) or name not in after:
        return after
    changed: Object = {**after, name: _restored(member(before, name), after[name], rest)}
    return changed
