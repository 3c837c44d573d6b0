"""The journal of a router: all that went into it, in order, so that another one can follow it.

A router is pure: a second one of the same components that gets the same lines and calls comes to
the same. So a chain with a trace runs a router that makes none. Its journal is what costs the chain
time; the router that follows it, and makes the trace, works when nothing passes
(`conductor.run.following`).
"""

from __future__ import annotations

import functools
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import msgspec

from conductor.core import Component, Router
from conductor.core.effects import Effects

_BESIDE: Final = 64
"""Bytes that a line takes in memory beside its own."""

_CALLS: Final = (
    "abandon", "aliased", "ask", "bypassed", "closed", "delivered", "delivering", "dismiss",
    "end_turn", "expire", "faltered", "hold", "leaving", "listening", "loaded",
    "not_launching", "notice", "overdue", "pause", "prepare", "rearrange", "reconfigure",
    "relayed", "release", "reopened", "reserve", "resolved", "returned", "served", "settled",
    "skipped", "start", "tell", "undeliverable", "upstream_ended", "woken",
)  # fmt: skip
"""The methods of a router that change it, beside `receive`."""


LOST: Final = "lost"
"""In place of a method: see `MemoryJournal.lost`."""


class Call(NamedTuple):
    """A method of the router was called."""

    at: float
    """By the machine's monotonic clock, in seconds."""
    method: str
    args: tuple[Any, ...]
    named: Mapping[str, Any]


class Journal(Protocol):
    """Takes what goes into a router."""

    def received(self, peer: str, frame: bytes) -> None:
        """A line of a peer was routed."""

    def called(self, method: str, args: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        """A method was called."""


class JournalRouter(Router):
    """A router that keeps a journal. It announces no numbers of messages, and expects none."""

    def __init__(
        self, components: Sequence[Component], *args: Any, journal: Journal, **named: Any
    ) -> None:
        super().__init__(_unnumbered(components), *args, **named)
        self._journal = journal
        receive, received = self.receive, journal.received

        def kept(peer: str, frame: bytes) -> Effects:
            try:
                return receive(peer, frame)
            finally:
                received(peer, frame)

        self.receive = kept
        self.stream = lambda peer, frames: None  # each line has its place in the journal

    def prepare(
        self,
        components: Sequence[Component],
        fresh: Collection[str] = (),
        audited: Collection[str] = (),
    ) -> Effects:
        """See `Router`."""
        effects = super().prepare(_unnumbered(components), fresh, audited)
        self._journal.called("prepare", (list(components), fresh), {})
        return effects


def _unnumbered(components: Sequence[Component]) -> list[Component]:
    return [msgspec.structs.replace(one, numbers=None) for one in components]


def _kept(method: str) -> Callable[..., Any]:
    """A method of the router that puts its calls in the journal."""
    original = getattr(Router, method)

    @functools.wraps(original)
    def call(self: JournalRouter, *args: Any, **named: Any) -> Any:
        outcome = original(self, *args, **named)
        self._journal.called(method, args, named)
        return outcome

    return call


for _method in _CALLS:
    if _method not in vars(JournalRouter):
        setattr(JournalRouter, _method, _kept(_method))


class Lines(NamedTuple):
    """The lines that follow are of this peer."""

    at: float
    peer: str


class Noted(NamedTuple):
    """Something for the trace that is nothing for a router."""

    at: float
    take: Callable[..., None]
    args: tuple[Any, ...]
    size: int


Entry: TypeAlias = bytes | Lines | Call | Noted
"""Bytes: a line."""


class MemoryJournal:
    """The journal of a router in this process; each of its lines is a reference."""

    def __init__(
        self,
        on_call: Callable[[str, object], None] = lambda method, peer: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_call`: called with each method and its first argument."""
        self.entries: deque[Entry] = deque()
        self.size = 0
        """Bytes in memory, about."""
        self._on_call = on_call
        self._clock = clock
        self._peer = ""

    def chunk(self, peer: str, size: int, number: int) -> None:
        """So many lines of a peer are about to be routed, of `size` bytes altogether."""
        self._begin(peer)
        self.size += size + number * _BESIDE

    def _begin(self, peer: str) -> None:
        self._peer = peer
        self.entries.append(Lines(self._clock(), peer))

    def received(self, peer: str, frame: bytes) -> None:
        """See `Journal`."""
        if peer is not self._peer:
            self._begin(peer)
        self.entries.append(frame)

    def called(self, method: str, args: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        """See `Journal`."""
        self.entries.append(Call(self._clock(), method, args, named))
        self._on_call(method, args[0] if args else "")

    def note(self, size: int, take: Callable[..., None], *args: Any) -> None:
        """Has the trace take something of `size` bytes, once its time comes."""
        self.size += size
        self.entries.append(Noted(self._clock(), take, args, size))

    def lost(self, peer: str) -> None:
        """The copy that the last line made for an observer is not written to it."""
        self.called(LOST, (peer,), {})

    def done(self, entry: Entry) -> None:
        """The first entry is not needed any more."""
        self.entries.popleft()
        if type(entry) is bytes:
            self.size -= len(entry) + _BESIDE
        elif type(entry) is Noted:
            self.size -= entry.size
        if not self.entries:
            self.size = 0
