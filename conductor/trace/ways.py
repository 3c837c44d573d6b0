"""Messages on their way into and out of hosts of guests, put together from what is seen of each.

This conductor sees a message go to the host; the child that is the host reports which guest it gave
it to. Both mean one message, by its number, and it is one hop: from who sent it to that guest. So
what crosses a border waits here until its other part is known.
"""

from __future__ import annotations

from typing import Final

import msgspec

from conductor.core import Trace

_MOST: Final = 10_000
"""Messages that wait; what a host never does anything with is forgotten."""


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


class Ways:
    """The messages that are crossing the borders of hosts."""

    def __init__(self) -> None:
        self._ways: dict[tuple[str, bool, int], Way] = {}

    def put(self, host: str, way: Way, number: int, *, inward: bool) -> None:
        """One goes into a host, or is about to leave it."""
        on = msgspec.structs.replace(way, hosts=(*way.hosts, host), inward=inward)
        self._ways[host, inward, number] = on
        if len(self._ways) > _MOST:
            del self._ways[next(iter(self._ways))]

    def take(self, host: str, number: int, *, inward: bool) -> Way | None:
        """The other part of one is seen."""
        return self._ways.pop((host, inward, number), None)

    def again(self, way: Way, number: int) -> None:
        """A request was taken back by who had seen it last, and goes on from there."""
        if way.hosts:
            self._ways[way.hosts[-1], way.inward, number] = way
