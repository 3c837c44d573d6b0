"""A worker follows what its pool runs: performs what `conductor.fleet.rollout.Holding` asks for.

One thing after the other, in a task of its own: chains run on meanwhile. What takes long happens in
threads, and what a bundle's chains need is prepared in a process of its own, with that bundle's
policy, so that nothing of a candidate reaches the chains that run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from conductor.errors import ConductorError
from conductor.fleet import bundle as bundles
from conductor.fleet.bundle import Bundle, BundleError
from conductor.fleet.bundle_cache import BundleCache
from conductor.fleet.bundle_store import BundleStore, Known, NotNow
from conductor.fleet.bus import Away
from conductor.fleet.rollout import Effect, Event, Fetch, Forget, Holding, Prepare
from conductor.fleet.signed_record import Signed
from conductor.transports import process_groups

if TYPE_CHECKING:
    from conductor.fleet.bus import Bus

Found = TypeVar("Found")

Use = Callable[[str, str], Awaitable[None]]
"""Starts new chains from a bundle: its digest, and the folder of its files. Raises
`ConductorError`: then the one before stays."""

_LOOK: Final = 10.0
"""Seconds between two looks at the record, for changes that nobody has heard of."""
_RETRY: Final = 1.0
"""Seconds until what NATS could not give is asked for again."""
_PREPARED: Final = 900.0
"""Seconds that the chains of a bundle may take to be prepared: their modules are compiled."""
_LAST: Final = 4
"""Bundles that stay beside those that the pool names."""
_MOST_SAID: Final = 1024 * 1024


class _Verdict(msgspec.Struct):
    """What `conductor fleet check --json` says."""

    ok: bool
    problem: str = ""
    hint: str = ""


class Follower:
    """Takes what the pool runs, as it changes."""

    def __init__(
        self,
        bus: Bus,
        pool: str,
        keys: Sequence[str],
        use: Use,
        log: Callable[[str, str], None],
        cache: BundleCache | None = None,
    ) -> None:
        """`keys`: the files of the public keys, one of which has signed a bundle. `log` takes a
        level and a sentence. Raises `UsageError` for a key that cannot be used."""
        self._bus, self._pool, self._use, self._log = bus, pool, use, log
        self._key_files = [os.path.abspath(key) for key in keys]
        self._keys = bundles.keys_of(keys)
        self._store = BundleStore(bus, self._keys)
        self._cache = cache or BundleCache()
        self._holding = Holding()
        self._folders: dict[str, str] = {}
        self._forgotten: deque[str] = deque()
        self._waiting: deque[Effect] = deque()
        self._newest = Signed()
        """The record with the highest revision that was ever here."""
        self._has_kept = False
        """Whether the record of an earlier process was looked for."""
        self._refused = ""
        self._changed = asyncio.Event()
        self._end: Callable[[], Awaitable[None]] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def digest(self) -> str:
        """The bundle that new chains start from; empty: none yet."""
        return self._holding.in_use

    @property
    def record(self) -> str:
        """The record that it follows, as it is signed; what it reports is of that."""
        return self._newest.value.decode(errors="replace")

    @property
    def refused(self) -> str:
        """Why the record that NATS has counts for nothing here; empty: it counts."""
        return self._refused

    def report(self) -> dict[str, str]:
        """What a controller hears of the bundles here."""
        return self._holding.report()

    async def begin(self) -> None:
        """Follows from now on."""
        self._end = await self._store.watch(self._pool, self._changed.set)
        self._bus.linked.append(self._changed.set)
        self._tasks.append(asyncio.get_running_loop().create_task(self._follow()))

    async def close(self) -> None:
        """Ends it."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._end is not None:
            await self._end()

    async def _follow(self) -> None:
        while True:
            self._changed.clear()
            await self._look()
            while self._waiting:
                effect = self._waiting.popleft()
                try:
                    self._waiting += await self._perform(effect)
                except (NotNow, Away):
                    self._waiting.appendleft(effect)
                    await asyncio.sleep(_RETRY)
                if self._changed.is_set():
                    break  # what is wanted now may be something else
            if not self._waiting:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), _LOOK)

    async def _look(self) -> None:
        """Follows the newest of what NATS has and what was here, also before a restart."""
        try:
            known = await self._store.record(self._pool)
        except ConductorError as error:
            if self._bus.is_linked:
                self._log(
                    "warning", f"what the pool `{self._pool}` runs is not known: {error.text}"
                )
            return
        if not self._has_kept:
            kept = await self._on_disk(self._cache.record, self._pool, self._keys)
            self._newest, self._has_kept = kept or Signed(), True
        refused = known.problem or self._older(known)
        if refused and refused != self._refused:
            self._log("warning", f"what NATS says the pool runs is refused: {refused}")
        self._refused = refused
        if not refused and known.record.revision > self._newest.record.revision:
            newest = Signed(known.record, known.value, known.key)
            key = next((key for key in self._keys if key.key == known.key), None)
            if key is not None:
                await self._on_disk(self._cache.keep_record, self._pool, newest, key)
            self._newest = newest  # and at once the bundles that are reported with it
        self._waiting += self._holding.follow(self._newest.record)

    def _older(self, known: Known) -> str:
        """Why a record that one of the keys has signed is not followed; empty: it is."""
        newest = self._newest.record
        rises = known.record.revision > newest.revision or known.record == newest
        if rises or not known.revision:
            return ""
        return (
            f"the record of the pool `{self._pool}` has the revision {known.record.revision}, and "
            f"another of revision {newest.revision} was here before. Somebody has put an old "
            "record back; `conductor fleet rollout` writes a new one"
        )

    async def _on_disk(self, do: Callable[..., Found], *arguments: object) -> Found | None:
        """What comes of something in the cache; None: nothing, and it is said."""
        try:
            return await asyncio.to_thread(do, *arguments)
        except ConductorError as error:
            self._log("warning", f"which record was the newest is not kept: {error.with_hint}")
            return None

    async def _perform(self, effect: Effect) -> list[Effect]:
        """What comes of one effect. Raises `NotNow` and `Away`: it is tried again."""
        digest = effect.digest
        try:
            if isinstance(effect, Fetch):
                await self._fetch(digest)
                done = Event.FETCHED
            elif isinstance(effect, Prepare):
                await self._prepare(digest)
                done = Event.PREPARED
            elif isinstance(effect, Forget):
                await self._forget(digest)
                return []
            else:
                await self._use(digest, self._folders[digest])
                self._log("info", f"new chains start from the bundle {digest}")
                done = Event.USED
        except (NotNow, Away):
            raise
        except ConductorError as error:
            reason = f"{error.reason}: " if isinstance(error, BundleError) else ""
            self._log("error", f"the bundle {digest} is refused: {error.with_hint}")
            return self._holding.happened(digest, Event.REFUSED, f"{reason}{error.text}")
        return self._holding.happened(digest, done)

    async def _forget(self, digest: str) -> None:
        """Deletes what nobody needs any more. A chain that was never idle since may still restart
        components from one of the last few."""
        self._folders.pop(digest, None)
        self._forgotten.append(digest)
        if len(self._forgotten) > _LAST:
            gone = self._forgotten.popleft()
            if gone not in self._forgotten and gone not in self._holding.bundles:
                self._cache.release(gone)
        keep = {*self._holding.bundles, *self._forgotten}
        await asyncio.to_thread(self._cache.prune, keep)

    async def _fetch(self, digest: str) -> None:
        data = await asyncio.to_thread(self._cached, digest)
        if data is None:
            data = await self._store.get(digest)
        await asyncio.to_thread(self._unpack, digest, data)

    def _cached(self, digest: str) -> bytes | None:
        """A bundle that is here, and still is what its digest says."""
        data = self._cache.whole(digest)
        if data is not None:
            try:
                bundles.read(data, digest)
            except BundleError:
                return None
        return data

    def _unpack(self, digest: str, data: bytes) -> None:
        shown = f"the bundle {digest[:16]}…"
        read: Bundle = bundles.read(data, digest, shown)
        read.signed_by(self._keys, shown)
        self._folders[digest] = self._cache.unpacked(read, data)

    async def _prepare(self, digest: str) -> None:
        """Has a process of its own find out whether each chain could start here. Raises
        `ConductorError`."""
        whole = os.path.join(os.path.dirname(self._folders[digest]), "bundle")
        keys = [word for key in self._key_files for word in ("--bundle-key", key)]
        command = [sys.executable, "-m", "conductor", "fleet", "check", whole, *keys, "--json"]
        process = _started(command)
        try:
            async with asyncio.timeout(_PREPARED):
                written = await asyncio.to_thread(_said, process)
        except TimeoutError:
            raise ConductorError(
                "its chains are not prepared after a long time",
                "the machine may be busy; `conductor fleet check BUNDLE` does the same",
            ) from None
        finally:
            if process.poll() is None:
                process_groups.signal(process.pid, signal.SIGKILL)
                process.wait()
        try:
            verdict = msgspec.json.decode(written, type=_Verdict)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise ConductorError(
                f"the process that prepares its chains ended with code {process.returncode}",
                "`conductor fleet check BUNDLE` does the same",
            ) from None
        if not verdict.ok:
            problem = verdict.problem.replace(f"{self._folders[digest]}/", "")
            raise ConductorError(problem, verdict.hint)


def _started(command: Sequence[str]) -> subprocess.Popen[bytes]:
    # Not by asyncio: then the orphans of this process stay zombies (`process_groups.reaping`).
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _said(process: subprocess.Popen[bytes]) -> bytes:
    """The beginning of what a process writes, once it has ended."""
    written = b""
    with process:
        assert process.stdout is not None
        while piece := os.read(process.stdout.fileno(), 65536):
            written = (written + piece)[:_MOST_SAID]
    return written
