"""Who the ends of a hop are, by the names of the peers of a router."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from conductor.core import UPSTREAM
from conductor.core.roles.initialize import successor_name

CONDUCTOR: Final = "conductor"
"""What a trace calls the conductor itself."""

_ENDS: Final = frozenset({"client", "agent", CONDUCTOR})
"""The names of what is before the chain, behind it, and around it."""


def proxy(name: str) -> str:
    """How a proxy is called; never as the ends of the chain are."""
    return f"{name} (proxy)" if name in _ENDS else name


class Names:
    """The names of one chain."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {"": CONDUCTOR}
        self.guests: dict[str, frozenset[str]] = {}
        """The guests of each peer."""
        self.hosts: dict[str, range] = {}
        """The hosts that report themselves what passes between their guests, and the numbers of the
        messages of these."""
        self.agent = ""
        """The last peer, which may be the agent."""

    def begin(self, chain: Sequence[tuple[str, Sequence[str], range | None]]) -> None:
        """Names the chain's peers in order, each with its guests."""
        for name, guests, _ in chain:
            self._names[name] = self._names[successor_name(name)] = proxy(name)
            self.guests[name] = frozenset(guests)
            self.agent = name
        self.hosts = {name: numbers for name, _, numbers in chain if numbers is not None}

    def end(self, peer: str, side: str, mode: str) -> str:
        """The name of a peer of the router; upstream has one on each side."""
        if peer == UPSTREAM:
            return "agent" if side == "s" else "client"
        return "agent" if mode == "agent" and peer == self.agent else self._names[peer]
