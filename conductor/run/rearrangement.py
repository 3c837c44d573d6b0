"""A running chain gets other components: some are added, removed, moved, replaced, set anew.

What is new starts beside the chain and takes its role there (`Router.prepare`). If any of it
cannot, the chain stays as it was. Then one step makes the new chain, when nothing is open in the
old one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from conductor.core import Closure, Fail, Serve, services
from conductor.core.rearranging import newcomer
from conductor.core.roles.initialize import successor_name
from conductor.core.service_table import LOCAL
from conductor.core.waits import LOADING
from conductor.errors import ComponentError, ConductorError
from conductor.run.plan import Planned
from conductor.run.report_checks import last_words
from conductor.run.supervisor import changed_settings
from conductor.spec import peer_agents
from conductor.spec.model import Spec

if TYPE_CHECKING:
    from conductor.run.runtime import Runtime

_LOOK: Final = 0.02
"""Seconds between looks at what is waited for."""

_STILL: Final = 5
"""Looks without a message from anybody, after which nothing is on its way: a program may take a
while to pass a notification on, and the conductor cannot see that it does."""

_HELD: Final = 20
"""Looks for which the client's prompts are held, at most, to see whether nothing is on its way."""

_ROLE: Final = 10.0
"""Seconds a component has to take its role beside the chain. A service that it requests there is
performed once it has joined, so one that waits for that joins without its role."""

_LOADED_AT_ONCE: Final = 30.0
"""Seconds that a host of guests has to load them where something must not go on meanwhile; else it
has `LOADING`."""

_MOST_REQUESTED: Final = 64 * 1024 * 1024
"""Bytes of what a component requests, or reports, before it joins."""
_ROOM: Final = 512
"""Bytes that each of these takes besides its params, roughly."""

_NAME: Final = "conductor"
"""Who says what is about no single component."""


class _NotUsedError(Exception):
    """The new chain is not used; the text says why, if that is worth a line in the log."""


class _Joining:
    """A component that is to join the chain."""

    def __init__(self, planned: Planned) -> None:
        self.planned = planned
        self.loaded = not planned.guests
        """Whether it can be used; a host reports that."""
        self.requested: list[Serve] = []
        """What it has requested or reported, for when it has joined …"""
        self.size = 0
        """… and about how many bytes that takes."""

    def keep(self, effect: Serve) -> bool:
        """Keeps what it requests; False if that is too much."""
        self.size += _ROOM + len(effect.params or b"")
        if self.size > _MOST_REQUESTED:
            self.requested.clear()
            return False
        self.requested.append(effect)
        return True


class Rearrangement:
    """Changes the components of one chain."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._log = runtime.records.log
        self._lock = asyncio.Lock()
        self._latest: object = None
        """The newest attempt: one that waits gives way to it."""
        self._over: object = None
        """The newest attempt that has come to its end, and gave way to none."""
        self._urgent = False
        """Something must not go on: that holds for what an attempt gives way to as well."""
        self._joining: dict[str, _Joining] = {}
        """By the name they have before they join (`newcomer`)."""
        self._refused: str | None = None
        self._quiet: asyncio.Event | None = None
        """Set once nothing is open; None: nobody waits for that."""

    async def rearrange(
        self, specs: Sequence[Spec], *, now: bool = False, reloads: bool = False
    ) -> bool:
        """See `Runtime.rearrange`. `reloads`: what stays is replaced by its new builds, before
        anything is waited for."""
        mark = self._latest = object()
        self._urgent = self._urgent or now
        async with self._lock:
            if self._latest is not mark and not now:
                return False
            try:
                return await self._attempt(specs, mark, reloads=reloads)
            finally:
                if self._latest is mark:
                    self._over, self._urgent = mark, False

    async def pause(self, name: str, *, paused: bool) -> None:
        """See `Runtime.pause`. Gives way to other components that the chain is to have."""
        while True:
            async with self._lock:
                self._refused = None
                try:
                    await self._until_quiet((), self._latest)
                except _NotUsedError:
                    continue
                try:
                    self._runtime.pauses.switch(name, paused=paused)
                finally:
                    self._runtime.release()
                return

    async def done(self) -> None:
        """Waits until no attempt is left: one that gave way ends before the newer one."""
        while self._over is not self._latest:
            await asyncio.sleep(_LOOK)

    async def _attempt(self, specs: Sequence[Spec], mark: object, *, reloads: bool) -> bool:
        supervisor = self._runtime.supervisor
        running = list(self._runtime.planned.values())
        try:
            planned = self._planned(specs, running)
        except ConductorError as error:
            self._not_used(error.with_hint, running if self._urgent else [])
            if reloads:
                supervisor.reload()
            return False
        before = {id(each.transport) for each in running}
        planned = [
            each if id(each.transport) in before else self._runtime.records.watched(each)
            for each in planned
        ]
        new = [each for each in planned if id(each.transport) not in before]
        stay = [each for each in planned if id(each.transport) in before]
        changed = [each.name for each in planned] != [each.name for each in running]
        former = [each.specs for each in running]
        if reloads:
            differs = [each.specs for each in planned] != former
            supervisor.reload([each.name for each in stay], only_new=differs)
        if changed or new:
            gone = [each for each in running if each.transport not in _transports(stay)]
            try:
                await self._change(planned, new, gone, mark, now=self._urgent)
            except _NotUsedError as error:
                await self._dismiss()
                is_cut = self._urgent and self._latest is mark
                self._not_used(str(error), gone if is_cut else [])
                return False
            except BaseException:
                await self._dismiss()
                raise
        self._set_anew(stay, running)
        return True

    def _planned(self, specs: Sequence[Spec], running: Sequence[Planned]) -> list[Planned]:
        """The plan, with the agent that runs. Raises `ConductorError`."""
        specs, launcher = list(specs), self._runtime.owner.launcher
        assert launcher is not None
        if launcher.agent_last:
            (agent,) = running[-1].specs
            if specs and specs[-1] != agent:
                text = f"the agent `{agent.name}` stays as it is: it cannot change while it runs"
                self._log("warning", agent.name, f"{text}\nhint: start the chain anew")
            specs[-1:] = [agent]
        peers = [spec for each in running for spec in each.specs if spec.peer_agent]
        if peers != [spec for spec in specs if spec.peer_agent]:
            text = "peer agents stay as they are: they cannot change while they run"
            self._log("warning", _NAME, f"{text}\nhint: start the chain anew")
        specs = peer_agents.among(
            [spec for spec in specs if not spec.peer_agent],
            peers,
            agent_last=launcher.agent_last,
        )
        return launcher.plan(specs, running)

    def _not_used(self, why: str, cut: Sequence[Planned]) -> None:
        """The chain stays as it was, but for what must not go on (`now`)."""
        if why:
            self._log("error", _NAME, f"the chain stays as it was: {why}")
        for each in cut:
            name = each.name
            label = self._runtime.router.peers[name].label
            reason = Closure(f"{label} may not go on, and nothing can take its place")
            self._runtime.connections.silence(name)
            self._runtime.component_ended(name, reason, final=True)

    # -- beside the chain ----------------------------------------------------------------------

    async def _change(
        self,
        planned: Sequence[Planned],
        new: Sequence[Planned],
        gone: Sequence[Planned],
        mark: object,
        *,
        now: bool,
    ) -> None:
        """Makes of the chain what is planned. Raises `_NotUsedError`."""
        await self._start(planned, new)
        if now:
            # Its role it may take later: else it could keep its former instance going meanwhile.
            settled = self._runtime.supervisor.is_settled
            await self._until(lambda: self._loaded() and settled(gone), mark)
            self._take_over(planned, gone)
            return
        await self._until(self._ready, mark)
        await self._until_quiet(gone, mark)
        try:
            self._take_over(planned, gone)
        finally:
            self._runtime.release()

    async def _start(self, planned: Sequence[Planned], new: Sequence[Planned]) -> None:
        runtime, names = self._runtime, [each.name for each in new]
        self._refused = None
        try:
            effects = runtime.router.prepare(
                [each.component for each in planned], names, runtime.records.audited_among(new)
            )
        except ValueError as error:
            for each in new:
                await each.transport.close(0.5)
            raise _NotUsedError(str(error)) from None
        self._joining = {newcomer(each.name): _Joining(each) for each in new}
        self._began = asyncio.get_running_loop().time()
        for key, joining in self._joining.items():
            try:
                await runtime.connections.open(key, joining.planned.transport)
            except ComponentError as error:
                # The others are opened all the same: what is open is closed when it is not used.
                label = joining.planned.component.label
                self._refused = self._refused or f"{label}: {error.text}"
        runtime.apply(effects)

    def _loaded(self) -> bool:
        """Whether what is new is there. Raises `_NotUsedError` if that takes too long."""
        late = [name for name, joining in self._joining.items() if not joining.loaded]
        most = _LOADED_AT_ONCE if self._urgent else LOADING
        if late and self._waited() > most:
            label = self._joining[late[0]].planned.component.label
            raise _NotUsedError(f"{label} was not loaded within {most:g} s")
        return not late

    def _ready(self) -> bool:
        """Whether what is new can join. Raises `_NotUsedError`, as `_loaded` does."""
        return self._loaded() and (self._runtime.router.prepared() or self._waited() > _ROLE)

    def _waited(self) -> float:
        """Seconds since what is new was started."""
        return asyncio.get_running_loop().time() - self._began

    async def _until(self, condition: Callable[[], bool], mark: object) -> None:
        """Waits for something. Raises `_NotUsedError`, also where a newer attempt is there."""
        while True:
            if self._refused is not None:
                raise _NotUsedError(self._refused)
            if self._latest is not mark:
                raise _NotUsedError("")
            if condition():
                return
            await asyncio.sleep(_LOOK)

    def of(self, name: str) -> Planned | None:
        """What is to join under a name."""
        joining = self._joining.get(name)
        return joining.planned if joining is not None else None

    def serve(self, effect: Serve) -> bool:
        """Takes a request or a report of what is to join; False if it comes from anybody else."""
        joining = self._joining.get(effect.peer)
        if joining is None:
            return False
        if effect.service == services.READY:
            joining.loaded = True
            self._runtime.apply(self._runtime.router.loaded(effect.peer))
        if effect.service == services.LAST_WORDS:
            self._refused = last_words(effect.params).text
        elif effect.service in LOCAL:
            self._runtime.performer.serve(_named(effect))
        elif not joining.keep(effect):
            label = joining.planned.component.label
            self._refused = self._refused or f"{label} requests too much before it joins"
        return True

    def refuse(self, failed: Fail) -> bool:
        """Something cannot join; False if it is about anybody else."""
        if failed.peer.removesuffix(successor_name("")) not in self._joining:
            return False
        self._refused = self._refused or failed.reason.text
        return True

    async def _dismiss(self) -> None:
        """What was to join is not used."""
        self._runtime.router.dismiss()
        joining, self._joining = self._joining, {}
        for key in joining:
            self._runtime.forget(key)

    # -- the step ------------------------------------------------------------------------------

    async def _until_quiet(self, gone: Sequence[Planned], mark: object) -> None:
        """Waits until nothing is open and nothing is on its way; then prompts are held."""
        runtime = self._runtime
        while True:
            await self._until_nothing_is_open(gone, mark)
            still = False
            try:
                still = await self._is_still(gone)
            finally:
                if not still:
                    runtime.release()
            if still:
                return
            await asyncio.sleep(_LOOK)

    async def _is_still(self, gone: Sequence[Planned]) -> bool:
        """Whether nothing is on its way, seen for a while."""
        still = 0
        for _ in range(_HELD):
            seen = self._runtime.router.received
            await asyncio.sleep(_LOOK)
            if not self._is_quiet(gone):
                return False
            still = still + 1 if self._runtime.router.received == seen else 0
            if still == _STILL:
                return True
        return False

    async def _until_nothing_is_open(self, gone: Sequence[Planned], mark: object) -> None:
        """Holds the client's prompts from the first moment at which nothing is open."""
        quiet = self._quiet = asyncio.Event()
        self._gone = gone
        try:
            await self._until(self.passed, mark)
        except BaseException:
            if quiet.is_set():
                self._runtime.release()
            raise
        finally:
            self._quiet = None

    def passed(self) -> bool:
        """Messages have been routed: looks whether nothing is open, if that is waited for. At each
        message: between a prompt's answer and the next prompt may be no time at all."""
        quiet = self._quiet
        if quiet is None:
            return False
        if not quiet.is_set() and self._is_quiet(self._gone):
            self._runtime.router.hold()
            quiet.set()
        return quiet.is_set()

    def _is_quiet(self, gone: Sequence[Planned]) -> bool:
        runtime, peers = self._runtime, self._runtime.router.peers
        buffered = any(
            transport.buffered
            for name, transport in runtime.connections.transports.items()
            if (peer := peers.get(name)) is not None and peer.closure is None
        )
        return runtime.router.quiet() and not buffered and runtime.supervisor.is_settled(gone)

    def _take_over(self, planned: Sequence[Planned], gone: Sequence[Planned]) -> None:
        """The one step: nothing is awaited from here to its end."""
        runtime, joining = self._runtime, self._joining
        for each in gone:
            runtime.connections.silence(each.name)
        self._joining = {}
        former = [each.name for each in gone]
        effects = runtime.router.rearrange(
            Closure("the chain has been given other components"),
            {j.planned.name: _owned(j.planned) for j in joining.values()},
        )
        runtime.rearranged(planned, former, {key: j.planned.name for key, j in joining.items()})
        for event, name, text in _events(gone, [j.planned for j in joining.values()]):
            self._log("warning", name, text)
            runtime.record(event, name, text)
        order = " ".join(name for each in planned for name in each.names)
        self._log("info", _NAME, f"the chain is now: {order}")
        runtime.apply(effects)
        for joined in joining.values():
            for requested in joined.requested:
                runtime.performer.serve(_named(requested))

    def _set_anew(self, stay: Sequence[Planned], running: Sequence[Planned]) -> None:
        """Sends changed settings to what stays."""
        for each in stay:
            before = next(one for one in running if one.transport is each.transport)
            for configuration in changed_settings(before, each):
                self._runtime.supervisor.reconfigure(configuration)
            self._runtime.planned[each.name] = each


def _transports(planned: Sequence[Planned]) -> list[object]:
    return [each.transport for each in planned]


def _named(effect: Serve) -> Serve:
    """What was requested before its component joined, under the component's own name."""
    return msgspec.structs.replace(effect, peer=effect.peer.removesuffix(newcomer("")))


def _owned(planned: Planned) -> list[str]:
    """The addresses of MCP that the guests of a host own."""
    belongings = planned.belongings
    if belongings is None:
        return []
    return [one for guest in planned.guests for one in belongings.own.get(guest, ())]


def _events(gone: Sequence[Planned], joined: Sequence[Planned]) -> Iterator[tuple[str, str, str]]:
    """What has happened to each component: event, name, and words for it."""
    before = {spec.name: spec for each in gone for spec in each.specs}
    now = {spec.name: spec for each in joined for spec in each.specs}
    for name in [name for name in before if name not in now]:
        yield "remove", name, "removed from the chain"
    for name, spec in now.items():
        if name not in before:
            yield "add", name, "added to the chain"
        elif spec != before[name]:
            yield "replace", name, "started anew, as it is written now"
        else:
            yield "swap", name, "started anew, in another process"
