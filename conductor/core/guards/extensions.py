"""Extension methods: those that a grant names, and no others.

The engine looks up rights before any rule is asked; this is the second wall.
"""

from __future__ import annotations

from typing import Final

from conductor.core.guards.context import Context
from conductor.core.guards.methods import squash
from conductor.core.guards.rules import (
    Answer,
    Change,
    Found,
    Origin,
    Rules,
    not_originated,
    relayed_only,
    unchanged,
)
from conductor.core.guards.table import EDITOR, UNKNOWN_METHODS
from conductor.core.policy.rules import (
    ANSWER,
    CARRY,
    NO_PROFILE,
    ORIGINATE,
    ROWS,
    Direction,
    Policy,
)

_EDITORS: Final = {
    row.direction.value: {squash(key): key.removesuffix("*") for key in row.keys}
    for row in ROWS
    if "editor" in row.grants
}
"""How the methods begin that reach the user beside the session, by what is left of that."""


def _editors(direction: str, method: str) -> str | None:
    """The method of the editor's that a lenient editor could take an extension method for."""
    left = squash(method)
    starts = _EDITORS.get(direction, {})
    return next((name for start, name in starts.items() if left.startswith(start)), None)


def _holds(context: Context, direction: str, method: str, right: int) -> bool:
    """Whether the grants alone give a right on an extension method, however it is read."""
    policy = Policy(NO_PROFILE, grants=context.grants)
    spellings = (method, method.casefold(), _editors(direction, method) or method)
    return all(policy.rights(Direction(direction), one) & right for one in spellings)


def _guard(direction: str, method: str) -> str:
    """The guard of an extension method: some reach the user beside the session."""
    return UNKNOWN_METHODS if _editors(direction, method) is None else EDITOR


def carried(change: Change) -> Found:
    """Rule for an extension message on its way."""
    if not _holds(change.context, change.direction, change.method, CARRY):
        yield from unchanged(_guard(change.direction, change.method))(change)


def sent(origin: Origin) -> Found:
    """Rule for an extension message of a component's own."""
    if not _holds(origin.context, origin.direction, origin.method, ORIGINATE):
        yield from not_originated(_guard(origin.direction, origin.method))(origin)


def answered(answer: Answer) -> Found:
    """Rule for the result of an extension request."""
    if not _holds(answer.context, answer.direction, answer.method, ANSWER):
        yield from relayed_only(_guard(answer.direction, answer.method))(answer)


EXTENSIONS = Rules((carried,), (sent,), (answered,))
"""The rules of all methods that begin with an underscore and are of no family."""
