"""The ring: what the peers of a router sent and got in the last minutes, in memory.

It keeps the chunks as they pass, one entry for each call that reads or writes, and looks into none
of them: so it costs a chain next to nothing. `conductor.record.ring` makes a trace of it once
somebody wants to read it. The start path loads this module.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

import msgspec

from conductor.core import UPSTREAM, Violated
from conductor.core.policy.rules import Policy
from conductor.run.plan import Planned
from conductor.run.report_checks import named
from conductor.transports.framing import split

AGE: Final = 300.0
"""Seconds after which a chunk is forgotten."""

_LARGEST: Final = 16
"""A line that takes more than one part in so many of the ring is kept cut …"""
_WHOLE: Final = 4
"""Lines that come at once are kept as one chunk, up to one part in so many of the ring."""
_HEAD: Final = 4096
"""… to so many bytes: its method, id and, mostly, its session stand there …"""
_TAIL: Final = 128
"""… and so many at its end, where some put the id."""
_SPARE: Final = 16
"""A full ring forgets one part in so many at once: so a chunk seldom waits for that."""
_CHUNK: Final = 256
"""Bytes that a chunk takes beside its lines."""
_PAUSE: Final = 60.0
"""Seconds between two files that are written because a component failed."""

_OWN: Final = b"c"
"""How lines of guests and their hosts for the conductor itself begin (`channel/1`)."""


class Chain(NamedTuple):
    """The peers of the router, beside upstream."""

    peers: Sequence[tuple[str, Sequence[str], range | None]] = ()
    """In order, as a trace names them (`conductor.run.report_checks.Tracing.begin`)."""
    policies: Mapping[str, Policy] = MappingProxyType({})
    """By peer; one without a policy is trusted."""
    uninitialized: frozenset[str] = frozenset()
    """Those that `initialize` goes past, although they have no policy here."""


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """What a peer sent or got at once, or what happened to the chain."""

    at: float
    """By the machine's monotonic clock, in seconds."""
    peer: str
    sent: bool
    """Whether the peer sent it, or got it."""
    data: bytes
    """Lines, and newlines between them: as one object, so that the memory of each line is free for
    the next."""
    cut: int = 0
    """Bytes of its one line, of which `data` has two: the beginning and the end; 0: it is whole."""
    event: Chain | Violated | None = None
    """In place of lines: the chain has these peers from now on, or a rule was broken."""
    shared: bool = False
    """Whether `data` is that of the chunk before."""

    @property
    def size(self) -> int:
        """Bytes in memory, about."""
        if self.event is not None:
            return _CHUNK * (1 if isinstance(self.event, Violated) else len(self.event.peers) + 1)
        return _CHUNK if self.shared else len(self.data) + _CHUNK


class Kept(NamedTuple):
    """What a ring holds at one moment."""

    chunks: Sequence[Chunk]
    chain: Chain
    """The peers before the first of them."""
    forgotten: bool
    """Whether there was more, before the first chunk."""


class Saved(NamedTuple):
    """A file that a ring is being written to."""

    path: str
    """Empty: it could not be made."""
    work: Iterator[None]
    """Each step writes a part of it, of what the ring holds at the first step. None of them takes
    long, or raises."""


class Save(Protocol):
    """Begins a file."""

    def __call__(self, ring: Ring, why: str, mode: Callable[[], str]) -> Saved:
        """`why` it is written; `mode` is that of the router, once messages have passed."""


class Ring:
    """The ring of one chain, of at most `most` bytes.

    `save` begins files.
    """

    def __init__(
        self, most: int, save: Save, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._largest = most // _LARGEST
        self._save = save
        self._clock = clock
        self._chunks: deque[Chunk] = deque()
        self._chain = Chain()
        self._is_cut = False
        self._saved: float | None = None
        self.size = 0
        """Bytes in memory, about."""
        self.begun = False
        """Whether a component has sent anything; before that there is nothing to see."""

    # -- what passes ---------------------------------------------------------------------------

    def sent(self, peer: str, lines: list[bytes], size: int) -> None:
        """A peer sent lines of `size` bytes altogether."""
        if not self.begun:
            self.begun = peer != UPSTREAM and not lines[0].startswith(_OWN)
        if size > self._largest and self._split(size, lines):
            for line in lines:
                self._one(peer, True, line)
            return
        data = lines[0] if len(lines) == 1 else b"\n".join([*lines, b""])
        self._add(Chunk(self._clock(), peer, True, data), len(data))

    def given(self, peer: str, data: bytes) -> bytes:
        """Whole lines are written to a peer. Returns them: what waits for a slow peer, as it was
        sent, is then in memory once."""
        if len(data) > self._largest and self._split(len(data), lines := split(data)):
            for line in lines:
                if line:
                    self._one(peer, False, line)
            return data
        last = self._chunks[-1].data if self._chunks else b""
        # What one peer sent is what another gets, as it is: kept once.
        if last and data.startswith(last) and len(data) - len(last) <= 1:
            self._add(Chunk(self._clock(), peer, False, last, 0, None, True), 0)
            return last if len(data) == len(last) else data
        self._add(Chunk(self._clock(), peer, False, data), len(data))
        return data

    def chain(self, planned: Sequence[Planned]) -> None:
        """The chain has these components from now on."""
        components = [p.component for p in planned]
        policies = {c.name: c.policy for c in components if c.policy is not None}
        past = frozenset(c.name for c in components if c.initialize_passes)
        self._event(Chain(named(planned), policies, past))

    def violated(self, violation: Violated) -> None:
        """A component broke a rule of its policy."""
        self._event(violation)

    def _event(self, event: Chain | Violated) -> None:
        chunk = Chunk(self._clock(), "", False, b"", event=event)
        self._add(chunk, chunk.size - _CHUNK)

    def _split(self, size: int, lines: Sequence[bytes]) -> bool:
        """Whether the lines of a large chunk are kept one by one: to be cut or forgotten so."""
        return size > self._most // _WHOLE or max(map(len, lines)) > self._largest

    def _one(self, peer: str, sent: bool, line: bytes) -> None:
        """Keeps one line of a large chunk."""
        whole = len(line)
        cut = whole if whole > self._largest else 0
        data = line[: min(_HEAD, self._largest)] + b"\n" + line[-_TAIL:] if cut else line
        self._add(Chunk(self._clock(), peer, sent, data, cut), len(data))

    def _add(self, chunk: Chunk, size: int) -> None:
        """Keeps a chunk; `size`: bytes in memory, beside those that each chunk takes."""
        self._chunks.append(chunk)
        self.size += size + _CHUNK
        if self.size > self._most:
            self._forget(self._most - self._most // _SPARE)

    def _forget(self, most: int) -> None:
        """Forgets what is old, what there is no room for, and what shared its lines with that."""
        chunks, oldest = self._chunks, self._clock() - AGE
        while chunks and (self.size > most or chunks[0].at < oldest or chunks[0].shared):
            gone = chunks.popleft()
            self.size -= gone.size
            if gone.event is None:
                self._is_cut = True
            elif not isinstance(gone.event, Violated):
                self._chain = gone.event

    # -- files ---------------------------------------------------------------------------------

    def may_save(self) -> bool:
        """Whether the failure of a component is a reason to write a file, where the chain goes on:
        there was none for a while."""
        return self._saved is None or self._clock() - self._saved >= _PAUSE

    def save(self, why: str, mode: Callable[[], str]) -> Saved:
        """Begins a file: see `Save`."""
        self._saved = self._clock()
        return self._save(self, why, mode)

    def since(self, last: Chunk) -> list[Chunk] | None:
        """What has come after a chunk; None: that chunk is not there any more."""
        found: list[Chunk] = []
        for chunk in reversed(self._chunks):
            if chunk is last:
                return found[::-1]
            found.append(chunk)
        return None

    def kept(self) -> Kept:
        """What it holds now."""
        self._forget(self._most)
        return Kept([*self._chunks], self._chain, self._is_cut)
