"""Adds, hides or renames the abilities that client and agent declare.

conductor agent 'capability,config.agent={"remove":["loadSession"]}' claude-agent-acp
"""

from dataclasses import dataclass, field
from typing import Any

from guest_sdk.python import Proxy, Request


@dataclass
class Changes:
    """Changes of one side's capabilities, made in this order."""

    remove: list[str] = field(default_factory=list)
    rename: dict[str, str] = field(default_factory=dict)
    add: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for place in (*self.remove, *self.rename, *self.rename.values(), *self.add):
            if not all(keys(place)):
                raise ValueError(f"`{place}` is no place of a capability: fs.readTextFile, or /a/b")

    def __bool__(self) -> bool:
        return bool(self.remove or self.rename or self.add)


@dataclass
class Config:
    """The settings; README.md explains each."""

    client: Changes = field(default_factory=Changes)
    agent: Changes = field(default_factory=Changes)


proxy = Proxy(
    "capability",
    description="Adds, hides or renames what client and agent say they can do.",
    config=Config,
)


@proxy.request("initialize")
async def initialize(request: Request, following: Any) -> Any:
    change(proxy.config.client, request.params, "clientCapabilities")
    result = await following(request)
    if isinstance(result, dict):
        change(proxy.config.agent, result, "agentCapabilities")
    return result


def change(changes: Changes, said: dict[str, Any], name: str) -> None:
    """Makes the changes in one side's words; `name` is version 1's name of its capabilities."""
    if not changes:
        return
    if name not in said:  # in version 2 both sides call them the same
        version = said.get("protocolVersion")
        name = "capabilities" if isinstance(version, int) and version >= 2 else name
    if name not in said and not changes.add:
        return
    held = said.setdefault(name, {})
    if not isinstance(held, dict):
        proxy.log.warn(f"`{name}` is no object, it stays as it is")
        return
    for place in changes.remove:
        take(held, keys(place))
    for place, other in changes.rename.items():
        value = take(held, keys(place))
        if value is not MISSING:
            put(held, other, value)
    for place, value in changes.add.items():
        put(held, place, value)


MISSING = object()


def keys(place: str) -> list[str]:
    """The keys of a place: `fs.readTextFile`, or a JSON pointer where keys have dots in them."""
    if not place.startswith("/"):
        return place.split(".")
    return [one.replace("~1", "/").replace("~0", "~") for one in place[1:].split("/")]


def take(held: Any, path: list[str]) -> Any:
    """Removes the value at a place; returns it, or `MISSING`."""
    *above, last = path
    for key in above:
        held = held.get(key) if isinstance(held, dict) else None
    return held.pop(last, MISSING) if isinstance(held, dict) else MISSING


def put(held: dict[str, Any], place: str, value: Any) -> None:
    """Sets the value at a place, and the objects around it where there are none."""
    *above, last = keys(place)
    for key in above:
        inner = held.get(key)
        if inner is None or inner is False:
            inner = held[key] = {}
        if not isinstance(inner, dict):
            proxy.log.warn(f"`{place}` is not set: `{key}` is no object")
            return
        held = inner
    held[last] = value


if __name__ == "__main__":
    proxy.run()
