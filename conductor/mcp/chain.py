"""The chain, as the bridge's end of it sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from conductor.mcp.bridge.effects import Differs
    from conductor.mcp.bridge.offers import Offer
    from conductor.mcp.bridge.pins import Pins


class PinKeeper(Protocol):
    """Keeps what MCP servers offer, and has the user asked what differs from that."""

    pins: Pins

    def known(self) -> Mapping[str, Mapping[str, Offer]]:
        """What is kept now, by the keys and the names of servers."""

    def differs(self, effect: Differs) -> None:
        """Asks about a change, or reports it."""


class Chain(Protocol):
    """What the agent's transport asks of its chain."""

    def log(self, level: str, name: str, text: str, /) -> None:
        """Writes a line about a component."""

    def is_proxied(self) -> bool:
        """Whether somebody may declare MCP servers of ACP transport. Asked when the agent is
        initialized."""

    def shows_panels(self) -> bool:
        """Whether the client shows panels. Asked for the first session with servers."""

    def new_keeper(self) -> PinKeeper:
        """Makes what keeps the tools of servers."""

    def defect(self, error: Exception) -> None:
        """Hears of what nobody expects."""
