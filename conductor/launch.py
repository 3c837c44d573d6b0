"""From resolved components to what runs them: transports, and adjacent guests in one child.

Loaded before the event loop's modules, so that processes start while those are being imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from conductor import early
from conductor.catalog import Spec
from conductor.core.dialects import CHANNEL, DIALECTS
from conductor.core.peer import Component
from conductor.core.policy import NO_PROFILE, TRUSTED, Policy, PolicyWords
from conductor.core.services import LAST_WORDS, READY, RECOVERED, TRACED, VIOLATED
from conductor.errors import ComponentError, UsageError
from conductor.transports.base import Transport
from conductor.transports.framing import LINE_LIMIT
from conductor.transports.guardian import Guardian
from conductor.transports.process import ProcessTransport

_REPORTS: Final = {LAST_WORDS, VIOLATED, READY, RECOVERED}

ISOLATIONS: Final = ("process", "inline", "separate")
TRACE_CONTENTS: Final = ("redacted", "all", "none")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a chain is run; every size is in bytes, every time in seconds."""

    isolation: str = "process"
    """Where guests run: `process` (neighbours share one child), `separate`, or `inline`."""
    cache: str | None = None
    """Folder of compiled modules; None: the user's cache folder."""
    clock: str | None = None
    """A fixed ISO 8601 time for the clock service."""
    line_limit: int = LINE_LIMIT
    high_water: int = 4 * 1024 * 1024
    """Sources wait while a peer has more than this unsent …"""
    low_water: int = 1024 * 1024
    """… until it has less than this."""
    hard_water: int = 32 * 1024 * 1024
    """Above this even proxies wait."""
    stall: float = 300.0
    """A peer that takes nothing for this long while others wait for it is closed."""
    grace: float = 2.0
    """Before each harder step of ending a process."""
    drain: float = 10.0
    """After the client's end of file: how long the chain may go without a message while requests
    are still open."""
    verbose: bool = False
    watch: bool = False
    """Replace a proxy by its new build as soon as its file changes."""
    require_hardening: bool = False
    """Refuse to host guests unless the kernel's restrictions are in force."""
    require_sandbox: bool = False
    """Refuse a chain with a proxy that is not sandboxed."""
    audit: str | None = None
    """File that violations and failures are put on record in (`conductor.audit`); None: none."""
    trace: str | None = None
    """File that every message is written to (`conductor.trace`); None: no trace."""
    trace_content: str = "redacted"
    """What of the messages: `all`, all but secrets (`redacted`), or `none` but their sizes."""


class Planned(msgspec.Struct, frozen=True):
    """One peer of the router and what carries its messages."""

    component: Component
    transport: Transport
    renew: Callable[[], Transport] | None = None
    """Makes the transport anew, for a component that is started again."""
    guests: tuple[str, ...] = ()
    """Names of the guests it hosts, where it is a child that does."""
    on_failure: str = "fail"
    """What happens when it fails (`conductor.recovery.CHOICES`)."""
    timeout: float | None = None
    """Seconds it may take to answer a request other than a prompt."""
    files: tuple[str, ...] = ()
    """What it is made of: when one of these changes, there is a new build."""


Stderr = Callable[[str, str], None]
"""Called with component name and one line of its standard error."""


def plan(
    specs: Sequence[Spec], options: Options, *, agent_last: bool, on_stderr: Stderr
) -> tuple[list[Planned], Guardian]:
    """Groups the components, and starts every process at once.

    Raises `UsageError` for a chain that cannot be, an agent that is sandboxed, or that may not be,
    an unsandboxed proxy where that is required. A process that cannot be started is reported later,
    by its transport's `open`.
    """
    if agent_last and specs[-1].sandboxed:
        raise UsageError(
            f"the last component, `{specs[-1].name}`, is a sandboxed proxy; "
            "a chain ends with an agent",
            f"add one, e.g. `conductor agent … {specs[-1].name} demo`, "
            "or use `conductor proxy` for a chain without an agent",
        )
    if options.require_hardening and options.isolation == "inline":
        raise UsageError(
            "`--require-hardening` and `--isolation inline` contradict each other: this process "
            "cannot be locked up, since it starts programs",
            "leave out --isolation: guests then get a process of their own",
        )
    if options.require_sandbox:
        _require_sandbox(specs[:-1] if agent_last else specs)
    guardian = Guardian()
    planned: list[Planned] = []
    guests: list[Spec] = []

    def flush() -> None:
        if guests:
            planned.append(_segment(guests, options, guardian, on_stderr))
            guests.clear()

    for index, spec in enumerate(specs):
        if spec.sandboxed and options.isolation != "inline":
            alone = options.isolation == "separate" or spec.policy.profile == "observer"
            if alone:
                flush()
            guests.append(spec)
            if alone:  # a slow observer must delay nobody, so it has no neighbours
                flush()
            continue
        flush()
        role = "agent" if agent_last and index == len(specs) - 1 else "proxy"
        planned.append(_single(spec, role, options, guardian, on_stderr))
    flush()
    for one in planned:
        if isinstance(one.transport, ProcessTransport):
            _start_early(one.transport)
    return planned, guardian


def _require_sandbox(proxies: Sequence[Spec]) -> None:
    for spec in proxies:
        if not spec.sandboxed:
            raise UsageError(
                f"{spec.label('proxy')} is not sandboxed, and --require-sandbox asks for it",
                "use a WebAssembly build of it (`conductor inspect` shows what a component is), "
                "or leave out --require-sandbox",
            )


def _start_early(transport: ProcessTransport) -> None:
    try:
        transport.spawn()
    except ComponentError:
        return  # `open` tries again and reports it to whoever waits


def _single(
    spec: Spec, role: str, options: Options, guardian: Guardian, on_stderr: Stderr
) -> Planned:
    dialect = DIALECTS[spec.dialect] if spec.dialect else None
    configure = (
        msgspec.json.encode(configuration(spec)) if spec.config and role == "proxy" else None
    )
    policy = spec.policy.policy() if role == "proxy" else None
    component = Component(spec.name, spec.label(role), dialect, spec.grants, configure, policy)
    if spec.command is not None:
        command = spec.command

        def process() -> ProcessTransport:
            return ProcessTransport(
                command,
                env=spec.env,
                guardian=guardian,
                on_stderr=lambda line: on_stderr(spec.name, line),
                line_limit=options.line_limit,
            )

        return Planned(
            component,
            process(),
            process,
            on_failure=spec.on_failure if role == "proxy" else "fail",
            timeout=spec.timeout,
            files=tuple(word for word in command if os.path.isfile(word)),
        )
    if spec.attribute is not None:
        from conductor.transports.memory import MemoryTransport

        return Planned(component, MemoryTransport(_attribute(spec)))
    return _inline(spec, options)


def _attribute(spec: Spec) -> Callable[..., Any]:
    """The in-process component `py:module:attribute` names."""
    import importlib

    assert spec.attribute is not None
    module, _, name = spec.attribute.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(
            f"cannot load `py:{spec.attribute}`: {error}",
            "write py:MODULE:ATTRIBUTE, with the module importable from here",
        ) from None
    if not callable(found):
        raise UsageError(
            f"`py:{spec.attribute}` is not callable", "name an async function that takes a channel"
        )
    return found  # type: ignore[no-any-return]


def _inline(spec: Spec, options: Options) -> Planned:
    import wasm_host
    from conductor import segment
    from conductor.transports.guest import GuestTransport

    guest_spec = _guest_spec(spec)
    assert spec.wasm is not None

    def guest() -> GuestTransport:
        try:
            module = segment.load(guest_spec, options.cache or cache_folder())
            return GuestTransport(module.instantiate(spec.name))
        except wasm_host.GuestError as error:
            raise ComponentError(
                f"{guest_spec.label}: {error}", error.hint, {"component": spec.name}
            ) from None

    transport = guest()
    return Planned(
        segment.component(guest_spec, transport.carrier),
        transport,
        guest,
        on_failure=spec.on_failure,
        timeout=spec.timeout,
        files=(spec.wasm,),
    )


def _segment(
    specs: Sequence[Spec], options: Options, guardian: Guardian, on_stderr: Stderr
) -> Planned:
    name = "+".join(spec.name for spec in specs)
    labels = [spec.label("proxy") for spec in specs]
    tracing = options.trace is not None and len(specs) > 1
    first_line = msgspec.json.encode(
        {
            "guests": [
                _guest_spec(spec, policed=len(specs) > 1 or _union(specs) is None) for spec in specs
            ],
            "cache": options.cache or cache_folder(),
            "clock": options.clock,
            "line_limit": options.line_limit,
            "verbose": options.verbose,
            "require_hardening": options.require_hardening,
            "tracing": tracing,
        }
    )

    guests = list(specs)

    def process() -> ProcessTransport:
        return ProcessTransport(
            early.child_command(),
            env={},
            adopt=early.take(),
            guardian=guardian,
            on_stderr=lambda line: on_stderr("", line),
            line_limit=options.line_limit + 1,
            first_line=first_line + b"\n",
            shown=" ".join(spec.what for spec in guests),
        )

    label = labels[0] if len(labels) == 1 else "the host of " + ", ".join(labels)
    services = frozenset(_REPORTS | {TRACED} if tracing else _REPORTS)
    component = Component(name, label, CHANNEL, services, None, _union(specs))
    return Planned(
        component,
        process(),
        process,
        tuple(spec.name for spec in specs),
        on_failure=_together(specs),
        timeout=min((spec.timeout for spec in specs if spec.timeout), default=None),
        files=tuple(spec.wasm for spec in specs if spec.wasm is not None),
    )


def _together(specs: Sequence[Spec]) -> str:
    """What happens when a whole host fails: what all its guests agree on, else the chain fails."""
    choices = {spec.on_failure for spec in specs}
    return choices.pop() if len(choices) == 1 else "fail"


def _union(specs: Sequence[Spec]) -> Policy | None:
    """What the guests of one child may do together: what none of them may touch does not even go
    there. None when one of them may touch everything."""
    if any(spec.policy.unlimited for spec in specs):
        return None
    policies = [policy for spec in specs if (policy := spec.policy.policy()) is not None]
    if len(policies) == 1:
        return policies[0]
    rules = tuple(dict.fromkeys(rule for policy in policies for rule in policy.rules))
    lifted = frozenset(guard for policy in policies for guard in policy.lifted)
    return Policy(NO_PROFILE, rules, lifted)


def _guest_spec(spec: Spec, *, policed: bool = True) -> Any:
    """The child's view of a guest (`conductor.segment.GuestSpec`), as plain data.

    A guest alone in its child whose policy the parent enforces (not `policed`) is trusted there.
    """
    from conductor.guest_spec import GuestSpec

    assert spec.wasm is not None
    return GuestSpec(
        name=spec.name,
        path=spec.wasm,
        sha256=spec.sha256,
        label=spec.label("proxy"),
        dialect=spec.dialect,
        services=spec.grants or frozenset(),
        configure=msgspec.Raw(msgspec.json.encode(configuration(spec))),
        limits=spec.limits,
        on_failure=spec.on_failure,
        policy=spec.policy if policed else PolicyWords(TRUSTED),
    )


def configuration(spec: Spec) -> dict[str, object]:
    """The params of `configure`: what a proxy is told about itself before anything else."""
    return {
        "name": spec.name,
        "config": spec.config,
        "grants": sorted(spec.grants) if spec.grants is not None else None,
        "limits": spec.limits,
    }


def cache_folder() -> str:
    """The user's folder for compiled modules (private; created when first used)."""
    if sys.platform == "darwin":
        base = "~/Library/Caches"
    elif sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "~/AppData/Local")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return os.path.join(os.path.expanduser(base), "conductor", "modules")
