"""From resolved components to what runs them: transports, and neighbouring guests in one child.

Loaded before the event loop's modules, so that processes start while those are being imported.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec

from conductor import children
from conductor.core import Violated
from conductor.core.component import Component
from conductor.core.dialects import DIALECTS
from conductor.core.service_table import granted_names
from conductor.errors import ComponentError, UsageError
from conductor.run import guest_host
from conductor.run.planned import (
    AGENT_PATIENCE,
    Belongings,
    Configuration,
    Planned,
    Stderr,
    grantee,
    ports,
)
from conductor.spec import lacking, limits, managed
from conductor.spec.model import Spec
from conductor.spec.options import Options
from conductor.spec.origins import bare
from conductor.spec.settings import environment
from conductor.transports.base import Transport
from conductor.transports.process import ProcessTransport
from conductor.transports.process_groups import Guardian


def obliged(options: Options) -> Options:
    """The options with what the managed policy demands, such as its audit.

    To be asked before anything is opened; `Launcher` refuses a chain whose options lack it. Raises
    `UsageError` for options that the policy forbids.
    """
    policy = managed.written()
    if policy is None:
        return options
    if policy.only_watches:
        return msgspec.structs.replace(options, audit=options.audit or policy.audit)
    from conductor.run.held import applied

    return applied(policy, options)


class Launcher:
    """Plans the components of one chain: at its start, and when they are to be others.

    Attributes:
        agent_last: Whether the last component is the agent.
        guardian: Ends what was started, should this process be killed.
    """

    def __init__(
        self, options: Options, *, agent_last: bool, on_stderr: Stderr, tried: bool = False
    ) -> None:
        """`tried`: the components have been held to the managed policy one by one
        (`conductor.spec.managed.tried`): for tools that try out components."""
        self.agent_last = agent_last
        self.guardian = Guardian()
        self._options = options
        self._tried = tried
        self._on_stderr = on_stderr

    def plan(self, specs: Sequence[Spec], running: Sequence[Planned] = ()) -> list[Planned]:
        """Groups the components, and starts every new process at once.

        Everything that runs a chain comes through here, so here the managed policy is enforced. A
        process that cannot be started is reported later, by its transport's `open`.

        Args:
            specs: The components, in order.
            running: What runs. A group of components that runs already, but for its settings, is
                planned as what runs, with its new specs. Guests of a new host get what they kept.

        Raises:
            ComponentError: The chain ends with a sandboxed proxy.
            UsageError: The managed policy or the options forbid the chain, such as an unsandboxed
                proxy where a sandbox is required.
        """
        specs, options = self.judged(specs)
        would = self._watched(specs)
        names = (spec.name for spec in specs)
        options = msgspec.structs.replace(options, reserved=(*options.reserved, *names))
        planned: list[Planned] = []
        for group in _groups(specs, options.isolation):
            same = next((each for each in running if _same(each.specs, group)), None)
            if same is not None:
                planned.append(msgspec.structs.replace(same, specs=tuple(group)))
                continue
            last = self.agent_last and group[0] is specs[-1]
            role = "agent" if last or group[0].peer_agent else "proxy"
            new = self._new(group, role, options, running)
            members = {spec.name for spec in group}
            own = tuple(each for each in would if each.peer in members)
            planned.append(msgspec.structs.replace(new, specs=tuple(group), would=own))
        started = {id(each.transport) for each in running}
        for each in planned:
            if isinstance(each.transport, ProcessTransport) and id(each.transport) not in started:
                # All at once, while the event loop is still being imported: that hides their start.
                with contextlib.suppress(ComponentError):  # `open` tries again, and reports it
                    each.transport.spawn()
        return planned

    def judged(self, specs: Sequence[Spec]) -> tuple[Sequence[Spec], Options]:
        """The components and the options as the managed policy allows them; nothing starts.

        Raises:
            ComponentError, UsageError: As `plan` does.
        """
        specs, options = self._held(specs)
        _refuse(specs, options, agent_last=self.agent_last)
        if not self._tried:  # tools give what they try out all that it asks for
            for spec in specs[:-1] if self.agent_last else specs:
                lacking.check(spec)
        return specs, options

    def _watched(self, specs: Sequence[Spec]) -> list[Violated]:
        """What a policy that only watches would have refused of the chain."""
        policy = None if self._tried else managed.written()
        if policy is None or not policy.only_watches:
            return []
        from conductor.run.held import watched

        return watched(policy, specs, self._options, agent_last=self.agent_last)

    def _held(self, specs: Sequence[Spec]) -> tuple[Sequence[Spec], Options]:
        """The components and the options as the managed policy allows them. Raises `UsageError`."""
        policy = None if self._tried else managed.policy()
        if policy is None:
            return specs, self._options
        from conductor.run.held import held

        return held(policy, specs, self._options, agent_last=self.agent_last)

    def _new(
        self, group: Sequence[Spec], role: str, options: Options, running: Sequence[Planned]
    ) -> Planned:
        spec = group[0]
        if spec.sandboxed and options.isolation == "inline":
            return guest_host.inline(spec, options)
        if spec.sandboxed:
            kept = Belongings.of(each.belongings for each in running)
            return guest_host.segment(group, options, self.guardian, self._on_stderr, kept)
        # An agent has no `configure`, so its settings cannot be sent again either.
        settings = Configuration(spec) if role == "proxy" else None
        component = _component(spec, role, options, settings)
        first, renew = self._carriers(spec, component, role, options)
        return Planned(
            component,
            first,
            renew,
            on_failure="fail" if renew is None else spec.on_failure,
            timeout=spec.timeout,
            quiet=spec.quiet,
            mcp_bridge=spec.mcp_bridge or options.mcp_bridge,
            files=tuple(word for word in spec.command or () if os.path.isfile(word)),
            grantees=(grantee(spec),),
            configurations=(settings,) if settings is not None else (),
        )

    def _carriers(
        self, spec: Spec, component: Component, role: str, options: Options
    ) -> tuple[Transport, Callable[[], Transport] | None]:
        """What carries the messages of a component without a sandbox, and what makes it anew."""
        if spec.command is not None:
            return _program(spec, role, options, self.guardian, self._on_stderr)
        if spec.address is not None:
            from conductor.run.elsewhere import carriers

            return carriers(spec, component, options, self._on_stderr)
        from conductor.run import in_process
        from conductor.transports.memory import MemoryTransport

        return MemoryTransport(in_process.load(spec)), None


def _same(running: Sequence[Spec], group: Sequence[Spec]) -> bool:
    """Whether a group of components is what runs, but for its settings."""
    return [_unset(spec) for spec in running] == [_unset(spec) for spec in group]


def _unset(spec: Spec) -> Spec:
    return msgspec.structs.replace(bare(spec), config={}, config_file=None, asked=False)


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


def refuse_end(specs: Sequence[Spec]) -> None:
    """Raises `ComponentError` for a chain that does not end with an agent."""
    last = specs[-1] if specs else None
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
            "put an agent behind it, such as `demo`; a chain without an agent is for "
            "`conductor proxy`",
        )


def _refuse(specs: Sequence[Spec], options: Options, *, agent_last: bool) -> None:
    if agent_last:
        refuse_end(specs)
    if any(spec.peers or spec.peer_agent for spec in specs):
        from conductor.spec import peer_agents

        peer_agents.check(specs, agent_last=agent_last)
    if options.require_hardening and options.isolation == "inline":
        raise UsageError(
            "`require-hardening` and `-c isolation=inline` contradict each other: this process "
            "cannot be locked up, since it starts programs",
            "leave out `isolation`: guests then get a process of their own",
        )
    for spec in specs:
        if spec.command is not None and spec.manifest_path:
            from conductor.spec import trust

            trust.check_program(spec)
    for spec in specs[:-1] if agent_last else specs:
        if spec.peer_agent:
            continue
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
) -> tuple[Transport, Callable[[], Transport]]:
    command = spec.command
    assert command is not None

    def process() -> ProcessTransport:
        variables = environment(spec, options.traceparent)
        return ProcessTransport(
            command,
            # It reaches the MCP servers of proxies at this machine (`conductor.mcp`).
            env=children.with_loopback(variables, command) if role == "agent" else variables,
            guardian=guardian,
            on_stderr=lambda line: on_stderr(spec.name, line),
            line_limit=options.line_limit,
        )

    def verified() -> ProcessTransport:
        # The first start needs no comparison: the lock was enforced just before.
        from conductor.spec import digests

        digests.verify(spec.pins, spec.label(role), spec.locked)
        try:
            return process()
        except UsageError as error:  # a secret that is gone: the component fails, not the chain
            raise ComponentError(error.text, error.hint) from None

    first = process()
    carrier: Transport = first
    renew: Callable[[], Transport] = verified
    if spec.retries:
        from conductor.transports.retried import Retried

        with contextlib.suppress(ComponentError):  # `open` tries again
            first.spawn()
        note = partial(on_stderr, spec.name)
        carrier = Retried(verified, spec.retries, note, first)
        renew = partial(Retried, verified, spec.retries, note)
    return carrier, renew


def _component(
    spec: Spec, role: str, options: Options, settings: Configuration | None
) -> Component:
    """The projection of an unsandboxed component for the router."""
    has_schema = any(s.required or s.default is not None for s in spec.schema.values())
    # A program that knows no `configure` refuses it, so only a program with settings receives it.
    has_settings = spec.config or spec.config_file is not None or has_schema
    return Component(
        spec.name,
        spec.label(role),
        DIALECTS[spec.dialect] if spec.dialect else None,
        granted_names(spec.grants) if spec.grants is not None else None,
        settings.params() if settings is not None and has_settings else None,
        # Only the first message shows whether the last component is an agent: then the router drops
        # its policy. In a conductor that turns out to be a proxy, it is a proxy like the others.
        spec.policy.policy(),
        known_as=frozenset(spec.aliases),
        allowance=limits.allowance(spec.limits),
        limited=spec.quiet is not None,
        revived=role == "agent" and not spec.peer_agent and "restart" in spec.on_failure,
        logins=options.logins and spec.command is not None,
        peer_agent=spec.peer_agent,
        ports=ports(spec),
        patience=spec.timeout or (AGENT_PATIENCE if role == "agent" else None),
        program=True,
        judge=spec.policy.judge(),
    )
