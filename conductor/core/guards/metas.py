"""Members of `_meta` that a component may add or change: closed lists (docs/conversation.md).

All keys that begin with `conductor.` are the conductor's; a component may mark texts with a few.
A message for the editor's desk has the name of its component, which the router writes. A
component that may change an update may reword the texts for people in it. Programs obey the other
members of a `_meta`, whatever they look like: a mode, a kind of event, a trace.
"""

from __future__ import annotations

from typing import Final

import msgspec

from conductor.core.guards.names import squash
from conductor.core.guards.reading import Absent, Document, Json, Object, as_object, member
from conductor.core.guards.rules import Attempt
from conductor.core.policy.key_table import OF_EDITOR, STAMP, TEXT_KINDS, UPDATE, WORDED_KINDS

SUBCONVERSATION: Final = "conductor.conversation/subconversation"
_EVENT: Final = "conductor.conversation/event"
_TEXTS: Final = ("agent_message_chunk", "agent_message", "agent_thought_chunk", "agent_thought")
_SEEN: Final = frozenset({"approval", "plan"})
"""Kinds of events that the keeper of a conversation sees itself: no component can claim one."""
_PLACE: Final = "/update/_meta"
"""The pointer to the `_meta` of a text."""
CALLS: Final = WORDED_KINDS[:2]
NOTICES: Final = WORDED_KINDS[2:]
"""The kinds of update that tell of tool calls, and those that tell a person something beside the
turn."""
_FOR_PEOPLE: Final = (
    # A terminal's output since the last update: an agent runs it, and the client shows it.
    (CALLS, ("terminal_output", "data")),
    # The title below which a client shows a part of the conversation.
    (TEXT_KINDS, (SUBCONVERSATION, "title")),
)
"""Kinds of updates, and where in the update's own `_meta` the text stands."""


def marks(attempt: Attempt) -> frozenset[tuple[str, str]]:
    """The marks that a component's message may have, each with the pointer to the `_meta` it stands
    in."""
    if attempt.received is None and attempt.method.startswith(OF_EDITOR):
        own = as_object(attempt.new.get("_meta")).get(STAMP) == attempt.context.component
        return frozenset({("/_meta", STAMP)}) if own else frozenset()
    return frozenset((_PLACE, name) for name in of_text(attempt))


def of_text(attempt: Attempt) -> frozenset[str]:
    """The marks that a component may add to this text: none, where it sends no text."""
    text = as_object(member(attempt.new, "update"))
    if attempt.method != UPDATE or text.get("sessionUpdate") not in _TEXTS:
        return frozenset()
    kind = as_object(as_object(text.get("_meta")).get(_EVENT)).get("kind")
    if attempt.received is None and isinstance(kind, str) and squash(kind) not in _SEEN:
        return frozenset({SUBCONVERSATION, _EVENT})
    return frozenset({SUBCONVERSATION})


def as_given(method: str, given: Document, sent: Document) -> Document:
    """The message that a component passes on, with the former words wherever it may change them: so
    their change breaks no rule, and all else stays as the rules have it."""
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
