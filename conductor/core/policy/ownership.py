"""Which component owns the MCP servers and connections of a chain, by their addresses.

A component owns the servers that it adds to a session's set-up, and the connections that are opened
to them. Every policed component knows all addresses (`guards.servers`): its own, and those of
others. So it can reach no server of another's, however it learnt of the address, nor take the
address for its own.

A policed component gets an address only if nobody had it before. Others get theirs in any case: the
client all of them, an unpoliced proxy its connections. An address that a host reports may come from
a guest that is policed there, so the host gets new addresses only.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final

from msgspec import Raw

from conductor.core import guards
from conductor.core.component import Role
from conductor.core.effects import OwnedAddresses
from conductor.core.jsonrpc import Params
from conductor.core.policy.headings import addresses
from conductor.core.policy.key_table import SETUP
from conductor.core.policy.policy_state import PolicyState
from conductor.core.state import Lane, Noted, Peer, Visit

if TYPE_CHECKING:
    from conductor.core.parts import Parts

CONNECT: Final = frozenset({"mcp/connect", "_mcp/connect"})
CONCERNED: Final = CONNECT | frozenset(SETUP)
"""The requests that declare servers and open connections."""

_MOST: Final = 16_384
"""The most addresses of one owner."""


class McpOwnership:
    """The addresses in use in one chain; of too many of one owner the oldest are forgotten."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._known: dict[str, PolicyState | None] = {}
        """Every address with its owner; None: the client, or a component without a policy."""
        self._declared: dict[str, str] = {}
        """The peer that declared an address, where its owner is None and it is not the client."""
        self._order: defaultdict[PolicyState | None, deque[str]] = defaultdict(deque)
        """The addresses of each owner, in the order in which they came to be its own."""

    def requested(self, lane: Lane, method: str, params: Params, pending: Visit) -> None:
        """A request that is `CONCERNED` leaves a lane. A server that the client declares is nobody
        else's, even if somebody has claimed it before. The servers that a policed component
        declares are `admitted` after its checks."""
        if method in CONNECT:
            pending.followers = (*pending.followers, Noted(params))
        elif lane.peer.policy_state is None:
            named = guards.declared(method, params)
            outermost = lane.peer.role in (Role.CLIENT, Role.OUTER)
            new = named if outermost else named - self._known.keys()
            self._add(None, new)
            if not outermost:
                self._declared.update(dict.fromkeys(new, lane.peer.name))

    @property
    def addresses(self) -> AbstractSet[str]:
        """The addresses of all servers and connections, of every owner."""
        return self._known.keys()

    def owner(self, address: str) -> str:
        """The name of the component that has declared an address; empty: the client, or nobody that
        is known."""
        owner = self._known.get(address)
        return self._declared.get(address, "") if owner is None else owner.name

    def restored(self, owner: Peer | None, known: Iterable[str]) -> None:
        """Addresses a former router has known; without an owner here they are somebody else's."""
        policy_state, addresses = (
            owner.policy_state if owner is not None else None,
            frozenset(known),
        )
        self._add(policy_state, addresses)
        if policy_state is not None:
            policy_state.foreign -= addresses

    def handed_over(self, former: PolicyState | None, now: PolicyState | None) -> None:
        """A component has come in the place of another. `former` is None if there was none before,
        `now` is None if nobody has come."""
        own = {one for one, owner in self._known.items() if former and owner is former}
        if now is not None:
            now.servers |= own
            now.foreign |= self._known.keys() - own
            now.foreign -= own
        for address in own:
            self._known[address] = now
        if own:
            self._order[now].extend(self._order.pop(former))

    def admitted(self, peer: Peer, method: str, given: Params | None, sent: Params) -> None:
        """A component has declared servers of its own, beside those it was given."""
        if method in SETUP and given != sent:
            known = frozenset() if given is None else guards.declared(method, given)
            declared = guards.declared(method, sent) - known - self._known.keys()
            self._admit(peer.policy_state, declared)

    def opened(self, asked: Noted, pending: Visit, member: bytes, body: bytes) -> None:
        """A connection is open. The connection belongs to the server's owner: the peer that answers
        may only have passed the owner's answer on."""
        if member == b"result" and pending.target is not None:
            method, peer = pending.method, pending.target.peer
            owner = self._owner(addresses(method, asked.params))
            opened = guards.connected(method, Raw(body))
            if peer.component.hosts or _policed(owner) or _policed(peer.policy_state):
                opened -= self._known.keys()
            self._admit(owner, opened)

    def _owner(self, server: tuple[str, ...]) -> PolicyState | None:
        return next(
            (policy_state for policy_state in self._policy_states() if policy_state.owns(server)),
            None,
        )

    def _policy_states(self) -> Iterator[PolicyState]:
        """The policy states of all components that have one."""
        peers = self._parts.exchange.peers.values()
        return (peer.policy_state for peer in peers if peer.policy_state is not None)

    def _admit(self, owner: PolicyState | None, addresses: AbstractSet[str]) -> None:
        self._add(owner, addresses)
        if owner is not None and addresses:
            self._parts.exchange.emit(OwnedAddresses(owner.name, tuple(sorted(addresses))))

    def _add(self, owner: PolicyState | None, addresses: AbstractSet[str]) -> None:
        if not addresses:
            return
        for policy_state in self._policy_states():
            (policy_state.servers if policy_state is owner else policy_state.foreign).update(
                addresses
            )
        order = self._order[owner]
        order.extend(new for new in addresses if self._known.get(new, self) is not owner)
        self._known.update(dict.fromkeys(addresses, owner))
        for address in addresses & self._declared.keys():
            del self._declared[address]
        while len(order) > _MOST:
            oldest = order.popleft()
            if self._known.get(oldest, self) is owner:  # else it is another's by now
                del self._known[oldest]
                self._declared.pop(oldest, None)
                for policy_state in self._policy_states():
                    policy_state.servers.discard(oldest)
                    policy_state.foreign.discard(oldest)


def _policed(policy_state: PolicyState | None) -> bool:
    return policy_state is not None and policy_state.enforced
