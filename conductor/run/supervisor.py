"""Keeps a chain going: starts failed components again, sees new builds, ends long waits.

The runtime reports failures to it and routes the effects of its decisions. The decision whether a
component may start again is `conductor.core.restart_state`, the same for the guests of a child.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from conductor.core import Closure, Silent
from conductor.core.dialects import INITIALIZE
from conductor.core.restart_state import Action, Bypass, GiveUp, Recovery, Restart
from conductor.core.roles.initialize import successor_name
from conductor.errors import ComponentError, ConductorError
from conductor.run.planned import Configuration, Planned
from conductor.transports.base import Ended

if TYPE_CHECKING:
    from conductor.run.runtime import Runtime

_WATCH: Final = 0.3
"""Seconds between looks at the files of a watched component."""

_UNABLE: Final = (
    "only an agent that can load or resume sessions can be started again (`loadSession` in its "
    "answer to `initialize`; `session` in version 2)"
)

_PROMPT: Final = "session/prompt"

Stamp: TypeAlias = tuple[tuple[int, int], ...]
"""Times and sizes of files."""


class _Waiting(msgspec.Struct, frozen=True):
    """A request that a component has not answered."""

    since: float
    """When it was seen first."""
    moved: float
    """When a message last came from the component since then."""
    heard: int | None


class _Care:
    """The state of a running instance of a component."""

    def __init__(self, planned: Planned, build: Stamp) -> None:
        self.recovery = Recovery(planned.on_failure)
        self.build = build
        self.place = asyncio.Lock()
        """Held while it is started again: no other instance takes its place meanwhile."""


class Supervisor:
    """Looks after the components of one chain."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._log = runtime.records.log
        self._planned = planned = runtime.planned
        self._cares = {name: _Care(each, stamp(each.files)) for name, each in planned.items()}
        self._timing = False
        """Whether `_time_out` runs."""

    # -- other components ----------------------------------------------------------------------

    def is_settled(self, planned: Iterable[Planned]) -> bool:
        """Whether none of these is being started again at this moment."""
        return not any(self._cares[each.name].place.locked() for each in planned)

    def has_new_build(self, name: str, build: Stamp | None = None) -> bool:
        """Whether a build, or the present state of its files, differs from the running build."""
        return (build or stamp(self._planned[name].files)) != self._cares[name].build

    def rearranged(self, joined: Mapping[str, Stamp]) -> None:
        """The chain has other components: `joined` has the new ones with their builds."""
        self._cares = {
            name: _Care(each, joined[name]) if name in joined else self._cares[name]
            for name, each in self._planned.items()
        }
        self.keep_time()

    # -- failures ------------------------------------------------------------------------------

    def failed(self, name: str, reason: Closure, *, final: bool) -> None:
        """A component has ended: starts it again, goes on without it, or gives up.

        `final`: its host reported that it will not get better, or all tries to reach it failed. A
        module that has never taken its role is not started again either: it would only fail again.
        A program might not fail again.
        """
        runtime, planned = self._runtime, self._planned.get(name)
        action = GiveUp() if planned is None else self._action(name, planned, final=final)
        if planned is not None and planned.component.revived and name == runtime.agent:
            reason = self._end_of_agent(name, reason, action)
        match action:
            case Restart(delay, number, most):
                text = f"{reason.text}; it is started again ({number} of {most})"
                self._log("warning", name, text)
                runtime.record("restart", name, text)
                runtime.connections.silence(name)  # a stalled component may still write
                runtime.apply(runtime.router.leaving(name, reason))
                runtime.start(self._restart(name, delay, self._cares[name]))
            case Bypass():
                text = f"{reason.text}; the chain goes on without it"
                self._log("warning", name, text)
                runtime.record("bypass", name, text)
                runtime.apply(runtime.router.bypassed(name, reason))
                runtime.start(runtime.connections.disconnect(name))
            case GiveUp():
                if planned is not None and planned.component.peer_agent:
                    if runtime.router.peers[name].closure is None:  # else the end has been logged
                        text = f"{reason.text}; the chain goes on without this peer agent"
                        self._log("error", name, text)
                else:
                    reason = runtime.records.named(reason, lambda: runtime.router.mode)
                runtime.record("failure", str(reason.data.get("component", name)), reason.text)
                runtime.apply(runtime.router.closed(name, reason))

    def _end_of_agent(self, name: str, reason: Closure, action: Action) -> Closure:
        """Why an agent that was to be started again has ended, and the consequence."""
        if isinstance(action, Restart):
            hint = (
                "send the request again: conductor starts the agent again, and its sessions go on"
            )
            return Closure(reason.text, hint, reason.data)
        from conductor.core.agent_sessions import NOT_BEGUN  # few chains need it

        why = self._runtime.router.refuses_return(name)
        if why == NOT_BEGUN:
            return reason
        if self._planned[name].renew is None:
            why = "it is no program"
        if why is None:
            return reason
        text = f"{reason.text}; it is not started again: {why}"
        hint = f"{reason.hint}; " if reason.hint else ""
        return Closure(text, f"{hint}{_UNABLE}", reason.data)

    def _action(self, name: str, planned: Planned, *, final: bool) -> Action:
        router, begun = self._runtime.router, False
        if name == self._runtime.agent:
            may = planned.component.revived and router.refuses_return(name) is None
        else:
            begun = router.has_role(name)
            may = begun or (router.may_retry(name) and not planned.guests)
        if planned.component.peer_agent or self._launches(name) or not may:
            return GiveUp()
        action = self._cares[name].recovery.failed(asyncio.get_running_loop().time())
        if isinstance(action, Restart):
            return GiveUp() if final or planned.renew is None else action
        return action if begun else GiveUp()

    def _is_agent(self, name: str) -> bool:
        return name == self._runtime.agent or self._planned[name].component.peer_agent

    def _launches(self, name: str) -> bool:
        """Whether a proxy has launched its successor itself: the successor ends with it, so
        nothing can take its place."""
        successor = self._runtime.router.peers.get(successor_name(name))
        return successor is not None and successor.closure is None

    async def _restart(self, name: str, delay: float, care: _Care) -> None:
        async with care.place:  # while the lock is held, the component stays in the chain
            if care is not self._cares.get(name):
                return  # it left before that
            care.build = stamp(self._planned[name].files)
            if await self.start_again(name, delay):
                self._runtime.returned(name)

    async def start_again(self, name: str, delay: float = 0.0) -> bool:
        """Starts another instance of a component in its place; whether that went well."""
        runtime = self._runtime
        peer, planned = runtime.router.peers[name], runtime.component(name)
        await runtime.connections.disconnect(name)
        await asyncio.sleep(delay)
        # Meanwhile it may have joined the chain, under its own name, or have left.
        if planned is None or planned.renew is None or not runtime.has(peer):
            return False
        try:
            transport = planned.renew()
        except ComponentError as error:
            self.failed(peer.name, Closure(error.text, error.hint, error.data), final=False)
            return False
        return await runtime.connect(peer.name, transport) and runtime.has(peer)

    def silent(self, of: Silent) -> None:
        """A component does not take its role: it counts as ended."""
        from conductor.run.stages import Stage  # few chains need it

        planned = self._planned[of.peer]
        if self._runtime.router.peers[of.peer].starts > 1:
            self._cares[of.peer].recovery.silent()
        command = tuple(planned.specs[0].command or ()) if planned.specs else ()
        if self._is_agent(of.peer):
            why = Stage(of.peer, of.method, 0.0, command).advice
        else:
            why = "is it a proxy? `conductor test` tells"
        hint = f"{why}; if it needs longer to start, raise its `timeout={of.seconds:g}`"
        self._runtime.ended(of.peer, Ended(of.text, hint="" if of.said else hint))

    # -- new builds ----------------------------------------------------------------------------

    def configure_anew(self) -> None:
        """Sends changed settings."""
        for source in self._configurations():
            self.reconfigure(source)

    def renewable(self, names: Collection[str], *, only_new: bool = False) -> list[str]:
        """The proxies of `names` that can be renewed; `only_new`: and have a new build."""
        return [
            name
            for name, planned in self._planned.items()
            if name in names
            and planned.files
            and planned.renew is not None
            and not self._is_agent(name)
            and (self.has_new_build(name) or not only_new)
            and self._may_be_renewed(name)
        ]

    def _may_be_renewed(self, name: str) -> bool:
        """Whether another instance may take a component's place; else that is logged."""
        if self._is_agent(name):
            text = "an agent cannot be replaced while it runs; start the chain anew"
        elif self._launches(name):
            text = "a proxy that launches its successor itself cannot be replaced while it runs"
        else:
            return True
        self._log("warning", name, f"the new build is not used: {text}")
        return False

    async def watch(self) -> None:
        """Renews each component whose files change, and sends changed settings. Where a file of the
        configuration changes, everything is reloaded."""
        seen = {name: stamp(planned.files) for name, planned in self._planned.items()}
        changed: dict[str, object] = {}
        sources = self._sources()
        settings = {source: stamp((source.file,)) for source in self._configurations()}
        while True:
            await asyncio.sleep(_WATCH)
            before, sources = sources, self._sources()
            if sources != before:
                self._runtime.reload()
            for source in self._configurations():
                now = stamp((source.file,))
                if settings.setdefault(source, now) != now:
                    settings[source] = now
                    self.reconfigure(source)
            for name, planned in list(self._planned.items()):
                now = stamp(planned.files)
                if seen.setdefault(name, now) == now:
                    continue
                if changed.get(name) == now:  # written completely: it has not changed since
                    seen[name] = now
                    changed.pop(name)
                    if self._may_be_renewed(name):
                        self._runtime.renew(name)
                else:
                    changed[name] = now

    def _sources(self) -> tuple[object, ...]:
        """The files of the configuration, as they are now."""
        files = tuple(self._runtime.owner.sources())
        return files, stamp(files)

    # -- settings ------------------------------------------------------------------------------

    def _configurations(self) -> Iterator[Configuration]:
        planned = self._planned.values()
        return (
            source for component in planned for source in component.configurations if source.file
        )

    def reconfigure(self, configuration: Configuration) -> None:
        """Sends a component its settings, if they have changed."""
        name = configuration.component
        try:
            params = configuration.news()
        except ConductorError as error:
            self._log("error", name, f"its settings stay as they were: {error.text}")
            return
        if params is not None:
            where = configuration.file or "as they are written now"
            self._log("info", name, f"told its settings, {where}")
            self._runtime.services.reconfigure(name, params)

    # -- long waits ----------------------------------------------------------------------------

    def keep_time(self) -> None:
        """Ends long waits from now on."""
        if not self._timing:
            self._timing = True
            self._runtime.start(self._time_out())

    async def _time_out(self) -> None:
        """Fails requests that a component leaves open for longer than its `timeout`, and turns of
        an agent in which nothing moves for longer than `quiet`. Runs as long as there is such a
        limit."""
        waiting: dict[tuple[str, bytes], _Waiting] = {}
        while bounds := [s for p in self._planned.values() for s in (p.timeout, p.quiet) if s]:
            await asyncio.sleep(min(bounds) / 4)
            waiting = {
                (name, key): self._waited(name, key, method, waiting.get((name, key)))
                for name in self._planned
                for key, method in self._open(name)
            }
        self._timing = False

    def _open(self, name: str) -> list[tuple[bytes, str]]:
        """The open work of a component: key, and the method that began it."""
        turns = [(key, _PROMPT) for key in self._runtime.router.turns(name)]
        return [*self._runtime.router.waiting_on(name), *turns]

    def _waited(self, name: str, key: bytes, method: str, before: _Waiting | None) -> _Waiting:
        """Acts on a request that waits for too long; since when it waits."""
        planned = self._planned[name]
        now, heard = asyncio.get_running_loop().time(), self._runtime.router.heard(name)
        waiting = before or _Waiting(now, now, heard)
        if self._runtime.router.loading(name):  # its guests have seen nothing yet
            waiting = _Waiting(now, now, heard)
        if heard != waiting.heard or heard is None:
            waiting = _Waiting(waiting.since, now, heard)
        if method not in (INITIALIZE, _PROMPT):  # the router has a time for the first
            if planned.timeout and now - waiting.since >= planned.timeout:
                self._expire(name, key, method, planned.timeout)
        elif method == _PROMPT and planned.quiet and now - waiting.moved >= planned.quiet:
            self._end_turn(name, key, planned.quiet)
        return waiting

    def _end_turn(self, name: str, key: bytes, limit: float) -> None:
        label = self._runtime.router.peers[name].label
        text = f"nothing came from {label} for {limit:g} s, so its turn was cancelled"
        self._log("warning", name, text)
        hint = f"raise its `quiet={limit:g}` if such pauses are normal"
        reason = Closure(text, hint, {"component": name, "quiet": limit})
        self._runtime.apply(self._runtime.router.end_turn(name, key, reason))

    def _expire(self, name: str, key: bytes, method: str, limit: float) -> None:
        label = self._runtime.router.peers[name].label
        text = f"{label} did not answer `{method}` within {limit:g} s"
        hint = f"raise the component's `timeout={limit:g}` if that is normal"
        self._log("warning", name, text)
        reason = Closure(text, hint, {"component": name, "timeout": limit})
        self._runtime.apply(self._runtime.router.expire(name, key, reason))


def stamp(files: Iterable[str]) -> Stamp:
    """Times and sizes of files; (0, 0) for a file that is missing for now."""
    stamps = []
    for path in files:
        stamp = (0, 0)
        with contextlib.suppress(OSError):
            stat = os.stat(path)
            stamp = (stat.st_mtime_ns, stat.st_size)
        stamps.append(stamp)
    return tuple(stamps)
