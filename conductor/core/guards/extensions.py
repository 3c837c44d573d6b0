"""Extension methods: those that a grant names, and no others.

The engine looks up rights before any rule is asked; this is the second wall.
"""

from __future__ import annotations

from conductor.core.guards.context import Context
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
from conductor.core.policy.rights import (
    ANSWER,
    CARRY,
    NO_PROFILE,
    ORIGINATE,
    Direction,
    Policy,
    row_of,
)


def _holds(context: Context, direction: str, method: str, right: int) -> bool:
    """Whether the grants alone give a right on an extension method, however its case is read."""
    policy = Policy(NO_PROFILE, grants=context.grants)
    spellings = (method, method.casefold())
    return all(policy.rights(Direction(direction), one) & right for one in spellings)


def _guard(direction: str, method: str) -> str:
    """The guard of an extension method: some reach the user beside the session."""
    row = row_of(Direction(direction), method.casefold())
    return EDITOR if "editor" in row.grants else UNKNOWN_METHODS


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
