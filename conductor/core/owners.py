"""Whose the MCP servers and connections of a chain are, by their addresses (`guards.servers`).

Servers are declared in a session's setup, by whoever adds them to it; connections are opened by
whoever answers the request for one. Every policed component is told of all of them: which are its
own, and which are somebody else's. So it can reach no other's, on whatever way it learnt of them,
nor take their addresses for its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final

from msgspec import Raw

from conductor.core import guards
from conductor.core.effects import Effect, Owned
from conductor.core.link import Pending
from conductor.core.peer import Lane, Peer
from conductor.core.policy.gate import Gate
from conductor.core.policy.keys import Params
from conductor.core.policy.rights import SETUP
from conductor.core.topology import Role

CONNECT: Final = frozenset({"mcp/connect", "_mcp/connect"})
CONCERNED: Final = CONNECT | frozenset(SETUP)
"""The requests that declare servers and open connections."""

_MOST: Final = 65_536


class Owners:
    """The addresses in use in one chain; the oldest are forgotten when there are too many."""

    def __init__(self, gates: Callable[[], Iterator[Gate]]) -> None:
        """`gates` gives those of all policed components."""
        self._gates = gates
        self._known: set[str] = set()
        self._order: deque[str] = deque()

    def asked(self, lane: Lane, method: str, params: Params, pending: Pending) -> None:
        """One of the requests that are `CONCERNED` leaves a lane. What the client declares is
        nobody else's, even if somebody has claimed it before; what a policed component declares is
        `admitted` once it has been found good."""
        if method in CONNECT:
            pending.watchers = (*pending.watchers, partial(self._opened, pending, method))
        elif lane.peer.gate is None:
            named = guards.declared(method, params)
            outermost = lane.peer.role in (Role.CLIENT, Role.OUTER)
            self._add(None, named if outermost else named - self._known)

    @property
    def addresses(self) -> AbstractSet[str]:
        """Of all servers and connections, whosever they are."""
        return self._known

    def restored(self, owner: Peer | None, addresses: Iterable[str]) -> None:
        """Addresses a former router has known; without an owner here they are somebody else's."""
        self._add(owner.gate if owner is not None else None, frozenset(addresses))

    def admitted(
        self, peer: Peer, method: str, given: Params | None, sent: Params, out: list[Effect]
    ) -> None:
        """A component has declared servers of its own, beside those it was given."""
        if method in SETUP and given != sent:
            known = frozenset() if given is None else guards.declared(method, given)
            declared = guards.declared(method, sent) - known - self._known
            self._admit(peer, declared, out)

    def _opened(
        self, pending: Pending, method: str, member: bytes, body: bytes, out: list[Effect]
    ) -> None:
        """A connection is there; whoever was asked first for it has opened it."""
        if member == b"result" and pending.target is not None:
            opened = guards.connected(method, Raw(body)) - self._known
            self._admit(pending.target.peer, opened, out)

    def _admit(self, peer: Peer, addresses: AbstractSet[str], out: list[Effect]) -> None:
        self._add(peer.gate, addresses)
        if peer.gate is not None and addresses:
            out.append(Owned(peer.name, tuple(sorted(addresses))))

    def _add(self, owner: Gate | None, addresses: AbstractSet[str]) -> None:
        if not addresses:
            return
        for gate in self._gates():
            (gate.servers if gate is owner else gate.foreign).update(addresses)
        self._order.extend(addresses - self._known)
        self._known |= addresses
        while len(self._order) > _MOST:
            oldest = self._order.popleft()
            self._known.discard(oldest)
            for gate in self._gates():
                gate.servers.discard(oldest)
                gate.foreign.discard(oldest)
