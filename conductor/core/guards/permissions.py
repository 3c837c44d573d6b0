"""Permission requests: narrowed at most on their way to the user, never answered with a yes."""

from __future__ import annotations

from typing import Final

from conductor.core.guards.context import Violation
from conductor.core.guards.reading import (
    ABSENT,
    Json,
    Object,
    Params,
    Unreadable,
    as_object,
    difference,
    is_subsequence,
    member,
    read,
    token,
)
from conductor.core.guards.rules import Answer, Change, Found
from conductor.core.guards.table import PERMISSION_ANSWERS, PERMISSION_WIDENING

_ONCE: Final = "reject_once"
_REJECTS: Final = (_ONCE, "reject_always")
_NARROW: Final = "allow_once"
"""Every other kind, known or not, approves more than once for all anybody knows."""


def narrowed(change: Change) -> Found:
    """Rule for a permission request on its way: some options may be gone, nothing else changes."""
    before, after = change.before, change.after
    if not change.context.grants.permission and before != after:
        text = "a permission request may not be changed; hint: `permission=narrow` lets narrow it"
        yield Violation(PERMISSION_WIDENING, text)
    for name in {**before, **after}:
        if name != "options":
            at = difference(member(before, name), member(after, name), token(name))
            if at is not None:
                text = f"{name!a:.80} of a permission request may not be changed"
                yield Violation(PERMISSION_WIDENING, text, at)
    whole, kept = member(before, "options"), member(after, "options")
    if whole == kept:
        return
    if not isinstance(whole, list) or not isinstance(kept, list):
        text = "the options of a permission request may not be replaced"
        yield Violation(PERMISSION_WIDENING, text, "/options")
        return
    if not is_subsequence(kept, whole):
        text = "options of a permission request may be removed, not added, changed or moved"
        yield Violation(PERMISSION_WIDENING, text, "/options")
    yield from _still_refusable(whole, kept)


def _still_refusable(whole: list[Json], kept: list[Json]) -> Found:
    """What is left must not push the user towards a wider approval than the whole did."""
    once = [option for option in whole if as_object(option).get("kind") == _ONCE]
    refusals = once or [option for option in whole if _rejects(option)]
    if refusals and not any(option in refusals for option in kept):
        text = "the last option that refuses, and the last that does once, may not be removed"
        yield Violation(PERMISSION_WIDENING, text, "/options")
    wider = any(not _rejects(option) and not _is_narrow(option) for option in kept)
    if wider and list(filter(_is_narrow, whole)) != list(filter(_is_narrow, kept)):
        text = "`allow_once` may not be removed while a wider option stays"
        yield Violation(PERMISSION_WIDENING, text, "/options")


def _rejects(option: Json) -> bool:
    return as_object(option).get("kind") in _REJECTS


def _is_narrow(option: Json) -> bool:
    return as_object(option).get("kind") == _NARROW


def refused(answer: Answer) -> Found:
    """Rule for a result: the client's own, or one that refuses."""
    if answer.result == answer.relayed:
        return
    if not answer.context.grants.permission:
        text = "a permission may not be answered; hint: `permission=narrow` lets refuse it"
        yield Violation(PERMISSION_ANSWERS, text)
    result = as_object(answer.result)
    outcome = as_object(result.get("outcome"))
    for name in result:
        if name not in ("outcome", "_meta"):
            text = f"a permission may not be answered with a member {name!a:.80}"
            yield Violation(PERMISSION_ANSWERS, text, token(name))
    relayed = {} if answer.relayed is ABSENT else as_object(answer.relayed)
    if "_meta" in result and result["_meta"] != member(relayed, "_meta"):
        text = "a permission may not be answered with `_meta` that is not the client's"
        yield Violation(PERMISSION_ANSWERS, text, "/_meta")
    if outcome != {"outcome": "cancelled"} and not _selects_refusal(outcome, answer.request):
        text = "a permission may be cancelled or refused by one of its options, not given"
        yield Violation(PERMISSION_ANSWERS, text, "/outcome")


def _selects_refusal(outcome: Object, request: Params) -> bool:
    """Whether the option chosen is one that, by the request as it was received, only refuses."""
    if set(outcome) != {"outcome", "optionId"} or outcome["outcome"] != "selected":
        return False
    chosen = outcome["optionId"]
    try:
        options = as_object(read(request).value).get("options")
    except Unreadable:
        return False
    if not isinstance(chosen, str) or not isinstance(options, list):
        return False
    # An option that is no plain object may be the one that is meant.
    meant = [o for o in options if not isinstance(o, dict) or o.get("optionId") == chosen]
    return bool(meant) and all(map(_rejects, meant))
