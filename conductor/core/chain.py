"""The peers of one chain, and who is joined to whom."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import count
from typing import Final

from conductor.core.dialects import PLAIN, Dialect
from conductor.core.peer import Component, Lane, Peer
from conductor.core.policy.key_table import Direction
from conductor.core.topology import Port, Role, Side, Topology, chain

UPSTREAM: Final = "client"
"""Name of the peer on the conductor's own stdio: the client, or the outer conductor."""


_HOSTED_IDS: Final = 10**12
"""Where the ids begin that a host of guests gives: below are those of the conductor above it, which
requests keep on their way through the host. There is one count for all its guests: what one of them
sends of its own is passed on by the others under the id that it got first."""


class Chain:
    """Upstream, and the components in order. `upstream`: the dialect of an outer conductor,
    where it is known beforehand. `watched` names components that have a gate without a policy;
    `numbers` are those that come with what upstream says."""

    def __init__(
        self,
        components: Sequence[Component],
        upstream: Dialect | None,
        watched: Collection[str] = (),
        numbers: range | None = None,
    ) -> None:
        self.hosted = upstream is not None and upstream.sideband
        """Whether this is a host of guests, below a conductor."""
        ids = count(_HOSTED_IDS) if self.hosted else None
        self.components = components
        self.mode = "auto"
        """`agent` or `proxy` once that is settled."""
        client = Component(UPSTREAM, "the client", numbers=numbers)
        self.upstream = Peer(client, Role.CLIENT, upstream or PLAIN)
        self.upstream.admitted = False
        self._upstream_known = upstream is not None
        self.peers: dict[str, Peer] = {UPSTREAM: self.upstream}
        for component in components:
            self.peers[component.name] = Peer(
                component,
                Role.PROXY,
                component.dialect,
                watched=component.name in watched,
                ids=ids,
            )
        if len(self.peers) != len(components) + 1:
            raise ValueError("two components have the same name")

    def settle_mode(self, mode: str) -> None:
        """Fixes agent or proxy mode and joins the ports accordingly."""
        self.mode = mode
        upstream = self.upstream
        proxies = [component.name for component in self.components]
        if mode == "agent":
            agent = self.peers[proxies.pop()]
            agent.role, agent.ready, agent.gate = Role.AGENT, True, None
            agent.guessing = agent.unsettled = False
            agent.speak(PLAIN)
            tail = Port(agent.name, Side.P)
        else:
            upstream.role, upstream.label = Role.OUTER, "the outer conductor"
            upstream.ready = self._upstream_known
            upstream.speak(upstream.dialect)
            tail = Port(UPSTREAM, Side.S)
        ports = [(Port(name, Side.P), Port(name, Side.S)) for name in proxies]
        self.join(chain(Port(UPSTREAM, Side.P), ports, tail))

    def join(self, topology: Topology) -> None:
        """Replaces what every peer is joined to by what `topology` says."""
        for peer in self.peers.values():
            peer.p.across = peer.s.across = None
        for here, there in topology:
            lane, across = self.peers[here.peer].lane(here.side), self.peers[there.peer]
            lane.across = across.lane(there.side)
            lane.direction = _direction(lane)
            lane.policed = lane.peer.gate is not None or across.gate is not None


def _direction(lane: Lane) -> Direction:
    """Which way a message goes that leaves on this lane."""
    role = lane.peer.role
    if role is Role.PROXY:
        return Direction.UP if lane.side is Side.P else Direction.DOWN
    if role is Role.AGENT:
        return Direction.UP
    return Direction.DOWN if lane.side is Side.P else Direction.UP
