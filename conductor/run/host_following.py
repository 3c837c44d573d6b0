"""Follows the router of a host of guests by its journal, for a trace.

The lines that the host got come from the router that follows the conductor's own
(`conductor.run.following`), behind the numbers of their messages; so do, the other way round, those
that it sent. A host runs strangers' code: the trace checks that what it reports concerns its own
guests.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from conductor.core import CHANNEL, UPSTREAM, Closure, Router, Send, Trace, json_text
from conductor.core.effects import Effects
from conductor.run.guest_module import component
from conductor.run.host_journal import BEGUN, CALLED, DELIVERED, FED, OWN, HostEntries
from conductor.run.journal import LOST
from conductor.run.segment_spec import SegmentSpec

_CALLS: Final = frozenset(
    {
        "bypassed", "closed", "delivered", "delivering", "leaving", "pause", "reconfigure",
        "reserve", "returned", "served", "skipped", "start", "tell", "undeliverable", "woken",
    }
)  # fmt: skip
"""Methods of its router that a host calls."""
_WITH_REASON: Final = frozenset({"bypassed", "closed", "leaving"})
_NONSENSE: Final = (
    AttributeError, IndexError, KeyError, MemoryError, RecursionError, TypeError, ValueError,
    msgspec.MsgspecError,
)  # fmt: skip
"""What comes of a journal that no host of ours has written."""

Delivery: TypeAlias = tuple[str, bytes, bytes, str]
"""A guest, what it got and returned, and why it failed."""


class Seen(NamedTuple):
    """What a trace is to know of a host's guests."""

    at: float
    what: Trace | Delivery


class HostFollower:
    """Follows one host through all its runs; `numbers` are those of its messages."""

    def __init__(self, numbers: range) -> None:
        self._numbers = numbers
        self._stream = HostEntries()
        self._unread: deque[bytes] = deque()
        self._entries: deque[list[Any]] = deque()
        self._router: Router | None = None
        self._given: deque[list[bytes]] = deque()
        """Lines for the host, each behind the line with its number, if it has one."""
        self._sent: deque[list[bytes]] = deque()
        """Lines of the host that the conductor has not taken yet, likewise."""
        self._queued: defaultdict[str, deque[bytes]] = defaultdict(deque)
        """Lines for guests that they have not got yet, but for the conductor's own."""
        self._returned: defaultdict[str, deque[bytes]] = defaultdict(deque)
        """Lines of guests that the host has not routed yet."""
        self.seen: list[Seen] = []
        """What came of it."""
        self._followed = -math.inf
        """When the last entry that was followed was."""
        self.size = 0
        """Bytes of the journal that are not followed yet, about."""
        self.wrong: Exception | None = None
        """Why its journal cannot be followed any more."""
        self.is_incomplete = False
        """Whether it has sent a line that its journal does not explain."""

    # -- lines -----------------------------------------------------------------------------------

    def take(self, line: bytes) -> None:
        """Takes a line of the journal."""
        if self.wrong is None:
            self._unread.append(line)
            self.size += len(line)

    def give(self, frame: bytes) -> None:
        """The conductor has written a line to the host."""
        if frame[:1] != OWN and self.wrong is None:
            self._given.append(_numbered(frame))

    def take_back(self, line: bytes | None = None) -> None:
        """A line was not written after all; None: the last."""
        for at in reversed(range(len(self._given))):
            if line is None or self._given[at][-1] == line.rstrip(b"\n"):
                del self._given[at]
                return

    def sends(self, line: bytes, at: float) -> list[bytes] | None:
        """A line that came from the host at a time, behind the line with its number; None: the
        journal has not come so far. What the host has sent before it, nobody has got."""
        while True:
            for number, lines in enumerate(self._sent):
                if lines[-1] == line:
                    for _ in range(number + 1):
                        self._sent.popleft()
                    return lines
            if self.wrong is not None or self._followed > at:
                self.is_incomplete = True
                return [line]
            if not self.step():
                return None

    @property
    def is_behind(self) -> bool:
        """Whether not all of its journal has been followed."""
        return bool(self._entries or self._unread)

    # -- the journal -----------------------------------------------------------------------------

    def step(self, until: float = math.inf) -> bool:
        """Follows one entry, if the next was at that time or before; False: there is none, or the
        conductor has not written yet what it is about."""
        try:
            if not self._read() or self._entries[0][1] > until:
                return False
            # The next run begins while this one still ends: `end` comes first.
            if self._entries[0][0] == BEGUN and self._router is not None:
                return False
            entry = self._entries.popleft()
            if self._one(*entry):
                self._followed = entry[1]
                return True
            self._entries.appendleft(entry)
        except _NONSENSE as error:
            self._give_up(error)
        return False

    def end(self) -> None:
        """The host has ended: what it has not done any more is nobody's."""
        while self.step():
            pass
        self._router = None
        self._given.clear()
        self._sent.clear()
        self._queued.clear()
        self._returned.clear()
        while self._next_kind() not in ("", BEGUN):
            self._entries.popleft()

    def _next_kind(self) -> str:
        try:
            return str(self._entries[0][0]) if self._read() else ""
        except _NONSENSE as error:
            self._give_up(error)
            return ""

    def _give_up(self, error: Exception) -> None:
        self.wrong, self._router, self.size = error, None, 0
        self._unread.clear()
        self._entries.clear()

    def _read(self) -> bool:
        """Whether there is an entry."""
        while not self._entries and self._unread:
            line = self._unread.popleft()
            self.size -= len(line)
            self._entries.extend(self._stream.read(line))
        return bool(self._entries)

    def _one(self, kind: str, at: float, *what: Any) -> bool:
        if kind == FED:
            return self._feed(at, *what)
        if kind == DELIVERED:
            self._deliver(at, *what)
        elif kind == CALLED:
            self._call(at, *what)
        elif kind == BEGUN:
            self._begin(*what)
        else:
            raise ValueError("its journal has an entry of no kind")
        return True

    def _begin(self, raw: bytes, carriers: dict[str, str]) -> None:
        spec = json_text.decode(raw, type=SegmentSpec)
        if spec.numbers not in self._numbers:
            raise ValueError("it uses numbers of others")
        self._router = router = Router(
            [component(guest, carriers[guest.name]) for guest in spec.guests],
            "proxy",
            upstream=CHANNEL,
            tracing=True,
            first_number=spec.numbers,
            owned=spec.owned,
            reserved=spec.reserved,
        )
        for name in router.peers.keys() - {UPSTREAM}:
            router.pause(name, paused=name in spec.paused)

    def _deliver(
        self, at: float, name: str, given: bytes | int, returned: bytes, failed: str
    ) -> None:
        queued, lines = self._queued[name], self._returned[name]
        if isinstance(given, int):
            given = b"".join([queued.popleft() for _ in range(given)])
        elif given:
            for line in given.split(b"\n")[:-1]:
                if line[:1] != OWN:
                    queued.popleft()
        else:  # it has started: what was for a former instance, or came of it, is nobody's
            queued.clear()
            lines.clear()
        lines.extend(returned.split(b"\n")[:-1])
        self.seen.append(Seen(at, (name, given, returned, failed)))

    def _call(self, at: float, method: str, args: list[Any], named: dict[str, Any]) -> None:
        if method == LOST:
            self._queued[args[0]].pop()
        if method not in _CALLS or self._router is None:
            return
        if method in _WITH_REASON:
            args = [args[0], Closure(**args[1])]
        self._perform(at, getattr(self._router, method)(*args, **named) or [])

    def _feed(self, at: float, peer: str, number: int) -> bool:
        """Routes one of the lines, and keeps the entry for the others; False: the next is not here
        yet."""
        if self._router is None:
            return True
        if peer != UPSTREAM:
            lines = [self._returned[peer].popleft()]
        elif self._given:
            lines = self._given.popleft()
        else:
            return False
        for line in lines:
            self._perform(at, self._router.receive(peer, line))
        if number > 1:
            self._entries.appendleft([FED, at, peer, number - 1])
        return True

    def _perform(self, at: float, effects: Effects) -> None:
        for effect in effects:
            if type(effect) is Trace:
                self.seen.append(Seen(at, effect))
            elif type(effect) is Send and effect.frame[:1] != OWN:
                if effect.peer == UPSTREAM:
                    self._sent.append(_numbered(effect.frame))
                else:
                    self._queued[effect.peer].append(effect.frame)


def _numbered(frame: bytes) -> list[bytes]:
    """The line of a frame, behind that with its number."""
    return frame.rstrip(b"\n").split(b"\n", 1)
