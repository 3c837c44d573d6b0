"""Prompts: their blocks may be added to and changed; commands, links and the rest stay."""

from __future__ import annotations

from collections import Counter
from typing import Final

from conductor.core.guards import commands, links
from conductor.core.guards.blobs import as_bytes
from conductor.core.guards.common import SESSION_NAMES, is_namespaced
from conductor.core.guards.context import Context, Violation
from conductor.core.guards.methods import lookalike
from conductor.core.guards.reading import (
    ABSENT,
    Absent,
    Json,
    Object,
    as_object,
    canonical,
    difference,
    member,
    token,
)
from conductor.core.guards.reading import pairs as members
from conductor.core.guards.rules import Answer, Change, Found, Origin
from conductor.core.guards.table import AGENT_STATE, META, PROMPT_OPTIONS

_OWN: Final = frozenset({"_meta", *SESSION_NAMES, "prompt"})
_RESULT: Final = ("stopReason", "messageId")
_CANCELLED: Final = "cancelled"
_BLOCKS: Final = ("type", "text", "resource", "uri", "annotations", "_meta")
_RESOURCES: Final = ("text", "blob", "uri", "_meta")
"""Members of a block, and of the resource in it, that none may be mistaken for."""
_TYPES: Final = ("text", "image", "audio", "resource_link", "resource")
"""The types of blocks of both versions of ACP; what others mean to an agent nobody knows."""


def rewritten(change: Change) -> Found:
    """Rule for a prompt on its way: its blocks may change, what stands beside them may not."""
    before, after = change.before, change.after
    for name in {**before, **after}:
        if name not in _OWN:
            at = difference(member(before, name), member(after, name), token(name))
            if at is not None:
                text = f"{name!a:.80} of a prompt may not be changed or added"
                yield Violation(PROMPT_OPTIONS, text, at)
    yield from _blocks(change.context, member(before, "prompt"), member(after, "prompt"))


def written(origin: Origin) -> Found:
    """Rule for a prompt of a component's own: nothing in it is a command, nor leads outside."""
    for name in origin.params:
        if name not in _OWN:
            text = f"a prompt may not be originated with a member {name!a:.80}"
            yield Violation(PROMPT_OPTIONS, text, token(name))
    yield from _blocks(origin.context, ABSENT, member(origin.params, "prompt"))


def ended(answer: Answer) -> Found:
    """Rule for the result of a prompt: of the agent's, why the turn ended may be put otherwise,
    unless it was cancelled; one of a component's own says no more than that, or which message it
    was."""
    relayed, result = as_object(answer.relayed), as_object(answer.result)
    own = answer.relayed is ABSENT
    for name in {**relayed, **result}:
        was, now = member(relayed, name), member(result, name)
        stops = name == "stopReason" and _CANCELLED not in (was, now)
        fits = name == "_meta" or (isinstance(now, str) and (stops or (own and name in _RESULT)))
        if was != now and not fits:
            text = f"{name!a:.80} of a prompt's result may not be changed or made up"
            yield Violation(AGENT_STATE, text, token(name))


def _blocks(context: Context, before: Json | Absent, after: Json | Absent) -> Found:
    if before == after:
        return
    if not isinstance(after, list):
        text = "a prompt may not be replaced by what is no list of blocks"
        yield Violation(PROMPT_OPTIONS, text, "/prompt")
        return
    given = before if isinstance(before, list) else []
    yield from commands.kept(context, given, after)
    yield from links.added(context, given, after)
    yield from _members(given, after)


def _members(before: list[Json], after: list[Json]) -> Found:
    """Blocks that are not as before have no odd members, and no `_meta` that agents obey."""
    whole = {canonical(block) for block in before}
    frames = Counter(map(_frame, before))
    frames.subtract(_frame(block) for block in after if canonical(block) in whole)
    known = {item for block in before for item in _metas(block)}
    for at, block in enumerate(after):
        if canonical(block) in whole:
            continue
        if not isinstance(block, dict):
            text = "a block of a prompt may not be replaced by or for what is no object"
            yield Violation(PROMPT_OPTIONS, text, f"/prompt/{at}")
            continue
        if not isinstance(block.get("text", ""), str):
            text = "the text of a block may not be made what is no text"
            yield Violation(PROMPT_OPTIONS, text, f"/prompt/{at}/text")
        frames[frame := _frame(block)] -= 1
        if frames[frame] < 0:
            yield from _shape(block, at)
        for name, value in _metas(block):
            if (name, value) not in known and not is_namespaced(name):
                text = f"`_meta` key {name!a:.80} may not be added; hint: use `example.com/key`"
                yield Violation(META, text, f"/prompt/{at}")


def _frame(block: Json) -> str:
    """What stands around the text of a block: where only that changes, it is as odd as it was."""
    held = as_object(block)
    return canonical({**held, "text": None} if isinstance(held.get("text"), str) else block)


def _shape(block: Object, at: int) -> Found:
    """What is not of a user's making looks as ACP has it."""
    if block.get("type") not in _TYPES:
        text = "a block of a prompt may only be added, or changed, as one of a type of ACP's"
        yield Violation(PROMPT_OPTIONS, text, f"/prompt/{at}/type")
    resource = block.get("resource", {})
    held = as_object(resource)
    if not (
        isinstance(resource, dict)
        and isinstance(held.get("text", ""), str)
        and as_bytes(held.get("blob", "")) is not None
    ):
        text = "the resource of a block is an object with a text, or with a blob in base64"
        yield Violation(PROMPT_OPTIONS, text, f"/prompt/{at}/resource")
    odd = lookalike(block, _BLOCKS) or lookalike(held, _RESOURCES)
    if odd is not None:
        text = f"member {odd!a:.80} of a block could be taken for another"
        yield Violation(PROMPT_OPTIONS, text, f"/prompt/{at}")


def _metas(block: Json) -> list[tuple[str, str]]:
    """The `_meta` keys of a block, and of the resource in it, with their values."""
    holders = [block, *(value for name, value in members(block) if name == "resource")]
    metas = (value for one in holders for name, value in members(one) if name == "_meta")
    return [(name, canonical(value)) for meta in metas for name, value in members(meta)]
