"""Permission requests: narrowed at most on their way to the user, never answered with a yes."""

from __future__ import annotations

from typing import Final

from conductor.core.guards.reading import (
    Json,
    Object,
    Params,
    as_object,
    is_subsequence,
    member,
    token,
    value_of,
)
from conductor.core.guards.rules import Attempt, Breaches, stays

_ONCE: Final = "reject_once"
_REJECTS: Final = (_ONCE, "reject_always")
_NARROW: Final = "allow_once"
"""Every other kind, known or not, may approve more than once."""


def narrowed(attempt: Attempt) -> Breaches:
    """Some options of a request may be gone on its way, nothing else changes."""
    before, after = attempt.old, attempt.new
    if not attempt.context.grants.permission and before != after:
        text = "a permission request may not be changed; hint: `refuse:permissions` lets narrow it"
        yield text, ""
    yield from stays("a permission request", before, after, ("options",))
    whole, kept = member(before, "options"), member(after, "options")
    if whole == kept:
        return
    if not isinstance(whole, list) or not isinstance(kept, list):
        yield "the options of a permission request may not be replaced", "/options"
        return
    if not is_subsequence(kept, whole):
        text = "options of a permission request may be removed, not added, changed or moved"
        yield text, "/options"
    yield from _still_refusable(whole, kept)


def _still_refusable(whole: list[Json], kept: list[Json]) -> Breaches:
    """The options that are left must not push the user towards a wider approval than all did."""
    once = [option for option in whole if as_object(option).get("kind") == _ONCE]
    refusals = once or [option for option in whole if _rejects(option)]
    if refusals and not any(option in refusals for option in kept):
        text = "the last option that refuses, and the last that does once, may not be removed"
        yield text, "/options"
    wider = any(not _rejects(option) and not _is_narrow(option) for option in kept)
    if wider and list(filter(_is_narrow, whole)) != list(filter(_is_narrow, kept)):
        yield "`allow_once` may not be removed while a wider option stays", "/options"


def _rejects(option: Json) -> bool:
    return as_object(option).get("kind") in _REJECTS


def _is_narrow(option: Json) -> bool:
    return as_object(option).get("kind") == _NARROW


def refused(attempt: Attempt) -> Breaches:
    """A result is the client's own, or a refusal."""
    if attempt.after == attempt.before:
        return
    if not attempt.context.grants.permission:
        yield "a permission may not be answered; hint: `refuse:permissions` lets refuse it", ""
    result = attempt.new
    outcome = as_object(result.get("outcome"))
    for name in result:
        if name not in ("outcome", "_meta"):
            yield f"a permission may not be answered with a member {name!a:.80}", token(name)
    if "_meta" in result and result["_meta"] != member(attempt.old, "_meta"):
        yield "a permission may not be answered with `_meta` that is not the client's", "/_meta"
    if outcome != {"outcome": "cancelled"} and not _selects_refusal(outcome, attempt.request):
        text = "a permission may be cancelled or refused by one of its options, not given"
        yield text, "/outcome"


def _selects_refusal(outcome: Object, request: Params) -> bool:
    """Whether the chosen option only refuses, by the request as it was received."""
    if set(outcome) != {"outcome", "optionId"} or outcome["outcome"] != "selected":
        return False
    chosen = outcome["optionId"]
    options = as_object(value_of(request)).get("options")
    if not isinstance(chosen, str) or not isinstance(options, list):
        return False
    # An option that is no plain object may be the chosen one, as some parser reads it.
    meant = [o for o in options if not isinstance(o, dict) or o.get("optionId") == chosen]
    return bool(meant) and all(map(_rejects, meant))
