"""Plays a ring's entries to another sink, as if they happened now."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Final

from conductor.run.log import Item, Sink
from conductor.run.ring import Held, Kept

_STEP: Final = 0.003
"""Seconds that one step takes, about; the chain waits for the step."""


class Player:
    """Plays the entries of a ring, of a router in `mode`, to `sink`."""

    def __init__(self, held: Held, sink: Sink[Item], mode: str) -> None:
        self._sink = sink
        self._mode = mode
        self.start = held.kept[0].at if held.kept else time.monotonic()
        """When the first of them was, by the machine's monotonic clock."""
        self._take(held.chain, self.start)

    def take(self, kept: Kept) -> None:
        """Plays an entry."""
        self._take(kept.item, kept.at)

    def _take(self, item: Item, at: float) -> None:
        # A host's answer to a request that the ring has forgotten is none that a sink knows.
        with contextlib.suppress(ValueError):
            self._sink.take(item, at, self._mode)


def paced(steps: Iterator[None]) -> Iterator[None]:
    """Groups steps, so that a group takes a few milliseconds."""
    until = time.monotonic() + _STEP
    for _ in steps:
        if time.monotonic() >= until:
            yield
            until = time.monotonic() + _STEP
