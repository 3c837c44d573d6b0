"""Performs the services that reach outside: `kv`, `timer`, `fetch`, `files` and `metric`.

It runs in the conductor's own process: the hosts of guests may open no file and no connection, so
they relay the calls of their guests to it. The router brings the calls of all other proxies.

A grant is checked in two places: its name here and in the router, its files and addresses in the
function that performs the call, which alone knows the target of a path or URL.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final

from conductor.core import json_text
from conductor.core.accounts import Bucket
from conductor.core.jsonrpc import METHOD_NOT_FOUND
from conductor.core.service_table import ALWAYS_GRANTED, CALLS, Performer, granted_names
from conductor.errors import are, counted
from conductor.services.calls import Grantee, ServiceError
from conductor.services.files import Files
from conductor.services.kv import Values
from conductor.services.metrics import Metrics
from conductor.services.timers import Timers

_AT_ONCE: Final = {"web": 4}
"""The calls of one component that are performed at a time, by service. All other services perform
one: values are kept in the order in which they were set, and threads are left to others."""

Done = Callable[[bytes | None, bytes | None], None]
"""Called once with the raw result, or None and the raw error object."""

Function = Callable[[Grantee, bytes | None], Any]
"""Performs a call for a component; returns the result (`Performer.TASK`: an awaitable of it), or
raises `ServiceError`."""


class ServiceExecutor:
    """The services of one chain. Used on one event loop.

    Args:
        grantees: The proxies of the chain, by name.
        log: Writes a line: level, component name, text.
        start: Starts a task for a call.
        timers: The timers that wake components.
        store: The store that keeps values.
        metrics: The metrics of components.
    """

    def __init__(
        self,
        grantees: Mapping[str, Grantee],
        log: Callable[[str, str, str], None],
        *,
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        timers: Timers,
        store: Values,
        metrics: Metrics,
    ) -> None:
        self._grantees = grantees
        self._log = log
        self._start_task = start
        self._timers = timers
        self._store = store
        self.files = files = Files()
        self.metrics = metrics
        self.functions: dict[str, Function] = {
            "metric": metrics.add,
            "timer/start": timers.start,
            "timer/stop": timers.stop,
            "kv/get": store.get,
            "kv/set": store.set,
            "kv/delete": store.delete,
            "kv/list": store.list,
            "files/roots": files.roots,
            "files/read": files.read,
            "files/list": files.list,
            "files/write": files.write,
            "fetch": _fetch,
        }
        """By the name of the call in `conductor.core.service_table.TABLE`."""
        self._slots: dict[tuple[str, str], asyncio.Semaphore] = {}
        """By component and service: how many more calls may be performed now."""
        self._storing = asyncio.Lock()
        """Held by the call to `kv` that has a thread."""
        self._time: dict[str, Bucket] = {}
        """The processor's time that each component may use in threads here."""
        self._in_flight: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()

    def serve(self, name: str, call: str, params: bytes | None, done: Done) -> None:
        """Performs one call of a component; answers at once or later.

        Raises `KeyError` for a call that is not in `functions`.
        """
        grantee = self._grantees[name]
        try:
            self._check_grant(grantee, call)
            function = self.functions[call]
            if CALLS[call].performer is not Performer.LOOP:
                self._start(grantee, call, params, done)
                return
            result = function(grantee, params)
        except ServiceError as error:
            done(None, error.body(call))
        else:
            done(json_text.encode(result), None)

    @property
    def is_serving(self) -> bool:
        """Whether a call is being performed, or waits for that."""
        return any(self._in_flight.values())

    def forget(self, name: str) -> None:
        """Stops the timers of a component that has ended or is started again."""
        self._timers.forget(name)

    async def close(self) -> None:
        """Ends all calls in flight and writes the metrics. Raises nothing."""
        self._timers.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)  # the store is closed after the calls that use it
        self.metrics.close()
        self._store.close()

    @staticmethod
    def _check_grant(grantee: Grantee, call: str) -> None:
        """Raises `ServiceError` for a call that is not granted."""
        # The router checks that too, but a call that a host relays has passed no router of ours.
        service = CALLS[call].service if call in CALLS else None
        if service is None or not (
            grantee.grants is None
            or service in ALWAYS_GRANTED
            or service in granted_names(grantee.grants)
        ):
            text = f"not granted to `{grantee.name}`"
            raise ServiceError("not-granted", text, METHOD_NOT_FOUND)

    def _start(self, grantee: Grantee, call: str, params: bytes | None, done: Done) -> None:
        most = grantee.limits["calls"]
        if self._in_flight[grantee.name] >= most:
            raise ServiceError(
                "too-many",
                f"{counted(most, 'request')} {are(most)} in flight already (limit `calls`)\n"
                "hint: wait for answers, or raise it with `,limit.calls=NUMBER` behind it",
            )
        self._in_flight[grantee.name] += 1
        task = self._start_task(self._run(grantee, call, params, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, grantee: Grantee, call: str, params: bytes | None, done: Done) -> None:
        try:
            service = CALLS[call].service
            slot = asyncio.Semaphore(_AT_ONCE.get(service, 1))
            async with self._slots.setdefault((grantee.name, service), slot):
                # A component that has used up its processor's time waits here, and holds no thread.
                await asyncio.sleep(self._bucket(grantee).due(time.monotonic()))
                result = json_text.encode(await self._perform(grantee, call, params))
        except ServiceError as error:
            if error.private:
                text = f"{call} for `{grantee.name}`: {error.private}"
                self._log("warning", "conductor", text)
            done(None, error.body(call))
        except Exception as error:  # a mistake here must not leave a proxy waiting for ever
            self._log("error", "conductor", f"{call} for `{grantee.name}` failed: {error!r}")
            done(None, ServiceError("internal", "it failed; the log says why").body(call))
        else:
            done(result, None)
        finally:
            self._in_flight[grantee.name] -= 1

    def _bucket(self, grantee: Grantee) -> Bucket:
        share = grantee.limits["own_share"] / 100
        return self._time.setdefault(grantee.name, Bucket(share))

    async def _perform(self, grantee: Grantee, call: str, params: bytes | None) -> object:
        function = self.functions[call]
        if CALLS[call].performer is Performer.TASK or inspect.iscoroutinefunction(function):
            result: Awaitable[object] = function(grantee, params)
            return await result
        # Calls wait here for the store, not in threads: another conductor may hold its file for
        # seconds, and a few components would take all threads.
        async with self._storing if CALLS[call].service == "storage" else contextlib.nullcontext():
            return await asyncio.to_thread(self._timed, function, grantee, params)

    def _timed(self, function: Function, grantee: Grantee, params: bytes | None) -> object:
        """Performs a call in this thread, on the component's account."""
        began = time.thread_time()
        try:
            return function(grantee, params)
        finally:
            self._bucket(grantee).spend(time.thread_time() - began, time.monotonic())


async def _fetch(grantee: Grantee, params: bytes | None) -> object:
    from conductor.services.fetch import fetch  # TLS and HTTP take 60 ms to import

    return await fetch(grantee, params)
