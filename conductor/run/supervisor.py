"""Keeps a chain going: starts failed components again, swaps in new builds, ends long waits.

The runtime tells it what happened; it asks the runtime to route what follows.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol

from conductor.core import Closure, Effect, Router
from conductor.core.restart_state import Bypass, GiveUp, Recovery, Restart
from conductor.core.roles.initialize import successor_name
from conductor.errors import ComponentError, ConductorError
from conductor.run.connections import Handover
from conductor.run.plan import Configuration, Planned
from conductor.transports.base import Transport

_IDLE: Final = 0.02
"""Seconds between looks whether a component is between two messages."""

_WATCH: Final = 0.3
"""Seconds between looks at the files of a watched component."""

_SAME: Final = "started anew, from the same files as before"
"""What became of a component that was to be replaced, and had no new build."""

_PROMPT: Final = "session/prompt"


class _Waiting(NamedTuple):
    """A request that a component has not answered."""

    since: float
    """When it was seen first."""
    moved: float
    """When a message last came from the component since then."""
    heard: int | None


class Host(Protocol):
    """What a supervisor needs of the runtime."""

    router: Router

    def apply(self, effects: Iterable[Effect]) -> None:
        """Performs effects, and writes what they send."""

    def log(self, level: str, name: str, text: str) -> None:
        """Puts a line in the log."""

    def record(self, event: str, name: str, text: str) -> None:
        """Puts on record what became of a component."""

    def reconfigure(self, name: str, params: bytes) -> None:
        """Tells a component its changed settings."""

    async def connect(self, name: str, transport: Transport) -> bool:
        """Puts a transport in a component's place and opens it; whether that went well."""

    async def adopt(self, name: str, transport: Transport, events: Handover) -> None:
        """Puts an opened transport in a component's place, and closes the one before."""

    async def disconnect(self, name: str) -> None:
        """Closes a component's transport; nothing it says is heard any more."""


class Supervisor:
    """Looks after the components of one chain."""

    def __init__(
        self, host: Host, planned: Mapping[str, Planned], start: Callable[..., None]
    ) -> None:
        """`start` runs a coroutine as a task that ends with the chain."""
        self._host = host
        self._planned = planned
        self._start = start
        self._recoveries = {name: Recovery(one.on_failure) for name, one in planned.items()}
        self._builds = {name: _stamp(one.files) for name, one in planned.items()}
        """Of the files that run, what changes when they do."""
        self._swapping: dict[str, bool] = {}
        """Components that are being swapped, and whether to do that once more afterwards."""
        self._configured: dict[str, bytes] = {}
        """What each component was told last of settings that are in a file."""
        self._places = {name: asyncio.Lock() for name in planned}
        """Held by whoever is putting a transport in a component's place: one at a time."""

    # -- failures ------------------------------------------------------------------------------

    def failed(self, name: str, reason: Closure, *, final: bool) -> None:
        """A component has ended: starts it again, goes on without it, or gives up.

        `final`: it said itself that it will not get better. A module that has never taken its role
        is not started again either: it would only fail the same way. A program may not.
        """
        host, one = self._host, self._planned.get(name)
        action = GiveUp() if one is None else self._action(name, one, final=final)
        match action:
            case Restart(delay, number, most):
                text = f"{reason.text}; it is started again ({number} of {most})"
                host.log("warning", name, text)
                host.record("restart", name, text)
                host.apply(host.router.leaving(name, reason))
                self._start(self._restart(name, delay))
            case Bypass():
                text = f"{reason.text}; the chain goes on without it"
                host.log("warning", name, text)
                host.record("bypass", name, text)
                host.apply(host.router.bypassed(name, reason))
                self._start(host.disconnect(name))
            case GiveUp():
                host.record("failure", str(reason.data.get("component", name)), reason.text)
                host.apply(host.router.closed(name, reason))

    def _action(self, name: str, one: Planned, *, final: bool) -> Restart | Bypass | GiveUp:
        router = self._host.router
        begun = router.has_role(name)
        if self._launches(name) or not (begun or (router.may_retry(name) and not one.guests)):
            return GiveUp()
        action = self._recoveries[name].failed(asyncio.get_running_loop().time())
        if isinstance(action, Restart) and (final or one.renew is None):
            return GiveUp()
        return action if begun or isinstance(action, Restart) else GiveUp()

    def _launches(self, name: str) -> bool:
        """Whether a proxy has launched its successor itself: what it launched ends with it, so
        nothing can take its place."""
        successor = self._host.router.peers.get(successor_name(name))
        return successor is not None and successor.closure is None

    async def _restart(self, name: str, delay: float) -> None:
        one = self._planned[name]
        assert one.renew is not None
        async with self._places[name]:
            await self._host.disconnect(name)
            await asyncio.sleep(delay)
            self._builds[name] = _stamp(one.files)
            try:
                transport = one.renew()
            except ComponentError as error:
                self.failed(name, Closure(error.text, error.hint, error.data), final=False)
                return
            if await self._host.connect(name, transport):
                self._host.apply(self._host.router.returned(name))

    # -- new builds ----------------------------------------------------------------------------

    def reload(self) -> None:
        """Tells changed settings, and replaces every proxy whose build can be replaced, each
        between two messages."""
        self.reconfigure()
        for name, one in self._planned.items():
            if one.files and one.renew is not None:
                self.swap(name)

    def swap(self, name: str) -> None:
        """Replaces one proxy by its new build, between two messages."""
        if self._launches(name):
            text = "a proxy that launches its successor itself cannot be replaced while it runs"
            self._host.log("warning", name, f"the new build is not used: {text}")
        elif name in self._swapping:
            self._swapping[name] = True
        elif self._host.router.has_role(name):
            self._swapping[name] = True
            self._start(self._swap(name))

    async def _swap(self, name: str) -> None:
        try:
            while self._swapping[name]:
                self._swapping[name] = False
                await self._try_swap(name)
        finally:
            del self._swapping[name]

    async def _try_swap(self, name: str) -> None:
        host, one = self._host, self._planned[name]
        assert one.renew is not None
        events, build = Handover(), _stamp(one.files)
        try:
            fresh = one.renew()
            await fresh.open(events)
        except ComponentError as error:
            host.log("error", name, f"the new build is not used: {error.text}")
            return
        if one.guests:  # a host says when its guests are loaded; others say nothing unasked
            await events.said.wait()
            refused = events.refused()
            if refused is not None:
                host.log("error", name, f"the new build is not used: {refused}")
                await fresh.close(0.5)
                return
        try:
            await self._take_over(name, fresh, events)
        except asyncio.CancelledError:
            await fresh.close(0.5)  # the chain is ending
            raise
        same = build == self._builds[name]
        self._builds[name] = build
        text = _SAME if same else "replaced by its new build"
        host.log("warning", name, text)
        host.record("swap", name, text)

    async def _take_over(self, name: str, fresh: Transport, events: Handover) -> None:
        """Puts a new build in place as soon as nothing is open and nobody else is at it."""
        host = self._host
        while True:
            async with self._places[name]:
                if host.router.idle(name):
                    label = host.router.peers[name].label
                    reason = Closure(f"{label} is being replaced by a new build")
                    host.apply(host.router.leaving(name, reason))
                    await host.adopt(name, fresh, events)
                    host.apply(host.router.returned(name))
                    break
            await asyncio.sleep(_IDLE)

    async def watch(self) -> None:
        """Swaps a component whenever one of its files has changed, for as long as it runs."""
        seen = {name: _stamp(one.files) for name, one in self._planned.items() if one.files}
        changed: dict[str, object] = {}
        settings = {one: _stamp((one.file,)) for one in self._configurations()}
        for one in settings:
            with contextlib.suppress(ConductorError):  # told to the log once the file changes
                self._configured[one.component] = one.params()
        while True:
            await asyncio.sleep(_WATCH)
            for one, stamp in settings.items():
                settings[one] = _stamp((one.file,))
                if settings[one] != stamp:
                    self._reconfigure(one)
            for name, stamp in seen.items():
                now = _stamp(self._planned[name].files)
                if now == stamp:
                    continue
                if changed.get(name) == now:  # written completely: it has not changed since
                    seen[name] = now
                    changed.pop(name)
                    self.swap(name)
                else:
                    changed[name] = now

    # -- settings ------------------------------------------------------------------------------

    def reconfigure(self) -> None:
        """Tells every component whose settings have changed what they are now."""
        for one in self._configurations():
            self._reconfigure(one)

    def _configurations(self) -> Iterator[Configuration]:
        return (one for planned in self._planned.values() for one in planned.configurations)

    def _reconfigure(self, configuration: Configuration) -> None:
        name = configuration.component
        try:
            params = configuration.params()
        except ConductorError as error:
            self._host.log("error", name, f"its settings stay as they were: {error.text}")
            return
        if self._configured.get(name) != params:
            self._configured[name] = params
            self._host.log("info", name, f"told its settings, {configuration.file}")
            self._host.reconfigure(name, params)

    # -- long waits ----------------------------------------------------------------------------

    async def time_out(self) -> None:
        """Fails requests that a component leaves open for longer than its `timeout`, and turns of
        an agent in which nothing moves for longer than `quiet`, for as long as it runs."""
        limited = {name: one for name, one in self._planned.items() if one.timeout or one.quiet}
        bounds = [s for one in limited.values() for s in (one.timeout, one.quiet) if s]
        pause = min(bounds, default=0.0) / 4
        waiting: dict[tuple[str, bytes], _Waiting] = {}
        while limited:
            await asyncio.sleep(pause)
            waiting = {
                (name, key): self._waited(name, one, key, method, waiting.get((name, key)))
                for name, one in limited.items()
                for key, method in self._open(name)
            }

    def _open(self, name: str) -> list[tuple[bytes, str]]:
        """What a component has not answered or ended: key, and the method that began it."""
        turns = [(key, _PROMPT) for key in self._host.router.turns(name)]
        return [*self._host.router.waiting_on(name), *turns]

    def _waited(
        self, name: str, one: Planned, key: bytes, method: str, before: _Waiting | None
    ) -> _Waiting:
        """Looks at one request that a component has not answered; since when it waits."""
        now, heard = asyncio.get_running_loop().time(), self._host.router.heard(name)
        found = before or _Waiting(now, now, heard)
        if heard != found.heard or heard is None:
            found = _Waiting(found.since, now, heard)
        if method != _PROMPT:
            if one.timeout and now - found.since >= one.timeout:
                self._expire(name, key, method, one.timeout)
        elif one.quiet and now - found.moved >= one.quiet:
            self._end_turn(name, key, one.quiet)
        return found

    def _end_turn(self, name: str, key: bytes, limit: float) -> None:
        label = self._host.router.peers[name].label
        text = f"nothing came from {label} for {limit:g} s, so its turn was cancelled"
        self._host.log("warning", name, text)
        hint = f"raise its `quiet={limit:g}` if such pauses are normal"
        reason = Closure(text, hint, {"component": name, "quiet": limit})
        self._host.apply(self._host.router.end_turn(name, key, reason))

    def _expire(self, name: str, key: bytes, method: str, limit: float) -> None:
        label = self._host.router.peers[name].label
        text = f"{label} did not answer `{method}` within {limit:g} s"
        hint = f"raise the component's `timeout={limit:g}` if that is normal"
        self._host.log("warning", name, text)
        reason = Closure(text, hint, {"component": name, "timeout": limit})
        self._host.apply(self._host.router.expire(name, key, reason))


def _stamp(files: Iterable[str]) -> tuple[tuple[int, int], ...]:
    """What changes when a file does: times and sizes; a file that is missing for now counts."""
    stamps = []
    for path in files:
        found = (0, 0)
        with contextlib.suppress(OSError):
            stat = os.stat(path)
            found = (stat.st_mtime_ns, stat.st_size)
        stamps.append(found)
    return tuple(stamps)
