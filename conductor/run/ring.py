"""The ring: the entries of a chain of the last minutes, in memory.

It keeps entries as they come, and reads none of them: so it costs a chain next to nothing.
`conductor.record.ring` plays them to another sink once somebody wants to read them. The start path
loads this module.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

import msgspec
from msgspec import Raw
from msgspec.structs import force_setattr, replace

from conductor.core import UPSTREAM, Entry, Violated
from conductor.run.log import Chain, Item, OfHost, Sink, session_in

AGE: Final = 300.0
"""Seconds after which an entry is forgotten."""

_LARGEST: Final = 16
"""Of a payload that takes more than one part in so many of the ring, its session is kept."""
_SPARE: Final = 16
"""A full ring forgets one part in so many at once: so few entries wait for the forgetting."""
_ENTRY: Final = 512
"""Bytes that an entry takes beside its payload."""
_NOBODY: Final = ("", UPSTREAM)
"""Senders that are no components."""
_MOST_SHARING: Final = 15
"""Entries that share one payload: they are forgotten together."""
_copied: Final = msgspec.json.Encoder().encode
"""The bytes of a raw payload, in half the time that `bytes` takes."""
_PAUSE: Final = 60.0
"""Seconds between two files that are written because a component failed."""


class Kept(msgspec.Struct, frozen=True, eq=False, gc=False):
    """An entry with its time."""

    at: float
    """By the machine's monotonic clock, in seconds."""
    item: Item
    size: int
    """The bytes in memory, about."""
    shared: bool
    """Whether its payload is the payload of the entry before."""


class Held(msgspec.Struct, frozen=True):
    """The entries of a ring at one moment."""

    kept: Sequence[Kept]
    chain: Chain
    """The components before the first entry."""
    forgotten: bool
    """Whether there were earlier entries."""


class Saved(msgspec.Struct, frozen=True):
    """A file that a ring is being written to."""

    path: str
    """Empty: the file could not be made."""
    work: Iterator[None]
    """Each step writes a part of the ring as it was at the first step. No step takes long, or
    raises."""


class Save(Protocol):
    """Begins a file."""

    def __call__(self, ring: Ring, why: str, mode: Callable[[], str]) -> Saved:
        """`why`: the reason for the file; `mode`: the router's mode, once messages have passed."""


class Ring(Sink[Item]):
    """The ring of one chain, of at most `most` bytes.

    `save` begins files.
    """

    watches = False

    def __init__(
        self, most: int, save: Save, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._largest = most // _LARGEST
        self._save = save
        self._clock = clock
        self._kept: deque[Kept] = deque()
        self._chain = Chain()
        self._is_cut = False
        self._saved: float | None = None
        self._last = b""
        """The payload of the last entry that has a payload."""
        self._sharing = 0
        """The number of entries that share this payload."""
        self.size = 0
        """The bytes in memory, about."""
        self.begun = False
        """Whether a component has sent anything; before that there is nothing to see."""

    def take(self, item: Item, at: float, mode: str) -> None:
        """Keeps an entry."""
        size, shared = _ENTRY, False
        if type(item) is Entry:
            if not self.begun:
                self.begun = bool(item.target) and item.source not in _NOBODY
            payload = item.payload
            if payload is not None:
                # Of its own: the line that it stood in may be far longer.
                payload = _copied(payload) if type(payload) is Raw else bytes(payload)
                more = len(payload)
                if more > self._largest:
                    item, more = replace(item, payload=_cut(payload), whole=more), 0
                # Most messages are passed on as they came: their payload is kept once.
                elif payload == self._last and self._sharing < _MOST_SHARING:
                    force_setattr(item, "payload", self._last)
                    self._sharing += 1
                    more, shared = 0, True
                else:
                    self._last, self._sharing = payload, 0
                    force_setattr(item, "payload", payload)
                size += more
        elif isinstance(item, OfHost):
            if not isinstance(item.entry, Entry):
                return
            size += len(bytes(item.entry.payload or b""))
        elif isinstance(item, Chain):
            size += _ENTRY * len(item.peers)
        self._kept.append(Kept(at, item, size, shared))
        self.size += size
        if self.size > self._most:
            self._forget(self._most - self._most // _SPARE)

    def _forget(self, most: int) -> None:
        """Forgets old entries, entries beyond the room, and those that shared their payload."""
        kept, size, oldest = self._kept, self.size, self._clock() - AGE
        while kept:
            gone = kept[0]
            if size <= most and gone.at >= oldest and not gone.shared:
                break
            kept.popleft()
            size -= gone.size
            item = gone.item
            if type(item) is Entry:
                self._is_cut = True
            elif isinstance(item, Chain):
                self._chain = item
            elif not isinstance(item, Violated):
                self._is_cut = True
        self.size = size

    # -- files ---------------------------------------------------------------------------------

    def may_save(self) -> bool:
        """Whether the failure of a component is a reason to write a file while the chain goes on:
        no file was written for a while."""
        return self._saved is None or self._clock() - self._saved >= _PAUSE

    def save(self, why: str, mode: Callable[[], str]) -> Saved:
        """Begins a file: see `Save`."""
        self._saved = self._clock()
        return self._save(self, why, mode)

    def since(self, last: Kept) -> list[Kept] | None:
        """The entries after an entry; None: the entry is not there any more."""
        found: list[Kept] = []
        for kept in reversed(self._kept):
            if kept is last:
                return found[::-1]
            found.append(kept)
        return None

    def held(self) -> Held:
        """The entries that it holds now."""
        self._forget(self._most)
        return Held([*self._kept], self._chain, self._is_cut)


def _cut(payload: bytes) -> bytes:
    """The short form of a payload that is too large: its session and its size."""
    session = session_in(payload)
    named = b'"sessionId":%b,' % session if 0 < len(session) < _ENTRY else b""
    return b'{%b"_meta":{"conductor":{"cut":%d}}}' % (named, len(payload))
