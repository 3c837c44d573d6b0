"""The peers of one chain, and how their lanes are joined.

A plain message of a peer concerns its predecessor side `P`, a message in an envelope its successor
side `S`. That holds for every peer, the outer conductor of a nested conductor included:

    agent mode   client.P - proxy1.P   proxy1.S - proxy2.P   …   proxyN.S - agent.P
    proxy mode   outer.P  - proxy1.P   proxy1.S - proxy2.P   …   proxyN.S - outer.S

so `lane.across.across is lane`, and an empty proxy chain joins `outer.P` to `outer.S`.

A component may have more successor sides, its ports. Each port is joined to the `P` side of the
peer agent of its name; in a host of guests to the port of that name that upstream has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import count
from typing import Final

from conductor.core.aliases import Names
from conductor.core.component import UPSTREAM, Component, Role, Side
from conductor.core.dialects import PLAIN, Dialect
from conductor.core.policy.key_table import Direction
from conductor.core.state import DialectState, Lane, Life, Peer

_HOSTED_IDS: Final = 10**12
"""The first id that a host of guests gives. Lower ids are those of the conductor above it, which
requests keep while they pass the host. There is one count for all its guests: a request that a
guest originates keeps its first id while the other guests pass it on."""


class Topology:
    """Upstream, and the components in order."""

    def __init__(
        self,
        components: Sequence[Component],
        upstream: Dialect | None,
        watched: Collection[str] = (),
        numbers: range | None = None,
    ) -> None:
        """
        Args:
            upstream: the dialect of an outer conductor, where it is known beforehand.
            watched: names of components that have a policy state without a policy.
            numbers: the numbers that come with upstream's messages.
        """
        self.hosted = upstream is not None and upstream.sideband
        """Whether this is a host of guests, below a conductor."""
        self.components = components
        self.mode = "auto"
        """`agent`, `proxy`, or `auto` until the mode is settled."""
        self._upstream_known = upstream is not None
        ports = dict.fromkeys((n for c in components for n in c.ports), False)
        client = Component(
            UPSTREAM,
            "the client",
            upstream or PLAIN,
            numbers=numbers,
            ports=ports if self.hosted else {},
        )
        self.upstream = Peer(client, Role.CLIENT)
        self.upstream.admitted = False
        self.peers: dict[str, Peer] = {UPSTREAM: self.upstream}
        shared = count(_HOSTED_IDS)
        further = {name for component in components for name in component.agents}
        for component in components:
            ids = shared if self.hosted else count(1)
            peer = Peer(component, Role.PROXY, ids, watched=component.name in watched)
            if component.peer_agent:
                peer.names = Names() if component.name in further else None
                _make_agent(peer)
            self.peers[component.name] = peer
        if len(self.peers) != len(components) + 1:
            raise ValueError("two components have the same name")

    def settle_mode(self, mode: str) -> None:
        """Fixes agent or proxy mode, and joins the lanes accordingly."""
        self.mode = mode
        upstream = self.upstream
        if mode == "agent":
            agent = self.agent
            agent.p.mates = tuple(peer.p for peer in self.further)
            agent.names = Names() if agent.p.mates else None
            _make_agent(agent)
            agent.move(Life.READY)
        else:
            upstream.role, upstream.label = Role.OUTER, "the outer conductor"
            upstream.move(Life.READY if self._upstream_known else Life.STARTING)
            upstream.speak(upstream.dialect)
        self.join_all()

    def join_all(self, left_out: Collection[Peer] = ()) -> None:
        """Joins the lanes in the order of the components, once agent or proxy mode is settled.

        Args:
            left_out: Proxies that the chain does without.
        """
        if self.mode == "auto":
            return
        order = [self.peers[one.name] for one in self.components if not one.peer_agent]
        left, tail = self.upstream.p, self.upstream.s
        if self.mode == "agent":
            tail = order.pop().p
        for proxy in order:
            if proxy not in left_out:
                join(left, proxy.p)
                left = proxy.p.other  # of a second connection, if it has launched its successor
                self._join_ports(proxy)
        join(left, tail)

    @property
    def agent(self) -> Peer:
        """The chain's agent, in agent mode."""
        return self.peers[self.components[-1].name]

    @property
    def further(self) -> list[Peer]:
        """The agents outside the chain with which sessions may go on."""
        return [peer for peer in self.peer_agents if peer.names is not None]

    @property
    def peer_agents(self) -> list[Peer]:
        """The agents outside the chain."""
        return [self.peers[one.name] for one in self.components if one.peer_agent]

    def _join_ports(self, proxy: Peer) -> None:
        for name, port in proxy.ports.items():
            far = self.upstream.ports[name] if self.hosted else self.peers[name].p
            far.port = name
            join(port, far)


def _make_agent(peer: Peer) -> None:
    """Makes an agent of a component, whatever was configured: nobody asks an agent to be a proxy,
    and nothing polices it."""
    peer.role, peer.policy_state, peer.streams = Role.AGENT, None, False
    peer.move(Life.STARTING)
    peer.payloads = None
    if peer.component.revived or peer.p.mates:
        from conductor.core.agent_sessions import AgentSessions  # few chains need it

        peer.agent_sessions = AgentSessions()
    peer.dialect_state = DialectState.KNOWN
    peer.speak(PLAIN)


def onward(lane: Lane) -> Iterator[tuple[Lane, Lane]]:
    """The way of a message that leaves by `lane`, hop by hop: the lane it leaves by, and the lane
    it arrives at. A component that is gone still knows its own way, though no other way leads to
    it."""
    while lane.across is not None:
        yield lane, lane.across
        if lane.across.peer.role is not Role.PROXY:
            return
        lane = lane.across.other


def join(left: Lane, right: Lane) -> None:
    """Joins two lanes."""
    left.across, right.across = right, left
    aliases = left.aliases or right.aliases
    policed = left.peer.policy_state is not None or right.peer.policy_state is not None
    for lane, other in ((left, right), (right, left)):
        lane.direction = _direction(lane)
        # Only policed messages are read, so only these can be renamed. Messages at a port are no
        # part of the chain's conversation: `Ports` has rules for them.
        lane.policed = (policed or aliases is not None) and not lane.port
        lane.renames = None
        if aliases is not None:
            lane.renames = aliases.down if other.aliases is None else aliases.up
    for mate in right.mates:
        mate.across, mate.direction = left, right.direction
        mate.policed, mate.renames = right.policed, right.renames


def _direction(lane: Lane) -> Direction:
    """The direction of a message that its peer sends on this lane."""
    role = lane.peer.role
    if role is Role.PROXY:
        return Direction.UP if lane.side is Side.P else Direction.DOWN
    if role is Role.AGENT:
        return Direction.UP
    return Direction.DOWN if lane.side is Side.P else Direction.UP
