"""The offers of MCP servers when the user agreed to them (docs/mcp.md, "Pinned tools").

One private file in the user's state folder, beside the trust store.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Final

import msgspec

from conductor.errors import ConductorError, counted, visible_path
from conductor.mcp.bridge.offers import (
    INSTRUCTIONS,
    KINDS,
    Definition,
    Definitions,
    Offer,
    Server,
    with_,
)
from conductor.spec import paths, trust
from conductor.spec.consent.question import named
from conductor.spec.model import Spec
from conductor.spec.private_store import PrivateStore
from conductor.spec.trust import Seconds

VERSION: Final = 1

NOT_PINNED: Final = (
    "its own MCP servers: not pinned, for conductor does not see them",
    "your editor's: not pinned; `pin-mcp` pins those of stdio, and of HTTP without OAuth",
)
"""The words of a card about the tools of an agent."""


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Who serves, with the offers of its servers."""

    since: Seconds
    """The last time when a definition was kept."""
    owner: str
    """The component that declared the servers; empty: the client."""
    place: str
    servers: dict[str, dict[str, dict[str, Definition]]]
    """The offer of each server, by its name."""


class Tools(msgspec.Struct, forbid_unknown_fields=True):
    """All offers that are kept, by the keys of servers."""

    version: int = VERSION
    kept: dict[str, Kept] = {}


STORE: Final = PrivateStore(
    paths.tools, Tools, VERSION, "offers of MCP servers", "agree again to their tools"
)


def keep(
    server: Server,
    kind: str,
    definitions: Definitions,
    beside: Iterable[str] = (),
    *,
    agreed: bool = False,
) -> None:
    """Keeps definitions of a server, beside those that are kept.

    Args:
        beside: The names of the servers that came first with this one: each may still have a first
            list.
        agreed: The user wants the definitions, in place of others of their names. Else they come
            first: a definition that another conductor has kept meanwhile stays, and a kind that is
            listed whole gets no new name.

    Raises:
        UsageError: They cannot be kept.
    """

    def edit(tools: Tools) -> None:
        before = tools.kept.get(server.key)
        servers: dict[str, dict[str, dict[str, Definition]]] = {name: {} for name in beside}
        servers |= before.servers if before is not None else {}
        offer = servers.get(server.name, {})
        held = offer.get(kind, {})
        new = definitions
        if not agreed:
            is_all = any(each.is_whole for each in KINDS if each.word == kind) and held
            texts = {
                n: d for n, d in definitions.items() if n in held and d.sha256 == held[n].sha256
            }
            new = texts if is_all else {n: d for n, d in definitions.items() if n not in held}
        servers[server.name] = with_(offer, kind, new)
        place = visible_path(server.place if server.owner else _redacted(server.place))
        tools.kept[server.key] = Kept(trust.now(), server.owner, place, servers)

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
    """Forgets the offers of who serves a server of this name, or of the component of this name:
    their next lists are taken as they come. Returns the servers for people. Raises `UsageError`."""
    if not STORE.load().kept:
        return []

    def edit(tools: Tools) -> list[str]:
        meant = [key for key, each in tools.kept.items() if what in (each.owner, *each.servers)]
        gone = [tools.kept.pop(key) for key in meant]
        return [
            f"MCP server {named(name)} ({each.place or each.owner})"
            for each in gone
            for name in each.servers
        ]

    return STORE.change(edit)


def look(offer: Offer) -> Iterator[str]:
    """The marks in an offer that a person ought to look at."""
    for kind, held in offer.items():
        for name, each in held.items():
            yield from (f"{kind} {named(name)}: {mark}" for mark in each.marks)


def numbers(offer: Mapping[str, Sized]) -> str:
    """The number of offers of each kind, for people."""
    counts = {kind.word: len(offer.get(kind.word, ())) for kind in KINDS}
    alone = INSTRUCTIONS.word
    shown = [word if word == alone else counted(n, word) for word, n in counts.items() if n]
    return ", ".join(shown) or "nothing"


def says(spec: Spec) -> Iterator[str]:
    """The facts about a component's servers, for people."""
    try:
        kept = STORE.load().kept.values() if os.path.exists(paths.tools()) else ()
        place = shown_place(spec) if kept else ""
    except (OSError, ConductorError):
        return
    for each in kept:
        if each.place == place and each.owner:
            for name, offer in each.servers.items():
                yield f"{numbers(offer)} of MCP server {named(name)}, as agreed to"
                yield from (f"LOOK at {text}" for text in look(offer))


def place_of(spec: Spec) -> str:
    """The identity of a component, for its servers: another place has other servers. Of a sandboxed
    file that nobody updates but the user, its content is a part of the identity."""
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
    """Whether the tools of a component's servers are compared. Not compared are components that
    come with conductor or lie in a folder that the user trusts."""
    if spec.bundled is not None or spec.required:
        return False
    from conductor.spec.consent import wishes

    return not wishes.is_own(spec, trust.known()[0])
