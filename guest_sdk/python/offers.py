"""The offers of a server to a session, as MCP lists them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .parameters import Parameters
from .resources import Resource

if TYPE_CHECKING:
    from .calls import Call
    from .prompts import Prompt
    from .servers import Server
    from .sessions import Session
    from .tools import Tool


def capabilities(server: Server) -> dict[str, Any]:
    """The capabilities of a server, in MCP's words."""
    able: dict[str, Any] = {}
    if server.tools:
        able["tools"] = _listed(any(one.when for one in server.tools.values()))
    if server.readables or server.providers:
        able["resources"] = {"subscribe": True, **_listed(bool(server.providers))}
    if server.prompts:
        able["prompts"] = _listed(any(one.when for one in server.prompts.values()))
    taken: list[Parameters] = [one.parameters for one in server.tools.values()]
    taken += [one.parameters for one in server.prompts.values()]
    taken += [one.parameters for one in server.readables]
    if any(one.takes_call for one in taken):
        able["logging"] = {}
    return able


def _listed(changes: bool) -> dict[str, Any]:
    return {"listChanged": True} if changes else {}


def tools(server: Server, session: Session | None) -> dict[str, Tool]:
    """The tools that are there for a session, by name."""
    return {name: one for name, one in server.tools.items() if _there(one, session)}


def prompts(server: Server, session: Session | None) -> dict[str, Prompt]:
    """The prompts that are there for a session, by name."""
    return {name: one for name, one in server.prompts.items() if _there(one, session)}


def _there(one: Tool | Prompt, session: Session | None) -> bool:
    return one.when is None or bool(one.when(session))


async def resources(server: Server, call: Call) -> list[dict[str, Any]]:
    """The answer to `resources/list`. Raises the errors of the author's functions."""
    cards = [one.card() for one in server.readables if not one.is_template]
    for provider in server.providers:
        for one in await _provided(provider, call):
            if not isinstance(one, Resource):
                raise TypeError(
                    f"`{provider.__name__}` returned {one!r} where a `Resource` is meant"
                )
            cards.append(one.card())
    return cards


async def _provided(provider: Callable[..., Any], call: Call) -> list[Any]:
    found = await Parameters(provider, f"`{provider.__name__}`").called({}, call)
    return list(found or [])


def templates(server: Server) -> list[dict[str, Any]]:
    """The answer to `resources/templates/list`."""
    return [one.card() for one in server.readables if one.is_template]


async def read(server: Server, uri: str, call: Call) -> list[dict[str, Any]]:
    """The contents at an address. Raises `FileNotFoundError`, and all that the author raises."""
    for one in sorted(server.readables, key=lambda one: one.is_template):
        parts = one.match(uri)
        if parts is not None:
            found = await one.read(uri, parts, call)
            if found:
                return found
    raise FileNotFoundError(f"there is no resource {uri[:200]}")
