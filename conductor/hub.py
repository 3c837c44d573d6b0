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
from conductor.core.accounts import FAR, Account, Cause

_HEAD: Final = 65_536
"""Bytes of a skipped line in which its id is looked for."""


class Run:
    """Frames in a row with one cause."""

    __slots__ = ("cause", "echo", "frames")

    def __init__(self, cause: Cause, frames: list[bytes], *, echo: bool) -> None:
        self.cause = cause
        self.frames = frames
        self.echo = echo
        """Whether the component that they are for has caused them itself."""

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
        self.outside = Account("").caused[FAR]
        """The cause of what no component of this router has caused."""
        self.cause = self.echo = self.outside
        """Why frames are sent that are sent now; and those that go to the component which caused
        them."""
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
                effects = self._too_large(peer, frame)
            for effect in effects:
                if type(effect) is not Send:
                    self._perform(effect)
                elif not effect.copy or self._has_room(effect):
                    # As `post` does; many messages take this way.
                    sent, target = effect.frame, effect.peer
                    if target == peer:
                        self.post(target, sent, self.echo, echo=True)
                        continue
                    outbox = outboxes.get(target)
                    if outbox is None:
                        outboxes[target] = [Run(cause, [sent], echo=False)]
                    elif outbox[-1].cause is cause and not outbox[-1].echo:
                        outbox[-1].frames.append(sent)
                    else:
                        outbox.append(Run(cause, [sent], echo=False))
                    cause.account.waiting += len(sent)

    def _too_large(self, peer: str, frame: bytes) -> list[Effect]:
        """A line that there is no memory for costs that line."""
        return self.router.skipped(peer, frame[:_HEAD], "there is no memory for it")

    def apply(self, effects: Iterable[Effect], echo: Cause | None = None) -> None:
        """Takes effects that came from elsewhere than a frame. `echo`: the cause, if the component
        that messages go to has caused them itself."""
        for effect in effects:
            if type(effect) is Send:
                if not effect.copy or self._has_room(effect):
                    self.post(effect.peer, effect.frame, echo or self.cause, echo=echo is not None)
            else:
                self._perform(effect)

    def post(self, peer: str, frame: bytes, cause: Cause, *, echo: bool) -> None:
        """Queues a frame for a peer."""
        outbox = self._outboxes.setdefault(peer, [])
        if outbox and outbox[-1].cause is cause and outbox[-1].echo is echo:
            outbox[-1].frames.append(frame)
        else:
            outbox.append(Run(cause, [frame], echo=echo))
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
        for run in self.take_from(peer):
            run.cause.account.waiting -= run.size

    def queued(self, peer: str) -> list[Run]:
        """What is queued for a peer."""
        return self._outboxes.get(peer, [])

    def take_from(self, peer: str, *, echo: bool | None = None) -> list[Run]:
        """What is queued for a peer; it stays on the accounts of those who caused it.

        `echo`: only what the peer has caused itself, or only what it has not.
        """
        if self._copied:
            self._copied.pop(peer, None)
        runs = self._outboxes.pop(peer, [])
        if echo is None:
            return runs
        left = [run for run in runs if run.echo is not echo]
        if left:
            self._outboxes[peer] = left
            runs = [run for run in runs if run.echo is echo]
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
    for run in runs:
        run.cause.account.waiting -= run.size
    return frames[0] if len(frames) == 1 else b"".join(frames)
