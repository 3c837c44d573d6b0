"""`conductor log replay`: runs a recorded chain again, or one component of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

from conductor.cli import configured, report
from conductor.cli.log_kinds import TracePath, kind_for
from conductor.cli.typer_options import Json, argument, option, paragraphs, switch, takes
from conductor.errors import UsageError
from conductor.spec import catalog

if TYPE_CHECKING:
    from conductor.cli.log_replay_chain import Wanted

_LIMIT: Final = 10.0
_CHAIN_LIMIT: Final = 60.0

HELP: Final = paragraphs(
    "Run a recorded chain again, and compare the messages that client and agent get now. Conductor "
    "plays client and agent from the trace. Services give the answers of the trace. No program of "
    "the trace runs.",
    "With COMPONENT, only this component runs, on its recorded messages. With --agent, conductor "
    "plays the agent. Exit code 1 when a message differs.",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor exec --trace today.jsons datetime redact demo -p hi",
    "  conductor log replay today.jsons --with redact=./new.wasm --diff",
    "  conductor log replay today.jsons ./proxy.py --output test-scenarios/today.txt",
    '  conductor exec ./my_proxy.py "conductor log replay today.jsons --agent" -p hi',
    "  conductor log replay today.jsons --policy ./policy.toml",
)

_Components = Annotated[
    list[str] | None,
    argument("COMPONENT", "Recorded components, or new builds of them. Each component runs alone."),
]
# Not in the table of options, which names parameters by their flags: `as` is a keyword.
_Name = Annotated[
    str | None,
    option("--as", "NAME", "The component's name in the trace. Default: its own name."),
]


_Swapped = Annotated[
    list[str] | None,
    option(
        "--with",
        "NAME=COMPONENT",
        "Run this component in place of the proxy NAME. May be repeated.",
    ),
]
_Without = Annotated[
    list[str] | None,
    option("--without", "NAME", "Leave the proxy NAME out. May be repeated."),
]
_Policy = Annotated[
    str | None,
    option(
        "--policy",
        "FILE",
        "Run nothing: show the parts of the chain that this managed policy would have refused.",
    ),
]
_Diff = Annotated[bool, switch("--diff", "Show the differences, turn by turn.")]


@takes("log replay")
def replay(
    file: TracePath,
    components: _Components = None,
    name: _Name = None,
    swapped: _Swapped = None,
    without: _Without = None,
    diff: _Diff = False,
    policy: _Policy = None,
    json_: Json = False,
    *,
    agent: bool = False,
    output: str | None = None,
    trace: str | None = None,
    timeout: float | None = None,
) -> int:
    """Replays the chain, or components each by itself, or plays the agent."""
    kind_for(file, "replay")
    alone, of_chain = components or [], bool(swapped or without)
    if policy is not None:
        is_run = any((alone, of_chain, agent, diff, trace, name, output))
        return _judge(file, policy, is_run=is_run, as_json=json_)
    about_one = name is not None or output is not None
    if (
        (alone and of_chain)
        or (agent and (alone or of_chain or diff or trace))
        or (about_one and not alone)
    ):
        raise _mixed(file)
    if agent:
        return _play_agent(file)
    from conductor.cli import log_replay_chain
    from conductor.cli.log_replay_chain import Wanted

    config, limit = configured.here(), timeout
    if limit is None:
        limit = _LIMIT if alone else _CHAIN_LIMIT
    named = log_replay_chain.named(swapped or [])
    wanted = Wanted(file, named, tuple(without or ()), trace, limit, config, output=output)
    if not alone:
        return log_replay_chain.run(wanted, show=diff, as_json=json_)
    return _replay_each(alone, name, wanted, show=diff, as_json=json_)


def _judge(file: str, policy: str, *, is_run: bool, as_json: bool) -> int:
    """Prints the refusals of a policy. Raises `UsageError` if the options run a component, too."""
    from conductor.cli import log_policy

    if is_run:
        raise UsageError("--policy runs nothing", "leave out --policy, or all but FILE")
    return log_policy.judge(file, policy, as_json=as_json)


def _replay_each(
    components: Sequence[str], name: str | None, wanted: Wanted, *, show: bool, as_json: bool
) -> int:
    """Replays components, each by itself; the highest exit code. Raises `UsageError`."""
    from conductor.cli import log_replay_chain

    flags = {"--as": name, "--output": wanted.output, "--trace": wanted.trace}
    given = [flag for flag, value in flags.items() if value is not None]
    if given and len(components) > 1:
        raise UsageError(f"{given[0]} is about one component", "replay each component by itself")
    codes = []
    for component in components:
        shown = name or catalog.resolve(component, wanted.config).name
        alone = wanted._replace(swapped={shown: component}, alone=shown)
        codes.append(log_replay_chain.run(alone, show=show, as_json=as_json))
    if wanted.output is not None and not as_json:
        report.say(f"written {wanted.output}")
    return max(codes)


def _mixed(trace: str) -> UsageError:
    return UsageError(
        "a replay is of the whole chain, or of components by themselves, or plays the agent",
        f"`conductor log replay {trace}` runs the chain, with COMPONENT behind it that component "
        "(--as and --output are about it), with --agent it plays the agent",
    )


def _play_agent(trace: str) -> int:
    """Plays the agent of a trace on standard input and output, until the input ends."""
    from conductor.record.replay import recording
    from conductor.record.replay.agent import Agent

    agent = Agent(recording.load(trace)[0].agent)
    for line in sys.stdin.buffer:
        report.send(b"".join(agent.receive(line.rstrip(b"\r\n"))))
        while agent.warnings:
            report.write(agent.warnings.pop(0), word="warning")
    return 0
