"""Performs the effects of one chain's router (`conductor.core.effects`) that send nothing."""

from __future__ import annotations

import asyncio
import os
from functools import cached_property
from typing import TYPE_CHECKING, Final

from conductor.core import (
    Adapted,
    Answered,
    Changed,
    Closure,
    Effect,
    Fail,
    Held,
    Keep,
    Listen,
    LogLine,
    OwnedAddresses,
    Propagate,
    Reached,
    Recall,
    Reopen,
    Resolve,
    Serve,
    Silent,
    Violated,
    Wake,
    service_table,
)
from conductor.core.component import newcomer, setters
from conductor.core.writer import Writer
from conductor.run.log import Change, Outside
from conductor.run.report_checks import ALLOWED, REFUSED, Reports
from conductor.run.segment_spec import Recovered

if TYPE_CHECKING:
    from conductor.run.kept_prompts import KeptPrompts
    from conductor.run.runtime import Runtime

_LAUNCH: Final = 5.0
"""The seconds in which a proxy of unknown dialect must launch its successor, or refuse to."""

_NEWCOMER: Final = newcomer("")
"""The ending of the name of a component that is to join the chain."""

_PLAIN: Final = Writer()
"""Writes messages as agents read them."""


class Performer:
    """The part of a runtime that performs effects."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._records = runtime.records
        self.reports = Reports(runtime.planned, runtime.router, runtime.records.entries.add)

    def perform(self, effect: Effect) -> None:
        """Performs an effect that sends nothing."""
        runtime, records = self._runtime, self._records
        match effect:
            case Serve():
                self.serve(effect)
            case LogLine(level, peer, text):
                records.log(level, peer.removesuffix(_NEWCOMER), text)
            case Propagate(peer, id_, method, params, number):
                records.entries.drain()  # where its span begins
                line = _PLAIN.request(id_, method, runtime.owner.stamped(number, params))
                runtime.outboxes.post(peer, line)
            case Resolve():
                runtime.start(self._resolve(effect))
            case Keep(agent, session, prompt):
                self._kept_prompts.keep(agent, session, prompt)
            case Recall(agent, token, theirs):
                # At once: further messages of the client must not overtake its request.
                kept = self._kept_prompts.recall(agent, theirs)
                runtime.outboxes.apply(runtime.router.recalled(token, kept))
            case Fail(_, reason):
                joins = runtime.rearrangement is not None and runtime.rearrangement.refuse(effect)
                if not joins and not runtime.is_closing:
                    runtime.fail(reason)
            case Silent():
                runtime.supervisor.silent(effect)
            case Violated():
                if effect.peer in runtime.planned:
                    runtime.connections.hear(effect.peer)
                self._violated(effect)
            case Wake(token, seconds):
                loop = asyncio.get_running_loop()
                loop.call_later(seconds, runtime.guarded, self._woken, token)
            case OwnedAddresses():
                pass  # this router lasts as long as the chain
            case Changed():
                records.entries.add(Change(effect))
            case Reached(peer, what, where, size, refused):
                outcome = REFUSED if refused else ALLOWED
                records.entries.add(Outside(peer, what, where, size, outcome, refused))
            case Adapted(agent, session, text, again):
                self._adapted(agent, session, text, again=again)
            case Held(session):
                runtime.owner.held(session)
            case Answered(token, member, body):
                runtime.owner.replied(token, member, body)
            case Reopen(peer):
                runtime.start(self._reopen(peer))
            case Listen(peer):
                runtime.start(self._listen(peer))
            case _:
                raise AssertionError(effect)

    @cached_property
    def _kept_prompts(self) -> KeptPrompts:
        from conductor.run.kept_prompts import KeptPrompts  # no start waits for it

        return KeptPrompts(self._records.log, in_memory=self._runtime.options.keeping == "memory")

    async def close(self) -> None:
        """Writes the kept prompts."""
        if "_kept_prompts" in self.__dict__:
            await self._kept_prompts.close()

    async def _resolve(self, effect: Resolve) -> None:
        """Looks where folders lead, unless the agent has them on another machine."""
        planned = self._runtime.planned.get(effect.peer)
        found: list[tuple[str, ...]] = [(), ()]
        if planned is None or not any(spec.address for spec in planned.specs):
            lists = (effect.folders, effect.theirs)
            found = [await asyncio.to_thread(_real, each) for each in lists]
        self._runtime.apply(self._runtime.router.resolved(effect.token, found[0], found[1]))

    # -- services and reports ------------------------------------------------------------------

    def serve(self, effect: Serve) -> None:
        """Takes a request of a service, or a report, to its performer, unless its component is to
        join the chain."""
        runtime = self._runtime
        if runtime.rearrangement is not None and runtime.rearrangement.serve(effect):
            return
        if effect.service in service_table.INTERNAL and effect.service != service_table.RELAYED:
            self._report(effect.peer, effect.service, effect.params)
        else:
            runtime.outboxes.apply(runtime.services.serve(effect))

    def _report(self, host: str, service: str, params: bytes | None) -> None:
        """A host of guests reports something of them."""
        runtime = self._runtime
        if service == service_table.VIOLATED:
            runtime.connections.hear(host)
        try:
            reported = self.reports.take(host, service, params)
        except ValueError as wrong:
            self._records.log("warning", host, f"its report `{service}` is dropped: {wrong}")
            return
        if service == service_table.READY:
            runtime.outboxes.apply(runtime.router.loaded(host))
        match reported:
            case Violated():
                self._violated(reported)
            case Recovered(guest, action, text):  # the host starts it again, or bypasses it
                peer = runtime.router.peers[host]
                set_by = peer.component.set_by.get(guest, {})
                text += setters(set_by, text, starting=peer.starting)
                self._records.log("warning", guest, text)
                runtime.router.faltered(guest, goes_on=True)
                runtime.services.forget(guest)
                runtime.record(action, guest, text)
            case Closure():
                runtime.router.faltered(host, goes_on=False)

    def _violated(self, violation: Violated) -> None:
        self._records.violated(violation)
        if violation.fatal and violation.peer in self._runtime.planned:
            self._runtime.connections.silence(violation.peer)
            self._runtime.component_ended(violation.peer, violation.closure)

    def _adapted(self, agent: str, session: str, text: str, *, again: bool) -> None:
        """An agent got words for content that it does not take: its user sees them once."""
        router = self._runtime.router
        self._records.adapted(agent, text, again)
        if not again and not router.sessions.find(session).client:
            notice = router.notice(session, text)
            if notice is not None:
                self._runtime.outboxes.apply(notice)

    # -- later ---------------------------------------------------------------------------------

    def _woken(self, token: int) -> None:
        if not self._runtime.is_closing:
            self._runtime.apply(self._runtime.router.woken(token))

    async def _reopen(self, name: str) -> None:
        """Starts a component once more, for the role request of another dialect."""
        runtime = self._runtime
        peer = runtime.router.peers.get(name)
        if peer is not None and await runtime.supervisor.start_again(name):
            runtime.apply(runtime.router.reopened(peer.name))

    async def _listen(self, name: str) -> None:
        """Listens for the successor connection that a proxy launches itself."""
        from conductor.core.roles.initialize import successor_name
        from conductor.transports.socket import ListeningTransport

        runtime = self._runtime
        peer = runtime.router.peers.get(name)
        if peer is None:
            return  # it is not used
        transport = ListeningTransport(line_limit=runtime.options.line_limit)
        successor = successor_name(name)
        effects = runtime.router.listening(name, transport.server(successor))
        await runtime.connect(successor, transport)
        runtime.apply(effects)
        await asyncio.sleep(_LAUNCH)
        if runtime.has(peer):
            runtime.apply(runtime.router.not_launching(peer.name))


def _real(folders: tuple[str, ...]) -> tuple[str, ...]:
    """Folders without links. A text that is no path becomes `/`."""
    real = []
    for folder in folders:
        try:
            real.append(os.path.realpath(folder))
        except (OSError, ValueError):
            real.append("/")
    return tuple(real)
