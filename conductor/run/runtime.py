"""Runs one chain on an event loop: connections, outboxes, backpressure, teardown.

    runtime = Runtime(planned, "agent", StdioTransport(), options)
    exit_code = await runtime.run()

Nothing is awaited between reading a chunk and queueing everything it leads to: so messages keep
their order without locks, and each destination is written once a chunk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVarTuple

import msgspec

from conductor.code_cache import hold
from conductor.core import UPSTREAM, Closure, Effect, Entry, parts
from conductor.core.roles.initialize_params import has_section
from conductor.core.router import Router, RouterOptions
from conductor.editor.transport import DeskTransport
from conductor.errors import ComponentError, counted, one_line, place_of
from conductor.mcp.transport import BridgedTransport
from conductor.run.backpressure import Backpressure
from conductor.run.connections import Connections
from conductor.run.outboxes import ChainOutboxes
from conductor.run.owner import Owner
from conductor.run.performer import Performer
from conductor.run.planned import Planned
from conductor.run.records import Records
from conductor.run.service_requests import ServiceRequests
from conductor.run.supervisor import Supervisor
from conductor.run.teardown import Phase, Teardown, closure, with_setters
from conductor.spec import lacking
from conductor.spec.options import Options
from conductor.transports import private
from conductor.transports.base import Ended, Transport
from conductor.transports.buffers import Tidying
from conductor.transports.task_group import TaskGroup

if TYPE_CHECKING:
    from conductor.core.state import Peer
    from conductor.run.pauses import Pauses
    from conductor.run.pinning import Pinning
    from conductor.run.rearrangement import Rearrangement
    from conductor.spec.consent.tools import ToolsQuestion
    from conductor.spec.model import Spec

_SETTLE: Final = 1.0
"""The seconds without progress after which requests that a failure has not touched are given up: a
component on a busy machine must be able to hand on an answer that it already has."""
_MOST_SETTLE: Final = 3.0
"""The seconds after which such requests are given up in any case."""

_FIRST_REQUEST: Final = 2.0
"""The seconds in which a client must send the request that gets the report of a failed start."""

_LOADS: Final = 0.1
"""The seconds until code that no first message needs is loaded: most agents answer later."""

_OBSERVED: Final = 2.0
"""Seconds that components which only get copies have for the last of them, at most."""
_SOON: Final = 0.05
"""Seconds that entries of the log wait for others."""

_Args = TypeVarTuple("_Args")


class _OverError(Exception):
    """Ends a group of tasks, which asyncio's cannot do by itself."""


class Runtime:
    """One chain, from its first message to the last process gone.

    Args:
        planned: The components, from the client's side to the agent's.
        mode: `agent`, `proxy`, or `auto`: the first request decides.
        upstream: The connection to the client or the outer conductor.
        options: How the chain is run.
        records: The records of the chain; None: there are none.
        owner: The owner of the chain; None: nobody wants to hear of it.
    """

    _carrying: TaskGroup
    """The tasks that connections need until they are closed, which is as long as the chain runs."""

    def __init__(
        self,
        planned: Sequence[Planned],
        mode: str,
        upstream: Transport,
        options: Options,
        records: Records | None = None,
        owner: Owner | None = None,
    ) -> None:
        self.options = options
        self.records = records = records or Records(lambda level, name, text: None)
        self.owner = owner or Owner()
        self.log = records.log
        self.rearrangement: Rearrangement | None = None
        """Made once the components are to change, or a component is paused."""
        self._pauses: Pauses | None = None
        self._hands_on = False
        """Whether the log hands on its entries soon."""
        records.begin(planned)
        self.planned = {p.name: p for p in planned}
        """The running components, by name, in order."""
        self.router = self._new_router(mode)
        self._transports = {UPSTREAM: upstream, **{p.name: p.transport for p in planned}}
        self.connections = Connections(self, self._transports, options.grace)
        self._tail = planned[-1].name if mode != "proxy" else ""
        """The last component, where that may be an agent."""
        self._bridged: dict[str, BridgedTransport] = {}
        """The transports of agents with which sessions are set up by the client."""
        self._agents = {self._tail, *(name for p in planned for name in p.component.agents)}
        self._pinnings: list[Pinning] = []
        """The keepers of the tools of servers, one for each agent that needs one."""
        self.backpressure = self._new_backpressure()
        self._teardown = Teardown(self.router)
        self._heed_audit_rule()
        self._beside: TaskGroup | None = None
        """Tasks that end before connections are closed; None: no such task may begin any more."""
        self.performer = Performer(self)
        self.outboxes = self._new_outboxes()
        self.services = ServiceRequests(self, planned)
        self.supervisor = Supervisor(self)

    def _new_router(self, mode: str) -> Router:
        options = self.options
        return Router(
            [p.component for p in self.planned.values()],
            mode,
            options=RouterOptions(
                upstream=self.owner.outer_dialect,
                logging=self.records.entries.wants(Entry),
                tracing=self.records.entries.watches,
                reserved=options.reserved,
                audited=self.records.audited_among(self.planned.values()),
                propagating=options.propagate and options.sends,
                resolving=True,
                keeping=options.keeping != "nowhere",
            ),
        )

    def _new_backpressure(self) -> Backpressure:
        peers = [p.name for p in self.planned.values() if p.component.peer_agent]
        terminals = (UPSTREAM, *([self._tail] if self._tail else []), *peers)
        stalled = lambda name: self.guarded(self._stalled, name)  # noqa: E731
        return Backpressure(self._transports, terminals, self.options, stalled)

    def _new_outboxes(self) -> ChainOutboxes:
        perform, entries = self.performer.perform, self.records.entries
        entry = entries.add if entries.wants(Entry) else None
        room = self.options.high_water // 2
        return ChainOutboxes(self.router, perform, self.connections.held, room, entry)

    def _heed_audit_rule(self) -> None:
        """Has the chain end once no audit can be written, if it may not run without an audit."""
        if self.options.audit_rule:
            for sink in self.records.entries.sinks:
                sink.must_last(self._unrecorded)

    @property
    def failure(self) -> Closure | None:
        """Why the chain failed, or None."""
        return self._teardown.failure

    @property
    def is_closing(self) -> bool:
        """Whether the connections are being closed."""
        return self._teardown.phase is Phase.CLOSING

    async def run(self) -> int:
        """Serves until the client is done or the chain fails; 0 or 1."""
        loop = asyncio.get_running_loop()
        self._tidying = Tidying(loop)
        loads = loop.call_later(_LOADS, _load)
        self.apply(self.router.start())
        for spec, text in self._lacking():
            self.log("warning", spec.name, text)
        try:
            async with TaskGroup(self.defect) as self._carrying:
                try:
                    await self._serve()
                finally:
                    await self._shut_down()
        finally:
            loads.cancel()
            self._tidying.stop()
            await self.records.close(self.failure)
        return 1 if self.failure is not None else 0

    async def _serve(self) -> None:
        """Carries messages until the chain may be closed."""
        try:
            async with TaskGroup(self.defect) as group:
                self._beside = group
                try:
                    await self._connected()
                    await self._drain()  # before anything is closed: late answers still leave
                finally:
                    self._beside = None
                raise _OverError
        except* _OverError:
            pass

    async def _connected(self) -> None:
        """Starts the components, and takes messages until the chain has a reason to end."""
        try:
            for name, planned in self.planned.items():
                await self.connect(name, planned.transport)
            self.owner.connected()
            # Last, so that the first request meets a chain that is complete.
            await self.connect(UPSTREAM, self._transports[UPSTREAM])
            private.clear()  # nothing is to be done before the components have started
            self.supervisor.keep_time()
            if self.options.reload:
                self.start(self.supervisor.watch())
        except Exception as error:
            self.defect(error)
        await self._teardown.begun()

    # -- tasks beside the messages ---------------------------------------------------------------

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        """Runs `work` until the connections are closed; not at all from then on."""
        if self._beside is not None:
            return self._beside.start(work)
        work.close()
        return None

    def carry(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs `work`, which the close of a connection ends."""
        return self._carrying.start(work)

    def guarded(self, callback: Callable[[*_Args], None], *arguments: *_Args) -> None:
        """Calls a callback of the event loop; an exception in it fails the chain."""
        try:
            callback(*arguments)
        except Exception as error:
            self.defect(error)

    def defect(self, error: Exception) -> None:
        """Fails the chain, in order: an error that nobody expects may have lost a message, and the
        sender of the message would wait for ever."""
        why = Closure(f"internal error: {error!r}", f"please report this: {place_of(error)}")
        if self.failure is None:
            self.fail(why)
        else:
            self.log("error", "conductor", why.text)

    def lacks(self) -> list[str]:
        """The components that do not do all of their work, in a line each."""
        lines = ((spec.name, text.replace("\n", "; ")) for spec, text in self._lacking())
        return [f"{name}: {one_line(text, 1000)}" for name, text in lines]

    def _lacking(self) -> Iterator[tuple[Spec, str]]:
        for spec in (spec for planned in self.planned.values() for spec in planned.specs):
            for text in lacking.notes(spec):
                yield spec, text

    # -- other components ----------------------------------------------------------------------

    def reload(self) -> None:
        """Gives the chain the components that it is to have by now, and replaces those that stay by
        their new builds, all of it once nothing is open."""
        self.supervisor.configure_anew()
        self.start(self._rearranger().reload())

    def renew(self, name: str) -> None:
        """Has another instance of a component take its place, between two messages."""
        self.start(self._rearranger().renew([name]))

    async def rearrange(self, specs: Sequence[Spec], *, now: bool = False) -> bool:
        """Gives the running chain other components, between two messages.

        New components start first. If they cannot, or the plan is refused, the reason is logged and
        the chain stays as it was. A call that waits gives way to a newer call.

        Args:
            specs: All components, in order. The agent cannot change.
            now: Do not wait until nothing is open: a component that goes is settled as if it
                had ended, and no further message of it reaches anybody. It also goes if nothing can
                take its place.

        Returns:
            Whether the chain has the components of `specs`.
        """
        return await self._rearranger().rearrange(specs, now=now)

    def _rearranger(self) -> Rearrangement:
        if self.rearrangement is None:
            from conductor.run.rearrangement import Rearrangement

            self.rearrangement = Rearrangement(self)
        return self.rearrangement

    async def rearranging(self) -> None:
        """Waits until the chain has the components that it was given last."""
        if self.rearrangement is not None:
            await self.rearrangement.done()

    def rearranged(
        self, planned: Sequence[Planned], gone: Sequence[str], joined: Mapping[str, str]
    ) -> None:
        """The router has other components: all parts that know them by name follow.

        Args:
            planned: All components, in order.
            gone: The names of components that are not there any more, or have been replaced.
            joined: The own names of new components, by the names that they had before they joined.
        """
        for name in gone:
            self.services.forget(name)
            self.forget(name)
        for key, name in joined.items():
            self.backpressure.drop(key)
            self.connections.rename(key, name)
        self.records.rearranged(planned, joined)
        self.planned.clear()
        self.planned.update({p.name: p for p in planned})
        self.connections.reorder([*self.planned])
        self.services.rearranged(planned)
        if self._pauses is not None:
            self._pauses.apply()

    def forget(self, name: str) -> None:
        """A component has left: its connection is closed, and nothing waits for it."""
        self.records.entries.forget(name)
        self.backpressure.drop(name)
        self.outboxes.taken(name)
        self.outboxes.lost.pop(name, None)
        self.connections.remove(name)

    @property
    def pauses(self) -> Pauses:
        """The paused components."""
        if self._pauses is None:
            from conductor.run.pauses import Pauses

            self._pauses = Pauses(self)
        return self._pauses

    async def pause(self, name: str, *, paused: bool) -> None:
        """Has every message go past a component, or through it again, once nothing is open.

        Raises `ConductorError` where no pause is possible: for the agent, for a component that the
        managed policy requires, for a name that no component has.
        """
        refusal = self.pauses.refusal(name, paused=paused)
        if refusal is not None:
            raise refusal
        if (name in self.pauses.names) is not paused:
            await self._rearranger().pause(name, paused=paused)

    def returned(self, name: str) -> None:
        """A component that was started again is there."""
        self.apply(self.router.returned(name))
        if self._pauses is not None:
            self._pauses.tell(name)

    def component(self, name: str) -> Planned | None:
        """A component, also one that is to join, by the name it has until then."""
        joins = self.rearrangement.of(name) if self.rearrangement is not None else None
        return self.planned.get(name) or joins

    def has(self, peer: Peer) -> bool:
        """Whether a peer is in the chain, or is to join it."""
        return self.router.peers.get(peer.name) is peer

    def health(self) -> list[tuple[str, str]]:
        """The name of each component, and its state in a line."""
        from conductor.run import health

        paused = self._pauses.names if self._pauses is not None else ()
        held = self.connections.held
        return list(health.listed(self.router, self.planned, self.records.events, held, paused))

    # -- the conductor and the client ------------------------------------------------------------

    def release(self) -> None:
        """Sends on the prompts that were held, unless somebody else still holds them
        (`Router.hold`)."""
        self.apply(self.router.release())

    def ask(self, method: str, params: bytes, token: int) -> None:
        """Sends the client a request of the conductor's own (`Router.ask`); the owner hears of its
        answer, maybe before this returns."""
        self.apply(self.router.ask(method, params, token))

    # -- one chunk ---------------------------------------------------------------------------

    def feed(self, name: str, frames: list[bytes]) -> None:
        """Routes lines of one peer and writes every destination once."""
        entries, teardown = self.records.entries, self._teardown
        size = sum(map(len, frames))
        if entries.watches:
            entries.passed(size)
            frames = entries.without_record(name, self.component(name), frames)
            if not frames:
                self._hand_on()
                return
        if teardown.counts:
            planned = self.planned.get(name)
            teardown.passed(name, frames, host=planned is not None and planned.component.hosts)
        self._tidying.passed(size)
        self.outboxes.feed(name, frames)
        if name == UPSTREAM and self.owner.judged is not None:
            self.services.judge(self.owner.judged)
        self.flush(name)
        if self.rearrangement is not None:
            self.rearrangement.passed()
        self.owner.passed()

    def flush(self, source: str) -> None:
        """Writes the queued frames; `source` waits if they are too many for a peer. Their entries
        go on record afterwards: messages do not wait for entries."""
        queues = self.outboxes.queues
        while queues:
            name = next(iter(queues))
            frames = self.outboxes.taken(name)
            # A single frame may be megabytes long: not copied.
            data = frames[0] if len(frames) == 1 else b"".join(frames)
            if name == UPSTREAM:
                self.owner.answered(data)
            transport = self._transports.get(name)
            if transport is not None:
                transport.write(data)
                if transport.buffered:
                    self.backpressure.wrote(name, source)
        self._hand_on()

    def _hand_on(self) -> None:
        """Has the log hand on its entries, now or soon."""
        entries = self.records.entries
        entries.mode = self.router.mode
        if not entries.waits:
            return  # nobody watches
        if entries.is_due:
            entries.drain()
        elif not self._hands_on:
            self._hands_on = True
            asyncio.get_running_loop().call_later(_SOON, self.guarded, self._handed_on)

    def _handed_on(self) -> None:
        self._hands_on = False
        self.records.entries.drain()

    def apply(self, effects: Iterable[Effect], source: str = UPSTREAM) -> None:
        """Performs effects, and writes the queued frames."""
        self.outboxes.apply(effects)
        self.flush(source)

    # -- connections ---------------------------------------------------------------------------

    async def connect(self, name: str, transport: Transport) -> bool:
        """Puts a transport in a component's place and opens it; whether that succeeded."""
        try:
            await self.connections.open(name, self._wrapped(name, transport))
        except ComponentError as error:
            label = self.router.peers[name].label
            data = {"component": name, **error.data}
            self.component_ended(name, Closure(f"{label}: {error.text}", error.hint, data))
            return False
        return True

    def _wrapped(self, name: str, transport: Transport) -> Transport:
        """The client's transport with the desk before it, or an agent's with the bridge before it.
        The bridge gives the agent the MCP servers of proxies in a form that it accepts."""
        if name == UPSTREAM:
            log, adapted = self.log, self.records.adapted
            return DeskTransport(transport, self.router, log, adapted, self.defect)
        if name not in self._agents:
            return transport
        self._bridged[name] = BridgedTransport(
            transport,
            self,
            self.planned[name].mcp_bridge,
            line_limit=self.options.line_limit,
            reaches=self.options.pin_mcp and self.router.mode != "proxy",
            guardian=self.owner.launcher.guardian if self.owner.launcher is not None else None,
        )
        return self._bridged[name]

    def new_keeper(self) -> Pinning:
        """Makes the keeper of the tools of an agent's MCP servers."""
        from conductor.run.pinning import Pinning  # no start waits for it

        self._pinnings.append(Pinning(self))
        return self._pinnings[-1]

    def agree_to_tools(self, question: ToolsQuestion, *, lasting: bool) -> str:
        """The user has agreed to changed tools; why that cannot be kept, if it cannot."""
        problems = [each.agree(question, lasting=lasting) for each in self._pinnings]
        for bridged in self._bridged.values():
            bridged.agreed()
        return next(filter(None, problems), "")

    def is_proxied(self) -> bool:
        """Whether somebody may declare MCP servers of ACP transport: a proxy, or a client that
        takes part in SCP."""
        scp = has_section(self.router.initialized)
        return self.router.mode == "agent" and (len(self.planned) > 1 or scp)

    def shows_panels(self) -> bool:
        """Whether the client shows panels."""
        if b"html_panel" not in self.router.initialized:
            return False
        from conductor.editor.messages import capabilities

        return capabilities(self.router.initialized).html_panel

    def oversized(self, name: str, head: bytes, limit: int) -> None:
        """A line beyond the limit was skipped: a request in it is answered, if its id was read."""
        text = f"a line longer than {limit} bytes was skipped"
        self.log("warning", name, f"{text}: {one_line(repr(head), 120)}")
        self.apply(self.router.skipped(name, head, text))

    def undeliverable(self, name: str, frame: bytes, why: str) -> None:
        """The transport of `name` refused a line; the router answers a request in it."""
        self.apply(self.router.undeliverable(name, frame, why))

    def ended(self, name: str, how: Ended) -> None:
        """A connection is gone: the client's begins the end, a component's fails the chain."""
        self.connections.gone(name)
        if name == UPSTREAM:
            self._client_ended(how)
            return
        if "function" in how.data and self.is_closing:
            self.log("error", name, f"it {how.text}")  # nothing else would tell
        if name not in self.planned and self.component(name) is not None:
            self.apply(self.router.closed(name, self._closure(name, how)))
            return
        final = how.final or name in self.performer.reports.last_words
        self.component_ended(name, self._closure(name, how), final=final)

    def _client_ended(self, how: Ended) -> None:
        if self._teardown.phase is Phase.SERVING and how.data.get("broken"):
            self.log("info", UPSTREAM, how.text)
            # It cannot read answers any more, so the chain waits for nothing.
            self.options = msgspec.structs.replace(self.options, drain=0.0)
        elif "function" in how.data:  # the client is a function, and has failed
            text = f"the client, `{how.data['function']}`, {how.text}"
            self.fail(Closure(text, "correct it", how.data))
        self._teardown.client_gone()
        self.apply(self.router.upstream_ended(Closure("the client has closed its end")))

    def component_ended(self, name: str, reason: Closure, *, final: bool = False) -> None:
        """A component has ended. `final`: it will not get better."""
        self.backpressure.forget(name)
        self.outboxes.taken(name)
        self.services.forget(name)
        self._report_lost(name)
        peer = self.router.peers[name]
        reason = with_setters(peer.component, reason, starting=peer.starting)
        if not self.is_closing and self.failure is None:
            self.supervisor.failed(name, reason, final=final)
            return
        if self.failure is None:  # it has received everything, and sent all it had
            self.apply(self.router.settled(name))
        # It ends because the chain does: requests to it are answered with the chain's reason.
        self.apply(self.router.closed(name, self.failure or reason))

    def _report_lost(self, name: str) -> None:
        """Logs the number of copies for which an observer was too slow."""
        lost = self.outboxes.lost.pop(name, 0) + self.router.forget_lost(name)
        if lost:
            text = f"it was too slow for {counted(lost, 'copy')} of the messages that it observes"
            self.log("warning", name, text)

    def _closure(self, name: str, how: Ended) -> Closure:
        peer = self.router.peers[name]
        last_words = self.performer.reports.last_words.pop(name, None)
        if last_words is not None:
            return last_words
        peer = peer.launched_by or peer  # a proxy's successor connection is a part of it
        planned = self.planned.get(peer.name)
        host = planned is not None and bool(planned.guests)
        command = self.agent_command if peer.name == self._tail else ()
        return closure(peer.name, peer.label, how, host=host, command=command)

    @property
    def agent(self) -> str:
        """The last component, if it is, or may be, the agent; empty: there is none."""
        return "" if self.router.mode == "proxy" else self._tail

    @property
    def agent_command(self) -> Sequence[str]:
        """The command of the agent; empty: the chain has none, or it is no program."""
        agent = self.planned.get(self._tail)
        return (agent.specs[-1].command or ()) if agent is not None and agent.specs else ()

    def _stalled(self, name: str) -> None:
        text = f"took nothing for {self.options.stall:g} s while others waited for it"
        how = Ended(f"is stalled: it {text}", hint="raise the stall limit if that is normal")
        if name == UPSTREAM:
            self.fail(Closure(f"the client {how.text}", how.hint))
        else:
            self.ended(name, how)

    def record(self, event: str, name: str, text: str) -> None:
        """Something has happened to a component: counts it, and puts it on record."""
        if self.records.happened(event, name, text):
            self.start(self._save_ring(text))

    async def _save_ring(self, why: str) -> None:
        path = await self.save_ring(why)
        if path:
            self.log("warning", "conductor", f"the last messages are in `{path}`")

    async def save_ring(self, why: str) -> str:
        """See `Records.save_ring`."""
        return await self.records.save_ring(why, self._mode)

    def _mode(self) -> str:
        return self.router.mode

    # -- the end -------------------------------------------------------------------------------

    def stop(self) -> None:
        """Ends the chain, for a signal: it waits for nothing but the components' grace."""
        self._teardown.stop()

    def fail(self, reason: Closure) -> None:
        """Ends the chain, since it may not go on."""
        reason = self.records.named(reason, self._mode)
        if self._teardown.fail(reason):
            self.owner.failed(reason)

    def _unrecorded(self, why: str) -> None:
        self.fail(Closure(f"the chain is not recorded any more: {why}", self.options.audit_rule))

    async def _drain(self) -> None:
        """Waits until the chain may end."""
        if self.failure is not None:
            await self._teardown.first_request(_FIRST_REQUEST)
            await self._teardown.settled(_SETTLE, _MOST_SETTLE)
        elif self._teardown.phase is Phase.DRAINING:
            await self._teardown.settled(self.options.drain, self.options.drain_total)
            self._report_overdue()
            if self.router.observers():
                await self._teardown.observed(_OBSERVED, self.services.is_serving)

    def _report_overdue(self) -> None:
        """Fails the chain for requests it did not answer in time after the client closed its end.

        With `drain` 0 the client did not want answers.
        """
        if not self.options.drain:
            return
        why = "before the client closed its end"
        hint = f"it was given {self.options.drain:g} s without a message; raise `drain`"
        reason, effects = self.router.overdue(why, hint)
        if reason is not None:
            self.fail(reason)
        self.apply(effects)

    async def _shut_down(self) -> None:
        """Closes the chain from head to tail, then the connection to the client."""
        self._teardown.close()
        for bridged in self._bridged.values():
            await bridged.shut_down()  # it tells components, which are still connected
        self.apply(self.router.abandon(self.failure or Closure("the conductor was stopped")))
        self.records.save_failed()  # before anything takes long: an editor may end us
        for name in self.planned:
            self._report_lost(name)
        await self.connections.shut_down()
        await self.performer.close()
        self.records.entries.drain()  # the file of numbers is written with them for the last time
        await self.services.close()  # the last words of components may be counts


def _load() -> None:
    """Loads the code that each session needs. Code that is loaded later stays as it is now: a chain
    may last longer than its files do."""
    hold(("conductor.core", "json"), parts.modules(client=True))
    parts.load(client=True)
