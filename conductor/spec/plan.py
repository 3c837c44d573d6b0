"""The plan of a chain: its components in order and its options, each with who set it.

`made` makes it, in layers, lowest first: the components of words and files, the peer agents, the
demands of the managed policy. The code that has asked the user adds the consent (`Plan.of`). The
gates decide whether the chain may run (`conductor.spec.gates`). The start path loads this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from conductor.errors import UsageError
from conductor.spec import managed
from conductor.spec.catalog import Note, resolve, resolve_all
from conductor.spec.model import Spec, role_of
from conductor.spec.options import Options
from conductor.spec.origins import DEFAULT

if TYPE_CHECKING:
    from conductor.spec.config.model import Config, Written


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A chain as it is to run. The layers of a component tell who set its values."""

    components: tuple[Spec, ...]
    options: Options
    mode: str = "agent"
    """`agent`, `proxy`, or `auto`: the first message received decides."""

    @property
    def agent_last(self) -> bool:
        """Whether the last component is the agent."""
        return self.mode != "proxy"

    @property
    def proxies(self) -> tuple[Spec, ...]:
        """The components that are no agents."""
        return tuple(spec for spec in self.components if not self.is_agent(spec))

    def role(self, spec: Spec) -> Literal["proxy", "agent"]:
        """The role of a component: a peer agent is an agent too."""
        return role_of(spec, last=self.agent_last and spec is self.components[-1])

    def is_agent(self, spec: Spec) -> bool:
        """Whether a component is an agent: the chain's, or a peer agent."""
        return self.role(spec) == "agent"

    def of(self, components: Sequence[Spec]) -> Plan:
        """The plan with these components."""
        return msgspec.structs.replace(self, components=tuple(components))

    def with_options(self, **options: object) -> Plan:
        """The plan with these options."""
        changed = msgspec.structs.replace(self.options, **options)
        return msgspec.structs.replace(self, options=changed)

    def origin(self, option: str) -> str:
        """Who set an option."""
        return self.options.set_by.get(option, DEFAULT)


def alone(component: str | Written | Spec, config: Config | None = None) -> Plan:
    """The plan of one component without a chain around it. Raises `UsageError`."""
    spec = component if isinstance(component, Spec) else resolve(component, config)
    is_agent = spec.manifest is not None and spec.manifest.kind == "agent"
    return Plan(components=(spec,), options=Options(), mode="agent" if is_agent else "proxy")


def made(
    components: Sequence[str | Written],
    options: Options,
    *,
    mode: str = "agent",
    config: Config | None = None,
    note: Note | None = None,
) -> Plan:
    """The plan of a command line's words at this moment, with the demands of the managed policy.

    Args:
        components: The words, and components that are written elsewhere.
        options: How the chain is run.
        mode: As of a `Plan`.
        config: The configuration; None: none.
        note: Hears about names with another meaning.

    Raises:
        UsageError: With a hint.
    """
    policy = managed.written()
    if policy is not None:
        from conductor.spec.managed import options as bounds

        options = bounds.obliged(policy, options)
        if mode == "auto" and not policy.only_watches:
            # As a proxy of another conductor its last component would be a proxy too, but the
            # policy judges it as the agent.
            mode = "agent"
    agent_last = mode != "proxy"
    specs = resolve_all(components, agent_last=agent_last, config=config, note=note)
    if agent_last and not specs:
        raise UsageError(
            "the chain has no component, and needs an agent",
            "put one behind it, such as `demo`",
        )
    if options.peer or options.branch:
        from conductor.spec import peer_agents

        specs = peer_agents.resolved(specs, options, agent_last=agent_last, config=config)
    specs = managed.required(specs, agent_last=agent_last)
    return Plan(components=tuple(specs), options=options, mode=mode)
