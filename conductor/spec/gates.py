"""The gates of a plan: each returns it, maybe narrower, or refuses it. The first refusal counts.

`conductor.run.launch` starts no plan that has not passed them. The start path loads this module;
more modules are loaded only where there is a lock file or a managed policy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from conductor.errors import UsageError
from conductor.spec import lacking, managed, origins
from conductor.spec.model import Spec
from conductor.spec.plan import Plan

Warn: TypeAlias = Callable[[str, str], None]
"""Called with the name of a component and a sentence for its user."""

Gate: TypeAlias = Callable[[Plan, Warn], Plan]
"""Raises `ConductorError`, its refusal."""


def passed(plan: Plan, warn: Warn) -> Plan:
    """The plan behind all gates. Raises `ConductorError`."""
    for gate in GATES:
        plan = gate(plan, warn)
    return plan


def passed_by_tool(plan: Plan) -> Plan:
    """The plan of a tool that tries out components, which have been held to the managed policy one
    by one (`managed.tried`) and get all that they ask for. Raises `ConductorError`."""
    for gate in _OF_TOOLS:
        plan = gate(plan, _unheard)
    return plan


def _unheard(name: str, text: str) -> None:
    """Ignores a warning."""


# -- the gates -------------------------------------------------------------------------------------


def locked(plan: Plan, warn: Warn) -> Plan:
    """Holds a plan to its lock file, with the digests that the file pins."""
    if plan.options.lock is None:
        return plan
    from conductor.spec.lock import compare

    return compare.enforced(plan, plan.options.lock, warn)


def held_to_policy(plan: Plan, warn: Warn) -> Plan:
    """The managed policy allows each component and each option."""
    policy = managed.policy()
    if policy is None:
        return plan
    from conductor.spec.managed import chain, options

    plan = options.held(policy, plan)
    return plan.of(chain.held(policy, plan.components, agent_last=plan.agent_last))


def ends_with_agent(plan: Plan, warn: Warn) -> Plan:
    """The last component can be an agent."""
    if plan.agent_last:
        refuse_end(plan.components)
    return plan


def reaches_peers(plan: Plan, warn: Warn) -> Plan:
    """Each peer agent has one component that reaches it."""
    if any(one.peers or one.agents or one.peer_agent for one in plan.components):
        from conductor.spec import peer_agents

        peer_agents.check(plan)
    return plan


def is_hardened(plan: Plan, warn: Warn) -> Plan:
    """Guests can be locked up where that is required."""
    if plan.options.require_hardening and plan.options.isolation == "inline":
        raise UsageError(
            f"`require-hardening` ({plan.origin('require_hardening')}) and `isolation = inline` "
            f"({plan.origin('isolation')}) contradict each other: this process cannot be locked "
            "up, since it starts programs",
            "leave out `isolation`: guests then get a process of their own",
        )
    return plan


def trusts_programs(plan: Plan, warn: Warn) -> Plan:
    """The user trusts the folder of each manifest that names a program."""
    for spec in plan.components:
        if spec.command is not None and spec.manifest_path:
            from conductor.spec import trust

            trust.check_program(spec)
    return plan


def is_sandboxed(plan: Plan, warn: Warn) -> Plan:
    """Proxies are sandboxed where that is required, and have no options of agents."""
    for spec in plan.proxies:
        if plan.options.require_sandbox and not spec.sandboxed:
            raise UsageError(
                f"{spec.label('proxy')} is not sandboxed, and `require-sandbox` is set "
                f"({plan.origin('require_sandbox')})",
                "use a WebAssembly build of the component (`conductor inspect` shows its kind), or "
                "leave out `require-sandbox`",
            )
        for key in ("quiet", "mcp_bridge"):
            if getattr(spec, key) is not None:
                error = UsageError(
                    f"`{key}` is an option of agents, and `{spec.name}` is a proxy",
                    f"write `,{key}=…` behind the agent, the last component",
                )
                raise origins.blamed(error, origins.of(spec).get(key))
    return plan


def has_consent(plan: Plan, warn: Warn) -> Plan:
    """Refuses a component that fails closed and lacks a right that it asks for."""
    for spec in plan.components[:-1] if plan.agent_last else plan.components:
        lacking.check(spec)
    return plan


GATES: Final[tuple[Gate, ...]] = (
    locked,
    held_to_policy,
    ends_with_agent,
    reaches_peers,
    is_hardened,
    trusts_programs,
    is_sandboxed,
    has_consent,
)
"""All of them, in the order in which they refuse."""

_OF_TOOLS: Final = GATES[2:-1]


def refuse_end(specs: Sequence[Spec]) -> None:
    """Raises `UsageError` for a chain that does not end with an agent."""
    last = specs[-1] if specs else None
    if last is None or not last.sandboxed:
        return
    if last.script:
        error = UsageError(
            f"the last component, `{last.source}`, would be run as a sandboxed proxy; "
            "a chain ends with an agent",
            f"put an agent behind it, such as `demo`; if it is an agent, run it as a program: "
            f'"python {last.source}"',
        )
    else:
        error = UsageError(
            f"the last component, `{last.name}`, is a sandboxed proxy; a chain ends with an agent",
            "put an agent behind it, such as `demo`; a chain without an agent is for "
            "`conductor proxy`",
        )
    raise origins.blamed(error, last.written)
