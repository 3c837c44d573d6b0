"""What an MCP server offers, as values: what is kept of it, and what differs from that."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from conductor.core import json_text
from conductor.mcp.bridge.declarations import Declaration, HttpDeclaration

TOOL: Final = "tool"
PAGE: Final = "page"


def digest(value: Any) -> str:
    """The digest of a value, whatever the order of members."""
    return hashlib.sha256(json_text.encode_sorted(value)).hexdigest()


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
        """What its definitions are kept under."""
        return digest([self.owner and "component", self.place, self.name])


def client_server(name: str, reach: Declaration) -> Server:
    """A server that the client declares: another command or URL is another server."""
    if isinstance(reach, HttpDeclaration):
        return Server(name, place=reach.url)
    return Server(name, place=shlex.join([reach.command, *reach.args]))


class Definition(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of a tool or a page."""

    sha256: str
    parts: dict[str, str] = {}
    """The beginnings of the digests of its members."""
    says: str = ""
    """The beginning of its description."""
    marks: tuple[str, ...] = ()
    """What a person ought to look at, in conductor's words."""


class Offer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of one server."""

    tools: dict[str, Definition] = {}
    pages: dict[str, Definition] = {}

    def of(self, kind: str) -> dict[str, Definition]:
        """Its tools, or its pages."""
        return self.tools if kind == TOOL else self.pages

    def with_(self, kind: str, more: Mapping[str, Definition]) -> Offer:
        """The offer with these definitions too."""
        if kind == TOOL:
            return Offer({**self.tools, **more}, self.pages)
        return Offer(self.tools, {**self.pages, **more})


class Change(msgspec.Struct, frozen=True):
    """One tool or page that is not as it is kept."""

    kind: str
    name: str
    now: Definition
    before: Definition | None = None
    """None: there was none of this name."""
    parts: tuple[tuple[str, str], ...] = ()
    """The members that differ besides the description, with the beginnings of their JSON."""
