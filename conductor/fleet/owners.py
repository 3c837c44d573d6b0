"""The owners of sessions, known to all workers.

A room's worker has the sessions of its principal in memory, and the bucket has all. Agents choose
the ids, and some count: when two principals open sessions of the same id, the principal that opened
it last owns it, and the worker of the other principal is ordered to forget it.

An answer that names a session leaves after the record of its owner: a client that knows a session
finds it, whatever happens to its worker.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Final

from conductor import tasks
from conductor.errors import ConductorError, place_of
from conductor.fleet import messages, names
from conductor.fleet.bucket import Bucket
from conductor.fleet.bus import Bus

_MOST: Final = 100_000
"""The most sessions of one principal; the oldest are forgotten."""
_LONGEST: Final = 512
"""The most bytes of a session's id in the bucket: only this worker knows a longer id."""
_AGAIN: Final = 2.0
"""Seconds until the worker tries again to record changes that NATS did not take."""
_TRIES: Final = 5
"""The number of tries while NATS is there: a stream's leader is chosen in less time."""
_LOOK: Final = 0.05
_AT_ONCE: Final = 64
"""Changes that are on their way."""

Then = Callable[[ConductorError | None], None]
"""Called when changes are recorded; or with why they are not."""


class _Batch:
    """Changes that are recorded together, and the calls that wait for the record."""

    def __init__(self) -> None:
        self.changes: dict[tuple[str, str], bool] = {}
        """Whether a principal has a session."""
        self.principals: set[str] = set()
        self.then: list[Then] = []

    def has(self, principal: str, session: str | None) -> bool:
        """Whether there is a change of a session, or of any of a principal's."""
        return principal in self.principals and (
            session is None or (principal, session) in self.changes
        )


class KeptOwners:
    """Has the methods of `conductor.serve.owners.Owners`."""

    def __init__(
        self, bus: Bus, pool: str, owned: Bucket, rooms: Bucket, log: Callable[[str], None]
    ) -> None:
        self._bus, self._pool, self._owned, self._rooms, self._log = bus, pool, owned, rooms, log
        self._of: dict[str, dict[str, None]] = {}
        self._now, self._next = _Batch(), _Batch()
        """The changes that are being recorded now, and the changes that come next."""
        self._due, self._done = asyncio.Event(), asyncio.Event()
        self._done.set()
        self._writing = bus.start(self._write())

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
        if self._writing is not None:
            self._writing.cancel()

    def _change(self, principal: str, session: str, there: bool) -> None:
        if len(names.as_bytes(session)) > _LONGEST:
            return
        self._next.changes[principal, session] = there
        self._next.principals.add(principal)
        self._done.clear()
        self._due.set()

    def keep(self, principal: str) -> None:
        """NATS has lost the owners of sessions: the sessions of a room here are recorded again."""
        for session in self._of.get(principal, ()):
            self._change(principal, session, True)

    def waits(self, principal: str, session: str | None, then: Then) -> bool:
        """Whether a frame must wait until a change of its session is recorded; without a session,
        any change of the principal's sessions. `then` is called when it is recorded."""
        for batch in (self._next, self._now):
            if batch.has(principal, session):
                batch.then.append(then)
                return True
        return False

    async def flush(self) -> None:
        """Waits until no change is left."""
        await self._done.wait()

    async def _write(self) -> None:
        while True:
            await self._due.wait()
            self._due.clear()
            self._now, self._next = self._next, _Batch()
            error = await self._recorded(self._now)
            batch, self._now = self._now, _Batch()
            for then in batch.then:
                try:
                    then(error)
                except Exception as defect:  # the other calls are made
                    self._log(f"a defect of conductor: {place_of(defect)}")
            if not self._next.changes:
                self._done.set()

    async def _recorded(self, batch: _Batch) -> ConductorError | None:
        """Records changes; why it cannot be done."""
        tries = _TRIES
        while True:
            while not self._bus.is_linked:  # a frame that waits for the record waits for NATS
                await asyncio.sleep(_LOOK)
            try:
                changes = [*batch.changes.items()]
                for start in range(0, len(changes), _AT_ONCE):
                    await self._record_some(changes[start : start + _AT_ONCE])
            except ConductorError as error:
                self._log(f"owners of sessions are not recorded yet: {error.text}")
                tries -= self._bus.is_linked
                if not tries:
                    return error
                await asyncio.sleep(_AGAIN)
            else:
                return None

    async def _record_some(self, changes: Iterable[tuple[tuple[str, str], bool]]) -> None:
        """Raises `ConductorError`."""
        failed: list[ConductorError] = []

        async def record(change: tuple[str, str], there: bool) -> None:
            try:
                await self._record(*change, there)
            except ConductorError as error:
                failed.append(error)
            except Exception as error:  # others are recorded
                self._log(f"a defect of conductor: {place_of(error)}")

        async with tasks.group() as recording:
            for change in changes:
                recording.start_soon(record, *change)
        if failed:
            raise failed[0]

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
