"""From resolved components to their transports; neighbouring guests share one child.

Loaded before the event loop's modules, so that processes start while these are being imported.
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
from conductor.run.planned import (
    AGENT_PATIENCE,
    Belongings,
    Configuration,
    Planned,
    Stderr,
    grantee,
)
from conductor.spec import gates, limits, managed, origins
from conductor.spec.gates import Warn
from conductor.spec.model import Spec
from conductor.spec.options import Options
from conductor.spec.origins import bare
from conductor.spec.plan import Plan
from conductor.spec.settings import environment
from conductor.transports.base import Transport
from conductor.transports.process import ProcessTransport
from conductor.transports.process_groups import Guardian


class Launcher:
    """Plans the components of one chain: at its start, and when its components change.

    Attributes:
        guardian: Ends the started processes, should this process be killed.
    """

    def __init__(
        self, chain: Plan, on_stderr: Stderr, warn: Warn | None = None, *, tried: bool = False
    ) -> None:
        """`warn` hears sentences for the user about a component. `tried`: for tools that try out
        components (`gates.passed_by_tool`)."""
        self.guardian = Guardian()
        self._chain = chain
        self._tried = tried
        self._on_stderr = on_stderr
        self._warn = warn or on_stderr

    @property
    def agent_last(self) -> bool:
        """Whether the last component is the agent."""
        return self._chain.agent_last

    def plan(self, specs: Sequence[Spec], running: Sequence[Planned] = ()) -> list[Planned]:
        """Groups the components, and starts every new process at once.

        Every chain comes through here, so it passes the gates here. A process that cannot be
        started is reported later, by its transport's `open`.

        Args:
            specs: The components, in order.
            running: The running components. A group of components that runs already, but for its
                settings, is planned as it runs, with its new specs. Guests of a new host get the
                members that they kept.

        Raises:
            ConductorError: A gate refuses the chain.
        """
        wanted = self._chain.of(specs)
        chain = gates.passed_by_tool(wanted) if self._tried else gates.passed(wanted, self._warn)
        specs, options = chain.components, chain.options
        would = [] if self._tried else _watched(chain)
        names = (spec.name for spec in specs)
        options = msgspec.structs.replace(options, reserved=(*options.reserved, *names))
        planned: list[Planned] = []
        for group in _groups(specs, options.isolation):
            same = next((each for each in running if _same(each.specs, group)), None)
            if same is not None:
                planned.append(msgspec.structs.replace(same, specs=tuple(group)))
                continue
            new = self._new(group, chain.role(group[0]), options, running)
            members = {spec.name for spec in group}
            own = tuple(each for each in would if each.peer in members)
            planned.append(msgspec.structs.replace(new, specs=tuple(group), would=own))
        started = {id(each.transport) for each in running}
        # The agent first: it takes longest. The host of guests runs already.
        for each in reversed(planned):
            if isinstance(each.transport, ProcessTransport) and id(each.transport) not in started:
                # All at once, while the event loop is still being imported: that hides their start.
                with contextlib.suppress(ComponentError):  # `open` tries again, and reports it
                    each.transport.spawn()
        return planned

    def _new(
        self, group: Sequence[Spec], role: str, options: Options, running: Sequence[Planned]
    ) -> Planned:
        spec = group[0]
        if spec.sandboxed:
            from conductor.run import guest_host  # for guests alone

            if options.isolation == "inline":
                return guest_host.inline(spec, options)
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
        """The transport of a component without a sandbox, and a function that makes another one."""
        if spec.command is not None:
            return _program(spec, role, options, self.guardian, self._on_stderr)
        if spec.address is not None:
            from conductor.run.elsewhere import carriers

            return carriers(spec, component, options, self._on_stderr)
        from conductor.run import in_process
        from conductor.transports.memory import MemoryTransport

        return MemoryTransport(in_process.load(spec)), None


def _watched(chain: Plan) -> list[Violated]:
    """The refusals that a watching policy would have made of the chain."""
    policy = managed.written()
    if policy is None or not policy.only_watches:
        return []
    from conductor.spec.managed import options

    return options.watched(policy, chain)


def _same(running: Sequence[Spec], group: Sequence[Spec]) -> bool:
    """Whether a group of components runs already, but for its settings."""
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


# -- components without a sandbox ------------------------------------------------------------------


def _program(
    spec: Spec, role: str, options: Options, guardian: Guardian, on_stderr: Stderr
) -> tuple[Transport, Callable[[], Transport]]:
    command = spec.command
    assert command is not None

    def process() -> ProcessTransport:
        variables = environment(spec, options.traceparent)
        return ProcessTransport(
            command,
            # An agent reaches the MCP servers of proxies at this machine (`conductor.mcp`).
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
        ports=spec.ports,
        agents=dict.fromkeys(spec.agents, spec.name),
        patience=spec.timeout or (AGENT_PATIENCE if role == "agent" else None),
        program=True,
        denied=origins.denials(spec),
        judge=spec.policy.judge(),
        set_by={spec.name: origins.given(spec)},
    )
