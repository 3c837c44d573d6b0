"""Hops: their ends. Hops across the borders of hosts of guests are put together.

The conductor sees a message go to a host. The host, a child process, reports which guest got it.
Both tell of one message, by its number, and of one hop: from its sender to that guest. So a message
that crosses a border waits here until its other part is seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import msgspec

from conductor.core import UPSTREAM, Entry
from conductor.core.component import Side, newcomer
from conductor.core.roles.initialize import successor_name

CONDUCTOR: Final = "conductor"
"""The conductor's own name in a trace."""

_ENDS: Final = frozenset({"client", "agent", CONDUCTOR})
"""Names in a trace that no proxy may have there."""

_NEWCOMER: Final = newcomer("")
_MOST: Final = 256 * 1024 * 1024
"""The most bytes of one host's messages that wait. Beyond that the oldest are forgotten: no host
that does its work has so much before it, as nobody sends so far ahead
(`conductor.run.backpressure`)."""
_ROOM: Final = 1024
"""Bytes that each takes besides its payload."""


def shown_name(proxy: str) -> str:
    """A proxy's name in a trace; never that of an end of the chain. The conductor itself has none
    in entries."""
    return f"{proxy} (proxy)" if proxy in _ENDS else proxy or CONDUCTOR


class ChainNames:
    """The names of one chain in its trace."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {"": CONDUCTOR}
        self.guests: dict[str, frozenset[str]] = {}
        """The guests of each peer."""
        self.hosts: dict[str, range] = {}
        """The hosts that report the messages between their guests, and the numbers of those
        messages."""
        self.agent = ""
        """The last peer, which may be the agent."""

    def begin(self, chain: Sequence[tuple[str, Sequence[str], range | None]]) -> None:
        """Names the chain's peers in order; see `conductor.run.log.Chain`."""
        for name, guests, _ in chain:
            # A proxy that launches its successor has a second peer, which is no other component.
            self._names[name] = self._names[successor_name(name)] = shown_name(name)
            self.guests[name] = frozenset(guests)
            self.agent = name
        self.hosts = {name: numbers for name, _, numbers in chain if numbers is not None}

    def end(self, peer: str, side: Side, mode: str) -> str:
        """The name of a peer of the router; upstream is the agent on side `S`."""
        if peer == UPSTREAM:
            return "agent" if side is Side.S else "client"
        if mode == "agent" and peer == self.agent:
            return "agent"
        return self._names.get(peer) or shown_name(peer.removesuffix(_NEWCOMER))


class Departure(msgspec.Struct, gc=False):
    """A message that has left its sender: the first part of a hop."""

    source: str
    """The sender, by its name in the trace."""
    left: float
    """When it was read, in seconds since the trace began."""
    entry: Entry
    """As it was seen there."""
    hosts: tuple[str, ...] = ()
    """The hosts whose borders it has crossed so far."""
    inward: bool = False
    """Whether it entered the last of them, or left it."""

    @property
    def size(self) -> int:
        """Bytes of its payload."""
        payload = self.entry.payload
        return 0 if payload is None else memoryview(payload).nbytes


class _Border:
    """The messages that are crossing the border of a host."""

    def __init__(self) -> None:
        self.waiting: dict[tuple[bool, int], Departure] = {}
        self.size = 0

    def put(self, key: tuple[bool, int], departure: Departure) -> None:
        self.pop(key)
        self.waiting[key] = departure
        self.size += departure.size + _ROOM
        while self.size > _MOST:
            self.pop(next(iter(self.waiting)))

    def pop(self, key: tuple[bool, int]) -> Departure | None:
        departure = self.waiting.pop(key, None)
        if departure is not None:
            self.size -= departure.size + _ROOM
        return departure


class Crossings:
    """The messages that are crossing the borders of hosts."""

    def __init__(self) -> None:
        self._borders: defaultdict[str, _Border] = defaultdict(_Border)

    def put(self, host: str, departure: Departure, number: int, *, inward: bool) -> None:
        """A message enters a host, or is about to leave it."""
        hosts = (*departure.hosts, host)
        crossing = msgspec.structs.replace(departure, hosts=hosts, inward=inward)
        self._borders[host].put((inward, number), crossing)

    def take(self, host: str, number: int, *, inward: bool) -> Departure | None:
        """The first part of a hop whose other part is seen now."""
        return self._borders[host].pop((inward, number))

    def swallowed(self, host: str) -> list[Departure]:
        """The messages that have entered a host that is gone, and that none of its guests is known
        to have. Requests are left out: their answers tell."""
        border = self._borders[host]
        waiting = list(border.waiting.items())
        lost = [key for key, one in waiting if one.inward and one.entry.kind != "request"]
        return [one for key in lost if (one := border.pop(key)) is not None]

    def put_back(self, departure: Departure, number: int) -> None:
        """A request was taken back from the component that had it, and crosses its last border
        again."""
        if departure.hosts:
            self._borders[departure.hosts[-1]].put((departure.inward, number), departure)
