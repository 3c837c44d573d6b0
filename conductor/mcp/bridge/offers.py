"""The offer of an MCP server, as values: the kept definitions, and the changes from them."""

from __future__ import annotations

import enum
import hashlib
import shlex
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, TypeAlias

import msgspec

from conductor.core import json_text
from conductor.mcp import limits
from conductor.mcp.bridge import marks
from conductor.mcp.bridge.declarations import Declaration, HttpDeclaration


class OnChange(enum.Enum):
    """The effect of a change in a server's offer; from the mildest on."""

    ASK = "ask"
    """The change is left out until the user has agreed to it."""
    KEEP = "keep"
    """The former definition stays in place of the change; nobody is asked."""
    DROP = "drop"
    """All of the server is left out; nobody is asked."""


class Kind(msgspec.Struct, frozen=True):
    """One kind of definition in servers' offers."""

    word: str
    """The word for the kind, for people and in kept offers."""
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
"""The kind of definition that the result of a request lists, by the request's method."""
USED: Final[Mapping[str, Kind]] = {"tools/call": TOOL, "prompts/get": PROMPT}
"""The kind of definition that a request uses by its name, by the request's method."""
KINDS: Final = (TOOL, PROMPT, RESOURCE, TEMPLATE, PAGE, INSTRUCTIONS)


class Server(msgspec.Struct, frozen=True):
    """An MCP server, as the key of its kept offer."""

    name: str
    """As it was declared."""
    owner: str = ""
    """The component that declared it; empty: the client."""
    place: str = ""
    """The program or URL that runs, for a component's server or a server of the client's."""

    @property
    def key(self) -> str:
        """A digest of who serves, whatever name the server has: offers are kept under this key."""
        who = json_text.encode([self.owner and "component", self.place])
        return hashlib.sha256(who).hexdigest()


def client_server(name: str, reach: Declaration) -> Server:
    """A server that the client declares: another command or URL is another server."""
    if isinstance(reach, HttpDeclaration):
        return Server(name, place=reach.url)
    return Server(name, place=shlex.join([reach.command, *reach.args]))


class Definition(msgspec.Struct, frozen=True, omit_defaults=True):
    """The kept form of one definition in a server's offer."""

    sha256: str
    text: str = ""
    """The definition's JSON; empty: the JSON is too long to be kept."""
    marks: tuple[str, ...] = ()
    """The parts that a person should see, in conductor's words."""

    @property
    def value(self) -> dict[str, Any]:
        """The definition's members; empty where its text is not kept."""
        value = json_text.decode(self.text) if self.text else {}
        return value if isinstance(value, dict) else {}


def definition(value: Any, others: AbstractSet[str] | None = None) -> Definition:
    """The definition of a value, whatever the order of members. `others`: names of other servers'
    tools, which it must not mention; None: it gets no marks."""
    text = json_text.encode_sorted(value)
    sha256 = hashlib.sha256(text).hexdigest()
    if len(text) > limits.KEPT_TEXT:
        return Definition(sha256, "", () if others is None else (marks.LONG,))
    return Definition(sha256, text.decode(), () if others is None else marks.of(value, others))


Definitions: TypeAlias = Mapping[str, Definition]
"""Definitions by their names."""
Offer: TypeAlias = Mapping[str, Definitions]
"""The kept definitions of one server, by the words of kinds."""


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
