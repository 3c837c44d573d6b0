"""Feeds frames to a router and gathers what it sends, peer by peer. Synchronous, no I/O.

Both shells around the core use it: the runtime on an event loop, and the child that hosts guests.
All frames of one chunk are routed before anything is written, so that each destination is written
once: many messages a system call, many messages a crossing into a guest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from conductor.core import Effect, Router, Send
from conductor.core.accounts import FAR, SPARE, Account, Cause

_OWN: Final = b"c"
"""How lines for a guest begin that are the conductor's own (`channel/1`)."""


class Run:
    """Frames in a row with one cause."""

    __slots__ = ("answer", "cause", "frames")

    def __init__(self, cause: Cause, frames: list[bytes], *, answer: bool = False) -> None:
        self.cause = cause
        self.frames = frames
        self.answer = answer
        """Whether they are the conductor's own, for a guest that has asked for them."""

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(map(len, self.frames))


class Hub:
    """The outboxes of one router. `perform` is called for every effect that is no `Send`.

    An observer that has more than `room` bytes waiting, in copies here and in what `held` says of
    its transport, gets no more copies until it has caught up: it delays nobody and fills nothing.
    """

    def __init__(
        self,
        router: Router,
        perform: Callable[[Effect], None],
        held: Callable[[str], int] = lambda peer: 0,
        room: int = 1024 * 1024,
    ) -> None:
        self.router = router
        self._perform = perform
        self._outboxes: dict[str, list[Run]] = {}
        """What each peer is to be sent; in the order in which they are to be served."""
        self.outside = Account("").caused[min(FAR, len(router.peers) + SPARE)]
        """The cause of what no component of this router has caused."""
        self.cause = self.answering = self.outside
        """Why frames are sent that are sent now; and those that answer the component whose frames
        are routed."""
        self.lost: Counter[str] = Counter()
        """Copies that observers were too slow for."""
        self._copied: Counter[str] = Counter()
        """Bytes of copies posted and not taken yet."""
        self._held = held
        self._room = room

    def feed(self, peer: str, frames: Iterable[bytes]) -> None:
        """Routes frames of one peer, in order."""
        receive, outboxes, cause = self.router.receive, self._outboxes, self.cause
        for frame in frames:
            try:
                effects = receive(peer, frame)
            except MemoryError:
                effects = self.router.skipped(peer, frame, "there is no memory for it")
            for effect in effects:
                if type(effect) is not Send:
                    self._perform(effect)
                elif not effect.copy or self._has_room(effect):
                    # As `post` does; many messages take this way.
                    sent, target = effect.frame, effect.peer
                    if target == peer:
                        own = sent.startswith(_OWN)
                        self.post(target, sent, self.answering, answer=own)
                        continue
                    outbox = outboxes.get(target)
                    if outbox is None:
                        outboxes[target] = [Run(cause, [sent])]
                    elif outbox[-1].cause is cause and not outbox[-1].answer:
                        outbox[-1].frames.append(sent)
                    else:
                        outbox.append(Run(cause, [sent]))
                    cause.account.waiting += len(sent)

    def apply(self, effects: Iterable[Effect], answering: Cause | None = None) -> None:
        """Takes effects that came from elsewhere than a frame. `answering`: the cause, if they are
        what a guest has asked the conductor for."""
        cause = answering or self.cause
        for effect in effects:
            if type(effect) is Send:
                if not effect.copy or self._has_room(effect):
                    own = answering is not None and effect.frame.startswith(_OWN)
                    self.post(effect.peer, effect.frame, cause, answer=own)
            else:
                self._perform(effect)

    def post(self, peer: str, frame: bytes, cause: Cause, *, answer: bool = False) -> None:
        """Queues a frame for a peer."""
        outbox = self._outboxes.setdefault(peer, [])
        if outbox and outbox[-1].cause is cause and outbox[-1].answer is answer:
            outbox[-1].frames.append(frame)
        else:
            outbox.append(Run(cause, [frame], answer=answer))
        cause.account.waiting += len(frame)

    def _has_room(self, copy: Send) -> bool:
        """Whether an observer may be given a copy now; counts those it may not."""
        peer, size = copy.peer, len(copy.frame)
        waiting = self._held(peer) + self._copied[peer]
        if waiting and waiting + size > self._room:
            self.lost[peer] += 1
            return False
        self._copied[peer] += size
        return True

    def waiting(self) -> Iterator[tuple[str, list[Run]]]:
        """The peers with something to be written, in order, and what that is."""
        return iter(self._outboxes.items())

    def discard(self, peer: str) -> None:
        """Forgets what is queued for a peer that is gone."""
        release(self.take_from(peer))

    def queued(self, peer: str) -> list[Run]:
        """What is queued for a peer."""
        return self._outboxes.get(peer, [])

    def take_from(self, peer: str, *, answers: bool | None = None) -> list[Run]:
        """What is queued for a peer; it stays on the accounts of those who caused it.

        `answers`: only those of the conductor, or only what is none.
        """
        if self._copied:
            self._copied.pop(peer, None)
        runs = self._outboxes.pop(peer, [])
        if answers is None:
            return runs
        left = [run for run in runs if run.answer is not answers]
        if left:
            self._outboxes[peer] = left
            runs = [run for run in runs if run.answer is answers]
        return runs

    def take(self) -> tuple[str, bytes] | None:
        """The next peer with something to be written, and all of it; None when all is taken."""
        peer = next(iter(self._outboxes), None)
        if peer is None:
            return None
        return peer, joined(self.take_from(peer))


def joined(runs: list[Run]) -> bytes:
    """The bytes of runs that are delivered now: they are on nobody's account any more."""
    frames = runs[0].frames if len(runs) == 1 else [one for run in runs for one in run.frames]
    release(runs)
    return frames[0] if len(frames) == 1 else b"".join(frames)


def release(runs: Iterable[Run]) -> None:
    """Takes runs off the accounts they wait on."""
    for run in runs:
        run.cause.account.waiting -= run.size
