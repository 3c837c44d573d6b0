"""A chain that this process runs: its components, and all that belongs to it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import msgspec

from conductor.cli import configured, report, shown_log
from conductor.cli.chain_log import ChainLog
from conductor.core.dialects import DIALECTS
from conductor.errors import ConductorError, UsageError
from conductor.record import wanted
from conductor.run.owner import Owner
from conductor.spec import lacking, limits, origins, paths
from conductor.spec.consent import Where
from conductor.spec.parsed import planned
from conductor.transports.process_groups import adopt_orphans, end_strays

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from conductor.cli.chain_log_file import LogFile
    from conductor.cli.status import Shown, Status
    from conductor.control.server import About, Server
    from conductor.core import Closure
    from conductor.record.turns.line import Line
    from conductor.run.consent import Consent
    from conductor.run.log import Sink
    from conductor.run.runtime import Runtime
    from conductor.spec.consent.agreements import Agreements
    from conductor.spec.consent.tools import ToolsQuestion
    from conductor.spec.model import Spec
    from conductor.spec.parsed import Only, Parsed
    from conductor.spec.plan import Plan
    from conductor.telemetry.live import Telemetry
    from conductor.transports.base import Transport

_CONTROL: Final = 0.3
"""The seconds until there is a control socket: an editor first waits for its first answer."""


class Started(Owner):
    """A chain whose components run, and all that belongs to it. Raises `ConductorError`."""

    def __init__(
        self,
        parsed: Parsed,
        where: Where,
        watching: Sequence[Sink[Line]] = (),
        about: About | None = None,
    ) -> None:
        """`where`: the user is asked there, unless the options are against it. `watching`: see
        `conductor.record.wanted.opened`. `about`: how commands show the chain, where that is not as
        the command line has it."""
        self._about = about
        by = origins.by(parsed.options.set_by.get("log_file"))

        def complain(text: str) -> None:
            report.write(f"{text}{by}", word="warning")

        def opened() -> LogFile | None:
            from conductor.cli import chain_log_file  # the agent is started before the first line

            return chain_log_file.opened(parsed.options.log_file, complain)

        self.log = ChainLog(parsed.log, opened)
        try:
            self._prepare(parsed, where, watching)
        except ConductorError as error:
            self.log.failed(error)
            raise

    def _prepare(self, parsed: Parsed, where: Where, watching: Sequence[Sink[Line]]) -> None:
        self._files = _files(parsed)
        self._where = where
        self._agreements: Agreements | None = None
        self._consent: Consent | None = None
        self._runtime: Runtime | None = None
        self._status: Status | None = None
        self._control: Server | None = None
        self._opens: asyncio.TimerHandle | None = None
        """Opens the control socket."""
        self.in_process = False
        """Whether Python code of others runs in this process."""
        self._shown: Shown | None = None
        """Where the stages are shown; None: nobody follows them."""
        self._says_failure = False
        self._compiles = False
        """Whether a host has announced that it compiles the Python guest."""
        plan = planned(parsed, self._noted if parsed.options.verbose else None)
        self.parsed = parsed = msgspec.structs.replace(parsed, mode=plan.mode, options=plan.options)
        self._plan = plan = self._settled(plan)
        specs = plan.components
        self.log.limit(limits.log_lines(specs))
        if parsed.command == "exec" and not parsed.options.verbose:
            self.log.withhold({specs[-1].name, *(spec.name for spec in specs if spec.peer_agent)})
        self.alone = len(specs) == 1
        """Whether the agent is all there is."""
        adopt_orphans()  # before there are any: a program may send itself to the back at once
        self._telemetry = _telemetry(plan, self.log)
        if self._telemetry is not None:
            plan = plan.with_options(traceparent=self._telemetry.traceparent)
        self._opened = wanted.opened(
            plan,
            self.log.say,
            on_stderr=self._heard,
            watching=watching,
            sinks=[self._telemetry] if self._telemetry is not None else [],
            messages=parsed.log == "debug",
        )
        names = ", ".join(f"`{spec.name}`" for spec in specs)
        self.log.note(f"`conductor {parsed.command}` starts as process {os.getpid()}: {names}")
        self.launcher = self._opened.launcher
        self.guardian = self.launcher.guardian

    def _heard(self, name: str, line: str) -> None:
        """A component wrote a line to its standard error; an empty name: a host of guests."""
        compiles = not name and shown_log.announces_compiling(line)
        if compiles:
            self._compiles = True
            if self._status is not None:
                self._status.compiles()
        elif not name and shown_log.tells_of_cache(line):
            line += origins.by(self.parsed.options.set_by.get("cache"))
        self.log.heard(name, line, shown=not compiles or self._shown != "line")

    def load_loop(self) -> None:
        """Imports the event loop, while the components start."""
        if not self.in_process:
            from conductor.run import stand_ins

            stand_ins.load_loop()

    def runtime(self, upstream: Transport, *, says_failure: bool = False) -> Runtime:
        """The runtime of the chain, with `upstream` at the client's end of it. `says_failure`:
        standard error gets why the chain fails, at once."""
        from conductor.run.records import Records
        from conductor.run.runtime import Runtime  # the event loop: while the components start

        chosen = self.parsed.chosen
        if chosen is None and self.parsed.project is not None and self.parsed.project.is_judged:
            chosen = self.parsed.project.folder, "entries of chains say `when`"
        if chosen is not None:
            from conductor.run.judged_folder import JudgedFolder

            self.judged = JudgedFolder(*chosen, self.log.say)
        self._says_failure = says_failure
        if self.parsed.dialect:
            self.outer_dialect = DIALECTS.get(self.parsed.dialect)
        records = Records(self.log.say, sinks=self._opened.sinks, log_file=self.log.path)
        planned, parsed = self._opened.planned, self.parsed
        self._runtime = Runtime(planned, parsed.mode, upstream, parsed.options, records, self)
        if self._telemetry is not None:
            self._telemetry.attach(self._runtime)
        return self._runtime

    def follow(self, shown: Shown) -> None:
        """Follows the stages of the chain, from the client's first message on."""
        self._shown = shown

    def passed(self) -> None:
        """See `Owner`."""
        if self._status is not None:
            self._status.passed()
        elif self._shown is not None:
            self._followed().passed()

    def answered(self, lines: bytes) -> None:
        """See `Owner`."""
        if self._status is not None:
            self._status.answered(lines)

    def failed(self, reason: Closure) -> None:
        """See `Owner`."""
        if self._says_failure:
            report.error(reason.text, reason.hint)

    def stamped(self, number: int, params: bytes) -> bytes:
        """See `Owner`."""
        return params if self._telemetry is None else self._telemetry.stamped(number, params)

    def _followed(self) -> Status:
        """The follower of the stages. It is made when the first message has gone on: nobody waits
        for us then."""
        if self._status is None:
            from conductor.cli.status import Status

            assert self._runtime is not None
            self._status = Status(self._runtime, self.log.say, self._shown or "nowhere")
            if self._compiles:
                self._status.compiles()
        return self._status

    def answers(self) -> None:
        """The client gets a part of its answer."""
        if self._status is not None:
            self._status.answers()

    def hushed(self) -> AbstractContextManager[None]:
        """No status line as long as the block lasts: a question has the terminal."""
        return self._followed().hushed()

    def waits(self) -> str:
        """The stage that the chain waits in, in words; empty: it does not wait."""
        return self._status.waits() if self._status is not None else ""

    def close(self, *, strays: bool = True) -> None:
        """The chain has ended; ends its processes that are left.

        `strays`: also processes outside of its components' groups; not where other chains run."""
        if self._status is not None:
            self._status.close()
        if self._opens is not None:
            self._opens.cancel()
        if self._control is not None:
            self._control.close()
        failure = self._runtime.failure if self._runtime is not None else None
        if failure is not None:
            self.log.note(f"error: {failure.text}")
        self.log.note("the chain has ended")
        self.log.close()
        self.guardian.release()
        if strays:
            end_strays()

    def _settled(self, plan: Plan) -> Plan:
        """The plan with the rights that the user has agreed to. Raises `ConductorError`."""
        self.in_process = any(spec.attribute for spec in plan.components)
        if self.in_process:
            report.divert_prints()
        if self._agreements is None and not any(
            not spec.bundled and (spec.manifest or spec.sandboxed) for spec in plan.components
        ):
            return plan
        from conductor.cli import consent

        plan, self._agreements = consent.agreed(plan, self._agreements, self._asked)
        return plan

    def _noted(self, text: str) -> None:
        """Logs the other meaning that a name of a component hides."""
        self.log.say("info", "conductor", text)

    @property
    def _asked(self) -> Where:
        """Where the user is asked now."""
        options, mode = self.parsed.options, self.parsed.mode
        # A lock file has the answers already.
        if options.ask == "never" or options.lock is not None or mode == "proxy":
            return Where.NOWHERE
        is_late = self._where is Where.TERMINAL and self._runtime is not None
        return Where.NOWHERE if is_late else self._where

    def connected(self) -> None:
        """See `Owner`. Has questions asked while the chain runs, and follows changes of the user's
        trust."""
        self._control_comes()
        agreements, runtime = self._agreements, self._runtime
        if agreements is None or runtime is None:
            return
        if self._consent is None and not agreements.concerned:
            return
        self._asks(agreements, runtime).put()

    def _asks(self, agreements: Agreements, runtime: Runtime) -> Consent:
        """Asks the user while the chain runs."""
        if self._consent is None:
            from conductor.run.consent import Consent

            asks = self._asked is Where.EDITOR
            self._consent = Consent(agreements, runtime, asks=asks, renewed=self._renewed)
        return self._consent

    def differs(self, question: ToolsQuestion) -> bool:
        """See `Owner`."""
        if self._runtime is None or self._asked is not Where.EDITOR:
            return False
        if self._agreements is None:  # nobody here asks for anything
            from conductor.spec import managed
            from conductor.spec.consent.agreements import Agreements

            self._agreements = Agreements(again=False, permit=managed.tried)
            self._agreements.settled([s for p in self._runtime.planned.values() for s in p.specs])
        self._asks(self._agreements, self._runtime).differs(question)
        return True

    def _control_comes(self) -> None:
        """Has the control socket opened, once."""
        import asyncio

        if self._opens is None and self.parsed.options.control == "on":
            self._opens = asyncio.get_running_loop().call_later(_CONTROL, self._open_control)

    def _open_control(self) -> None:
        from conductor.control.server import About, Server

        assert self._runtime is not None
        about = self._about or About(self.parsed.command)
        if self.parsed.options.trace is not None:
            about = msgspec.structs.replace(about, trace=os.path.abspath(self.parsed.options.trace))
        self._control = Server.opened(self._runtime, about, self.log.say)

    def held(self, session: str | None) -> None:
        """See `Owner`."""
        if self._consent is not None:
            self._consent.prompted(session)

    def replied(self, token: int, member: bytes, body: bytes) -> None:
        """See `Owner`."""
        assert self._consent is not None
        self._consent.replied(token, member, body)

    def _renewed(self) -> tuple[Sequence[Spec], bool]:
        """The same components with the rights agreed to now; whether any component may do less."""
        assert self._agreements is not None
        specs, less = self._agreements.renewed()
        for spec in specs:
            lacking.check(spec)
        return specs, less

    def rely_on(self, only: Only | None) -> None:
        """The only file that configures the chain from the next reload on."""
        typed = msgspec.structs.replace(self.parsed.typed or self.parsed, only=only)
        self.parsed = msgspec.structs.replace(self.parsed, typed=typed)

    def respec(self) -> Sequence[Spec]:
        """The components as they are to be from now on, at a reload: files and variables are read
        again, and the components prepared as the first time, up to the plan.

        Options of the run stay as they were at its start. Raises `ConductorError`: then the
        components stay as they are.
        """
        parsed = configured.again(self.parsed, self._files)
        beside = {key: getattr(parsed.options, key) for key in ("peer", "branch", "set_by")}
        options = msgspec.structs.replace(self.parsed.options, **beside)
        parsed = msgspec.structs.replace(parsed, mode=self.parsed.mode, options=options)
        plan = self._settled(planned(parsed, self._noted if options.verbose else None))
        self._tell_changes(self._plan, plan)
        self._plan, self._files = plan, _files(parsed)
        self.log.limit(limits.log_lines(plan.components))
        self.connected()
        return plan.components

    def _tell_changes(self, before: Plan, now: Plan) -> None:
        """Logs the differences of a plan from the plan before."""
        if [*map(origins.bare, now.components)] != [*map(origins.bare, before.components)]:
            assert self._runtime is not None
            self._runtime.start(self._tell_diff(before, now))

    async def _tell_diff(self, before: Plan, now: Plan) -> None:
        import asyncio

        from conductor.spec.lock import compare

        try:
            # Messages go on: it reads the files of all components.
            lines = await asyncio.to_thread(compare.diff, before, now)
        except UsageError:  # a component that leaves the chain may have no file any more
            lines = []
        text = "\n".join(["the configuration changes the chain", *lines])
        self.log.say("info", "conductor", text)

    def sources(self) -> Sequence[str]:
        """The files that `respec` reads beside the components' own files: a change of such a file
        is a reload with `--reload`."""
        # A project's file counts again once the user trusts its new content.
        return (*self._files, paths.trust()) if self._files else ()


def _telemetry(plan: Plan, log: ChainLog) -> Telemetry | None:
    """The telemetry that is wanted. Raises `UsageError`."""
    if not plan.options.measures:
        return None
    from conductor.telemetry import live

    return live.wanted(plan, log.say)


def _files(parsed: Parsed) -> Sequence[str]:
    """The files that configure a chain."""
    return parsed.config.files if parsed.config is not None else ()
