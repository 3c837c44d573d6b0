"""What an MCP server offers, as values: what is kept of it, and what differs from that."""

from __future__ import annotations

import enum
import hashlib
import shlex
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

from conductor.core import json_text
from conductor.mcp import limits
from conductor.mcp.bridge.declarations import Declaration, HttpDeclaration


class OnChange(enum.Enum):
    """What a change of what a server offers does; from the mildest on."""

    ASK = "ask"
    """What differs is left out until the user has agreed to it."""
    KEEP = "keep"
    """In place of what differs stays what was agreed to; nobody is asked."""
    DROP = "drop"
    """All of the server is left out; nobody is asked."""


class Kind(msgspec.Struct, frozen=True):
    """One kind of what servers offer."""

    word: str
    """For people, and for what is kept."""
    key: str = ""
    """The member of an entry that names it."""
    member: str = ""
    """The member of a result that lists such entries."""
    is_whole: bool = False
    """Whether a list has all there is, so that a new entry is a change."""


TOOL: Final = Kind("tool", "name", "tools", is_whole=True)
PROMPT: Final = Kind("prompt", "name", "prompts", is_whole=True)
RESOURCE: Final = Kind("resource", "uri", "resources")
TEMPLATE: Final = Kind("template", "uriTemplate", "resourceTemplates")
PAGE: Final = Kind("page")
"""The content of a resource."""
INSTRUCTIONS: Final = Kind("instructions")

LISTED: Final[Mapping[str, Kind]] = {
    "tools/list": TOOL,
    "prompts/list": PROMPT,
    "resources/list": RESOURCE,
    "resources/templates/list": TEMPLATE,
}
"""What the result of a request lists."""
USED: Final[Mapping[str, Kind]] = {"tools/call": TOOL, "prompts/get": PROMPT}
"""What a request uses by its name."""
KINDS: Final = (TOOL, PROMPT, RESOURCE, TEMPLATE, PAGE, INSTRUCTIONS)


class Server(msgspec.Struct, frozen=True):
    """An MCP server, as what it offers is kept."""

    name: str
    """As it was declared."""
    owner: str = ""
    """The component that declared it; empty: the client."""
    place: str = ""
    """What runs: of a component or of a server of the client's."""

    @property
    def key(self) -> str:
        """Who serves, whatever name the server has: what is kept, is kept under this."""
        who = json_text.encode([self.owner and "component", self.place])
        return hashlib.sha256(who).hexdigest()


def client_server(name: str, reach: Declaration) -> Server:
    """A server that the client declares: another command or URL is another server."""
    if isinstance(reach, HttpDeclaration):
        return Server(name, place=reach.url)
    return Server(name, place=shlex.join([reach.command, *reach.args]))


class Definition(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of one thing that a server offers."""

    sha256: str
    text: str = ""
    """Its JSON; empty: that is too long to be kept."""
    marks: tuple[str, ...] = ()
    """What a person ought to look at, in conductor's words."""

    @property
    def value(self) -> dict[str, Any]:
        """Its members, as far as its text is kept."""
        value = json_text.decode(self.text) if self.text else {}
        return value if isinstance(value, dict) else {}


def definition(value: Any, marks: tuple[str, ...] = ()) -> Definition:
    """The definition of a value, whatever the order of members."""
    text = json_text.encode_sorted(value)
    kept = text.decode() if len(text) <= limits.KEPT_TEXT else ""
    return Definition(hashlib.sha256(text).hexdigest(), kept, marks)


Definitions: TypeAlias = Mapping[str, Definition]
"""By the names of what they define."""
Offer: TypeAlias = Mapping[str, Definitions]
"""What is kept of one server, by the words of kinds."""


def with_(offer: Offer, kind: str, more: Definitions) -> dict[str, dict[str, Definition]]:
    """The offer with these definitions too; with their texts, as long as there is room."""
    made = {word: dict(held) for word, held in offer.items()}
    held = made.setdefault(kind, {})
    for name in more:
        held.pop(name, None)
    room = limits.KEPT_TEXTS - sum(len(one.text) for each in made.values() for one in each.values())
    for name, each in more.items():
        room -= len(each.text)
        held[name] = each if room >= 0 else msgspec.structs.replace(each, text="")
    return made


class Change(msgspec.Struct, frozen=True):
    """One thing that is not as it is kept."""

    kind: str
    name: str
    now: Definition
    before: Definition | None = None
    """None: there was none of this name."""
