"""What MCP servers offered when the user agreed to it, as digests (docs/mcp.md, "Pinned tools").

One private file in the user's state folder, beside what the user trusts.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from conductor.errors import ConductorError, counted, visible_path
from conductor.mcp.bridge.offers import TOOL, Definition, Offer, Server
from conductor.spec import paths, trust
from conductor.spec.consent.question import named
from conductor.spec.model import Spec
from conductor.spec.private_store import PrivateStore
from conductor.spec.trust import Seconds

VERSION: Final = 1

NOT_SEEN: Final = "its own MCP servers: not seen; your editor's: pinned by `pin-mcp`"
"""What a card says of an agent."""


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One server, with what it offered."""

    since: Seconds
    """When something was kept of it last."""
    name: str
    owner: str
    """The component that declared it; empty: the client."""
    place: str
    offer: Offer


class Tools(msgspec.Struct, forbid_unknown_fields=True):
    """All servers, by their keys."""

    version: int = VERSION
    servers: dict[str, Kept] = {}


STORE: Final = PrivateStore(
    paths.tools, Tools, VERSION, "what MCP servers offered", "agree again to their tools"
)


def keep(server: Server, kind: str, definitions: Mapping[str, Definition], *, agreed: bool) -> None:
    """Keeps definitions of a server, beside those that are kept.

    Args:
        agreed: The user wants them, in place of others of their names. Else they are a first list,
            or a first page: what another conductor has kept meanwhile stays, and is all of a list.

    Raises:
        UsageError: They cannot be kept.
    """

    def edit(tools: Tools) -> None:
        before = tools.servers.get(server.key)
        offer = before.offer if before is not None else Offer()
        held = offer.of(kind)
        first = held if held and kind == TOOL else {**definitions, **held}
        more = definitions if agreed else first
        place = visible_path(server.place if server.owner else _redacted(server.place))
        kept = Kept(trust.now(), server.name, server.owner, place, offer.with_(kind, more))
        tools.servers[server.key] = kept

    STORE.change(edit)


def _redacted(place: str) -> str:
    """A command or URL of an editor, which may hold keys."""
    from conductor.spec.lock.entries import redacted

    try:
        words = shlex.split(place)
    except ValueError:  # a URL may have a quote
        words = [place]
    return " ".join(redacted(words))


def forget(what: str) -> list[str]:
    """Forgets what servers of this name offered, and those of the component of this name: their
    next lists are taken as they come. Returns them for people. Raises `UsageError`."""
    if not STORE.load().servers:
        return []

    def edit(tools: Tools) -> list[str]:
        meant = [key for key, each in tools.servers.items() if what in (each.name, each.owner)]
        gone = [tools.servers.pop(key) for key in meant]
        return [f"MCP server {named(each.name)} ({each.place or each.owner})" for each in gone]

    return STORE.change(edit)


def look(offer: Offer) -> Iterator[str]:
    """What a person ought to look at among a server's tools."""
    for name, each in offer.tools.items():
        yield from (f"tool {named(name)}: {mark}" for mark in each.marks)


def says(spec: Spec) -> Iterator[str]:
    """What is known of the tools of a component's servers, for people."""
    try:
        kept = STORE.load().servers.values() if os.path.exists(paths.tools()) else ()
        place = shown_place(spec) if kept else ""
    except (OSError, ConductorError):
        return
    for each in kept:
        if each.place == place and each.owner:
            number = counted(len(each.offer.tools), "tool")
            yield f"{number} of MCP server {named(each.name)}, as agreed to"
            yield from (f"LOOK at {text}" for text in look(each.offer))


def place_of(spec: Spec) -> str:
    """What a component is, for its servers: another place has other servers. Of a sandboxed file
    that nobody updates but the user, its content belongs to it."""
    if spec.receipt is not None:
        return f"installed {spec.name}"
    if spec.script or spec.wasm:
        from conductor.spec.consent import wishes

        return f"{os.path.realpath(wishes.place_of(spec))} {wishes.digest(spec)}"
    if spec.command is not None:
        return shlex.join(spec.command)
    return spec.address or str(spec.attribute)


def shown_place(spec: Spec) -> str:
    """The place as `Kept` has it."""
    return visible_path(place_of(spec))


def is_pinned(spec: Spec) -> bool:
    """Whether the tools of a component's servers are compared: not of what comes with conductor,
    nor of what lies in a folder that the user trusts."""
    if spec.bundled is not None or spec.required:
        return False
    from conductor.spec.consent import wishes

    return not wishes.is_own(spec, trust.known()[0])
