"""What an attack is, and the three routes it can take."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Raw, UnsetType

from conductor.core.guards import (
    GUARDS,
    Context,
    Violation,
    answered,
    forwarded,
    originated,
)

ALL = frozenset(guard.name for guard in GUARDS)
CONTEXT = Context(
    version=1,
    servers=frozenset({"mine", "my-connection", "acp:mine"}),
    foreign=frozenset({"theirs", "their-connection", "acp:theirs"}),
)
Route = Callable[[Context], Violation | None]
Text = str | UnsetType


class Attack(msgspec.Struct, frozen=True):
    """What is tried, and the guard it runs into."""

    guard: str
    what: str
    route: Route


def _raw(text: Text) -> Raw | UnsetType:
    return text if isinstance(text, UnsetType) else Raw(text.encode())


def passes_on(guard: str, what: str, method: str, before: Text, after: Text) -> Attack:
    """A message changed on its way."""

    def route(context: Context) -> Violation | None:
        return forwarded(context, "down", method, _raw(before), _raw(after))

    return Attack(guard, f"forwarded: {what}", route)


def makes_up(guard: str, what: str, method: str, params: Text = "{}") -> Attack:
    """A message of the component's own."""

    def route(context: Context) -> Violation | None:
        return originated(context, "up", method, _raw(params))

    return Attack(guard, f"originated: {what}", route)


def answers(
    guard: str,
    what: str,
    method: str,
    result: str,
    upstream: str | None = None,
    request: Text = "{}",
) -> Attack:
    """A result, of its own or (with `upstream`) changed on its way."""
    given = None if upstream is None else (b"result", upstream.encode())

    def route(context: Context) -> Violation | None:
        return answered(context, "up", method, _raw(request), b"result", result.encode(), given)

    return Attack(guard, f"answered: {what}", route)
