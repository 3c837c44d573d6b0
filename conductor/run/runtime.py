"""Runs one chain on an event loop: connections, outboxes, backpressure, teardown.

    runtime = Runtime(planned, "agent", StdioTransport(), options)
    exit_code = await runtime.run()

Nothing is awaited between reading a chunk and queueing everything it leads to: so messages keep
their order without locks, and each destination is written once a chunk.
"""

from __future__ import annotations

import asyncio
import collections
import itertools
import os
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from conductor.core import (
    UPSTREAM,
    Adapted,
    Answered,
    Changed,
    Closure,
    Dialect,
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
    Router,
    RouterOptions,
    Serve,
    Trace,
    Violated,
    Wake,
    services,
)
from conductor.core.policy import checks
from conductor.core.rearranging import newcomer
from conductor.core.roles.initialize_params import has_section
from conductor.core.writer import Writer
from conductor.editor.transport import DeskTransport
from conductor.errors import ComponentError, ConductorError, counted, one_line, with_log
from conductor.mcp.transport import BridgedTransport
from conductor.run.backpressure import Flow
from conductor.run.connections import Connections, Handover
from conductor.run.outboxes import Outboxes
from conductor.run.plan import Options, Planned
from conductor.run.report_checks import (
    ALLOWED,
    REFUSED,
    Auditing,
    Reports,
    Tracing,
    ViolationText,
)
from conductor.run.segment_spec import Recovered
from conductor.run.service_requests import ServiceRequests, Stand
from conductor.run.supervisor import Supervisor
from conductor.run.tasks import Tasks
from conductor.run.teardown import Phase, Teardown, closure
from conductor.spec import lacking
from conductor.transports import private
from conductor.transports.base import Ended, Transport
from conductor.transports.buffers import Tidying

if TYPE_CHECKING:
    from conductor.core.state import Peer
    from conductor.run.kept_prompts import KeptPrompts
    from conductor.run.launch import Launcher
    from conductor.run.pauses import Pauses
    from conductor.run.rearrangement import Rearrangement
    from conductor.run.ring import Ring, Saved
    from conductor.run.traced import TracedChain
    from conductor.spec.model import Spec

_SETTLE: Final = 1.0
"""Seconds without progress after which requests that a failure has not touched are given up: a
component on a busy machine must be able to hand on an answer that it already has …"""
_MOST_SETTLE: Final = 3.0
"""… and seconds after which they are given up in any case."""

_FIRST_REQUEST: Final = 2.0
"""Seconds a client has to send the request that a failed start is reported to."""

_LAUNCH: Final = 5.0
"""Seconds a proxy of unknown dialect has to launch its successor, or to refuse to."""

_OBSERVED: Final = 2.0
"""Seconds that components which only get copies have for the last of them, at most."""

_NEWCOMER: Final = newcomer("")
"""How the name of a component ends that is to join the chain."""

_PLAIN: Final = Writer()
"""Writes messages as agents read them."""

_FAILURES: Final = frozenset({"restart", "bypass"})
"""Events after which the chain goes on, and the ring is written: a component failed."""

Log = Callable[[str, str, str], None]
Taker = Callable[[bytes, bytes], None]
"""Takes the answer to a request of the conductor's own: `b"result"` or `b"error"`, and its JSON."""


class Keeping(Enum):
    """Where is kept what components add to prompts."""

    FILE = "file"
    MEMORY = "memory"
    NOWHERE = "nowhere"


class Preparation(Protocol):
    """What has prepared the components of a chain, and can prepare others while it runs."""

    @property
    def launcher(self) -> Launcher:
        """Plans other components for the running chain."""

    def respec(self) -> Sequence[Spec]:
        """The components as they are to be from now on, at a reload. Raises `ConductorError`: then
        they stay."""

    def sources(self) -> Sequence[str]:
        """The files that `respec` reads beside the components' own."""

    def connected(self) -> None:
        """The components are connected; the client's first message comes after this."""

    def held(self, session: str | None) -> None:
        """A prompt is held (`Runtime.hold`)."""


class Runtime:
    """One chain, from its first message to the last process gone.

    Args:
        planned: The components, from the client's side to the agent's.
        mode: `agent`, `proxy`, or `auto`: the first request decides.
        upstream: The connection to the client or the outer conductor.
        options: How the chain is run.
        log: Writes a line: level, component name, text.
        outer_dialect: The dialect of the outer conductor, where that is known.
        tracers: Each gets every message.
        auditor: Records violations and changes; None: no audit.
        on_failure: Called once, as soon as the chain fails.
        preparation: Has the components as they are to be at a reload; None: they stay, and only
            new builds and changed settings are used.
        log_file: The path of the log file, which failures name; empty: there is none.
        stand: Stands in for the performers of services (`ServiceRequests`); None: nobody does.
        ring: Keeps what passes, for a file once something fails; None: nothing is kept.
        keeping: Where is kept what components add to prompts (`conductor.run.kept_prompts`).
    """

    def __init__(
        self,
        planned: Sequence[Planned],
        mode: str,
        upstream: Transport,
        options: Options,
        *,
        log: Log,
        outer_dialect: Dialect | None = None,
        tracers: Sequence[Tracing] = (),
        auditor: Auditing | None = None,
        on_failure: Callable[[Closure], None] | None = None,
        preparation: Preparation | None = None,
        log_file: str = "",
        stand: Stand | None = None,
        ring: Ring | None = None,
        keeping: Keeping = Keeping.FILE,
    ) -> None:
        self._options = options
        self._keeping = keeping
        self._log_file = log_file
        self._ring = ring
        self._saved: Saved | None = None
        """The file of the ring that is written when the chain has failed."""
        self._log = log
        self._audit = auditor or Auditing()
        self._on_failure = on_failure
        self._preparation = preparation
        self._rearrangement: Rearrangement | None = None
        """Made once the components are to be others, or one is paused."""
        self._pauses: Pauses | None = None
        self.after_message: Callable[[], object] | None = None
        """Called when what a peer sent has been routed and written."""
        self.after_feed: Callable[[], object] | None = None
        """The same, for who follows the stages of the chain (`conductor.run.stages`)."""
        self.before_answer: Callable[[bytes], object] | None = None
        """Called with the lines that are about to be written to the client."""
        self.in_context: Callable[[int, bytes], bytes] = lambda number, params: params
        """Called for a request to the agent, with the number of the message and its params; returns
        those with the trace context in them."""
        self._events: Counter[tuple[str, str]] = Counter()
        """What has happened to components, by event and name, for `health`."""
        self._traced: TracedChain | None = None
        if tracers:
            from conductor.run.traced import TracedChain  # few chains have a trace

            self._traced = TracedChain(tracers, planned, log)
        planned = [self.watched(each) for each in planned]
        self.planned = {p.component.name: p for p in planned}
        """What runs, by name, in order."""
        self._audit.begun({name: p.guests for name, p in self.planned.items() if p.guests})
        if ring is not None:
            ring.chain(planned)
        self._audits = auditor is not None
        self.router = self._new_router(mode, outer_dialect)
        transports = {UPSTREAM: upstream, **{n: p.transport for n, p in self.planned.items()}}
        self._transports = transports
        self.connections = Connections(self, transports, options.grace)
        held = self.connections.held
        self._outboxes = Outboxes(self.router, self._perform, held, options.high_water // 2)
        self._services = ServiceRequests(
            planned,
            self.router,
            options,
            log,
            self.apply,
            held=held,
            stand=stand,
            audit=self._audit if auditor is not None else None,
        )
        self._tail = planned[-1].component.name if mode != "proxy" else ""
        """The last component, where that may be an agent."""
        self._bridged: BridgedTransport | None = None
        peers = [p.component.name for p in planned if p.component.peer_agent]
        terminals = (UPSTREAM, *([self._tail] if self._tail else []), *peers)
        self.flow = Flow(transports, terminals, options, self._stalled)
        self._teardown = Teardown(self.router)
        if options.audit_rule:
            self._audit.must_last(self._unrecorded)
        self._tasks = Tasks(self.fail)
        self.supervisor = Supervisor(self, self.planned, self._tasks.start)
        self._takers: dict[int, Taker] = {}
        """Of open requests of `ask`, by token."""
        self._tokens = itertools.count(1)
        self._reports = Reports(self.planned, self.router, self._audit)

    def audited_among(self, planned: Iterable[Planned]) -> list[str]:
        """The names of those whose changes the router reports, for an audit."""
        # A host that polices its guests reports what they change.
        return [
            p.component.name
            for p in planned
            if self._audits and services.CHANGED not in (p.component.services or ())
        ]

    def _new_router(self, mode: str, outer_dialect: Dialect | None) -> Router:
        return Router(
            [p.component for p in self.planned.values()],
            mode,
            options=RouterOptions(
                upstream=outer_dialect,
                tracing=self._traced is not None,
                reserved=self._options.reserved,
                audited=self.audited_among(self.planned.values()),
                propagating=self._options.propagate and self._options.sends,
                resolving=True,
                keeping=self._keeping is not Keeping.NOWHERE,
            ),
        )

    @property
    def ring(self) -> Ring | None:
        """Keeps what passes; None: nothing is kept."""
        return self._ring

    @property
    def failure(self) -> Closure | None:
        """Why the chain failed, or None."""
        return self._teardown.failure

    async def run(self) -> int:
        """Serves until the client is done or the chain fails; 0 or 1."""
        loop = asyncio.get_running_loop()
        self._tidying = Tidying(loop)
        self._tasks.watch(loop)
        self.apply(self.router.start())
        self._report_lacking()
        try:
            for name, planned in self.planned.items():
                await self.connect(name, planned.transport)
            if self._preparation is not None:
                self._preparation.connected()
            # Last, so that the first request meets a chain that is complete.
            await self.connect(UPSTREAM, self._transports[UPSTREAM])
            private.clear()  # nothing is to be done before the components have started
            self.supervisor.keep_time()
            if self._options.watch:
                self._tasks.start(self.supervisor.watch())
            await self._teardown.begun()
            await self._drain()  # before anything is closed: late answers still leave
        finally:
            try:
                await self._shut_down()
            finally:
                self._tasks.unwatch(loop)
                self._tidying.stop()
                if self._traced is not None:
                    self._traced.close()
                self._audit.end(self.failure.text if self.failure is not None else None)
        return 1 if self.failure is not None else 0

    def _report_lacking(self) -> None:
        """Logs which components do not do all that they are there for."""
        for spec, text in self._lacking():
            self._log("warning", spec.name, text)

    def lacks(self) -> list[str]:
        """The same now, in a line each."""
        lines = ((spec.name, text.replace("\n", "; ")) for spec, text in self._lacking())
        return [f"{name}: {one_line(text, 1000)}" for name, text in lines]

    def _lacking(self) -> Iterator[tuple[Spec, str]]:
        for spec in (spec for planned in self.planned.values() for spec in planned.specs):
            for text in lacking.notes(spec):
                yield spec, text

    async def _drain(self) -> None:
        """Waits for what the end of the chain has to wait for."""
        if self.failure is not None:
            await self._teardown.first_request(_FIRST_REQUEST)
            await self._teardown.settled(_SETTLE, _MOST_SETTLE)
        elif self._teardown.phase is Phase.DRAINING:
            await self._teardown.settled(self._options.drain, self._options.drain_total)
            self._report_overdue()
            if self.router.observers():
                await self._teardown.observed(_OBSERVED)

    def reload(self) -> None:
        """Gives the chain the components that it is to have by now, and replaces those that stay by
        their new builds, each between two messages."""
        if self._preparation is None:
            self.supervisor.reload()
        else:
            self._tasks.start(self._reload(self._preparation))

    def sources(self) -> Sequence[str]:
        """The files of the configuration: with `--watch` a change of one is a reload."""
        return () if self._preparation is None else self._preparation.sources()

    async def _reload(self, preparation: Preparation) -> None:
        reloaded = False

        def reload(stay: Sequence[Planned], changed: bool) -> None:
            nonlocal reloaded
            reloaded = True
            self.supervisor.reload([p.component.name for p in stay], only_new=changed)

        try:
            await self.rearrange(preparation.respec(), kept=reload)
        except ConductorError as error:
            text = f"the chain stays as it was: {error.with_hint}"
            self._log("error", "conductor", text)
        if not reloaded:
            self.supervisor.reload()

    async def rearrange(
        self,
        specs: Sequence[Spec],
        *,
        now: bool = False,
        kept: Callable[[Sequence[Planned], bool], None] = lambda planned, changed: None,
    ) -> bool:
        """Gives the running chain other components, between two messages.

        What is new starts first. If it cannot, or the plan is refused, that is logged and the chain
        stays as it was. One that waits gives way to a newer call.

        Args:
            specs: All components, in order. The agent cannot change.
            now: Do not wait until nothing is open: what goes is settled as if it had ended, and
                nothing more of it reaches anybody. It also goes if nothing can take its place.
            kept: Called with what stays, and whether anything else changes.

        Returns:
            Whether the chain is as `specs` say.
        """
        return await self._rearranger().rearrange(specs, now=now, kept=kept)

    def _rearranger(self) -> Rearrangement:
        if self._rearrangement is None:
            from conductor.run.rearrangement import Rearrangement

            launcher = None if self._preparation is None else self._preparation.launcher
            self._rearrangement = Rearrangement(self, launcher)
        return self._rearrangement

    async def rearranging(self) -> None:
        """Waits until the chain has the components that it was given last."""
        if self._rearrangement is not None:
            await self._rearrangement.done()

    def is_settled(self, planned: Iterable[Planned]) -> bool:
        """Whether none of these is being started again or replaced at this moment."""
        return self.supervisor.is_settled(p.component.name for p in planned)

    def rearranged(
        self, planned: Sequence[Planned], gone: Sequence[str], joined: Mapping[str, str]
    ) -> None:
        """The router has other components: all that knows them by name follows.

        Args:
            planned: All components, in order.
            gone: The names of those that are not there any more, or have been replaced.
            joined: By the names that new ones had before they joined, their own.
        """
        for name in gone:
            self._services.forget(name)
            self.forget(name)
        for key, name in joined.items():
            self.flow.drop(key)
            self.connections.rename(key, name)
        if self._traced is not None:
            self._traced.rearranged(planned, joined)
        if self._ring is not None:
            self._ring.chain(planned)
        self.planned.clear()
        self.planned.update({p.component.name: p for p in planned})
        self.connections.reorder([*self.planned])
        self._services.rearranged(planned)
        self.supervisor.rearranged(joined.values())
        self._audit.begun({name: p.guests for name, p in self.planned.items() if p.guests})
        for name in joined.values():
            self._audit.joined(self.planned[name].specs)
        if self._pauses is not None:
            self._pauses.apply()

    def watched(self, planned: Planned) -> Planned:
        """A new component, as the trace sees it."""
        return planned if self._traced is None else self._traced.watched(planned)

    def forget(self, name: str) -> None:
        """A component has left: its connection is closed, and nothing waits for it."""
        if self._traced is not None:
            self._traced.forget(name)
        self.flow.drop(name)
        self._outboxes.discard(name)
        self._outboxes.lost.pop(name, None)
        self.connections.remove(name)

    def cut(self, name: str, reason: Closure) -> None:
        """Ends a component for good, at once."""
        self.connections.silence(name)
        self._component_ended(name, reason, final=True)

    @property
    def pauses(self) -> Pauses:
        """Which components are paused."""
        if self._pauses is None:
            from conductor.run.pauses import Pauses

            self._pauses = Pauses(self)
        return self._pauses

    async def pause(self, name: str, *, paused: bool) -> None:
        """Has every message go past a component, or through it again, once nothing is open.

        Raises `ConductorError` where that cannot be: for the agent, for what the managed policy
        requires, for a name that no component has.
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

    def tell_paused(self, host: str, guests: Collection[str]) -> None:
        """Tells a host which of its guests are paused."""
        self._services.pause(host, guests)

    def left_out(self, name: str) -> bool:
        """Whether a component has ended and the chain goes on without it."""
        return self.count("bypass", name) > 0

    def count(self, event: str, name: str) -> int:
        """How often an event has happened to a component: `restart`, `bypass`, `violation` …"""
        return self._events[event, name]

    def health(self) -> list[tuple[str, str]]:
        """The name of each component, and its state in a line."""
        from conductor.run import health

        paused = self._pauses.names if self._pauses is not None else ()
        held = self.connections.held
        return list(health.listed(self.router, self.planned, self._events, held, paused))

    def happened(self) -> Mapping[tuple[str, str], int]:
        """What has happened to components so far, by event and name."""
        return self._events

    def measuring(self, text: Callable[[], str]) -> Callable[[], None]:
        """Has the file of `--metrics` hold `text` too; returns what is called when that has
        changed."""
        return self._services.measuring(text)

    def stop(self) -> None:
        """Ends the chain, for a signal: it waits for nothing but the components' grace."""
        self._teardown.stop()

    # -- the conductor and the client ------------------------------------------------------------

    def hold(self) -> None:
        """From now on the client's prompts wait for `release` (`Router.hold`)."""
        self.router.hold()

    def release(self) -> None:
        """Sends on what was held, unless somebody else still holds it."""
        self.apply(self.router.release())

    def ask(self, method: str, params: bytes, taker: Taker) -> None:
        """Sends the client a request of the conductor's own (`Router.ask`); `taker` gets its
        answer, once, maybe before this returns."""
        token = next(self._tokens)
        self._takers[token] = taker
        self.apply(self.router.ask(method, params, token))

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs `work` as a task that ends with the chain; an error in it fails the chain."""
        self._tasks.start(work)

    # -- one chunk ---------------------------------------------------------------------------

    def feed(self, name: str, frames: list[bytes]) -> None:
        """Routes lines of one peer and writes every destination once."""
        traced, ring, teardown = self._traced, self._ring, self._teardown
        if traced is not None:
            peer = self.planned.get(name) or self._joins(name)
            frames = traced.without_record(name, peer, frames)
            if not frames:
                return
        if teardown.counts:
            planned = self.planned.get(name)
            teardown.passed(name, frames, host=planned is not None and planned.component.hosts)
        size = sum(map(len, frames))
        self._tidying.passed(size)
        if ring is not None:
            ring.sent(name, frames, size)
        if name == UPSTREAM:
            self._services.look(frames)
        self._outboxes.feed(name, frames)
        self.flush(name)
        if self.after_message is not None:
            self.after_message()
        if self.after_feed is not None:
            self.after_feed()

    def flush(self, source: str) -> None:
        """Writes what is queued; `source` waits if that is too much for somebody."""
        while (taken := self._outboxes.take()) is not None:
            name, data = taken
            if name == UPSTREAM:
                self._services.answered(data)
                if self.before_answer is not None:
                    self.before_answer(data)
            transport = self._transports.get(name)
            if transport is not None:
                if self._ring is not None:
                    data = self._ring.given(name, data)
                transport.write(data)
                if transport.buffered:
                    self.flow.wrote(name, source)

    def apply(self, effects: Iterable[Effect], source: str = UPSTREAM) -> None:
        self._outboxes.apply(effects)
        self.flush(source)

    # -- what happens to connections -----------------------------------------------------------

    def oversized(self, name: str, head: bytes, limit: int) -> None:
        """A line beyond the limit was skipped: a request in it is answered, if its id was read."""
        text = f"a line longer than {limit} bytes was skipped"
        self._log("warning", name, f"{text}: {one_line(repr(head), 120)}")
        self.apply(self.router.skipped(name, head, text))

    def ended(self, name: str, how: Ended) -> None:
        """A connection is gone: the client's begins the end, a component's fails the chain."""
        self.connections.gone(name)
        if name == UPSTREAM:
            if self._teardown.phase is Phase.SERVING and how.data.get("broken"):
                self._log("info", name, how.text)
                # It cannot read answers any more, so nothing is worth waiting for.
                self._options = msgspec.structs.replace(self._options, drain=0.0)
            elif "function" in how.data:  # the client is a function, and has failed
                text = f"the client, `{how.data['function']}`, {how.text}"
                self.fail(Closure(text, "correct it", how.data))
            self._teardown.client_gone()
            self.apply(self.router.upstream_ended(Closure("the client has closed its end")))
            return
        if "function" in how.data and self._teardown.phase is Phase.CLOSING:
            self._log("error", name, f"it {how.text}")  # nothing else would tell
        if name not in self.planned and self._joins(name):
            self.apply(self.router.closed(name, self._closure(name, how)))
            return
        final = how.final or name in self._reports.last_words
        self._component_ended(name, self._closure(name, how), final=final)

    def _joins(self, name: str) -> Planned | None:
        """A component that is to join the chain, by the name it has until then."""
        return self._rearrangement.of(name) if self._rearrangement is not None else None

    def _report_lost(self, name: str) -> None:
        """Logs how many copies an observer was too slow for."""
        lost = self._outboxes.lost.pop(name, 0) + self.router.forget_lost(name)
        if lost:
            self._log(
                "warning", name, f"it was too slow for {counted(lost, 'copy')} of what it observes"
            )

    def _component_ended(self, name: str, reason: Closure, *, final: bool = False) -> None:
        self.flow.forget(name)
        self._outboxes.discard(name)
        self._services.forget(name)
        self._report_lost(name)
        if self._teardown.phase is Phase.CLOSING or self.failure is not None:
            if self.failure is None:  # it has received everything, and sent all it had
                self.apply(self.router.settled(name))
            # It ends because the chain does: requests to it are answered with the chain's reason.
            self.apply(self.router.closed(name, self.failure or reason))
        else:
            self.supervisor.failed(name, reason, final=final)

    def undeliverable(self, name: str, frame: bytes, why: str) -> None:
        """The transport of `name` refused a line; the router answers a request in it."""
        self.apply(self.router.undeliverable(name, frame, why))

    def _closure(self, name: str, how: Ended) -> Closure:
        last_words = self._reports.last_words.pop(name, None)
        if last_words is not None:
            return last_words
        peer = self.router.peers[name]
        peer = peer.launched_by or peer  # a proxy's successor connection is a part of it
        planned = self.planned.get(peer.name)
        host = planned is not None and bool(planned.guests)
        command = self.agent_command if peer.name == self._tail else ()
        return closure(peer.name, peer.label, how, host=host, command=command)

    @property
    def agent(self) -> str:
        """The last component, where that is, or may be, the agent; empty: there is none."""
        return "" if self.router.mode == "proxy" else self._tail

    @property
    def agent_command(self) -> Sequence[str]:
        """The command of the agent; empty: the chain has none, or it is no program."""
        agent = self.planned.get(self._tail)
        return (agent.specs[-1].command or ()) if agent is not None and agent.specs else ()

    def _stalled(self, name: str) -> None:
        text = f"took nothing for {self._options.stall:g} s while others waited for it"
        how = Ended(f"is stalled: it {text}", hint="raise the stall limit if that is normal")
        if name == UPSTREAM:
            self.fail(Closure(f"the client {how.text}", how.hint))
        else:
            self.ended(name, how)

    async def connect(self, name: str, transport: Transport) -> bool:
        """Puts a transport in a component's place and opens it; whether that went well."""
        try:
            await self.connections.open(name, self._wrapped(name, transport))
        except ComponentError as error:
            label = self.router.peers[name].label
            data = {"component": name, **error.data}
            closure = Closure(f"{label}: {error.text}", error.hint, data)
            self._component_ended(name, closure)
            return False
        return True

    def _wrapped(self, name: str, transport: Transport) -> Transport:
        """The client's transport with the desk before it, that of an agent with the bridge: that
        gives it the MCP servers of proxies in a form it accepts."""
        if name == UPSTREAM:
            return DeskTransport(transport, self.router, self._log, self._client_adapted)
        if name != self._tail:
            return transport
        self._bridged = BridgedTransport(
            transport,
            self.planned[name].mcp_bridge,
            log=self._log,
            line_limit=self._options.line_limit,
            proxied=self._is_proxied,
        )
        return self._bridged

    def _is_proxied(self) -> bool:
        """Whether somebody may declare MCP servers of ACP transport: a proxy, or a client that
        takes part in SCP."""
        scp = has_section(self.router.initialized)
        return self.router.mode == "agent" and (len(self.planned) > 1 or scp)

    async def adopt(self, name: str, transport: Transport, events: Handover) -> None:
        """Puts an opened transport in a component's place and closes the former one."""
        target = self.connections.replace(name, transport)
        self.flow.forget(name)
        self._services.forget(name)
        events.to(target)

    def disconnect(self, name: str) -> Coroutine[Any, Any, None]:
        """Ignores what still comes from a component; what is returned closes its transport."""
        self.connections.silence(name)
        return self.connections.close(name)

    def log(self, level: str, name: str, text: str) -> None:
        """Puts a line in the log."""
        self._log(level, name, text)

    def reconfigure(self, name: str, params: bytes) -> None:
        """Sends a component its changed settings."""
        self._services.reconfigure(name, params)

    def record(self, event: str, name: str, text: str) -> None:
        """Counts an event of a component, and puts it on record."""
        self._events[event, name] += 1
        self._audit.component_event(event, name, text)
        if self._traced is not None:
            self._traced.happened(event, name, text)
        if self._ring is not None and event in _FAILURES and self._ring.may_save():
            self._tasks.start(self._save_ring(text))

    # -- effects -------------------------------------------------------------------------------

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Serve():
                if self._rearrangement is None or not self._rearrangement.serve(effect):
                    self.serve(effect)
            case LogLine(level, peer, text):
                self._log(level, peer.removesuffix(_NEWCOMER), text)
            case Trace():
                assert self._traced is not None
                self._traced.crossed(effect, self.router.mode)
            case Propagate(peer, id_, method, params, number):
                line = _PLAIN.request(id_, method, self.in_context(number, params))
                self._outboxes.post(peer, line, self._outboxes.cause)
            case Resolve():
                self._tasks.start(self._resolve(effect))
            case Keep(agent, session, record):
                self._kept_prompts.keep(agent, session, record)
            case Recall(agent, token, theirs):
                # At once: what the client sends behind its request must not overtake that.
                records = self._kept_prompts.recall(agent, theirs)
                self._outboxes.apply(self.router.recalled(token, records))
            case Fail(_, reason):
                if self._rearrangement is not None and self._rearrangement.refuse(effect):
                    return
                if self._teardown.phase is not Phase.CLOSING:
                    self.fail(reason)
            case Violated():
                if effect.peer in self.planned:
                    self.connections.hear(effect.peer)
                self._violated(effect)
            case Wake(token, seconds):
                asyncio.get_running_loop().call_later(seconds, self._woken, token)
            case OwnedAddresses():
                pass  # this router lasts as long as the chain
            case Changed():
                self._audit.changed(effect)
            case Reached(peer, what, where, size, refused):
                outcome = REFUSED if refused else ALLOWED
                self._audit.effect(peer, what, where, size, outcome, refused)
            case Adapted(agent, session, text, again):
                self._adapted(agent, session, text, again=again)
            case Held(session):
                if self._preparation is not None:
                    self._preparation.held(session)
            case Answered(token, member, body):
                self._takers.pop(token)(member, body)
            case Reopen(peer):
                self._tasks.start(self._reopen(peer))
            case Listen(peer):
                self._tasks.start(self._listen(peer))
            case _:
                raise AssertionError(effect)

    @cached_property
    def _kept_prompts(self) -> KeptPrompts:
        from conductor.run.kept_prompts import KeptPrompts  # no start waits for it

        return KeptPrompts(self._log, in_memory=self._keeping is Keeping.MEMORY)

    async def _resolve(self, effect: Resolve) -> None:
        """Looks where folders lead, unless the agent has them on another machine."""
        planned = self.planned.get(effect.peer)
        found: list[tuple[str, ...]] = [(), ()]
        if planned is None or not any(spec.address for spec in planned.specs):
            lists = (effect.folders, effect.theirs)
            found = [await asyncio.to_thread(_real, each) for each in lists]
        self.apply(self.router.resolved(effect.token, found[0], found[1]))

    def serve(self, effect: Serve) -> None:
        """Takes a request of a service, or a report, to its performer."""
        if effect.service in services.INTERNAL and effect.service != services.RELAYED:
            self._report(effect.peer, effect.service, effect.params)
        else:
            self._outboxes.apply(self._services.serve(effect))

    def _report(self, host: str, service: str, params: bytes | None) -> None:
        """A host of guests reports something of them."""
        if service == services.VIOLATED:
            self.connections.hear(host)
        try:
            reported = self._reports.take(host, service, params)
        except ValueError as wrong:
            self._log("warning", host, f"its report `{service}` is dropped: {wrong}")
            return
        if service == services.READY:
            self._outboxes.apply(self.router.loaded(host))
        match reported:
            case Violated():
                self._violated(reported)
            case Recovered(guest, action, text):  # the host starts it again, or bypasses it
                self.router.faltered(guest, goes_on=True)
                self._services.forget(guest)
                self.record(action, guest, text)
            case Closure():
                self.router.faltered(host, goes_on=False)

    def _adapted(self, agent: str, session: str, text: str, *, again: bool) -> None:
        """An agent got words for what it does not take: on record each time, else said once."""
        self._audit.component_event("adapt", agent, text)
        if not again:
            self._log("warning", agent, text)
            theirs = self.router.sessions.find(session).client
            notice = None if theirs else self.router.notice(session, "warning", text)
            if notice is not None:
                self._outboxes.apply(notice)

    def _client_adapted(self, text: str, again: bool) -> None:
        """The client got words for what it does not show: on record each time, else said once."""
        self._audit.component_event("adapt", UPSTREAM, text)
        if not again:
            self._log("warning", UPSTREAM, text)

    def _violated(self, violation: Violated) -> None:
        """A component broke a rule; what it did has been undone already."""
        self._events["violation", violation.peer] += 1
        self._audit.violated(violation)
        if self._traced is not None:
            self._traced.violated(violation)
        if self._ring is not None:
            self._ring.violated(violation)
        if not violation.again:
            self._log("warning", violation.peer, ViolationText.of(violation))
        if violation.fatal and violation.peer in self.planned:
            self.connections.silence(violation.peer)
            self._component_ended(violation.peer, checks.closure(violation))

    def _woken(self, token: int) -> None:
        if self._teardown.phase is not Phase.CLOSING:
            self.apply(self.router.woken(token))

    async def _reopen(self, name: str) -> None:
        """Starts a component once more, for the role request of another dialect."""
        planned = self.planned.get(name) or self._joins(name)
        if planned is None:
            return  # it is not used
        peer, renew = self.router.peers[name], planned.renew
        assert renew is not None
        await self.connections.close(name)
        # Meanwhile it may have joined the chain, under its own name, or is not used any more.
        if not self._is_there(peer):
            return
        if await self.connect(peer.name, renew()) and self._is_there(peer):
            self.apply(self.router.reopened(peer.name))

    def _is_there(self, peer: Peer) -> bool:
        return self.router.peers.get(peer.name) is peer

    async def _listen(self, name: str) -> None:
        """Listens for the successor connection that a proxy launches itself."""
        from conductor.core.roles.initialize import successor_name
        from conductor.transports.socket import ListeningTransport

        peer = self.router.peers.get(name)
        if peer is None:
            return  # it is not used
        transport = ListeningTransport(line_limit=self._options.line_limit)
        successor = successor_name(name)
        effects = self.router.listening(name, transport.server(successor))
        await self.connect(successor, transport)
        self.apply(effects)
        await asyncio.sleep(_LAUNCH)
        if self._is_there(peer):
            self.apply(self.router.not_launching(peer.name))

    def logged(self, reason: Closure) -> Closure:
        """Why the chain fails, with the files that say more."""
        if "log" in reason.data or "messages" in reason.data:
            return reason
        if self._ring is not None and self._ring.begun and self._saved is None:
            self._saved = self._ring.save(reason.text, self._mode)
        log, messages = self._log_file, self._saved.path if self._saved is not None else ""
        files = {word: path for word, path in (("log", log), ("messages", messages)) if path}
        hint = with_log(reason.hint, log, messages)
        return Closure(reason.text, hint, {**reason.data, **files})

    async def _save_ring(self, why: str) -> None:
        path = await self.save_ring(why)
        if path:
            self._log("warning", "conductor", f"the last messages are in `{path}`")

    async def save_ring(self, why: str) -> str:
        """Writes the ring to a file, a little at a time, so that the chain goes on meanwhile.

        Args:
            why: The reason, for the file's readers.

        Returns:
            The path; empty: there is no ring, or no file can be made.
        """
        if self._ring is None:
            return ""
        saved = self._ring.save(why, self._mode)
        try:
            for _ in saved.work:
                await asyncio.sleep(0)
        finally:
            collections.deque(saved.work, maxlen=0)  # the chain ends meanwhile
        return saved.path

    def _mode(self) -> str:
        return self.router.mode

    def fail(self, reason: Closure) -> None:
        """Ends the chain, since it may not go on."""
        reason = self.logged(reason)
        if self._teardown.fail(reason) and self._on_failure is not None:
            self._on_failure(reason)

    def _unrecorded(self, why: str) -> None:
        self.fail(Closure(f"the chain is not recorded any more: {why}", self._options.audit_rule))

    # -- the end -------------------------------------------------------------------------------

    def _report_overdue(self) -> None:
        """Fails the chain for requests it did not answer in time after the client closed its end.

        With `drain` 0 the client did not want answers.
        """
        if not self._options.drain:
            return
        why = "before the client closed its end"
        hint = f"it was given {self._options.drain:g} s without a message; raise `--drain`"
        reason, effects = self.router.overdue(why, hint)
        if reason is not None:
            self.fail(reason)
        self.apply(effects)

    async def _shut_down(self) -> None:
        """Closes the chain from head to tail, then the connection to the client."""
        self._teardown.close()
        if self._bridged is not None:
            await self._bridged.shut_down()  # it tells components, which are still connected
        self.apply(self.router.abandon(self.failure or Closure("the conductor was stopped")))
        if self._saved is not None:  # before anything takes long: an editor may end us
            collections.deque(self._saved.work, maxlen=0)
        await self._tasks.cancel()
        for name in self.planned:
            self._report_lost(name)
        await self.connections.shut_down()
        if "_kept_prompts" in self.__dict__:
            self._kept_prompts.flush()
        await self._services.close()  # the last words of components may be what they have counted


def _real(folders: tuple[str, ...]) -> tuple[str, ...]:
    """Folders without links. What no path can be lies nowhere."""
    real = []
    for folder in folders:
        try:
            real.append(os.path.realpath(folder))
        except (OSError, ValueError):
            real.append("/")
    return tuple(real)
