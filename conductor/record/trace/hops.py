"""Messages on their way into and out of hosts of guests, put together from what is seen of each.

This conductor sees a message go to the host; the child that is the host reports which guest it gave
it to. Both mean one message, by its number, and it is one hop: from who sent it to that guest. So
what crosses a border waits here until its other part is known.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import msgspec

from conductor.core import Trace

_MOST: Final = 10_000
"""Messages of one host that wait, and …"""
_MOST_BYTES: Final = 64 * 1024 * 1024
"""… bytes of them; the oldest, which it never does anything with, are forgotten."""


class Way(msgspec.Struct, gc=False):
    """The first part of a hop."""

    source: str
    """Its sender, by its name in the file."""
    left: float
    """When it left its sender."""
    trace: Trace
    """As it was seen there."""
    hosts: tuple[str, ...] = ()
    """The hosts it has gone through so far."""
    inward: bool = False
    """Whether it went into the last of them, or left that."""


class _Border:
    """What is crossing the border of one host."""

    def __init__(self) -> None:
        self.ways: dict[tuple[bool, int], Way] = {}
        self.size = 0

    def put(self, key: tuple[bool, int], way: Way) -> None:
        self.pop(key)
        self.ways[key] = way
        self.size += _size(way)
        while len(self.ways) > _MOST or self.size > _MOST_BYTES:
            self.pop(next(iter(self.ways)))

    def pop(self, key: tuple[bool, int]) -> Way | None:
        way = self.ways.pop(key, None)
        if way is not None:
            self.size -= _size(way)
        return way


def _size(way: Way) -> int:
    return len(way.trace.payload or b"")


class Ways:
    """The messages that are crossing the borders of hosts."""

    def __init__(self) -> None:
        self._borders: defaultdict[str, _Border] = defaultdict(_Border)

    def put(self, host: str, way: Way, number: int, *, inward: bool) -> None:
        """One goes into a host, or is about to leave it."""
        on = msgspec.structs.replace(way, hosts=(*way.hosts, host), inward=inward)
        self._borders[host].put((inward, number), on)

    def take(self, host: str, number: int, *, inward: bool) -> Way | None:
        """The other part of one is seen."""
        return self._borders[host].pop((inward, number))

    def again(self, way: Way, number: int) -> None:
        """A request was taken back by who had seen it last, and goes on from there."""
        if way.hosts:
            self._borders[way.hosts[-1]].put((way.inward, number), way)
