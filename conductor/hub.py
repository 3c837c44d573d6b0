"""Feeds frames to a router and gathers what it sends, peer by peer. Synchronous, no I/O.

Both shells around the core use it: the runtime on an event loop, and the child that hosts guests.
All frames of one chunk are routed before anything is written, so that each destination is written
once: many messages a system call, many messages a crossing into a guest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from conductor.core import Effect, Router, Send


class Hub:
    """The outboxes of one router. `perform` is called for every effect that is no `Send`."""

    def __init__(self, router: Router, perform: Callable[[Effect], None]) -> None:
        self.router = router
        self._perform = perform
        self._outboxes: dict[str, list[bytes]] = {}
        self._touched: deque[str] = deque()
        self.queued = 0
        """Bytes posted and not taken yet."""

    def feed(self, peer: str, frames: Iterable[bytes]) -> None:
        """Routes frames of one peer, in order."""
        receive = self.router.receive
        for frame in frames:
            for effect in receive(peer, frame):
                if type(effect) is Send:
                    self.post(effect.peer, effect.frame)
                else:
                    self._perform(effect)

    def apply(self, effects: Iterable[Effect]) -> None:
        """Takes effects that came from elsewhere than a frame."""
        for effect in effects:
            if type(effect) is Send:
                self.post(effect.peer, effect.frame)
            else:
                self._perform(effect)

    def post(self, peer: str, frame: bytes) -> None:
        """Queues a frame for a peer."""
        outbox = self._outboxes.get(peer)
        if outbox is None:
            outbox = self._outboxes[peer] = []
        if not outbox:
            self._touched.append(peer)
        outbox.append(frame)
        self.queued += len(frame)

    def discard(self, peer: str) -> None:
        """Forgets what is queued for a peer that is gone."""
        outbox = self._outboxes.get(peer)
        if outbox:
            self._touched.remove(peer)
            self.queued -= sum(map(len, outbox))
            outbox.clear()

    def take(self) -> tuple[str, bytes] | None:
        """The next peer with something to be written, and all of it; None when all is taken."""
        if not self._touched:
            return None
        peer = self._touched.popleft()
        outbox = self._outboxes[peer]
        data = outbox[0] if len(outbox) == 1 else b"".join(outbox)
        outbox.clear()
        self.queued -= len(data)
        return peer, data
