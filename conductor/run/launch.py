"""From resolved components to what runs them: transports, and neighbouring guests in one child.

Loaded before the event loop's modules, so that processes start while those are being imported.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator, Sequence

import msgspec

from conductor.core.component import Component
from conductor.core.dialects import DIALECTS
from conductor.core.services import granted_names
from conductor.errors import ComponentError, UsageError
from conductor.run import guest_host
from conductor.run.plan import Configuration, Options, Planned, Stderr, grantee
from conductor.spec import limits, managed
from conductor.spec.model import Spec
from conductor.spec.settings import configuration, environment
from conductor.transports.process import ProcessTransport
from conductor.transports.process_groups import Guardian


def plan(
    specs: Sequence[Spec], options: Options, *, agent_last: bool, on_stderr: Stderr
) -> tuple[list[Planned], Guardian]:
    """Groups the components, and starts every process at once.

    Everything that runs a chain comes through here, so here the managed policy is enforced. A
    process that cannot be started is reported later, by its transport's `open`.

    Raises:
        ComponentError: The chain ends with a sandboxed proxy.
        UsageError: The managed policy or the options forbid the chain, such as an unsandboxed proxy
            where a sandbox is required.
    """
    policy = managed.policy()
    if policy is not None:
        from conductor.run.held import held

        specs, options = held(policy, specs, options, agent_last=agent_last)
    return started(specs, options, agent_last=agent_last, on_stderr=on_stderr)


def started(
    specs: Sequence[Spec], options: Options, *, agent_last: bool, on_stderr: Stderr
) -> tuple[list[Planned], Guardian]:
    """As `plan`, of components that have been held to the managed policy one by one
    (`conductor.spec.managed.tried`): for tools that try out components."""
    _refuse(specs, options, agent_last=agent_last)
    names = (spec.name for spec in specs)
    options = msgspec.structs.replace(options, reserved=(*options.reserved, *names))
    guardian = Guardian()
    planned: list[Planned] = []
    for group in _groups(specs, options.isolation):
        spec = group[0]
        role = "agent" if agent_last and spec is specs[-1] else "proxy"
        if spec.sandboxed and options.isolation == "inline":
            planned.append(guest_host.inline(spec, options))
        elif spec.sandboxed:
            planned.append(guest_host.segment(group, options, guardian, on_stderr))
        elif spec.command is not None:
            planned.append(_program(spec, role, options, guardian, on_stderr))
        else:
            planned.append(_in_process(spec, role, options))
    for each in planned:
        if isinstance(each.transport, ProcessTransport):
            # All at once, while the event loop is still being imported: that hides their start-up.
            with contextlib.suppress(ComponentError):  # `open` tries again, and reports it
                each.transport.spawn()
    return planned, guardian


def _groups(specs: Sequence[Spec], isolation: str) -> Iterator[list[Spec]]:
    """The components by process: neighbouring guests share a process, all others are alone."""

    def process(place: int) -> int:
        policy = specs[place].policy.policy()
        # An observer may be slow and must delay nobody, so it has a process of its own.
        watches = policy is not None and policy.watches_only
        shares = specs[place].sandboxed and isolation == "process" and not watches
        return -1 if shares else place

    for _, places in itertools.groupby(range(len(specs)), process):
        yield [specs[place] for place in places]


# -- what cannot be run ----------------------------------------------------------------------------


def _refuse(specs: Sequence[Spec], options: Options, *, agent_last: bool) -> None:
    # A chain of proxies only may be empty: it passes everything on.
    last = specs[-1] if agent_last else None
    if last and last.script:
        raise ComponentError(
            f"the last component, `{last.source}`, would be run as a sandboxed proxy; "
            "a chain ends with an agent",
            f"put an agent behind it, such as `demo`; if it is an agent, run it as a program: "
            f'"python {last.source}"',
        )
    if last and last.sandboxed:
        raise ComponentError(
            f"the last component, `{last.name}`, is a sandboxed proxy; a chain ends with an agent",
            f"add an agent, e.g. `conductor agent … {last.name} demo`, "
            "or use `conductor proxy` for a chain without an agent",
        )
    if options.require_hardening and options.isolation == "inline":
        raise UsageError(
            "`--require-hardening` and `--isolation inline` contradict each other: this process "
            "cannot be locked up, since it starts programs",
            "leave out --isolation: guests then get a process of their own",
        )
    for spec in specs:
        if spec.command is not None and spec.manifest_path:
            from conductor.spec import trust

            trust.check_program(spec)
    for spec in specs[:-1] if agent_last else specs:
        if options.require_sandbox and not spec.sandboxed:
            raise UsageError(
                f"{spec.label('proxy')} is not sandboxed, and --require-sandbox is set",
                "use a WebAssembly build of it (`conductor inspect` shows what a component is), "
                "or leave out --require-sandbox",
            )
        for key in ("quiet", "mcp_bridge"):
            if getattr(spec, key) is not None:
                raise UsageError(
                    f"`{key}` is an option of agents, and `{spec.name}` is a proxy",
                    f"write `,{key}=…` behind the agent, the last component",
                )


# -- what is not sandboxed -------------------------------------------------------------------------


def _program(
    spec: Spec, role: str, options: Options, guardian: Guardian, on_stderr: Stderr
) -> Planned:
    component = _component(spec, role)
    command = spec.command
    assert command is not None

    def process() -> ProcessTransport:
        return ProcessTransport(
            command,
            env=environment(spec),
            guardian=guardian,
            on_stderr=lambda line: on_stderr(spec.name, line),
            line_limit=options.line_limit,
        )

    def verified() -> ProcessTransport:
        # The first start needs no comparison: the lock was enforced just before.
        from conductor.spec import digests

        digests.verify(spec.pins, component.label, spec.locked)
        try:
            return process()
        except UsageError as error:  # a secret that is gone: the component fails, not the chain
            raise ComponentError(error.text, error.hint) from None

    # An agent has no `configure`, so its settings cannot be sent again either.
    in_file = component.configure is not None and spec.config_file is not None
    return Planned(
        component,
        process(),
        verified,
        on_failure=spec.on_failure,
        timeout=spec.timeout,
        quiet=spec.quiet,
        mcp_bridge=spec.mcp_bridge or options.mcp_bridge,
        files=tuple(word for word in command if os.path.isfile(word)),
        grantees=(grantee(spec),),
        configurations=(Configuration(spec),) if in_file else (),
    )


def _in_process(spec: Spec, role: str, options: Options) -> Planned:
    from conductor.run import in_process
    from conductor.transports.memory import MemoryTransport

    return Planned(
        _component(spec, role),
        MemoryTransport(in_process.load(spec)),
        mcp_bridge=spec.mcp_bridge or options.mcp_bridge,
        grantees=(grantee(spec),),
    )


def _component(spec: Spec, role: str) -> Component:
    """The projection of an unsandboxed component for the router."""
    has_schema = any(s.required or s.default is not None for s in spec.schema.values())
    # A program that knows no `configure` refuses it, so only a program with settings receives it.
    configured = role == "proxy" and (spec.config or spec.config_file is not None or has_schema)
    return Component(
        spec.name,
        spec.label(role),
        DIALECTS[spec.dialect] if spec.dialect else None,
        granted_names(spec.grants) if spec.grants is not None else None,
        msgspec.json.encode(configuration(spec)) if configured else None,
        # Only the first message shows whether the last component is an agent: then the router drops
        # its policy. In a conductor that turns out to be a proxy, it is a proxy like the others.
        spec.policy.policy(),
        known_as=frozenset(spec.aliases),
        allowance=limits.allowance(spec.limits),
        limited=spec.quiet is not None,
    )
