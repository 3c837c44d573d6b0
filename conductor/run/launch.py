"""From resolved components to what runs them: transports, and adjacent guests in one child.

Loaded before the event loop's modules, so that processes start while those are being imported.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from conductor.core.dialects import DIALECTS
from conductor.core.peer import Component
from conductor.core.services import granted_names
from conductor.errors import ComponentError, UsageError
from conductor.run import guest_host
from conductor.run.guest_host import cache_folder, configuration
from conductor.run.plan import ISOLATIONS, TRACE_CONTENTS, Options, Planned, Stderr
from conductor.spec import limits
from conductor.spec.catalog import Spec
from conductor.transports.process import ProcessTransport
from conductor.transports.process_groups import Guardian

__all__ = [
    "ISOLATIONS",
    "TRACE_CONTENTS",
    "Options",
    "Planned",
    "Stderr",
    "cache_folder",
    "configuration",
    "plan",
]


def plan(
    specs: Sequence[Spec], options: Options, *, agent_last: bool, on_stderr: Stderr
) -> tuple[list[Planned], Guardian]:
    """Groups the components, and starts every process at once.

    Raises `ComponentError` for a chain that ends with a sandboxed proxy, `UsageError` for other
    chains that cannot be: an unsandboxed proxy where a sandbox is required. A process that cannot
    be started is reported later, by its transport's `open`.
    """
    if agent_last and specs[-1].script:
        raise ComponentError(
            f"the last component, `{specs[-1].source}`, would be run as a sandboxed proxy; "
            "a chain ends with an agent",
            f"put an agent behind it, such as `demo`; if it is one, it runs as a program: "
            f'"python {specs[-1].source}"',
        )
    if agent_last and specs[-1].sandboxed:
        raise ComponentError(
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
    proxies = specs[:-1] if agent_last else specs
    if options.require_sandbox:
        _require_sandbox(proxies)
    _refuse_options_of_agents([*proxies, *(spec for spec in specs if spec.sandboxed)])
    options = msgspec.structs.replace(
        options, reserved=(*options.reserved, *(spec.name for spec in specs))
    )
    guardian = Guardian()
    planned: list[Planned] = []
    guests: list[Spec] = []

    def flush() -> None:
        if guests:
            planned.append(guest_host.segment(guests, options, guardian, on_stderr))
            guests.clear()

    for index, spec in enumerate(specs):
        if spec.sandboxed and options.isolation != "inline":
            alone = options.isolation == "separate" or _watches(spec)
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


def _watches(spec: Spec) -> bool:
    """Whether a guest gets copies only."""
    policy = spec.policy.policy()
    return policy is not None and policy.watches_only


def _require_sandbox(proxies: Sequence[Spec]) -> None:
    for spec in proxies:
        if not spec.sandboxed:
            raise UsageError(
                f"{spec.label('proxy')} is not sandboxed, and --require-sandbox asks for it",
                "use a WebAssembly build of it (`conductor inspect` shows what a component is), "
                "or leave out --require-sandbox",
            )


def _refuse_options_of_agents(proxies: Sequence[Spec]) -> None:
    for spec in proxies:
        for key in ("quiet", "mcp_bridge"):
            if getattr(spec, key) is not None:
                raise UsageError(
                    f"`{key}` is an option of agents, and `{spec.name}` is a proxy",
                    f"write `,{key}=…` behind the agent, the last component",
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
    told = any(one.required or one.default is not None for one in spec.schema.values())
    configured = role == "proxy" and (spec.config or spec.config_file is not None or told)
    configure = msgspec.json.encode(guest_host.configuration(spec)) if configured else None
    # Whether the last one is an agent is known when the first message is in: then the router takes
    # its policy away. In a conductor that turns out to be a proxy it is a proxy like all others.
    policy = spec.policy.policy()
    services = granted_names(spec.grants) if spec.grants is not None else None
    component = Component(
        spec.name,
        spec.label(role),
        dialect,
        services,
        configure,
        policy,
        known_as=frozenset(guest_host.known_as(spec)),
        allowance=limits.allowance(spec.limits),
        limited=spec.quiet is not None,
    )
    grantees = (guest_host.grantee(spec),)
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

        def verified() -> ProcessTransport:
            from conductor.spec import digests

            digests.verify(spec.pins, component.label, spec.locked)
            return process()

        return Planned(
            component,
            process(),
            verified,
            on_failure=spec.on_failure,
            timeout=spec.timeout,
            quiet=spec.quiet,
            mcp_bridge=spec.mcp_bridge or options.mcp_bridge,
            files=tuple(word for word in command if os.path.isfile(word)),
            grantees=grantees,
            configurations=guest_host.configurations([spec]) if configured else (),
        )
    if spec.attribute is not None:
        from conductor.run import in_process
        from conductor.transports.memory import MemoryTransport

        return Planned(
            component,
            MemoryTransport(in_process.load(spec)),
            mcp_bridge=spec.mcp_bridge or options.mcp_bridge,
            grantees=grantees,
        )
    return guest_host.inline(spec, options)
