"""Takes the service calls of one chain to the performer of each (`conductor.core.service_table`).

The executor and all it needs are loaded when a proxy first makes a call that only it can perform.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import msgspec

from conductor.core import Effect, Serve, json_text
from conductor.core.jsonrpc import INVALID_PARAMS, error_object
from conductor.core.service_table import CALLS, KEEP, LOCAL, OF_SESSIONS, RELAYED
from conductor.core.services import too_large
from conductor.run.log import Outside
from conductor.run.planned import Planned
from conductor.run.segment_spec import PAUSED, RECONFIGURE, RESERVE, TELL, Relayed
from conductor.services.calls import Grantee
from conductor.services.local import LocalServices
from conductor.spec import origins, paths

if TYPE_CHECKING:
    from conductor.run.judged_folder import JudgedFolder
    from conductor.run.runtime import Runtime
    from conductor.services.executor import Done, ServiceExecutor
    from conductor.services.kv import Values


class ServiceRequests:
    """The services of one chain, as its runtime uses them."""

    def __init__(self, runtime: Runtime, planned: Sequence[Planned]) -> None:
        self._runtime = runtime
        self._log = runtime.records.log
        self._router = runtime.router
        self._options = runtime.options
        self._local = LocalServices(self._log, self._options.clock)
        self._grantees: dict[str, Grantee] = {}
        self._executor: ServiceExecutor | None = None
        self._judged = 0
        """The number of set-ups that were judged."""
        self.rearranged(planned)

    def rearranged(self, planned: Sequence[Planned]) -> None:
        """These are the components from now on."""
        self._grantees.clear()  # the executor has the same dict
        self._grantees.update({g.name: g for component in planned for g in component.grantees})
        self._hosts = {g: p.name for p in planned for g in p.guests}
        """The peer that hosts a guest, by guest."""
        # A guest keeps members for its next instance: its host must then get them.
        self._belongings = {g: p.belongings for p in planned for g in p.guests}
        names = {spec.name for component in planned for spec in component.specs}
        for component in planned:
            if component.belongings is not None:
                component.belongings.known = self._router.addresses
                if new := sorted(names - component.belongings.reserved):
                    component.belongings.reserved |= names
                    relayed = Relayed("", RESERVE, msgspec.Raw(json_text.encode(new)))
                    self._relay(component.name, RESERVE, relayed)

    def serve(self, effect: Serve) -> list[Effect]:
        """Performs a `Serve` effect; returns the effects that follow at once."""
        name, call, params, token = effect.peer, effect.service, effect.params, effect.token
        if call == KEEP:
            return []  # the router has taken it already
        if call == RELAYED:
            try:
                relayed = self._checked(name, params)
            except (ValueError, UnicodeDecodeError) as error:  # a `DecodeError` is a ValueError
                if token is None:
                    return []
                wrong = error_object(INVALID_PARAMS, str(error))
                return self._router.served(token, None, wrong)
            host, name = name, relayed.component
            call, params = relayed.method, bytes(relayed.params)
            if call in OF_SESSIONS:
                return self._router.relayed(host, name, call, params, token)
            if call == KEEP:
                belongings = self._belongings[name]
                assert belongings is not None
                belongings.kept[name].update(params)
                guests = (guest for guest, at in self._hosts.items() if at == host)
                self._router.aliased(host, belongings.aliases(guests))
                return []
        answer = self._runtime.owner.perform(name, call, params, self._tell)
        if answer is None and call in LOCAL:
            answer = self._local.serve(name, call, params)
        if answer is not None:
            return self._router.served(token, *answer) if token is not None else []

        def done(result: bytes | None, error: bytes | None) -> None:
            if token is not None:
                self._runtime.apply(self._router.served(token, result, error))

        executor = self._open()
        if call.startswith("files/"):
            executor.files.below(self._router.sessions.folders_of_client)
        executor.serve(name, call, params, self._recorded(name, call, params, done))
        return []

    def _recorded(self, name: str, call: str, params: bytes | None, done: Done) -> Done:
        """A performer's callback: an effect outside of the chain goes on record before `done`."""
        records = self._runtime.records
        if not records.entries.wants(Outside) or call not in CALLS or not CALLS[call].outside:
            return done

        def recorded(result: bytes | None, error: bytes | None) -> None:
            from conductor.services.account import account

            try:
                done_outside = account(call, params, result, error)
                records.entries.add(Outside(name, call, *done_outside))
            finally:
                done(result, error)

        return recorded

    def _checked(self, host: str, params: bytes | None) -> Relayed:
        """A call that a host relays for a guest. Raises `ValueError` unless the guest may make it:
        the host runs strangers' code, so the checks of its own router count for nothing."""
        relayed = json_text.decode(params or b"{}", type=Relayed)
        if self._hosts.get(relayed.component) != host:
            raise ValueError(f"`{relayed.component}` is not one of its guests")
        relays = CALLS.keys() if self._options.relays else CALLS.keys() - LOCAL
        if relayed.method not in relays | OF_SESSIONS | {KEEP}:
            raise ValueError(f"`{relayed.method[:80]}` is no call that a host relays")
        most = self._grantees[relayed.component].limits["service_bytes"]
        wrong = too_large(relayed.method, memoryview(relayed.params).nbytes, most)
        if wrong is not None:
            raise ValueError(wrong)
        return relayed

    def judge(self, judged: JudgedFolder) -> None:
        """The client may have asked for a session: reports a session in a folder that the chain was
        not chosen for."""
        sessions = self._router.sessions
        if sessions.setups != self._judged:
            self._judged = sessions.setups
            for folder, *_ in sessions.folders_of_client:
                judged.opened(folder)

    def reconfigure(self, name: str, params: bytes) -> None:
        """Sends a proxy its changed configuration."""
        host = self._hosts.get(name)
        if host is None:
            self._runtime.apply(self._router.reconfigure(name, params))
        else:
            self._relay(host, RECONFIGURE, Relayed(name, "configure", msgspec.Raw(params)))

    def pause(self, host: str, guests: Collection[str]) -> None:
        """Tells a host which of its guests are paused."""
        relayed = Relayed("", PAUSED, msgspec.Raw(json_text.encode(sorted(guests))))
        self._relay(host, PAUSED, relayed)

    def is_serving(self) -> bool:
        """Whether a call that takes time is being performed."""
        return self._executor is not None and self._executor.is_serving

    def forget(self, name: str) -> None:
        """Does nothing more for a component, or the guests of a host, that ended or starts anew."""
        if self._executor is not None:
            for guest, host in self._hosts.items():
                if name in (guest, host):
                    self._executor.forget(guest)
            self._executor.forget(name)

    def measuring(self, text: Callable[[], str]) -> Callable[[], None]:
        """Has the file of numbers hold `text` too; returns a function to call when it has
        changed."""

        def changed() -> None:
            metrics = self._open().metrics
            metrics.more = text
            metrics.changed()

        return changed

    async def close(self) -> None:
        """Ends the requests in flight."""
        if self._executor is not None:
            await self._executor.close()

    def _open(self) -> ServiceExecutor:
        if self._executor is None:
            from conductor.services.executor import ServiceExecutor
            from conductor.services.metrics import Metrics
            from conductor.services.timers import Timers

            self._executor = ServiceExecutor(
                self._grantees,
                self._log,
                start=self._runtime.carry,
                timers=Timers(
                    lambda *said: self._runtime.guarded(self._tell, *said),
                    lambda name: self._runtime.connections.held(self._hosts.get(name, name)),
                ),
                store=self._values(),
                metrics=Metrics(
                    self._options.metrics,
                    self._log,
                    origins.by(self._options.set_by.get("metrics")),
                ),
            )
        return self._executor

    def _values(self) -> Values:
        from conductor.services.kv import Store

        keeper: Values | None = self._options.keeper
        path = self._options.values or paths.values()
        return keeper or Store(path, os.getcwd(), self._options.keep_values)

    def _tell(self, name: str, method: str, params: bytes) -> None:
        host = self._hosts.get(name)
        if host is None:
            self._runtime.apply(self._router.tell(name, method, params))
        else:
            self._relay(host, TELL, Relayed(name, method, msgspec.Raw(params)))

    def _relay(self, host: str, how: str, relayed: Relayed) -> None:
        self._runtime.apply(self._router.tell(host, how, json_text.encode(relayed)))
