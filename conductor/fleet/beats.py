"""Watches which gateways and workers live: each beats four times a second, for those who ask.

A beat counts as missed only where NATS has answered a ping meanwhile. While NATS stands still, or
is away, or this process stands still, nobody misses anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from conductor.errors import ConductorError
from conductor.fleet import names
from conductor.fleet.bus import Bus, End, Unanswered

EVERY: Final = 0.25
"""Seconds between two beats."""
MISSED: Final = 3
"""After so many missed beats NATS is asked for their process, which may be gone."""
LOST: Final = 16
"""After so many missed beats a process counts as standing still: its machine may be busy, or its
server of a cluster stands still, and the process will come to another server."""
_BEGINS: Final = -4
"""The count of missed beats for a new process: this leaves time for its first beat."""
_RETURNED: Final = -8
"""The same after NATS was away: other processes may come back later than this process."""
_NOBODY: Final = "-"
"""In the place of a connection."""


class _Watched:
    def __init__(self) -> None:
        self.missed = _BEGINS
        """The beats that should have come since the last beat."""
        self.watchers: dict[object, Callable[[], None]] = {}
        self.end: End | None = None


class Beats:
    """Watches processes of one kind, `gateway` or `worker`, and shows that this one lives.

    Attributes:
        lag: Called when this process itself has stood still: others may think that it is lost.
    """

    def __init__(self, bus: Bus, kind: str, watched: str, id_: str) -> None:
        """`kind` and `id_` are this process's."""
        self.lag: Callable[[], None] = lambda: None
        self._bus, self._kind, self._id = bus, kind, id_
        self._other = watched
        self._loop = asyncio.get_running_loop()
        self._watched: dict[str, _Watched] = {}
        self._beating: asyncio.Task[None] | None = None
        bus.linked.append(self._returned)

    def start(self) -> None:
        """Begins."""
        self._beating = self._bus.start(self._beat())

    def close(self) -> None:
        """Ends it."""
        if self._beating is not None:
            self._beating.cancel()

    def watch(self, id_: str, watcher: object, lost: Callable[[], None]) -> None:
        """Calls `lost` once when a process is lost, unless `leave` was called before."""
        found = self._watched.get(id_)
        if found is None:
            found = self._watched[id_] = _Watched()
            self._bus.start(self._listen(id_, found))
        found.watchers[watcher] = lost

    def leave(self, id_: str, watcher: object) -> None:
        """The process does not matter to a watcher any more."""
        found = self._watched.get(id_)
        if found is None:
            return
        found.watchers.pop(watcher, None)
        if not found.watchers:
            self._forget(id_)

    async def _listen(self, id_: str, watched: _Watched) -> None:
        def taken(_subject: str, _payload: bytes) -> None:
            watched.missed = 0

        try:
            end = await self._bus.listen(names.beat(self._other, id_), taken)
        except ConductorError:
            return  # NATS is away: once it is back this is done again
        if self._watched.get(id_) is watched:
            watched.end = end
        else:
            await end()

    def _forget(self, id_: str) -> None:
        watched = self._watched.pop(id_)
        if watched.end is not None:
            self._bus.start(watched.end())

    def _returned(self) -> None:
        for id_, watched in self._watched.items():
            watched.missed = _RETURNED
            if watched.end is None:
                self._bus.start(self._listen(id_, watched))

    async def _beat(self) -> None:
        subject = names.beat(self._kind, self._id)
        while True:
            began, answers = self._loop.time(), self._bus.answers
            self._bus.publish(subject, b"")
            self._bus.ask()
            await asyncio.sleep(EVERY)
            if self._loop.time() - began > EVERY * MISSED:
                self._call(self.lag)
            if self._bus.answers != answers:
                self._look()

    def _look(self) -> None:
        """A beat of each process should have come."""
        for id_, watched in [*self._watched.items()]:
            watched.missed += 1
            if watched.missed == MISSED:
                self._bus.start(self._ask(id_, watched))
            elif watched.missed == LOST:
                self._lose(id_)

    async def _ask(self, id_: str, watched: _Watched) -> None:
        """Whether anybody listens where a process should: NATS knows at once that it is gone, or
        that it was at a server that is."""
        try:
            await self._bus.request(names.packets(self._other, id_, _NOBODY), b"", EVERY * MISSED)
        except Unanswered as unanswered:
            misses = self._watched.get(id_) is watched and watched.missed >= MISSED
            if unanswered.absent and misses and not self._bus.has_lost_a_server:
                self._lose(id_)
        except ConductorError:
            return  # NATS is away: nobody is lost until it is back

    def _lose(self, id_: str) -> None:
        watchers = [*self._watched[id_].watchers.values()]
        self._forget(id_)
        for lost in watchers:
            self._call(lost)

    def _call(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # this process lives, and goes on to say so
            self._bus.defect(error)
