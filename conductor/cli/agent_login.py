"""`conductor agent … --agent-login=NAME ARGUMENT…`: a login by terminal of an agent of the chain.

The client appends this to its command (`conductor.core.logins`). No chain starts: this process
becomes the agent's command.
"""

from __future__ import annotations

import os
import shlex
import signal
from typing import TYPE_CHECKING, NoReturn

import msgspec

from conductor.cli import shown_log
from conductor.errors import ComponentError, UsageError, did_you_mean
from conductor.spec import gates, managed, trust
from conductor.spec.model import Spec
from conductor.spec.parsed import planned
from conductor.spec.settings import environment
from conductor.transports import descriptors

if TYPE_CHECKING:
    from conductor.spec.parsed import Parsed


def execute(parsed: Parsed) -> NoReturn:
    """Becomes the command of the agent that is named. Raises `ConductorError`."""
    agent = _started(parsed)
    command, variables = agent.command or [], environment(agent)
    descriptors.restore(os.getpid())
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and so would the agent
    try:
        os.execvpe(command[0], command, variables)  # noqa: S606
    except OSError as error:
        raise ComponentError(
            f"cannot start `{shlex.join(command)}`: {error.strerror or error}",
            "check that the program is installed and on PATH",
        ) from None


def _started(parsed: Parsed) -> Spec:
    """The agent that is named, with the arguments that follow, where the chain might start it so.
    Raises `ConductorError`."""
    name, *arguments = parsed.values["agent_login"]
    log = shown_log.logger(parsed.log)
    plan = gates.locked(planned(parsed), lambda peer, text: log("warning", peer, text))
    agents = {spec.name: spec for spec in plan.components if plan.is_agent(spec)}
    if name not in agents:
        raise UsageError(
            f"this chain has no agent `{name}`",
            did_you_mean(name, agents, f"`--agent-login` names one of: {', '.join(agents)}"),
        )
    agent = agents[name]
    if agent.command is None:
        raise UsageError(
            f"{agent.label('agent')} is no program of this machine: it has no login by terminal",
            "log in where it runs" if agent.address else "name another agent",
        )
    agent = msgspec.structs.replace(agent, command=[*agent.command, *arguments])
    agent = managed.tried(agent, agent=True)
    trust.check_program(agent)
    return agent
