"""Who lives: gateways and workers show it four times a second, to those who ask for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from conductor.errors import ConductorError, place_of
from conductor.fleet import names
from conductor.fleet.bus import Bus, Unanswered

EVERY: Final = 0.25
"""Seconds between two beats."""
MISSED: Final = 3
"""So many beats that do not come mean that their process is gone, or stands still."""
_STILL: Final = 1.5
"""Seconds that one which is not gone has for its next beat: its machine may be busy."""
_NOBODY: Final = "-"
"""In the place of a connection."""
_RETURNED: Final = 1.0
"""Seconds more for the first beat after NATS was away."""


class _Watched:
    def __init__(self, now: float) -> None:
        self.until = now
        """When it counts as lost."""
        self.asked = False
        """Whether NATS was asked for it: without a beat it is lost."""
        self.watchers: dict[object, Callable[[], None]] = {}
        self.end: Callable[[], Awaitable[None]] | None = None


class Beats:
    """Watches processes of one kind, `gateway` or `worker`, and shows that this one lives.

    Attributes:
        lag: Called when this process itself has stood still, so others may think that it is lost.
    """

    def __init__(self, bus: Bus, kind: str, watched: str, id_: str) -> None:
        """`kind` and `id_` are this process's."""
        self.lag: Callable[[], None] = lambda: None
        self._bus, self._kind, self._id = bus, kind, id_
        self._other = watched
        self._loop = asyncio.get_running_loop()
        self._watched: dict[str, _Watched] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._beating: asyncio.Task[None] | None = None
        bus.linked.append(self._returned)

    def start(self) -> None:
        """Begins."""
        self._beating = self._loop.create_task(self._beat())

    def close(self) -> None:
        """Ends it."""
        for task in (self._beating, *self._tasks):
            if task is not None:
                task.cancel()

    def watch(self, id_: str, watcher: object, lost: Callable[[], None]) -> None:
        """Calls `lost` once when a process is lost, unless `leave` was called before."""
        found = self._watched.get(id_)
        if found is None:
            found = self._watched[id_] = _Watched(self._loop.time() + EVERY * MISSED + _RETURNED)
            self._do(self._listen(id_, found))
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
            watched.until = self._loop.time() + EVERY * MISSED
            watched.asked = False

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
            self._do(watched.end())

    def _do(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _returned(self) -> None:
        for id_, watched in self._watched.items():
            watched.until = self._loop.time() + EVERY * MISSED + _RETURNED
            if watched.end is None:
                self._do(self._listen(id_, watched))

    async def _beat(self) -> None:
        subject = names.beat(self._kind, self._id)
        before = self._loop.time()
        while True:
            self._bus.publish(subject, b"")
            await asyncio.sleep(EVERY)
            now = self._loop.time()
            late, before = now - before - EVERY, now
            if late > EVERY:
                # This process has stood still: what others have sent meanwhile is not read yet.
                for watched in self._watched.values():
                    watched.until += late
                if late > EVERY * (MISSED - 1):
                    self._call(self.lag)
            elif self._bus.is_linked:
                self._look(now)

    def _look(self, now: float) -> None:
        for id_, watched in [*self._watched.items()]:
            if now <= watched.until:
                continue
            if not watched.asked:
                watched.asked, watched.until = True, now + _STILL
                self._do(self._ask(id_, watched))
            else:
                watchers = [*watched.watchers.values()]
                self._forget(id_)
                for lost in watchers:
                    self._call(lost)

    async def _ask(self, id_: str, watched: _Watched) -> None:
        """Whether anybody listens where a process should: NATS knows at once that it is gone, or
        that it was at a server that is."""
        try:
            await self._bus.request(names.packets(self._other, id_, _NOBODY), b"", _STILL)
        except Unanswered as unanswered:
            if unanswered.absent and watched.asked and not self._bus.has_lost_a_server:
                watched.until = 0.0
                self._look(self._loop.time())
        except ConductorError:
            return  # NATS is away: nobody is lost until it is back

    def _call(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # this process lives, and goes on to say so
            self._bus.log(f"a defect of conductor: {place_of(error)}")
