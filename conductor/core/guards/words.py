"""Words within what is shown: they may change, and nothing around them."""

from __future__ import annotations

from typing import Final

from conductor.core.guards.reading import Absent, Json, Object

SAID: Final = frozenset({"text", "content"})
"""Members whose text is words: of content, of plans and their entries."""
NOTED: Final = frozenset({"text", "title", "description"})
"""The same of notices, and of summaries."""

_FINISHED: Final = ("completed", "failed", "cancelled")


def reworded(
    before: Json | Absent, after: Json | Absent, name: str, words: frozenset[str] = SAID
) -> bool:
    """Whether two values of a member differ in words only."""
    if isinstance(before, str) and isinstance(after, str):
        return before == after or name in words
    if isinstance(before, dict) and isinstance(after, dict):
        same = before.keys() == after.keys()
        return same and all(reworded(held, after[key], key, words) for key, held in before.items())
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return all(reworded(*both, "", words) for both in zip(before, after, strict=True))
    return before == after


def reworded_call(call: Object, name: str, before: Json | Absent, after: Json | Absent) -> bool:
    """Whether a member of a finished tool call differs in words only: of texts, or of its output.

    The words of a call that is not finished stay: the user may still have to approve of it.
    """
    if call.get("status") not in _FINISHED:
        return False
    if name == "rawOutput":
        return _same_but_texts(before, after)
    if name != "content" or not isinstance(before, list) or not isinstance(after, list):
        return False
    return len(before) == len(after) and all(
        one == other or (_is_text(one) and reworded(one, other, ""))
        for one, other in zip(before, after, strict=True)
    )


def _is_text(entry: Json) -> bool:
    return isinstance(entry, dict) and entry.get("type") == "content"


def _same_but_texts(before: Json | Absent, after: Json | Absent) -> bool:
    if isinstance(before, dict) and isinstance(after, dict):
        same = before.keys() == after.keys()
        return same and all(_same_but_texts(held, after[key]) for key, held in before.items())
    if isinstance(before, list) and isinstance(after, list):
        both = zip(before, after, strict=False)
        return len(before) == len(after) and all(_same_but_texts(*pair) for pair in both)
    return before == after or (isinstance(before, str) and isinstance(after, str))
