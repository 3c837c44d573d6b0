"""The MCP servers of a chain in a lock file: their offers, as the user agreed to them here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conductor.errors import ConductorError
from conductor.mcp.bridge.offers import Offer
from conductor.spec import tools
from conductor.spec.lock.compare import one_line
from conductor.spec.lock.file import Server
from conductor.spec.model import Spec


def of(specs: Sequence[Spec], *, client: bool) -> list[Server]:
    """The servers of these components that have been seen here, and with `client` the servers that
    the client declared; nothing is started. Raises `UsageError`."""
    return sorted(
        (
            Server(name=name, owner=each.owner, key=key, offers=_digests(offer))
            for key, each in tools.STORE.load().kept.items()
            if any(_has(spec, each) for spec in specs) or (client and not each.owner)
            for name, offer in each.servers.items()
        ),
        key=lambda server: (server.owner, server.name, server.key),
    )


def _digests(offer: Offer) -> dict[str, dict[str, str]]:
    return {
        kind: {name: one.sha256 for name, one in sorted(held.items())}
        for kind, held in sorted(offer.items())
    }


def _has(spec: Spec, kept: tools.Kept) -> bool:
    try:
        return kept.owner == spec.name and kept.place == tools.shown_place(spec)
    except (OSError, ConductorError):
        return False


def line(server: Server) -> str:
    """A server for people."""
    owner, what = server.owner or "the client", tools.numbers(server.offers)
    return f"  MCP server `{one_line(server.name)}` of {one_line(owner)}: {what}"


def changes(before: Sequence[Server], now: Sequence[Server]) -> Iterator[str]:
    """The differences between the servers."""
    known = {(server.key, server.name): server for server in before}
    for server in now:
        old = known.pop((server.key, server.name), None)
        if old != server:
            yield line(server) + ("" if old is None else ", others than before")
    yield from (f"{line(server)}, not there any more" for server in known.values())
