"""Which principal has which session, known to all workers.

A room's worker has the sessions of that principal in memory, and the bucket has all. Agents choose
the ids, and some count: when two principals open sessions of the same id, the one who opened it
last has it, and the worker of the other is ordered to forget it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from conductor.errors import ConductorError, place_of
from conductor.fleet import messages, names
from conductor.fleet.bus import Bucket, Bus

_MOST: Final = 100_000
"""Sessions of one principal; then the oldest is forgotten."""
_UNRECORDED: Final = 100_000
"""Changes that wait for NATS; then the oldest is not recorded."""
_LONGEST: Final = 512
"""Bytes of a session's id that is kept: a longer one is of this worker alone."""
_AGAIN: Final = 2.0
"""Seconds until a change is tried again that NATS did not take."""


class KeptOwners:
    """Has the methods of `conductor.serve.owners.Owners`."""

    def __init__(
        self, bus: Bus, pool: str, owned: Bucket, rooms: Bucket, log: Callable[[str], None]
    ) -> None:
        self._bus, self._pool, self._owned, self._rooms, self._log = bus, pool, owned, rooms, log
        self._of: dict[str, dict[str, None]] = {}
        self._changes: dict[tuple[str, str], bool] = {}
        """Whether a principal has a session, as far as NATS does not know it yet."""
        self._due, self._done = asyncio.Event(), asyncio.Event()
        self._done.set()
        self._writing = asyncio.get_running_loop().create_task(self._write())

    async def load(self, principal: str) -> None:
        """A room is here from now on. Raises `ConductorError`."""
        room = names.room(self._pool, principal)
        found: dict[str, None] = {}
        for key in await self._owned.keys(f"{room}.*"):
            with contextlib.suppress(ValueError):  # somebody else's key
                found[names.decoded(key.rpartition(".")[2])] = None
        self._of[principal] = found
        self._bound(principal, found)

    def drop(self, principal: str) -> None:
        """A room is not here any more."""
        self._of.pop(principal, None)

    def has(self, principal: str, session: str) -> bool:
        """Whether a session is the principal's."""
        return session in self._of.get(principal, ())

    def add(self, principal: str, session: str) -> None:
        """A principal has a session from now on."""
        sessions = self._of.setdefault(principal, {})
        if session in sessions:
            return
        for of in self._of.values():
            of.pop(session, None)
        sessions[session] = None
        self._bound(principal, sessions)
        self._change(principal, session, True)

    def _bound(self, principal: str, sessions: dict[str, None]) -> None:
        """Forgets the oldest sessions of a principal who has too many."""
        while len(sessions) > _MOST:
            oldest = next(iter(sessions))
            del sessions[oldest]
            self._change(principal, oldest, False)

    def remove(self, principal: str, session: str) -> None:
        """A session is gone."""
        if self._of.get(principal, {}).pop(session, self) is None:
            self._change(principal, session, False)

    def disown(self, principal: str, session: str) -> None:
        """Somebody else has the session now."""
        self._of.get(principal, {}).pop(session, None)

    def close(self) -> None:
        """Ends it."""
        self._writing.cancel()

    def _change(self, principal: str, session: str, there: bool) -> None:
        if len(names.as_bytes(session)) > _LONGEST:
            return
        self._changes[principal, session] = there
        if len(self._changes) > _UNRECORDED:  # of a session that nobody finds after this worker
            del self._changes[next(iter(self._changes))]
        self._done.clear()
        self._due.set()

    async def flush(self) -> None:
        """Waits until NATS has all changes."""
        await self._done.wait()

    async def _write(self) -> None:
        while True:
            await self._due.wait()
            while self._changes:
                change, there = next(iter(self._changes.items()))
                try:
                    await self._record(*change, there)
                except ConductorError as error:
                    self._log(f"a session's owner is not recorded yet: {error.text}")
                    await asyncio.sleep(_AGAIN)
                    continue
                except Exception as error:  # others are recorded
                    self._log(f"a defect of conductor: {place_of(error)}")
                if self._changes.get(change) is there:
                    del self._changes[change]
            self._due.clear()
            self._done.set()

    async def _record(self, principal: str, session: str, there: bool) -> None:
        pool, word = self._pool, names.encoded(session)
        room = names.room(pool, principal)
        if not there:
            await self._owned.purge(f"{room}.{word}")
            return
        await self._owned.put(f"{room}.{word}", b"")
        for key in await self._owned.keys(f"{pool}.*.{word}"):
            other = key.rpartition(".")[0]
            if other != room:
                await self._owned.purge(key)
                await self._disowned(other, session)

    async def _disowned(self, room: str, session: str) -> None:
        lease = await self._rooms.get(room)
        if lease is None:
            return
        principal = names.decoded(room.rpartition(".")[2])
        order = messages.Order(do="disown", principal=principal, session=session)
        self._bus.publish(names.control(names.holder(lease.value)), messages.write(order))
