"""Performs the services that reach outside: `kv`, `timer`, `fetch`, `files` and `metric`.

It stands in the conductor's own process. Guests' hosts, which may touch nothing, send it what
their guests ask for; every other proxy's requests come to it from the router. Who may ask for
what was decided before by name; by file and address it is decided here.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from conductor.core.accounts import Bucket
from conductor.core.jsonrpc import METHOD_NOT_FOUND
from conductor.core.services import ALWAYS_GRANTED, SERVICES, granted_names
from conductor.services import scopes
from conductor.services.client import Client
from conductor.services.files import Files
from conductor.services.kv import Store
from conductor.services.metrics import Metrics
from conductor.services.problem import ServiceError
from conductor.services.roots import Roots
from conductor.services.timers import Timers

_AT_ONCE: Final = {"files": 1, "fetch": 4, "kv": 1}
"""Requests of one component that are worked on at a time, by what they are for: none takes all
threads, or much memory. Values are kept in the order in which they were given."""

_METRICS_EVERY: Final = 1.0
"""Seconds between two writings of the metrics file."""

Done = Callable[[bytes | None, bytes | None], None]
"""Called once with the raw result, or None and the raw error object."""


class Desk:
    """The services of one chain. Used on one event loop; `tell` sends a notification."""

    def __init__(
        self,
        clients: Mapping[str, Client],
        roots: Roots,
        tell: Callable[[str, str, bytes], None],
        log: Callable[[str, str, str], None],
        *,
        held: Callable[[str], int] = lambda name: 0,
        store: str,
        project: str | None = None,
        metrics: str | None = None,
    ) -> None:
        """`held`: how many bytes a component has not taken yet. `store`: the file values are kept
        in; `metrics`: where metrics are written, or None."""
        self._clients = clients
        self._log = log
        self._files = Files(roots)
        self._timers = Timers(lambda name, params: tell(name, "timer/fired", params), held)
        self._store = Store(store, project or os.getcwd())
        self._turns: dict[tuple[str, str], asyncio.Semaphore] = {}
        self._storing = asyncio.Lock()
        self._metrics = Metrics()
        self._metrics_file = metrics
        self._writing: asyncio.TimerHandle | None = None
        self._times: dict[str, Bucket] = {}
        self._open: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()

    def serve(self, name: str, service: str, params: bytes | None, done: Done) -> None:
        """Performs one request of a component; answers at once or later."""
        client = self._clients[name]
        try:
            self._check(client, service)
            if service.partition("/")[0] in ("fetch", "files", "kv"):
                self._later(client, service, params, done)
                return
            result: object = None
            if service == "metric":
                self._metrics.serve(client, params)
                self._metrics_changed()
            else:
                result = self._timers.serve(client, service, params)
        except ServiceError as problem:
            done(None, problem.body(service))
        else:
            done(msgspec.json.encode(result), None)

    def forget(self, name: str) -> None:
        """A component has ended, or starts afresh: its timers go."""
        self._timers.forget(name)

    async def close(self) -> None:
        """Ends what is under way and writes what there is to write. Raises nothing."""
        self._timers.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._writing is not None:
            self._writing.cancel()
        if self._metrics_file is not None:
            self._write_metrics()
        self._store.close()

    def _check(self, client: Client, service: str) -> None:
        """What the router has checked by name already, for those that come by another way."""
        name = service.partition("/")[0]
        held = client.grants
        if name not in SERVICES or not (
            held is None or name in ALWAYS_GRANTED or name in granted_names(held)
        ):
            text = f"not granted to `{client.name}`"
            raise ServiceError("not-granted", text, METHOD_NOT_FOUND)

    def _later(self, client: Client, service: str, params: bytes | None, done: Done) -> None:
        most = client.limits["calls"]
        if self._open[client.name] >= most:
            raise ServiceError(
                "too-many",
                f"{most} requests are under way already (limit `calls`)\n"
                "hint: wait for answers, or raise it with `,limit.calls=NUMBER` behind it",
            )
        self._open[client.name] += 1
        task = asyncio.get_running_loop().create_task(self._run(client, service, params, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, client: Client, service: str, params: bytes | None, done: Done) -> None:
        try:
            async with self._turn(client, service.partition("/")[0]):
                await asyncio.sleep(self._time(client).due(time.monotonic()))
                result = msgspec.json.encode(await self._perform(client, service, params))
        except ServiceError as problem:
            if problem.ours:
                self._log("warning", "conductor", f"{service} for `{client.name}`: {problem.ours}")
            done(None, problem.body(service))
        except Exception as error:  # a mistake here must not leave a proxy waiting for ever
            self._log("error", "conductor", f"{service} for `{client.name}` failed: {error!r}")
            done(None, ServiceError("internal", "it failed; the log says why").body(service))
        else:
            done(result, None)
        finally:
            self._open[client.name] -= 1

    def _time(self, client: Client) -> Bucket:
        """The processor's time that a component may have here."""
        share = client.limits["own_share"] / 100
        return self._times.setdefault(client.name, Bucket(share))

    def _timed(self, client: Client, work: Callable[..., object], *arguments: object) -> object:
        """Does something for a component, in a thread, on its account."""
        began = time.thread_time()
        try:
            return work(*arguments)
        finally:
            self._time(client).spend(time.thread_time() - began, time.monotonic())

    def _turn(self, client: Client, name: str) -> asyncio.Semaphore:
        key = (client.name, name)
        return self._turns.setdefault(key, asyncio.Semaphore(_AT_ONCE[name]))

    async def _perform(self, client: Client, service: str, params: bytes | None) -> object:
        grants = client.grants
        if service == "fetch":
            from conductor.services.fetch import fetch

            return await fetch(None if grants is None else scopes.destinations(grants), params)
        if service.startswith("files/"):
            globs = ("**",) if grants is None else scopes.patterns(grants)
            return await asyncio.to_thread(
                self._timed, client, self._files.serve, globs, service, params
            )
        async with self._storing:  # in the order in which they were asked
            return await asyncio.to_thread(
                self._timed, client, self._store.serve, client.identity, service, params
            )

    # -- metrics -------------------------------------------------------------------------------

    def _metrics_changed(self) -> None:
        if self._metrics_file is not None and self._writing is None:
            loop = asyncio.get_running_loop()
            self._writing = loop.call_later(_METRICS_EVERY, self._write_metrics)

    def _write_metrics(self) -> None:
        self._writing = None
        assert self._metrics_file is not None
        try:
            self._metrics.write(self._metrics_file)
        except OSError as error:
            text = f"metrics are not written to {self._metrics_file}: {error.strerror}"
            self._log("warning", "conductor", text)
            self._metrics_file = None
