"""Keys of `_meta` by which a text for the client is marked (docs/conversation.md).

All keys that begin with `conductor.` are the conductor's; these few a component may add to texts.
"""

from __future__ import annotations

from typing import Final

from conductor.core.guards.names import squash
from conductor.core.guards.reading import as_object, member
from conductor.core.guards.rules import Attempt
from conductor.core.policy.key_table import UPDATE

_SUBCONVERSATION: Final = "conductor.conversation/subconversation"
_EVENT: Final = "conductor.conversation/event"
_TEXTS: Final = ("agent_message_chunk", "agent_message", "agent_thought_chunk", "agent_thought")
_SEEN: Final = frozenset({"approval", "plan"})
"""Kinds of events that who keeps a conversation sees: nobody can say that there was one."""
PLACE: Final = "/update/_meta"
"""The pointer to the `_meta` that may have marks."""


def marks(attempt: Attempt) -> frozenset[str]:
    """The marks that a component may add to this text: none, where it sends no text."""
    text = as_object(member(attempt.new, "update"))
    if attempt.method != UPDATE or text.get("sessionUpdate") not in _TEXTS:
        return frozenset()
    kind = as_object(as_object(text.get("_meta")).get(_EVENT)).get("kind")
    if attempt.received is None and isinstance(kind, str) and squash(kind) not in _SEEN:
        return frozenset({_SUBCONVERSATION, _EVENT})
    return frozenset({_SUBCONVERSATION})
