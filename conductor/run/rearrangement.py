"""A running chain gets other components: some are added, removed, moved, replaced, set anew, or
renewed: a renewed component stays as it is, and another instance takes its place.

New components start beside the chain and take their roles there (`Router.prepare`). If any of them
cannot, the chain stays as it was. Then one step makes the new chain, when nothing is open in the
old one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from conductor.core import Closure, Fail, Serve, service_table
from conductor.core.component import newcomer
from conductor.core.roles.initialize import successor_name
from conductor.core.service_table import LOCAL
from conductor.core.waits import LOADING
from conductor.errors import ComponentError, ConductorError
from conductor.run.planned import Planned
from conductor.run.report_checks import last_words
from conductor.run.supervisor import stamp
from conductor.run.teardown import with_setters
from conductor.spec import managed, peer_agents
from conductor.spec.model import Spec
from conductor.spec.origins import bare

if TYPE_CHECKING:
    from conductor.run.runtime import Runtime

_LOOK: Final = 0.02
"""The seconds between looks at an awaited condition."""

_STILL: Final = 5
"""Looks without a message from anybody, after which nothing is on its way: a program may take a
while to pass a notification on, and the conductor cannot see that it does."""

_HELD: Final = 20
"""Looks for which the client's prompts are held, at most, to see whether nothing is on its way."""

_PATIENCE: Final = 60.0
"""Seconds after which they are held although something is open, so that it ends: where turns always
overlap, nothing would ever go. They are held from minute 1 to 2 of the wait, from 4 to 8, from 16
to 32: at last a hold is longer than any turn."""

_ROLE: Final = 10.0
"""The seconds in which a component must take its role beside the chain. A service that it requests
there is performed once it has joined. So a component that waits for an answer joins without
role."""

_LOADED_AT_ONCE: Final = 30.0
"""Seconds that a host of guests has to load them where something must not go on meanwhile; else it
has `LOADING`."""

_MOST_REQUESTED: Final = 64 * 1024 * 1024
"""The most bytes of the requests and reports of a component before it joins."""
_ROOM: Final = 512
"""The bytes that each of these takes besides its params, roughly."""

_NAME: Final = "conductor"
"""The name in entries that are about no single component."""


_UNUSED: Final = "the new build is not used: "


class _NotUsedError(Exception):
    """The new chain is not used; the text says why, if that is worth a line in the log."""

    def __init__(self, text: str = "", name: str = "", label: str = "") -> None:
        """`name`: of the component that cannot join; `label`: its name in errors, if the text has
        none."""
        super().__init__(f"{label}: {text}" if label else text)
        self.text, self.name = text, name


class _Joining:
    """A component that is to join the chain."""

    def __init__(self, planned: Planned) -> None:
        self.planned = planned
        self.build = stamp(planned.files)
        self.loaded = not planned.guests
        """Whether it can be used; a host reports that."""
        self.requested: list[Serve] = []
        """Its requests and reports, for the time when it has joined."""
        self.size = 0
        """The bytes of these requests and reports, about."""

    def keep(self, effect: Serve) -> bool:
        """Keeps its request; False if it has made too many."""
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
        """The newest attempt: an attempt that waits gives way to it."""
        self._over: object = None
        """The newest attempt that has come to its end, and gave way to none."""
        self._urgent = False
        """Whether a component must not go on; it stays so for a newer attempt."""
        self._joining: dict[str, _Joining] = {}
        """By the names that they have before they join (`newcomer`)."""
        self._renewing: set[str] = set()
        """The components that are to be renewed."""
        self._refused: _NotUsedError | None = None
        """The first reason why the new components cannot join."""
        self._goes: Sequence[Planned] | None = None
        """The components that go once nothing is open; None: nobody waits for that."""
        self._holds_at = 0.0
        """The time from which the client's prompts are held for it although something is open."""
        self._holds = False
        """Whether the client's prompts are held for it."""

    async def rearrange(self, specs: Sequence[Spec], *, now: bool = False) -> bool:
        """See `Runtime.rearrange`."""
        mark = self._latest = object()
        self._urgent = self._urgent or now
        async with self._lock:
            if self._latest is not mark and not now:
                return False
            try:
                return await self._attempt(specs, mark)
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
                    self._let_go()
                return

    async def reload(self) -> None:
        """See `Runtime.reload`."""
        runtime, differs = self._runtime, False
        before = dict(runtime.planned)
        if runtime.owner.launcher is not None:
            try:
                specs = runtime.owner.respec()
            except ConductorError as error:
                self._not_used(error.with_hint, ())
            else:
                # A refusal by a gate counts as a difference, too.
                took = await self.rearrange(specs)
                differs = not took or [each.specs for each in before.values()] != [
                    each.specs for each in runtime.planned.values()
                ]
        stay = before.keys() - {
            each.name for each in _without([*before.values()], [*runtime.planned.values()])
        }
        await self.renew(runtime.supervisor.renewable(stay, only_new=differs))

    async def renew(self, names: Collection[str]) -> None:
        """Has other instances take the place of components, in one step, each if it can."""
        self._renewing.update(names)
        while not self._renewing.isdisjoint(names):
            async with self._lock:
                await self._renew()

    async def done(self) -> None:
        """Waits until no attempt is left: an attempt that gave way ends before the newer one."""
        while self._over is not self._latest:
            await asyncio.sleep(_LOOK)

    async def _renew(self) -> None:
        """Renews the named components, except those that cannot; gives way to other components."""
        running = list(self._runtime.planned.values())
        names, self._renewing = self._renewing, set()
        planned = [self._renewed(each) if each.name in names else each for each in running]
        new = {each.name for each in _without(planned, running)}
        try:
            await self._become(planned, self._latest, now=False)
        except _NotUsedError as error:
            if error.text:
                self._log("error", error.name or _NAME, f"{_UNUSED}{error.text}")
            if error.name or not error.text:
                self._renewing |= new - {error.name}

    def _renewed(self, each: Planned) -> Planned:
        """Another instance of a component; the component as it is, if no other can be made."""
        assert each.renew is not None
        try:
            transport = each.renew()
        except ComponentError as error:
            self._log("error", each.name, f"{_UNUSED}{error.text}")
            return each
        component = self._runtime.router.peers[each.name].component  # with its present settings
        return msgspec.structs.replace(each, component=component, transport=transport)

    async def _attempt(self, specs: Sequence[Spec], mark: object) -> bool:
        running = list(self._runtime.planned.values())
        try:
            planned = self._planned(specs, running)
        except ConductorError as error:
            self._not_used(error.with_hint, running if self._urgent else [])
            return False
        try:
            await self._become(planned, mark, now=self._urgent)
        except _NotUsedError as error:
            is_cut = self._urgent and self._latest is mark
            self._not_used(str(error), _without(running, planned) if is_cut else [])
            return False
        return True

    async def _become(self, planned: Sequence[Planned], mark: object, *, now: bool) -> None:
        """Turns the chain into the planned one. A component whose transport is planned stays as it
        is, but for its settings; all other running components go, and all other planned ones join.

        Raises `_NotUsedError`: then the chain is as it was.
        """
        running = list(self._runtime.planned.values())
        stay = _without(planned, _without(planned, running))
        new, gone = _without(planned, running), _without(running, planned)
        if new or [each.name for each in planned] != [each.name for each in running]:
            try:
                await self._start(planned, new)
                if now:
                    # It may take its role later: else it could keep its former instance going.
                    settled = self._runtime.supervisor.is_settled
                    await self._until(lambda: self._loaded() and settled(gone), mark)
                else:
                    await self._until(self._ready, mark)
                    await self._until_quiet(gone, mark)
                self._take_over(planned, gone)
            finally:
                self._let_go()
                self._dismiss()
        self._set_anew(stay)

    def _planned(self, specs: Sequence[Spec], running: Sequence[Planned]) -> list[Planned]:
        """The plan, with the agent that runs. Raises `ConductorError`."""
        specs, launcher = list(specs), self._runtime.owner.launcher
        assert launcher is not None
        if launcher.agent_last:
            (agent,) = running[-1].specs
            if specs and bare(specs[-1]) != bare(agent):
                text = f"the agent `{agent.name}` stays as it is: it cannot change while it runs"
                self._log("warning", agent.name, f"{text}\nhint: start the chain anew")
            specs[-1:] = [agent]
        peers = [spec for each in running for spec in each.specs if spec.peer_agent]
        wanted = [bare(spec) for spec in specs if spec.peer_agent]
        if [*map(bare, peers)] != wanted:
            text = "peer agents stay as they are: they cannot change while they run"
            self._log("warning", _NAME, f"{text}\nhint: start the chain anew")
        specs = peer_agents.among(
            [spec for spec in specs if not spec.peer_agent],
            peers,
            agent_last=launcher.agent_last,
        )
        return launcher.plan(specs, running)

    def _not_used(self, why: str, cut: Sequence[Planned]) -> None:
        """The chain stays as it was, but for components that must not go on (`now`)."""
        if why:
            self._log("error", _NAME, f"the chain stays as it was{managed.former()}: {why}")
        for each in cut:
            name = each.name
            label = self._runtime.router.peers[name].label
            reason = Closure(f"{label} may not go on, and nothing can take its place")
            self._runtime.connections.silence(name)
            self._runtime.component_ended(name, reason, final=True)

    # -- beside the chain ----------------------------------------------------------------------

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
                # The others are opened all the same: an open transport is closed if it is not used.
                self._refuse(joining, error.text, joining.planned.component.label)
        runtime.apply(effects)

    def _loaded(self) -> bool:
        """Whether the new components are loaded. Raises `_NotUsedError` once that is too late."""
        late = [name for name, joining in self._joining.items() if not joining.loaded]
        most = _LOADED_AT_ONCE if self._urgent else LOADING
        if late and self._waited() > most:
            one = self._joining[late[0]].planned
            raise _NotUsedError(f"was not loaded within {most:g} s", one.name, one.component.label)
        return not late

    def _ready(self) -> bool:
        """Whether the new components can join. Raises `_NotUsedError`, as `_loaded` does."""
        return self._loaded() and (self._runtime.router.prepared() or self._waited() > _ROLE)

    def _waited(self) -> float:
        """The seconds since the new components were started."""
        return asyncio.get_running_loop().time() - self._began

    async def _until(self, condition: Callable[[], bool], mark: object) -> None:
        """Waits for something. Raises `_NotUsedError`, also where a newer attempt is there."""
        while True:
            if self._refused is not None:
                raise self._refused
            if self._latest is not mark:
                raise _NotUsedError
            if condition():
                return
            await asyncio.sleep(_LOOK)

    def of(self, name: str) -> Planned | None:
        """The component that is to join under a name."""
        joining = self._joining.get(name)
        return joining.planned if joining is not None else None

    def serve(self, effect: Serve) -> bool:
        """Takes a request or a report of a component that is to join; False: of another."""
        joining = self._joining.get(effect.peer)
        if joining is None:
            return False
        if effect.service == service_table.READY:
            joining.loaded = True
            self._runtime.apply(self._runtime.router.loaded(effect.peer))
        if effect.service == service_table.LAST_WORDS:
            reason = last_words(effect.params)
            reason = with_setters(joining.planned.component, reason, starting=True)
            self._refuse(joining, reason.text)
        elif effect.service in LOCAL:
            self._runtime.performer.serve(_named(effect))
        elif not joining.keep(effect):
            self._refuse(
                joining, f"{joining.planned.component.label} requests too much before it joins"
            )
        return True

    def _refuse(self, joining: _Joining, text: str, label: str = "") -> None:
        """Something cannot join; the first reason counts."""
        self._refused = self._refused or _NotUsedError(text, joining.planned.name, label)

    def refuse(self, failed: Fail) -> bool:
        """Something cannot join; False if it is about anybody else."""
        joining = self._joining.get(failed.peer.removesuffix(successor_name("")))
        if joining is not None:
            self._refuse(joining, failed.reason.text)
        return joining is not None

    def _dismiss(self) -> None:
        """Drops the components that have not joined."""
        joining, self._joining = self._joining, {}
        if joining:
            self._runtime.router.dismiss()
        for key in joining:
            self._runtime.forget(key)

    # -- the step ------------------------------------------------------------------------------

    async def _until_quiet(self, gone: Sequence[Planned], mark: object) -> None:
        """Waits until nothing is open and nothing is on its way. The client's prompts are held from
        the first moment at which nothing is open, and when this returns."""
        began = asyncio.get_running_loop().time()
        self._goes, self._holds_at, still = gone, began + _PATIENCE, False
        try:
            while not still:
                await self._until(self.passed, mark)
                await self._until(lambda: self._ran_out(gone, began), mark)
                still = await self._is_still(gone)
                if not still:
                    self._let_go()
                    await asyncio.sleep(_LOOK)
        finally:
            self._goes = None
            if not still:
                self._let_go()

    def _ran_out(self, gone: Sequence[Planned], began: float) -> bool:
        """Whether nobody waits any longer for open requests: none is open, or the client's prompts
        have been held long enough for them to end."""
        now = asyncio.get_running_loop().time()
        if now < self._holds_at or self._is_quiet(gone):
            return True
        late = now >= 2 * self._holds_at - began
        if late:
            self._holds_at = 2 * now - began
        return late

    def _let_go(self) -> None:
        """The client's prompts go on."""
        if self._holds:
            self._holds = False
            self._runtime.release()

    async def _is_still(self, gone: Sequence[Planned]) -> bool:
        """Whether nothing is on its way, seen for a while."""
        still = 0
        for _ in range(_HELD):
            seen = self._runtime.router.received
            await asyncio.sleep(_LOOK)
            # A component that is to join may end meanwhile: the next look shows it.
            if self._refused is not None or not self._is_quiet(gone):
                return False
            still = still + 1 if self._runtime.router.received == seen else 0
            if still == _STILL:
                return True
        return False

    def passed(self) -> bool:
        """Messages have been routed: looks whether nothing is open, if that is waited for. At each
        message: between a prompt's answer and the next prompt may be no time at all."""
        if self._goes is not None and not self._holds:
            late = asyncio.get_running_loop().time() >= self._holds_at
            if late or self._is_quiet(self._goes):
                self._runtime.router.hold()
                self._holds = True
        return self._holds

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
        for key, joined in joining.items():
            if joined.planned.belongings is not None:
                runtime.router.aliased(
                    key, joined.planned.belongings.aliases(joined.planned.guests)
                )
        self._joining = {}
        former = [each.name for each in gone]
        effects = runtime.router.rearrange(
            Closure("the chain has been given other components"),
            {j.planned.name: _owned(j.planned) for j in joining.values()},
        )
        before = [each.specs for each in runtime.planned.values()]
        events = list(self._events(gone, joining.values()))
        runtime.rearranged(planned, former, {key: j.planned.name for key, j in joining.items()})
        runtime.supervisor.rearranged({j.planned.name: j.build for j in joining.values()})
        for event, name, text in events:
            self._log("warning", name, text)
            runtime.record(event, name, text)
        if [each.specs for each in planned] != before:
            order = " ".join(name for each in planned for name in each.names)
            self._log("info", _NAME, f"the chain is now: {order}")
        runtime.apply(effects)
        for joined in joining.values():
            for requested in joined.requested:
                runtime.performer.serve(_named(requested))

    def _events(
        self, gone: Sequence[Planned], joined: Iterable[_Joining]
    ) -> Iterator[tuple[str, str, str]]:
        """The event of each component: event, name, and words for it."""
        before = {name: each for each in gone for name in each.names}
        now = {name: each for each in joined for name in each.planned.names}
        for name in [name for name in before if name not in now]:
            yield "remove", name, "removed from the chain"
        for name, each in now.items():
            former = before.get(name)
            if former is None:
                yield "add", name, "added to the chain"
            elif _spec(former, name) != _spec(each.planned, name):
                yield "replace", name, "started anew, as it is written now"
            elif former.name != each.planned.name:
                yield "swap", name, "started anew, in another process"
            elif self._runtime.supervisor.has_new_build(former.name, each.build):
                yield "swap", name, "replaced by its new build"
            else:
                yield "swap", name, "started anew, from the same files as before"

    def _set_anew(self, stay: Sequence[Planned]) -> None:
        """Sends changed settings to the components that stay."""
        for each in stay:
            sources = {source.component: source for source in each.configurations}
            for spec in each.specs:
                if spec.name in sources and sources[spec.name].change(spec):
                    self._runtime.supervisor.reconfigure(sources[spec.name])
            self._runtime.router.written(each.name, each.component.set_by)
            self._runtime.planned[each.name] = each


def _without(some: Sequence[Planned], others: Sequence[Planned]) -> list[Planned]:
    """The plans of `some` that do not run by the transport of any of `others`."""
    known = {id(each.transport) for each in others}
    return [each for each in some if id(each.transport) not in known]


def _named(effect: Serve) -> Serve:
    """A request made before its component joined, under the component's own name."""
    return msgspec.structs.replace(effect, peer=effect.peer.removesuffix(newcomer("")))


def _owned(planned: Planned) -> list[str]:
    """The addresses of MCP that the guests of a host own."""
    belongings = planned.belongings
    if belongings is None:
        return []
    return [one for guest in planned.guests for one in belongings.own.get(guest, ())]


def _spec(planned: Planned, name: str) -> Spec | None:
    """The spec of a component."""
    return next((spec for spec in planned.specs if spec.name == name), None)
