"""A worker follows the record of its pool: it performs the effects of
`conductor.fleet.rollout.Holding`.

Chains run on meanwhile. Each bundle is fetched, compared and prepared in a process of its own, with
that bundle's policy, one after the other: nothing of a candidate reaches the chains that run, and
a candidate that does not come keeps nobody from going back.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
import msgspec

from conductor.errors import ConductorError
from conductor.fleet import bundle as bundles
from conductor.fleet.bundle import BundleError
from conductor.fleet.bundle_cache import BundleCache, Opened
from conductor.fleet.pool_record import PoolRecords, Signed
from conductor.fleet.rollout import Effect, Event, Forget, Holding, Prepare
from conductor.transports import process_groups

if TYPE_CHECKING:
    from conductor.fleet.bus import Bus, End

Found = TypeVar("Found")

Use = Callable[[str, str], Awaitable[None]]
"""Starts new chains from a bundle: its name, and the folder of its files. Raises `ConductorError`:
then the bundle in use stays."""

_LOOK: Final = 10.0
"""Seconds between two looks at the record, for changes that nobody has heard of."""
_RETRY: Final = 5.0
"""Seconds until a registry that could not be asked is asked again."""
_PREPARED: Final = 900.0
"""Seconds that a bundle may take to come and to be prepared: its modules are compiled."""
_LAST: Final = 4
"""The most bundles that stay beside those that the pool names."""
_MOST_SAID: Final = 1024 * 1024
CHAIN: Final = "chain"
AWAY: Final = "away"
"""Reasons of a verdict: a chain could not start here; the bundle's registry does not answer now."""


class _Verdict(msgspec.Struct):
    """The output of `conductor fleet check --json`."""

    ok: bool
    reason: str = ""
    problem: str = ""
    hint: str = ""


class Follower:
    """Takes the bundles that the pool runs, as they change."""

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
        self._records = PoolRecords(bus, self._keys)
        self._cache = cache or BundleCache()
        self._holding = Holding()
        self._opened: dict[str, Opened] = {}
        """The bundles that are ready, by name."""
        self._forgotten: deque[str] = deque()
        self._preparing: dict[str, asyncio.Task[None]] = {}
        """The tasks that prepare bundles, by the bundle's name."""
        self._turn = asyncio.Lock()
        """Held by the task that prepares a bundle now."""
        self._newest = Signed()
        """The record with the highest revision that was ever here."""
        self._has_kept = False
        """Whether the record of an earlier process was looked for."""
        self._refused = ""
        self._changed = asyncio.Event()
        self._end: End | None = None
        self._following: asyncio.Task[None] | None = None

    @property
    def record(self) -> str:
        """The record that the worker follows, as it is signed; its reports are about it."""
        return self._newest.value.decode(errors="replace")

    @property
    def refused(self) -> str:
        """Why the record that NATS has counts for nothing here; empty: it counts."""
        return self._refused

    def report(self) -> dict[str, str]:
        """The state of the bundles here, for a controller."""
        return self._holding.report()

    async def begin(self) -> None:
        """Follows from now on."""
        self._end = await self._records.watch(self._pool, self._changed.set)
        self._bus.linked.append(self._changed.set)
        self._following = self._bus.start(self._follow())

    async def close(self) -> None:
        """Ends it."""
        tasks = [*self._preparing.values(), *([self._following] if self._following else ())]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._end is not None:
            await self._end()

    async def _follow(self) -> None:
        while True:
            self._changed.clear()
            await self._perform(await self._look())
            with anyio.move_on_after(_LOOK):
                await self._changed.wait()

    async def _look(self) -> list[Effect]:
        """Follows the newer of two records: the one in NATS, and the one kept here."""
        try:
            known = await self._records.get(self._pool)
        except ConductorError as error:
            if self._bus.is_linked:
                self._log(
                    "warning", f"the bundle of the pool `{self._pool}` is not known: {error.text}"
                )
            return []
        if not self._has_kept:
            kept = await self._on_disk(self._cache.record, self._pool, self._keys)
            self._newest, self._has_kept = kept or Signed(), True
        refused = known.problem or self._older(known)
        if refused and refused != self._refused:
            self._log("warning", f"the bundle that NATS names for the pool is refused: {refused}")
        self._refused = refused
        if not refused and known.record.revision > self._newest.record.revision:
            key = next((key for key in self._keys if key.key == known.key), None)
            if key is not None:
                await self._on_disk(self._cache.keep_record, self._pool, known, key)
            self._newest = known  # and at once the bundles that are reported with it
        return self._holding.follow(self._newest.record)

    def _older(self, known: Signed) -> str:
        """Why the worker does not follow a record that is signed by a key; empty: it does."""
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
        """The result of an operation on the cache; None: it has failed, and the log says so."""
        try:
            return await asyncio.to_thread(do, *arguments)
        except ConductorError as error:
            self._log("warning", f"which record was the newest is not kept: {error.with_hint}")
            return None

    async def _perform(self, effects: list[Effect]) -> None:
        """Performs effects, and the effects that follow from them."""
        waiting = deque(effects)
        while waiting:
            effect = waiting.popleft()
            name = effect.name
            if isinstance(effect, Prepare):
                if (task := self._bus.start(self._prepare(name))) is not None:
                    self._preparing[name] = task
            elif isinstance(effect, Forget):
                await self._forget(name)
            else:
                try:
                    await self._use(name, self._opened[name].folder)
                except ConductorError as error:
                    waiting += self._refuse(name, error)
                else:
                    self._log("info", f"new chains start from the bundle {name}")
                    waiting += self._holding.happened(name, Event.USED)

    def _refuse(self, name: str, error: ConductorError) -> list[Effect]:
        self._log("error", f"the bundle {name} is refused: {error.with_hint}")
        reason = f"{error.reason}: " if isinstance(error, BundleError) else ""
        return self._holding.happened(name, Event.REFUSED, f"{reason}{error.text}")

    async def _prepare(self, name: str) -> None:
        """Prepares a bundle; tries again while its folder or registry does not answer."""
        while True:
            try:
                async with self._turn:
                    if await self._is_ready(name):
                        # This process too compares the bundle's digests and its signature.
                        where = bundles.parse(name)
                        opened = await asyncio.to_thread(self._cache.opened, where, self._keys)
                        self._opened[name] = opened
                        effects = self._holding.happened(name, Event.PREPARED)
                        self._log("info", f"the bundle {name} is ready")
                        break
            except ConductorError as error:
                effects = self._refuse(name, error)
                break
            await asyncio.sleep(_RETRY)
        del self._preparing[name]
        await self._perform(effects)

    async def _forget(self, name: str) -> None:
        """Deletes bundles that nobody needs any more. A chain that was never idle since may still
        restart components from one of the last few bundles."""
        if (task := self._preparing.pop(name, None)) is not None:
            task.cancel()
        if (opened := self._opened.pop(name, None)) is not None:
            self._forgotten.append(opened.digest)
        digests = {one.digest for one in self._opened.values()}
        if len(self._forgotten) > _LAST:
            gone = self._forgotten.popleft()
            if gone not in self._forgotten and gone not in digests:
                self._cache.release(gone)
        await asyncio.to_thread(self._cache.prune, {*digests, *self._forgotten})

    async def _is_ready(self, name: str) -> bool:
        """Has a process of its own fetch a bundle, and find out whether each chain could start
        here; False: it cannot be said now. Raises `ConductorError`."""
        keys = [word for key in self._key_files for word in ("--bundle-key", key)]
        command = [sys.executable, "-m", "conductor", "fleet", "check", name, *keys, "--json"]
        process = _started(command)
        try:
            async with asyncio.timeout(_PREPARED):
                written = await asyncio.to_thread(_said, process)
        except TimeoutError:
            raise ConductorError(
                "it is not here, or its chains are not prepared, after a long time",
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
        if verdict.reason == AWAY:
            self._log("warning", f"the bundle {name} cannot be fetched now: {verdict.problem}")
        elif not verdict.ok and verdict.reason != CHAIN:
            raise BundleError(verdict.reason, verdict.problem, verdict.hint)
        elif not verdict.ok:
            raise ConductorError(verdict.problem, verdict.hint)
        return verdict.ok


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
    """The beginning of a process's output, once the process has ended."""
    written = b""
    with process:
        assert process.stdout is not None
        while piece := os.read(process.stdout.fileno(), 65536):
            written = (written + piece)[:_MOST_SAID]
    return written
