"""Keys of `_meta` by which a text for the client is marked (docs/conversation.md).

All keys that begin with `conductor.` are the conductor's; these few a component may add to texts.
What is for the editor's desk has the name of its component, which the router writes.
"""

from __future__ import annotations

from typing import Final

from conductor.core.guards.names import squash
from conductor.core.guards.reading import as_object, member
from conductor.core.guards.rules import Attempt
from conductor.core.policy.key_table import OF_EDITOR, STAMP, UPDATE

SUBCONVERSATION: Final = "conductor.conversation/subconversation"
_EVENT: Final = "conductor.conversation/event"
_TEXTS: Final = ("agent_message_chunk", "agent_message", "agent_thought_chunk", "agent_thought")
_SEEN: Final = frozenset({"approval", "plan"})
"""Kinds of events that who keeps a conversation sees: nobody can say that there was one."""
_PLACE: Final = "/update/_meta"
"""The pointer to the `_meta` of a text."""


def marks(attempt: Attempt) -> frozenset[tuple[str, str]]:
    """The marks that a message may have which a component sends, each with the pointer to the
    `_meta` it stands in."""
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
