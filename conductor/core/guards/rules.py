"""What a rule is given, what it looks like, and the rules that fit many methods.

A rule yields the violations it sees, most telling first; the caller takes the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import msgspec

from conductor.core.guards.context import Context, Violation
from conductor.core.guards.reading import ABSENT, Absent, Json, Object, Params, difference

Found: TypeAlias = Iterator[Violation]


class Change(msgspec.Struct, frozen=True):
    """A message a component was given, `before`, and what it passes on, `after`."""

    context: Context
    direction: str
    method: str
    before: Object
    after: Object


class Origin(msgspec.Struct, frozen=True):
    """A message of a component's own."""

    context: Context
    direction: str
    method: str
    params: Object


class Answer(msgspec.Struct, frozen=True):
    """A component's successful answer, `result`, to the request with params `request`.

    `relayed` is the result it got for it from the other side, `ABSENT` where there was none.
    """

    context: Context
    direction: str
    method: str
    request: Params
    result: Json
    relayed: Json | Absent


class Rules(msgspec.Struct, frozen=True):
    """One row of the table of methods: what is checked on each of the three routes; `denied` is for
    an error that a component answers by itself, which has no `result`."""

    forwarded: tuple[Callable[[Change], Found], ...] = ()
    originated: tuple[Callable[[Origin], Found], ...] = ()
    answered: tuple[Callable[[Answer], Found], ...] = ()
    denied: tuple[Callable[[Answer], Found], ...] = ()


def towards(direction: str) -> str:
    """Where a message of this direction goes, for texts."""
    return "agent" if direction == "down" else "client"


def unchanged(guard: str) -> Callable[[Change], Found]:
    """A rule: the params are passed on as they came."""

    def rule(change: Change) -> Found:
        at = difference(change.before, change.after)
        if at is not None:
            text = f"the params of `{change.method:.80}` may not be changed on their way"
            yield Violation(guard, text, at)

    return rule


def not_originated(guard: str) -> Callable[[Origin], Found]:
    """A rule: no such message is a component's own."""

    def rule(origin: Origin) -> Found:
        to = towards(origin.direction)
        yield Violation(guard, f"`{origin.method:.80}` may not be originated towards the {to}")

    return rule


def relayed_only(guard: str) -> Callable[[Answer], Found]:
    """A rule: a result is what the other side answered; only errors may be a component's own."""

    def rule(answer: Answer) -> Found:
        if answer.relayed is ABSENT:
            text = f"`{answer.method:.80}` may be denied with an error, not answered with a result"
            yield Violation(guard, text)
            return
        at = difference(answer.relayed, answer.result)
        if at is not None:
            text = f"the result of `{answer.method:.80}` may not be changed on its way"
            yield Violation(guard, text, at)

    return rule


def sealed(guard: str) -> Rules:
    """The rules of what a component may only pass on or deny."""
    return Rules((unchanged(guard),), (not_originated(guard),), (relayed_only(guard),))
