"""Runs each check by itself, on an instance of its own, in bounded time.

The component is trusted here: a check is about the component's behaviour, not about its policy. A
sandboxed component runs caged, as behind `conductor agent`, but without a router there:
its lines are seen as it returns them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Final

import anyio
import msgspec

from conductor import tasks
from conductor.author.caged import CagedGuests
from conductor.author.check import robustness
from conductor.author.check.scripted_chain import ScriptedChain
from conductor.author.check.scripted_end import Fault, Skipped
from conductor.author.check.table import CHECKS, Check
from conductor.author.subject import subjects
from conductor.core import json_text
from conductor.core.component import Component
from conductor.core.effects import Closure
from conductor.core.policy.policy_words import PolicyWords
from conductor.core.policy.words import TRUSTED
from conductor.errors import ComponentError, ConductorError
from conductor.run import guest_host
from conductor.run.launch import Launcher
from conductor.run.planned import Planned
from conductor.run.records import Records
from conductor.run.runtime import Runtime
from conductor.spec import managed, paths, trust
from conductor.spec.limits import DEFAULT_LIMITS
from conductor.spec.model import Spec
from conductor.spec.options import Options
from conductor.spec.plan import Plan
from conductor.spec.settings import configuration
from conductor.transports.memory import MemoryTransport
from conductor.transports.process_groups import Guardian

TIMEOUT: Final = 30.0
"""Seconds one check may take by default."""

_ENDING: Final = 2.0
"""Seconds a component may take to end after its check, before each harder step."""

_INAPPLICABLE: Final = {
    "guest": "only sandboxed components have limits",
    "channel guest": "it receives no lines of channel/1; the conductor chooses its ids",
    "program": "a guest has no input that ends",
}
"""Why a check is skipped, by the kind that it needs."""


class CheckOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one check."""

    name: str
    status: str
    """`pass`, `fail`, `skip` or, for a rule that is only advice, `note`."""
    rule: str
    see: str
    why: str = ""
    sent: str = ""
    came: str = ""
    traffic: list[str] = []
    """The last messages at either end, before it failed."""
    stderr: list[str] = []
    stuck: bool = False
    """Whether the component failed, or nothing more came."""


def outcomes(
    spec: Spec,
    chosen: Sequence[str],
    timeout: float,
    cache: str | None = None,
    checks: Sequence[Check] = CHECKS,
) -> Iterator[CheckOutcome]:
    """Runs checks on a component.

    Args:
        chosen: names of checks; empty for all.
        timeout: seconds that one check may take.
        cache: the folder of compiled modules.

    Raises:
        ConductorError: the component cannot even be loaded, or the managed policy forbids it.
    """
    spec = managed.tried(spec)
    trust.check_program(spec)
    with (
        CagedGuests(cache or paths.compiled_modules()) as guests,
        tempfile.TemporaryDirectory(prefix="conductor-check-") as place,
    ):
        runner = _Runner(spec, guests, os.path.realpath(place), timeout)
        stuck = ""
        for check in checks:
            if chosen and check.name not in chosen:
                continue
            reason = stuck if check.over_chain is not None else ""
            if check.needs not in runner.kind:
                reason = _INAPPLICABLE[check.needs]
            if reason:
                yield outcome_of(check, "skip", why=reason)
                continue
            outcome = runner.run(check)
            if check is checks[0] and outcome.stuck:  # then every check over a chain would be
                stuck = "it does not get past `initialize`"
            yield outcome


def outcome_of(
    check: Check,
    status: str,
    chain: ScriptedChain | None = None,
    *,
    stuck: bool = False,
    **more: str,
) -> CheckOutcome:
    """The outcome of a check, over a chain or without one; `more`: members of the outcome."""
    if status not in ("fail", "note"):
        chain = None  # its traffic explains nothing then
    return CheckOutcome(
        name=check.name,
        status=status,
        rule=check.rule,
        see=check.see,
        traffic=chain.traffic if chain is not None else [],
        stderr=list(chain.stderr) if chain is not None else [],
        stuck=stuck,
        **more,
    )


def outcome_of_fault(
    check: Check, fault: Fault, chain: ScriptedChain | None = None, *, stuck: bool = False
) -> CheckOutcome:
    """The outcome of a check that has found a fault: a broken rule, or a remark."""
    status = "note" if check.advice else "fail"
    return outcome_of(
        check, status, chain, stuck=stuck, why=str(fault), sent=fault.sent, came=fault.came
    )


def as_checked(check: Check, spec: Spec) -> Spec:
    """The component as a check tries it: trusted, not restarted, under the check's limits."""
    limits = {**DEFAULT_LIMITS, **check.loose, **spec.limits}
    stricter = {key: min(value, limits.get(key, value)) for key, value in check.limits.items()}
    return msgspec.structs.replace(
        spec,
        policy=PolicyWords((TRUSTED, *(sorted(spec.grants or ()) if check.services else ()))),
        on_failure="fail",
        limits={**check.loose, **spec.limits, **stricter},
    )


class _Runner:
    """Runs checks on one component."""

    def __init__(self, spec: Spec, guests: CagedGuests, place: str, bound: float) -> None:
        """`place`: a folder for this run; `bound`: seconds a check may take."""
        self._spec = spec
        self._guests = guests
        self._bound = bound
        # Sessions are in an empty folder: a grant to read a project must not reach user's files.
        self._folder = os.path.join(place, "project")
        os.mkdir(self._folder)
        # Values the component keeps for the user stay as they are: it gets a store of its own.
        self._values = os.path.join(place, "kv.sqlite")
        self.kind = self._kind_of(spec)

    def _kind_of(self, spec: Spec) -> str:
        """`channel guest`, `guest`, `program` or `code`. Raises `ConductorError`."""
        if not spec.sandboxed:
            return "program" if spec.command is not None else "code"
        from conductor.transports.guest import GuestTransport

        transport = guest_host.inline(spec, Options(), self._guests.instantiate).transport
        assert isinstance(transport, GuestTransport)
        return "guest" if transport.carrier == "wasi" else "channel guest"

    def run(self, check: Check) -> CheckOutcome:
        """Runs one check, first under its tight limits if it has any."""
        if check.over_chain is None:
            return self._over_lines(check)
        if check.tight:
            tight = msgspec.structs.replace(check, limits={**check.limits, **check.tight})
            outcome = asyncio.run(self._over_chain(tight))
            if outcome.status == "pass":
                return outcome
        return asyncio.run(self._over_chain(check))

    def _over_lines(self, check: Check) -> CheckOutcome:
        assert check.over_lines is not None
        config = json_text.encode(configuration(self._spec)["config"])
        try:
            with subjects(self._spec, guests=self._guests) as make:
                check.over_lines(make, config)
        except Fault as fault:
            return outcome_of_fault(check, fault)
        except ComponentError as error:
            return outcome_of(check, "fail", why=error.text)
        return outcome_of(check, "pass")

    async def _over_chain(self, check: Check) -> CheckOutcome:
        chain = ScriptedChain(self._folder)
        spec = as_checked(check, self._spec)
        chain.memory = {**DEFAULT_LIMITS, **spec.limits}["memory_bytes"]
        options = Options(grace=_ENDING, drain=0.0, values=self._values, keeping="nowhere")
        try:
            planned, guardian = self._planned(check, spec, chain, options)
        except ConductorError as error:
            return outcome_of(check, "fail", chain, why=error.text)
        records = Records(lambda level, name, text: chain.stderr.append(f"{level}: {name}: {text}"))
        client = MemoryTransport(chain.client.run)
        runtime = Runtime(planned, "agent", client, options, records)

        def dialect() -> str:
            known = runtime.router.peers[planned[0].name].dialect
            return known.name if known is not None else ""

        chain.dialect = dialect
        try:
            return await self._tried(check, chain, runtime)
        finally:
            guardian.release()

    def _planned(
        self, check: Check, spec: Spec, chain: ScriptedChain, options: Options
    ) -> tuple[list[Planned], Guardian]:
        """The component behind the tap, and the scripted agent."""
        guardian = Guardian()
        if spec.sandboxed:
            component = guest_host.inline(spec, options, self._guests.instantiate)
        else:
            alone = Plan(components=(spec,), options=options, mode="proxy")
            launcher = Launcher(alone, lambda _, line: chain.stderr.append(line), tried=True)
            (component,), guardian = launcher.plan([spec]), launcher.guardian
        agent = Planned(
            Component("agent" if spec.name != "agent" else "checker", "agent `checker`"),
            MemoryTransport(chain.agent.run),
            mcp_bridge=check.bridge,
        )
        tapped, renew = chain.tapped(component.transport), component.renew
        # A program is started again for the role request of another dialect.
        again = renew and (lambda: chain.tapped(renew()))
        component = msgspec.structs.replace(component, transport=tapped, renew=again)
        return [component, agent], guardian

    async def _tried(self, check: Check, chain: ScriptedChain, runtime: Runtime) -> CheckOutcome:
        assert check.over_chain is not None
        found: Fault | Skipped | None = None
        ended = asyncio.Event()
        async with tasks.group() as running:
            with anyio.move_on_after(self._bound) as trying:

                async def run() -> None:
                    with contextlib.suppress(ComponentError):
                        await runtime.run()
                    ended.set()
                    for _ in range(2):  # the check may wait for this end
                        await asyncio.sleep(0)
                    trying.cancel()

                running.start_soon(run)
                try:
                    await check.over_chain(chain)
                except (Fault, Skipped) as error:
                    found = error
            failed, is_stuck = runtime.failure, trying.cancelled_caught
            outcome = self._verdict(check, chain, found, failed, is_stuck=is_stuck)
            chain.client.close()
            chain.agent.close()
            with anyio.move_on_after(_ENDING):
                await ended.wait()
            runtime.stop()
        return outcome

    def _verdict(
        self,
        check: Check,
        chain: ScriptedChain,
        found: Fault | Skipped | None,
        failed: Closure | None,
        *,
        is_stuck: bool,
    ) -> CheckOutcome:
        failure = f"it failed: {failed.text}" if failed is not None else ""
        if is_stuck:
            why = failure or f"nothing more came within {self._bound:g} s"
            lines = chain.tap.lines
            odd = robustness.not_a_message(lines)
            if odd is not None:
                why += "; it wrote a line that is no message, or a batch of several"
            last = odd or (lines[-1] if lines else b"nothing")
            return outcome_of_fault(check, Fault(why, came=last), chain, stuck=True)
        match found:
            case None:
                return outcome_of(check, "pass", chain)
            case Skipped():
                return outcome_of(check, "skip", why=str(found))
            case Fault() as fault:
                # The failure explains the rest: a lost message is only its consequence.
                why = failure or str(fault)
                return outcome_of_fault(
                    check, Fault(why, fault.sent, fault.came), chain, stuck=bool(failure)
                )
