"""Words within what is shown: they may change, and nothing around them."""

from __future__ import annotations

from typing import Final

from conductor.core.guards.reading import Absent, Json, Object

SAID: Final = frozenset({"text", "content"})
"""Members whose text is words: of content, of plans and their entries."""
NOTED: Final = frozenset({"text", "title", "description"})
"""The same of notices, and of summaries."""

_PLAIN: Final = ("sessionUpdate", "messageId", "planId", "_meta")
_BLOCK: Final = frozenset({"type", "text", "annotations", "_meta"})
_ENTRY: Final = frozenset({"id", "content", "priority", "status", "_meta"})
_KEPT: Final = ("_meta", "annotations")
"""Members that are no words, whatever is in them."""
_FINISHED: Final = ("completed", "failed", "cancelled")


def reworded(
    before: Json | Absent, after: Json | Absent, name: str, words: frozenset[str] = SAID
) -> bool:
    """Whether two values of a member differ in words only."""
    if isinstance(before, str) and isinstance(after, str):
        return before == after or name in words
    if isinstance(before, dict) and isinstance(after, dict):
        return before.keys() == after.keys() and all(
            held == after[key] or (key not in _KEPT and reworded(held, after[key], key, words))
            for key, held in before.items()
        )
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return all(reworded(*both, "", words) for both in zip(before, after, strict=True))
    return before == after


def said(kind: str, update: Object) -> bool:
    """Whether an update of a component's own says words, and holds nothing else."""
    holds = {name: value for name, value in update.items() if name not in _PLAIN}
    if not all(isinstance(update.get(name, ""), str) for name in _PLAIN[1:3]):
        return False
    match holds:
        case {"content": list(blocks), **rest} if not kind.endswith("_chunk"):
            return not rest and all(map(_is_said, blocks))
        case {"content": block, **rest}:
            clears = block is None and not kind.endswith("_chunk")
            return not rest and (clears or _is_said(block))
        case {"entries": list(entries), **rest} if kind == "plan":
            return not rest and all(map(_is_step, entries))
        case {"plan": dict(plan), **rest} if kind == "plan_update":
            return not rest and _is_plan(plan)
    return not holds


def _is_said(block: Json) -> bool:
    """Whether a block of content is plain text."""
    return (
        isinstance(block, dict)
        and _BLOCK.issuperset(block)
        and block.get("type") == "text"
        and isinstance(block.get("text"), str)
    )


def _is_step(entry: Json) -> bool:
    """Whether an entry of a plan is one step, in words."""
    return (
        isinstance(entry, dict)
        and _ENTRY.issuperset(entry)
        and all(isinstance(value, str) for name, value in entry.items() if name != "_meta")
    )


def _is_plan(plan: Object) -> bool:
    """Whether version 2's plan is of steps or of words; one in a file leads elsewhere."""
    match {name: value for name, value in plan.items() if name not in ("planId", "_meta")}:
        case {"type": "items", "entries": list(entries), **rest}:
            return not rest and all(map(_is_step, entries))
        case {"type": "markdown", "content": str(), **rest}:
            return not rest
    return False


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
        return before.keys() == after.keys() and all(
            held == after[key] or (key not in _KEPT and _same_but_texts(held, after[key]))
            for key, held in before.items()
        )
    if isinstance(before, list) and isinstance(after, list):
        both = zip(before, after, strict=False)
        return len(before) == len(after) and all(_same_but_texts(*pair) for pair in both)
    return before == after or (isinstance(before, str) and isinstance(after, str))
