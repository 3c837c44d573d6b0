"""Feeds frames to a router and queues the frames that it sends, peer by peer. Synchronous, no I/O.

Both shells around the core use it: the runtime on an event loop, and the child that hosts guests.
All frames of one chunk are routed before anything is written, so that each destination is written
once: many messages a system call, many messages a crossing into a guest.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Generic, TypeVar

import msgspec
from msgspec.structs import force_setattr

from conductor.core import Effect, Entry, Send
from conductor.core.accounts import FAR, SPARE, Account, Cause
from conductor.core.router import Router

_OWN: Final = b"c"
"""The first byte of the conductor's own lines for a guest (`channel/1`)."""
_now: Final = time.monotonic
_MOST_READS: Final = 1 << 16
"""Chunks of which is known when they were read."""


class QueuedFrames(msgspec.Struct, eq=False):
    """Consecutive frames with the same cause."""

    cause: Cause
    frames: list[bytes]
    answer: bool
    """Whether they are the conductor's own, for the guest that requested them."""

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(map(len, self.frames))


class _Reads:
    """When chunks were read, by the numbers of their messages: these rise as messages are read."""

    def __init__(self) -> None:
        self.last = 0
        """The last number before the latest chunk."""
        self._before = array("q", [0])
        """The last number before each chunk."""
        self._times = array("d", [0.0])
        """The time when each chunk was read."""

    def begin(self, last: int) -> None:
        """A chunk is read now, behind the message with this number."""
        self.last = last
        self._before.append(last)
        self._times.append(_now())
        if len(self._times) > _MOST_READS:
            del self._before[: _MOST_READS // 2], self._times[: _MOST_READS // 2]

    def stamp(self, entry: Entry) -> None:
        """Says in an entry of an earlier chunk's message when that was read."""
        place = bisect_left(self._before, entry.number) - 1
        if place >= 0:  # else it was read in another process, or long ago
            force_setattr(entry, "read", self._times[place])


_Queued = TypeVar("_Queued")


class Outboxes(ABC, Generic[_Queued]):
    """The outboxes of one router. `perform` is called for every effect that is no `Send`; `entry`,
    where somebody wants them, in its place for entries of the log.

    An observer gets no more copies while more than `room` bytes wait for it, here and in its
    transport (`held`): a slow observer delays nobody and fills no memory.
    """

    def __init__(
        self,
        router: Router,
        perform: Callable[[Effect], None],
        held: Callable[[str], int] = lambda peer: 0,
        room: int = 1024 * 1024,
        entry: Callable[[Entry], None] | None = None,
    ) -> None:
        self.router = router
        self._perform = perform
        self._entry = entry
        self._reads = _Reads()
        self.queues: dict[str, list[_Queued]] = {}
        """The queued frames, by peer, in the order in which the peers are to be served."""
        self.lost: Counter[str] = Counter()
        """The copies for which observers were too slow."""
        self._copied: Counter[str] = Counter()
        """Bytes of copies that are queued."""
        self._held = held
        self._room = room

    def feed(self, peer: str, frames: Sequence[bytes]) -> None:
        """Routes frames of one peer, in order."""
        router, apply = self.router, self.apply
        if self._entry is not None:
            self._reads.begin(router.received)
        for frame in frames:
            try:
                effects = router.receive(peer, frame)
            except MemoryError:
                # A message may be too large to be decoded: that costs its sender, not the chain.
                effects = router.skipped(peer, frame, "there is no memory for it")
            apply(effects, peer)

    def apply(self, effects: Iterable[Effect], sender: str = "") -> None:
        """Takes effects. `sender`: the peer whose frame has led to them; empty: none has."""
        for effect in effects:
            if type(effect) is not Send:
                self._does(effect)
            elif not effect.copy or self._has_room(effect):
                self.post(effect.peer, effect.frame, sender)

    def _does(self, effect: Effect) -> None:
        """Has an effect performed that sends nothing, or put into the log."""
        if type(effect) is Entry and self._entry is not None:
            if effect.number <= self._reads.last:  # it has waited
                self._reads.stamp(effect)
            self._entry(effect)
        else:
            self._perform(effect)

    @abstractmethod
    def post(self, peer: str, frame: bytes, sender: str = "") -> None:
        """Queues a frame for a peer. `sender`: as in `apply`."""

    def _has_room(self, copy: Send) -> bool:
        """Whether an observer may get a copy now; counts those it may not."""
        peer, size = copy.peer, len(copy.frame)
        waiting = self._held(peer) + self._copied[peer]
        # An observer that holds nothing may always get a copy, however large, or it never would.
        if waiting and waiting + size > self._room:
            self.lost[peer] += 1
            return False
        self._copied[peer] += size
        return True

    def taken(self, peer: str) -> list[_Queued]:
        """Takes all that is queued for a peer."""
        if self._copied:
            self._copied.pop(peer, None)
        return self.queues.pop(peer, [])


class ChainOutboxes(Outboxes[bytes]):
    """The outboxes of a chain's own router."""

    def post(self, peer: str, frame: bytes, sender: str = "") -> None:
        """Queues a frame for a peer."""
        queue = self.queues.get(peer)
        if queue is None:
            self.queues[peer] = [frame]
        else:
            queue.append(frame)


class HostOutboxes(Outboxes[QueuedFrames]):
    """The outboxes of a host of guests. Queued frames wait on the account of their cause."""

    def __init__(
        self,
        router: Router,
        perform: Callable[[Effect], None],
        entry: Callable[[Entry], None] | None = None,
    ) -> None:
        super().__init__(router, perform, entry=entry)
        self.outside = Account("").caused[min(FAR, len(router.peers) + SPARE)]
        """The cause of frames that no component of this router has caused."""
        self.cause = self.answering = self.outside
        """The causes of frames that are routed now, and of the conductor's answers to them."""

    def post(self, peer: str, frame: bytes, sender: str = "") -> None:
        """Queues a frame for a peer, with the present cause."""
        if peer == sender:
            self.put(peer, frame, self.answering, frame.startswith(_OWN))
        else:
            self.put(peer, frame, self.cause)

    def answer(self, effects: Iterable[Effect], cause: Cause) -> None:
        """Takes effects that answer a guest's request to the conductor."""
        for effect in effects:
            if type(effect) is not Send:
                self._does(effect)
            elif not effect.copy or self._has_room(effect):
                self.put(effect.peer, effect.frame, cause, effect.frame.startswith(_OWN))

    def put(self, peer: str, frame: bytes, cause: Cause, answer: bool = False) -> None:
        """Queues a frame for a peer. `answer`: as in `QueuedFrames`."""
        queue = self.queues.get(peer)
        if queue is None:
            self.queues[peer] = [QueuedFrames(cause, [frame], answer)]
        elif queue[-1].cause is cause and queue[-1].answer is answer:
            queue[-1].frames.append(frame)
        else:
            queue.append(QueuedFrames(cause, [frame], answer))
        cause.account.waiting += len(frame)

    def discard(self, peer: str) -> None:
        """Forgets the frames queued for a peer that is gone."""
        release(self.taken(peer))

    def queued(self, peer: str) -> list[QueuedFrames]:
        """The frames queued for a peer."""
        return self.queues.get(peer, [])

    def take_from(self, peer: str, *, answers: bool) -> list[QueuedFrames]:
        """Takes a part of the frames queued for a peer. They stay on their accounts.

        `answers`: only the conductor's answers, or only all others.
        """
        queue = self.taken(peer)
        left = [run for run in queue if run.answer is not answers]
        if left:
            self.queues[peer] = left
            queue = [run for run in queue if run.answer is answers]
        return queue


def joined(queue: list[QueuedFrames]) -> bytes:
    """The bytes of frames that are delivered now, which takes them off the accounts."""
    if len(queue) > 1:
        release(queue)
        return b"".join([frame for run in queue for frame in run.frames])
    (run,) = queue
    # A single frame may be megabytes long: not copied.
    data = run.frames[0] if len(run.frames) == 1 else b"".join(run.frames)
    run.cause.account.waiting -= len(data)
    return data


def release(queue: Iterable[QueuedFrames]) -> None:
    """Takes frames off the accounts they wait on."""
    for run in queue:
        run.cause.account.waiting -= run.size
