"""Extension methods: those that a grant names, and no others.

The engine looks up rights before any rule is checked; this is the second wall.
"""

from __future__ import annotations

from typing import Final

from conductor.core.guards.names import CONVERSATIONS, squash
from conductor.core.guards.rules import (
    Attempt,
    Breaches,
    Rule,
    Rules,
    not_originated,
    relayed_only,
    unchanged,
)
from conductor.core.policy.key_table import ANSWER, BESIDE, CARRY, ORIGINATE, Direction
from conductor.core.policy.rules import Policy

_EDITORS: Final = {
    Direction.UP.value: {
        squash(key): key.removesuffix("*") for keys in BESIDE.values() for key in keys
    }
}
"""The prefixes of methods that reach the user beside the session, by their squashed form."""


def _editors(attempt: Attempt) -> str | None:
    """The method of the editor's that a lenient editor could take an extension method for."""
    squashed = squash(attempt.method)
    starts = _EDITORS.get(attempt.direction, {})
    return next((name for start, name in starts.items() if squashed.startswith(start)), None)


def _granted(attempt: Attempt, right: int) -> bool:
    """Whether the grants alone give a right on an extension method, however it is read."""
    policy = Policy(grants=attempt.context.grants)
    method = attempt.method
    spellings = (method, method.casefold(), _editors(attempt) or method)
    return all(policy.rights(Direction(attempt.direction), name) & right for name in spellings)


def rules(*, of_editor: bool) -> Rules:
    """The rules of extension methods: of those that reach the user beside the session, or of all
    others."""

    def unless(right: int, rule: Rule) -> Rule:
        def checked(attempt: Attempt) -> Breaches:
            if (_editors(attempt) is not None) is of_editor and not _granted(attempt, right):
                yield from rule(attempt)

        return checked

    return Rules(
        ("_*", *CONVERSATIONS),
        unless(CARRY, unchanged),
        unless(ORIGINATE, not_originated),
        unless(ANSWER, relayed_only),
    )
