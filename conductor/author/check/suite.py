"""How each check is run: by itself, on a component of its own, in bounded time.

The component is trusted here: what it does itself is what is looked at, not what its policy lets
through. Sandboxed ones run locked up in a process of their own, as behind `conductor agent`,
but without a router there: what they say is seen as they say it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from conductor.author.caged.guests import Cages
from conductor.author.check import ending
from conductor.author.check.chain import Chain, Fault, Skipped
from conductor.author.check.table import CHECKS, Check, OverChain
from conductor.author.check.tap import Tap
from conductor.author.transcripts import playing
from conductor.core.effects import Closure
from conductor.core.peer import Component
from conductor.core.policy.rule_syntax import PolicyWords
from conductor.core.policy.rules import TRUSTED
from conductor.errors import ComponentError, ConductorError
from conductor.run import guest_host, launch
from conductor.run.launch import Options, Planned
from conductor.run.runtime import Runtime
from conductor.spec.catalog import Spec
from conductor.spec.limits import DEFAULT_LIMITS
from conductor.transports.memory import MemoryTransport
from conductor.transports.process_groups import Guardian

TIMEOUT: Final = 30.0
"""Seconds one check may take, unless told otherwise."""

_ENDING: Final = 2.0
"""Seconds a component is given to end after its check, before each harder step."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How one check went: `pass`, `fail`, `skip` or, for what is only advised, `note`."""

    name: str
    status: str
    rule: str
    see: str
    why: str = ""
    sent: str = ""
    came: str = ""
    traffic: list[str] = []
    """The last messages at either end, before it failed."""
    stderr: list[str] = []
    stuck: bool = False
    """Whether it failed, or nothing more came."""


def outcomes(
    spec: Spec, chosen: Sequence[str], timeout: float, cache: str | None = None
) -> Iterator[Outcome]:
    """Runs the checks, all or those chosen by name. Raises `ConductorError` where the component
    cannot even be loaded."""
    with (
        Cages(cache or guest_host.cache_folder()) as cages,
        tempfile.TemporaryDirectory(prefix="conductor-check-") as place,
    ):
        folder = os.path.join(os.path.realpath(place), "project")
        os.mkdir(folder)
        values = os.path.join(place, "kv.sqlite")
        yield from _outcomes(spec, chosen, _Means(cages, folder, values, timeout))


class _Means(NamedTuple):
    """What checks are run with."""

    cages: Cages
    folder: str
    """Where sessions are: an empty folder, as none of the user's files are meant."""
    values: str
    """Where the component keeps values: those it keeps for the user stay as they are."""
    bound: float
    """Seconds a check may take."""


def _outcomes(spec: Spec, chosen: Sequence[str], means: _Means) -> Iterator[Outcome]:
    kind = _kind(spec, means.cages)
    stuck = ""
    for check in CHECKS:
        if chosen and check.name not in chosen:
            continue
        missing = _inapplicable(check, kind) or (stuck if check.over_chain is not None else "")
        if missing:
            yield _outcome(check, "skip", why=missing)
        elif check.over_lines is not None:
            yield _over_lines(check, spec, means.cages)
        else:
            outcome = _run(check, spec, means)
            if check is CHECKS[0] and outcome.stuck:
                stuck = "it does not get past `initialize`"
            yield outcome


def _run(check: Check, spec: Spec, means: _Means) -> Outcome:
    """Runs a check over a chain, first under its tight limits where it has such."""
    if check.tight:
        tight = msgspec.structs.replace(check, limits={**check.limits, **check.tight})
        outcome = asyncio.run(_over_chain(tight, spec, means))
        if outcome.status == "pass":
            return outcome
    return asyncio.run(_over_chain(check, spec, means))


def _kind(spec: Spec, cages: Cages) -> str:
    """`channel guest`, `guest`, `program` or `code`. Raises `ConductorError`."""
    if not spec.sandboxed:
        return "program" if spec.command is not None else "code"
    from conductor.transports.guest import GuestTransport

    transport = guest_host.inline(spec, Options(), cages.instantiate).transport
    assert isinstance(transport, GuestTransport)
    return "guest" if transport.carrier == "wasi" else "channel guest"


def _inapplicable(check: Check, kind: str) -> str:
    if not check.needs or check.needs in kind:
        return ""
    return {
        "guest": "only sandboxed components have limits",
        "channel guest": "it is given no lines of channel/1; its ids are the conductor's",
        "program": "a guest has no input that ends",
    }[check.needs]


def _outcome(
    check: Check, status: str, chain: Chain | None = None, *, stuck: bool = False, **more: str
) -> Outcome:
    failed = status in ("fail", "note")
    return Outcome(
        name=check.name,
        status=status,
        rule=check.rule,
        see=check.see,
        traffic=chain.traffic if chain is not None and failed else [],
        stderr=list(chain.stderr) if chain is not None and failed else [],
        stuck=stuck,
        **more,
    )


def _failed(
    check: Check, fault: Fault, chain: Chain | None = None, *, stuck: bool = False
) -> Outcome:
    status = "note" if check.advice else "fail"
    said = {"why": str(fault), "sent": fault.sent, "came": fault.came}
    return _outcome(check, status, chain, stuck=stuck, **said)


def _over_lines(check: Check, spec: Spec, cages: Cages) -> Outcome:
    assert check.over_lines is not None
    config = msgspec.json.encode(guest_host.configuration(spec)["config"])
    try:
        with playing.guests(spec, cages) as make:
            check.over_lines(make, config)
    except Fault as fault:
        return _failed(check, fault)
    except Skipped as reason:
        return _outcome(check, "skip", why=str(reason))
    except ComponentError as error:
        return _outcome(check, "fail", why=error.text)
    return _outcome(check, "pass")


# -- over a chain ------------------------------------------------------------------------------


def as_checked(check: Check, spec: Spec) -> Spec:
    """The component as it is looked at: nothing is undone for it, and it fails once."""
    limits = {**DEFAULT_LIMITS, **check.loose, **spec.limits}
    stricter = {key: min(value, limits.get(key, value)) for key, value in check.limits.items()}
    return msgspec.structs.replace(
        spec,
        policy=PolicyWords(TRUSTED),
        on_failure="fail",
        limits={**check.loose, **spec.limits, **stricter},
        grants=spec.grants if check.services else frozenset(),
    )


async def _over_chain(check: Check, spec: Spec, means: _Means) -> Outcome:
    chain = Chain(spec.name, means.folder)
    trusted = as_checked(check, spec)
    chain.memory = {**DEFAULT_LIMITS, **trusted.limits}["memory_bytes"]
    options = Options(grace=_ENDING, drain=0.0, values=means.values)
    try:
        planned, guardian = _planned(trusted, chain, options, means.cages)
    except ConductorError as error:
        return _outcome(check, "fail", chain, why=error.text)
    reasons: list[Closure] = []
    runtime = Runtime(
        planned,
        "agent",
        MemoryTransport(chain.client.run),
        options,
        log=lambda level, name, text: chain.stderr.append(f"{level}: {name}: {text}"),
        on_failure=reasons.append,
    )
    name = planned[0].component.name
    chain.dialect = lambda: _spoken(runtime, name)
    try:
        return await _judged(check, chain, runtime, reasons, means.bound)
    finally:
        guardian.release()


def _planned(
    spec: Spec, chain: Chain, options: Options, cages: Cages
) -> tuple[list[Planned], Guardian]:
    if spec.sandboxed:
        planned, guardian = [guest_host.inline(spec, options, cages.instantiate)], Guardian()
    else:
        planned, guardian = launch.plan(
            [spec], options, agent_last=False, on_stderr=lambda _, line: chain.stderr.append(line)
        )
    chain.tap = Tap(planned[0].transport)
    agent = Planned(
        Component("agent" if spec.name != "agent" else "checker", "agent `checker`"),
        MemoryTransport(chain.agent.run),
        mcp_bridge="acp",
    )
    return [msgspec.structs.replace(planned[0], transport=chain.tap, renew=None), agent], guardian


async def _judged(
    check: Check, chain: Chain, runtime: Runtime, reasons: list[Closure], bound: float
) -> Outcome:
    assert check.over_chain is not None
    loop = asyncio.get_running_loop()
    running = loop.create_task(runtime.run())
    trying = loop.create_task(_tried(check.over_chain, chain))
    try:
        await asyncio.wait({running, trying}, timeout=bound, return_when=asyncio.FIRST_COMPLETED)
        if not trying.done() and running.done():
            # The chain may have ended because of what is tried: what that says of it counts.
            await asyncio.wait({trying}, timeout=0)
        return _verdict(check, chain, trying, reasons, bound)
    finally:
        trying.cancel()
        await asyncio.gather(trying, return_exceptions=True)
        for end in (chain.client, chain.agent):
            end.close()
        await _ended(runtime, running)


def _spoken(runtime: Runtime, name: str) -> str:
    dialect = runtime.router.peers[name].dialect
    return dialect.name if dialect is not None else ""


async def _tried(over_chain: OverChain, chain: Chain) -> None:
    await over_chain(chain)


def _verdict(
    check: Check,
    chain: Chain,
    trying: asyncio.Task[None],
    reasons: list[Closure],
    bound: float,
) -> Outcome:
    if not trying.done():
        text = f"nothing more came within {bound:g} s"
        said = f"it failed: {reasons[0].text}" if reasons else text
        wrote = chain.tap.lines if chain.tap is not None else []
        odd = ending.odd(wrote)
        if odd is not None:
            said += "; it wrote a line that is no message, or a batch of several"
        last = odd or (wrote[-1] if wrote else b"nothing")
        return _failed(check, Fault(said, came=last), chain, stuck=True)
    match trying.exception():
        case None:
            return _outcome(check, "pass", chain)
        case Skipped() as reason:
            return _outcome(check, "skip", why=str(reason))
        case Fault() as fault:
            said = f"it failed: {reasons[0].text}" if reasons else str(fault)
            return _failed(check, Fault(said, fault.sent, fault.came), chain, stuck=bool(reasons))
        case defect:
            raise defect


async def _ended(runtime: Runtime, running: asyncio.Task[int]) -> None:
    """Waits until nothing of the chain is left."""
    await asyncio.wait({running}, timeout=_ENDING)
    runtime.stop()
    with contextlib.suppress(ComponentError):
        await running
