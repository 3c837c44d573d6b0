"""The chain, as the bridge's end of it sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from conductor.mcp.bridge.effects import Differs
    from conductor.mcp.bridge.offers import Offer
    from conductor.mcp.bridge.pins import Pins


class PinKeeper(Protocol):
    """Keeps the offers of MCP servers, and has the user asked about changes."""

    pins: Pins

    def known(self) -> Mapping[str, Mapping[str, Offer]]:
        """The kept offers, by the keys and the names of servers."""

    def differs(self, effect: Differs) -> None:
        """Asks about a change, or reports it."""


class Chain(Protocol):
    """The services of a chain for the agent's transport."""

    def log(self, level: str, name: str, text: str, /) -> None:
        """Writes a line about a component."""

    def is_proxied(self) -> bool:
        """Whether somebody may declare MCP servers of ACP transport. Asked when the agent is
        initialized."""

    def shows_panels(self) -> bool:
        """Whether the client shows panels. Asked for the first session with servers."""

    def new_keeper(self) -> PinKeeper:
        """Makes the keeper of servers' offers."""

    def defect(self, error: Exception) -> None:
        """Hears of errors that nobody expects."""
