"""The type of an attack, the list of attacks, and the three routes that an attack can take."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from conductor.core.guards import (
    GUARDS,
    Context,
    Violation,
    answered,
    forwarded,
    originated,
)
from conductor.core.guards.modes import words
from conductor.core.guards.reading import canonical
from conductor.core.policy.rules import Grants

ALL = frozenset(guard.name for guard in GUARDS)
FOLDERS = ("/w", "/home/me/proj")
CONTEXT = Context(
    version=1,
    folders=FOLDERS,
    commands=frozenset({"/review", "$fix", "/compact"}),
    known=True,
    of_client=True,
    modes=frozenset({"ask", "bypass", "model", "big", "\u2713"}),
    words=words(
        {
            "modes": {"availableModes": [{"id": "ask", "name": "Ask"}, {"id": "bypass"}]},
            "configOptions": [{"id": "model", "options": [{"value": "big", "name": "Big 5"}]}],
        }
    ),
    options=(canonical({"id": "model"}),),
    added=frozenset({"mine", "tone"}),
    sessions=frozenset({"s", "b", "in-use"}),
    component="evil",
    names=frozenset({"tools-demo", "Context"}),
    servers=frozenset({"mine", "my-connection", "acp:mine"}),
    foreign=frozenset({"theirs", "their-connection", "acp:theirs"}),
)
EXTENSIONS = Grants(methods=("_x/*",))
PLAIN = msgspec.structs.replace(CONTEXT, grants=EXTENSIONS)
"""The context of an attacker: it has a few extension methods, so that faults of messages show."""
Route = Callable[[Context], Violation | None]
Text = str | UnsetType


class Move(msgspec.Struct, frozen=True):
    """An act of a component, for the tests that send it along every road."""

    way: str
    """`forwarded`, `originated`, `answered` or `denied`."""
    method: str
    sent: Text
    """Params, a result or an error."""
    given: Text = UNSET
    """The params that it got."""
    came_back: str | None = None
    """The result that it got before it answers."""


class Attack(msgspec.Struct, frozen=True):
    """An attempt, and the guard it runs into; with more grants than `PLAIN` where it says so."""

    guard: str
    what: str
    route: Route
    grants: Grants = EXTENSIONS
    move: Move | None = None
    """None: only this guard, asked by itself, can be shown the attack."""

    def unknown(self) -> Attack:
        """This attack in a session that nobody has set up here."""

        def route(context: Context) -> Violation | None:
            nothing: dict[str, Any] = {"known": False, "modes": frozenset(), "options": ()}
            nothing |= {"added": frozenset(), "commands": frozenset()}
            return self.route(msgspec.structs.replace(context, **nothing))

        return Attack(self.guard, f"{self.what}, in no session", route, self.grants)

    def having(self, **grants: Any) -> Attack:
        """This attack by a component with these grants."""
        given = ", ".join(Grants(**grants).names())
        given_ = Grants(**grants)
        return Attack(self.guard, f"{self.what}, with {given}", self.route, given_, self.move)

    @property
    def context(self) -> Context:
        """The guards' context of the attacker."""
        return msgspec.structs.replace(CONTEXT, grants=self.grants)


def sources() -> list[Callable[[], Iterator[Attack]]]:
    """The functions that make attacks: all generators without parameters in `attacks_*.py`."""
    return [
        function
        for path in sorted(Path(__file__).parent.glob("attacks_*.py"))
        for module in [importlib.import_module(f"{__package__}.{path.stem}")]
        for function in vars(module).values()
        if inspect.isgeneratorfunction(function)
        and function.__module__ == module.__name__
        and not inspect.signature(function).parameters
    ]


def granted(**grants: Any) -> Context:
    """The guards' context of a component with these grants."""
    return msgspec.structs.replace(CONTEXT, grants=Grants(**grants))


def raw(text: Text) -> Raw | UnsetType:
    return text if isinstance(text, UnsetType) else Raw(text.encode())


def passes_on(guard: str, what: str, method: str, before: Text, after: Text) -> Attack:
    """A message changed on its way."""

    def route(context: Context) -> Violation | None:
        return forwarded(context, "down", method, raw(before), raw(after))

    move = Move("forwarded", method, after, before)
    return Attack(guard, f"forwarded: {what}", route, move=move)


def makes_up(guard: str, what: str, method: str, params: Text = "{}") -> Attack:
    """A message of the component's own."""

    def route(context: Context) -> Violation | None:
        return originated(context, "up", method, raw(params))

    move = Move("originated", method, params)
    return Attack(guard, f"originated: {what}", route, move=move)


def denies(guard: str, what: str, method: str, error: str, request: Text = "{}") -> Attack:
    """An error of its own."""

    def route(context: Context) -> Violation | None:
        return answered(context, "down", method, raw(request), b"error", error.encode(), None)

    move = Move("denied", method, error, request)
    return Attack(guard, f"denied: {what}", route, move=move)


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
        return answered(context, "up", method, raw(request), b"result", result.encode(), given)

    move = Move("answered", method, result, request, upstream)
    return Attack(guard, f"answered: {what}", route, move=move)
