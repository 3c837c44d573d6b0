"""Who is connected to whom: routing is a lookup in an involution over ports.

A `Port` is one side of one peer. Whatever a peer says plainly concerns its predecessor side `P`,
whatever it says in an envelope its successor side `S`; that holds for every peer alike, the outer
conductor of a nested one included:

    agent mode   client.P - proxy1.P   proxy1.S - proxy2.P   …   proxyN.S - agent.P
    proxy mode   outer.P  - proxy1.P   proxy1.S - proxy2.P   …   proxyN.S - outer.S

so `across(across(port)) == port`, and an empty proxy chain joins `outer.P` to `outer.S`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple


class Role(Enum):
    """What a peer is to this conductor."""

    CLIENT = "client"
    PROXY = "proxy"
    AGENT = "agent"
    OUTER = "outer"
    """The conductor that started this one in proxy mode."""


class Side(Enum):
    """The side of a peer a message belongs to; the value is the channel ABI's side byte."""

    P = "p"
    S = "s"


class Port(NamedTuple):
    """One side of one peer."""

    peer: str
    side: Side


class Topology:
    """The joined ports of one chain. Immutable."""

    def __init__(self, pairs: Sequence[tuple[Port, Port]]) -> None:
        self._across: dict[Port, Port] = {}
        for one, other in pairs:
            for port in (one, other):
                if port in self._across:
                    raise ValueError(f"port {port.peer}.{port.side.value} is joined twice")
            self._across[one] = other
            self._across[other] = one

    def across(self, port: Port) -> Port | None:
        """The other end of `port`, or None where nothing is joined."""
        return self._across.get(port)

    def __iter__(self) -> Iterator[tuple[Port, Port]]:
        return iter(self._across.items())


def chain(head: Port, between: Sequence[tuple[Port, Port]], tail: Port) -> Topology:
    """Joins components in order.

    Everything enters by `head` and leaves by `tail`; `between` holds for every component the port
    towards its predecessor and the one towards its successor. A component that reaches its
    successor over a connection of its own (dialect `scp`) would name another peer's port there.
    """
    pairs: list[tuple[Port, Port]] = []
    left = head
    for towards_predecessor, towards_successor in between:
        pairs.append((left, towards_predecessor))
        left = towards_successor
    pairs.append((left, tail))
    return Topology(pairs)
