"""Peer agents: agents beside the chain, each of them reached by one component."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from conductor.errors import UsageError, did_you_mean
from conductor.spec import catalog, managed, origins
from conductor.spec.config.model import Config
from conductor.spec.model import Spec, role_of

if TYPE_CHECKING:
    from conductor.spec.options import Options
    from conductor.spec.plan import Plan


def resolved(
    chain: Sequence[Spec],
    options: Options,
    *,
    agent_last: bool,
    config: Config | None = None,
) -> list[Spec]:
    """The chain and its peer agents, resolved as its agent is.

    Args:
        chain: The components.
        options: Which peer agents and branches there are.
        agent_last: Whether the last component is the agent.
        config: The configuration; None: none.

    Raises:
        UsageError: A name is taken, or the named component is no agent.
    """
    peers: list[Spec] = []
    for key, texts in (("peer", options.peer), ("branch", options.branch)):
        for text in texts:
            name, _, what = text.partition("=")
            set_by = options.set_by.get(key, "")
            try:
                if key == "branch":
                    what = _branch(name, what, _as_component(chain, agent_last=agent_last))
                _refuse_taken(name, [*chain, *peers])
                peer = _peer(name, what, options, config)
            except UsageError as error:
                raise origins.blamed(error, set_by) from None
            peers.append(msgspec.structs.replace(peer, written=set_by))
    return among(chain, peers, agent_last=agent_last)


def _branch(name: str, proxies: str, agent: str) -> str:
    """A branch as a JSON list of components. Raises `UsageError`."""
    try:
        listed = [*shlex.split(proxies), agent]
    except ValueError as error:
        raise UsageError(f"cannot read the branch `{name}`: {error}", "check its quotes") from None
    return msgspec.json.encode(listed).decode()


def _refuse_taken(name: str, others: Sequence[Spec]) -> None:
    """Raises `UsageError` for a name that something else in the chain has."""
    if name == "client" or name in {spec.name for spec in others}:
        raise UsageError(
            f"the peer agent `{name}` needs a name that nothing else in the chain has",
            "give it another: `-c peer.NAME=COMMAND`, and `,allow=peer:NAME` behind the component",
        )


def _peer(name: str, command: str, options: Options, config: Config | None) -> Spec:
    """A peer agent: a command, or a chain as a JSON list of components. Raises `UsageError`."""
    is_chain = command.startswith("[")
    if is_chain:
        _refuse_unknown_policy(name)
    spec = catalog.resolve(_chain(command, options, config) if is_chain else command, config)
    if spec.sandboxed:
        raise UsageError(
            f"the peer agent `{name}` is a sandboxed proxy, and has to be an agent",
            f"""a list is a chain: `-c 'peer.{name}=["{command}", "demo"]'`""",
        )
    return msgspec.structs.replace(spec, name=name, peer_agent=True)


def _refuse_unknown_policy(name: str) -> None:
    """Raises `UsageError` for a chain where a bundle brings the policy: another process runs the
    chain, and reads the policy of the machine."""
    policy = managed.policy()
    if policy is not None and policy is managed.brought():
        raise UsageError(
            f"the peer agent `{name}` is a chain, and its conductor would not know the policy of "
            f"the bundle ({policy.path})",
            f"put the policy on each worker as {managed.PLACE} too, or leave the chain out",
        )


def _as_component(chain: Sequence[Spec], *, agent_last: bool) -> str:
    """The chain's agent, as a component of a branch. Raises `UsageError`."""
    agent = chain[-1] if chain and agent_last else None
    if agent is not None and agent.address is not None:
        elsewhere = {"component": agent.address, "token": agent.token, "ca": agent.ca}
        return msgspec.json.encode({key: one for key, one in elsewhere.items() if one}).decode()
    if agent is None or agent.command is None:
        why = (
            "is neither a command nor at an address"
            if agent is not None
            else "does not exist in a chain of proxies"
        )
        raise UsageError(
            f"a branch ends in an agent like the chain's, and that {why}",
            'name the branch\'s agent: `-c \'peer.NAME=["PROXY", "AGENT"]\'`',
        )
    command, *args = agent.command
    written = {"command": command, "args": args, "env": agent.variables}
    return msgspec.json.encode(written).decode()


def _chain(listed: str, options: Options, config: Config | None) -> str:
    """The command of a conductor that runs a JSON list of components as a chain. It requires of its
    proxies the same as this conductor, and reads no configuration where this one may read no other.
    It reads the managed policy by itself. Raises `UsageError`."""
    try:
        components = msgspec.json.decode(listed, type=list[str])
    except msgspec.DecodeError as error:
        raise UsageError(
            f"a peer agent in brackets is a JSON list of components, and this is none: {error}",
            """for example `-c 'peer.a=["datetime", "demo"]'`""",
        ) from None
    args = ["-P", "-m", "conductor", "agent"]
    if config is None or config.alone:
        args.append("--isolated")
    args += "-c", "control=off"
    for key in ("require_sandbox", "require_hardening"):
        if getattr(options, key):
            args += "-c", f"{key.replace('_', '-')}=true"
    args += components
    return msgspec.json.encode({"command": sys.executable, "args": args}).decode()


def among(chain: Sequence[Spec], peers: Sequence[Spec], *, agent_last: bool) -> list[Spec]:
    """The components with the peer agents among them: before the agent, which is the last."""
    place = len(chain) - 1 if agent_last else len(chain)
    return [*chain[:place], *peers, *chain[place:]]


def check(plan: Plan) -> None:
    """Refuses a peer agent that not exactly one component reaches, and a name without an agent.

    Raises:
        UsageError: With a hint.
    """
    specs, agent_last = plan.components, plan.agent_last
    peers = [spec.name for spec in specs if spec.peer_agent]
    for at, spec in enumerate(specs, 1):
        reached = (*spec.peers, *spec.agents)
        if reached and role_of(spec, last=agent_last and at == len(specs)) == "agent":
            verb = "peer" if spec.peers else "agent"
            raise UsageError(
                f"`{verb}:NAME` is a right of proxies, and {_given(spec, reached[0])} is an agent",
                "write it behind the component that reaches the peer agents",
            )
        if spec.agents and not agent_last:
            raise UsageError(
                f"{_given(spec, spec.agents[0])} has sessions go on with another agent, and this "
                "chain has none",
                f"leave out `agent:{spec.agents[0]}`: the conductor above has the agents",
            )
        for name in reached:
            if name not in peers:
                add = f'add `-c peer.{name}="COMMAND"`, the command of an agent'
                text = f"there is no peer agent `{name}` for {_given(spec, name)}"
                raise UsageError(text, did_you_mean(name, peers, add))
    owners = Counter(name for spec in specs for name in (*spec.peers, *spec.agents))
    for name in peers:
        if owners[name] != 1:
            several = [_given(spec, name) for spec in specs if name in (*spec.peers, *spec.agents)]
            who = f"{' and '.join(several)} reach" if several else "no component reaches"
            branches = (text.partition("=")[0] for text in plan.options.branch)
            origin = plan.origin("branch" if name in branches else "peer")
            raise UsageError(
                f"a peer agent belongs to one component, and {who} `{name}` ({origin})",
                f"write `,allow=peer:{name}` behind one component, or `,allow=agent:{name}`",
            )


def _given(spec: Spec, name: str) -> str:
    """A component, and who lets it reach a peer agent."""
    verb = "peer" if name in spec.peers else "agent"
    return f"`{spec.name}` ({origins.right(spec, f'{verb}:{name}')})"
