"""Feeds frames to a router and gathers what it sends, peer by peer. Synchronous, no I/O.

Both shells around the core use it: the runtime on an event loop, and the child that hosts guests.
All frames of one chunk are routed before anything is written, so that each destination is written
once: many messages a system call, many messages a crossing into a guest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from conductor.core import Effect, Router, Send


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
        self._outboxes: dict[str, list[bytes]] = {}
        """What each peer is to be sent; in the order in which they are to be served."""
        self.queued = 0
        """Bytes posted and not taken yet."""
        self.lost: Counter[str] = Counter()
        """Copies that observers were too slow for."""
        self._copied: Counter[str] = Counter()
        """Bytes of copies posted and not taken yet."""
        self._held = held
        self._room = room

    def feed(self, peer: str, frames: Iterable[bytes]) -> None:
        """Routes frames of one peer, in order."""
        receive, outboxes = self.router.receive, self._outboxes
        for frame in frames:
            for effect in receive(peer, frame):
                if type(effect) is not Send:
                    self._perform(effect)
                elif not effect.copy or self._has_room(effect):
                    # As `post` does; many messages take this way.
                    sent = effect.frame
                    outbox = outboxes.get(effect.peer)
                    if outbox is None:
                        outboxes[effect.peer] = [sent]
                    else:
                        outbox.append(sent)
                    self.queued += len(sent)

    def apply(self, effects: Iterable[Effect]) -> None:
        """Takes effects that came from elsewhere than a frame."""
        for effect in effects:
            if type(effect) is Send:
                if not effect.copy or self._has_room(effect):
                    self.post(effect.peer, effect.frame)
            else:
                self._perform(effect)

    def post(self, peer: str, frame: bytes) -> None:
        """Queues a frame for a peer."""
        self._outboxes.setdefault(peer, []).append(frame)
        self.queued += len(frame)

    def _has_room(self, copy: Send) -> bool:
        """Whether an observer may be given a copy now; counts those it may not."""
        peer, size = copy.peer, len(copy.frame)
        waiting = self._held(peer) + self._copied[peer]
        if waiting and waiting + size > self._room:
            self.lost[peer] += 1
            return False
        self._copied[peer] += size
        return True

    def discard(self, peer: str) -> None:
        """Forgets what is queued for a peer that is gone."""
        outbox = self._outboxes.pop(peer, None)
        if outbox is not None:
            self.queued -= sum(map(len, outbox))
            self._copied.pop(peer, None)

    def take(self) -> tuple[str, bytes] | None:
        """The next peer with something to be written, and all of it; None when all is taken."""
        peer = next(iter(self._outboxes), None)
        if peer is None:
            return None
        outbox = self._outboxes.pop(peer)
        data = outbox[0] if len(outbox) == 1 else b"".join(outbox)
        if self._copied:
            self._copied.pop(peer, None)
        self.queued -= len(data)
        return peer, data
