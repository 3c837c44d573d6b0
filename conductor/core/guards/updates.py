"""Session updates: a component changes words; all else is shown as the agent reports it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from conductor.core.guards import command_lists, modes
from conductor.core.guards.every_message import meta
from conductor.core.guards.metas import of_text
from conductor.core.guards.names import lookalike
from conductor.core.guards.reading import (
    Absent,
    Json,
    Object,
    as_object,
    changes,
    difference,
    is_subsequence,
    member,
    token,
)
from conductor.core.guards.rules import Attempt, Breaches, Rules, stays
from conductor.core.policy.key_table import SESSION_NAMES, TEXT_KINDS, UPDATE, update

_KIND: Final = "sessionUpdate"
_ELSEWHERE: Final = frozenset({"update", "_meta", *SESSION_NAMES})
"""Members beside an update that other rules are about."""
_OPTIONS: Final = "config_option_update"
FINISHED: Final = ("completed", "failed", "cancelled")
"""The states of tool calls that nobody approves of any more."""

_Value: TypeAlias = "Json | Absent"
_Changed: TypeAlias = Callable[[Attempt, str, _Value, _Value], bool]
"""Whether a member of an update may change so: by its name, and its former and present value."""
_Extended: TypeAlias = Callable[[Attempt, str, _Value, _Value], Breaches | None]
_Announced: TypeAlias = Callable[[Attempt, str, Object], Breaches]


def key_of(attempt: Attempt) -> str:
    """The key of the update that is passed on or sent: the rules of its kind are checked.

    An update that was turned into another kind falls under its new kind, or under its former kind
    where the new one has texts only. A value that is no object is an update of no kind.
    """
    old, new = attempt.old.get("update"), attempt.new.get("update")
    if attempt.received is None:
        return _key(member(as_object(new), _KIND))
    if not isinstance(old, dict) or not isinstance(new, dict):
        return UPDATE
    kind = member(new, _KIND)
    return _key(member(old, _KIND) if kind in TEXT_KINDS else kind)


def _key(kind: _Value) -> str:
    return update(kind) if isinstance(kind, str) else update("")


def _update(params: Object) -> Object:
    return as_object(member(params, "update"))


# -- of every kind --------------------------------------------------------------------------------


def shown(attempt: Attempt) -> Breaches:
    """The members beside an update stay on its way, and it stays an object of clear kind."""
    yield from stays("a session update", attempt.old, attempt.new, _ELSEWHERE)
    before, after = member(attempt.old, "update"), member(attempt.new, "update")
    objects = isinstance(before, dict) and isinstance(after, dict)
    if attempt.received is not None and before != after and not objects:
        yield "a session update must stay an object", "/update"
    odd = lookalike(as_object(after), (_KIND,), as_object(before))
    if odd is not None:
        yield f"member {odd!a:.80} could be taken for `{_KIND}`", "/update" + token(odd)


def metas_kept(attempt: Attempt) -> Breaches:
    """`_meta` of an update stays on its way; a text may be marked."""
    yield from meta(_update(attempt.old), _update(attempt.new), "/update", of_text(attempt))


# -- of single kinds ------------------------------------------------------------------------------


def _never(attempt: Attempt, name: str, was: _Value, now: _Value) -> bool:
    return False


def _not_announced(attempt: Attempt, kind: str, update: Object) -> Breaches:
    named = member(update, _KIND)
    what = f"{named!a:.80}" if isinstance(named, str) else "no known kind"
    yield f"a session update of {what} may not be originated", "/update"


def of_kinds(
    kinds: Iterable[str],
    may_change: _Changed = _never,
    extended: _Extended | None = None,
    announced: _Announced = _not_announced,
) -> Rules:
    """The rules of some kinds of update.

    Args:
        kinds: The kinds; an empty name stands for all kinds that nobody knows.
        may_change: Whether a member may change so on its way. Default: none may.
        extended: The breaches of a member that others may add to; None: it is no such member.
        announced: The breaches of an update of a component's own. Default: it may not be.
    """

    def forwarded(attempt: Attempt) -> Breaches:
        old, new = _update(attempt.old), _update(attempt.new)
        if member(old, _KIND) != member(new, _KIND):
            text = "a session update may not be turned into one of another kind"
            yield text, f"/update/{_KIND}"
            return
        for name, was, now in changes(old, new, ("_meta",)):
            breaches = None if extended is None else extended(attempt, name, was, now)
            if breaches is not None:
                yield from breaches
            elif not may_change(attempt, name, was, now):
                kind, at = old.get(_KIND), "/update" + token(name)
                text = f"{name!a:.80} of a session update of {kind!a:.80} may not be changed"
                yield f"{text} or added", difference(was, now, at) or at

    def originated(attempt: Attempt) -> Breaches:
        held = _update(attempt.new)
        kind = held.get(_KIND)
        if not attempt.context.known and kind not in TEXT_KINDS:
            yield "a session update may only be originated in a session that is known", "/update"
        yield from announced(attempt, kind if isinstance(kind, str) else "", held)

    return Rules(tuple(map(update, kinds)), forwarded, originated)


def words(attempt: Attempt, name: str, was: _Value, now: _Value) -> bool:
    """The words of a text may change."""
    return _reworded(was, now, name)


def notice_words(attempt: Attempt, name: str, was: _Value, now: _Value) -> bool:
    """With `texts`, the words of a notice may change too."""
    return attempt.context.grants.texts and _reworded(was, now, name, _NOTICE_TEXTS)


def fewer_suggestions(attempt: Attempt, name: str, was: _Value, now: _Value) -> bool:
    """With `texts`, suggested prompts may vanish: the user sends one by a click, as it is."""
    if name != "suggestions" or not isinstance(was, list) or not isinstance(now, list):
        return False
    return attempt.context.grants.texts and is_subsequence(now, was)


def call_words(attempt: Attempt, name: str, was: _Value, now: _Value) -> bool:
    """With `texts`, the words of a tool call that is finished, or of its output, may change too.

    The words of a call that is not finished stay: the user may still have to approve of it.
    """
    call = _update(attempt.old)
    if not attempt.context.grants.texts or call.get("status") not in FINISHED:
        return False
    if name == "rawOutput":
        return _reworded(was, now, name, None)
    if name != "content" or not isinstance(was, list) or not isinstance(now, list):
        return False
    return len(was) == len(now) and all(
        old == new
        or (isinstance(old, dict) and old.get("type") == "content" and _reworded(old, new, ""))
        for old, new in zip(was, now, strict=True)
    )


def own_words(attempt: Attempt, kind: str, update: Object) -> Breaches:
    """A text of a component's own is plain text."""
    if not _is_plain_text(kind, update):
        yield (
            f"a session update of '{kind}' may only be originated with text, and plainly",
            "/update",
        )


def own_options(attempt: Attempt, name: str, was: _Value, now: _Value) -> Breaches | None:
    """Own options may be added to those of the agent."""
    if name != "configOptions" or _update(attempt.old).get(_KIND) != _OPTIONS:
        return None
    return modes.extended(attempt.context, was, now, "/update" + token(name))


def own_commands(attempt: Attempt, name: str, was: _Value, now: _Value) -> Breaches | None:
    """Own commands may be added to those of the agent."""
    if name != command_lists.MEMBER or not isinstance(now, list):
        return None
    return command_lists.listed(attempt.context, was, now, "/update" + token(name))


# -- words ----------------------------------------------------------------------------------------

_TEXTS: Final = frozenset({"text", "content"})
"""Members with words in them: of content, of plans and their entries."""
_NOTICE_TEXTS: Final = frozenset({"text", "title", "description"})
"""Members with words in them: of notices, and of summaries."""

_PLAIN: Final = ("sessionUpdate", "messageId", "planId", "_meta")
_BLOCK: Final = frozenset({"type", "text", "annotations", "_meta"})
_ENTRY: Final = frozenset({"id", "content", "priority", "status", "_meta"})
_KEPT: Final = ("_meta", "annotations")
"""Members that hold no words, whatever is in them."""


def _reworded(
    before: _Value, after: _Value, name: str, words: frozenset[str] | None = _TEXTS
) -> bool:
    """Whether two values of a member differ in words only: in texts of members with these names, or
    in any (None)."""
    if isinstance(before, str) and isinstance(after, str):
        return before == after or words is None or name in words
    if isinstance(before, dict) and isinstance(after, dict):
        return before.keys() == after.keys() and all(
            held == after[key] or (key not in _KEPT and _reworded(held, after[key], key, words))
            for key, held in before.items()
        )
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return all(_reworded(*both, "", words) for both in zip(before, after, strict=True))
    return before == after


def _is_plain_text(kind: str, update: Object) -> bool:
    """Whether an update of a component's own holds words, and nothing else."""
    holds = {name: value for name, value in update.items() if name not in _PLAIN}
    if not all(isinstance(update.get(name, ""), str) for name in _PLAIN[1:3]):
        return False
    match holds:
        case {"content": list(blocks), **rest} if not kind.endswith("_chunk"):
            return not rest and all(map(_is_text_block, blocks))
        case {"content": block, **rest}:
            clears = block is None and not kind.endswith("_chunk")
            return not rest and (clears or _is_text_block(block))
        case {"entries": list(entries), **rest} if kind == "plan":
            return not rest and all(map(_is_step, entries))
        case {"plan": dict(plan), **rest} if kind == "plan_update":
            return not rest and _is_plan(plan)
    return not holds


def _is_text_block(block: Json) -> bool:
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
