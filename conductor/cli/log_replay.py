"""`conductor log replay`: runs a recorded chain again, or one component of it."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Final

import typer

from conductor.cli import configured, report
from conductor.cli.log_kinds import TracePath, kind_for
from conductor.cli.typer_options import Json, paragraphs, takes
from conductor.errors import UsageError

if TYPE_CHECKING:
    from conductor.record.replay.player import ReplayOutcome
    from conductor.record.replay.recording import Recording

EXIT_DIFFERENT: Final = 1
_LIMIT: Final = 10.0
_CHAIN_LIMIT: Final = 60.0

HELP: Final = paragraphs(
    "Run a recorded chain again, client and agent played from the trace, and compare what both get "
    "now. Services give the answers of the trace; no program runs that it names.",
    "With COMPONENT, run that alone on what was recorded of it; with --agent, play the agent. Exit "
    "code 1 when something differs.",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor exec --trace today.jsons datetime redact demo -p hi",
    "  conductor log replay today.jsons --with redact=./new.wasm --diff",
    "  conductor log replay today.jsons ./my_proxy.py --output transcripts/today.txt",
    '  conductor exec ./my_proxy.py "conductor log replay today.jsons --agent" -p hi',
)

_Components = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="COMPONENT",
        help="Recorded components, or changed builds of them; each runs by itself.",
        show_default=False,
    ),
]
# Not in the table of options, which names parameters by their flags: `as` is a keyword.
_Name = Annotated[
    str | None,
    typer.Option(
        "--as",
        metavar="NAME",
        help="The component's name in the trace. Default: its own name.",
        show_default=False,
    ),
]


_Swapped = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="NAME=COMPONENT",
        help="Run this component in place of the proxy NAME. May be repeated.",
        show_default=False,
    ),
]
_Without = Annotated[
    list[str] | None,
    typer.Option(
        "--without",
        metavar="NAME",
        help="Leave the proxy NAME out. May be repeated.",
        show_default=False,
    ),
]
_Diff = Annotated[bool, typer.Option("--diff", help="Show what differs, turn by turn.")]


@takes("log replay")
def replay(
    file: TracePath,
    components: _Components = None,
    name: _Name = None,
    swapped: _Swapped = None,
    without: _Without = None,
    diff: _Diff = False,
    json_: Json = False,
    *,
    agent: bool = False,
    output: str | None = None,
    trace: str | None = None,
    timeout: float | None = None,
) -> int:
    """Replays the chain, or components each by itself, or plays the agent."""
    kind_for(file, "replay")
    of_chain = bool(swapped or without or diff or trace)
    if components or name is not None or output is not None:
        if agent or of_chain or not components:
            raise _mixed(file)
    elif agent:
        if of_chain:
            raise _mixed(file)
        return _play_agent(file)
    else:
        from conductor.cli import log_replay_chain

        limit = _CHAIN_LIMIT if timeout is None else timeout
        wanted = log_replay_chain.Wanted(file, swapped or [], without or [], trace, limit)
        return log_replay_chain.run(wanted, show=diff, as_json=json_)
    timeout = _LIMIT if timeout is None else timeout
    if len(components) > 1 and (name is not None or output is not None):
        raise UsageError(
            f"{'--as' if name is not None else '--output'} is about one component",
            "replay each component by itself",
        )
    return max(
        _replay(file, component, name, output, timeout, as_json=json_) for component in components
    )


def _mixed(trace: str) -> UsageError:
    return UsageError(
        "a replay is of the whole chain, or of components by themselves, or plays the agent",
        f"`conductor log replay {trace}` runs the chain, with COMPONENT behind it that component "
        "(--as and --output are about it), with --agent it plays the agent",
    )


def _replay(
    trace: str, component: str, name: str | None, output: str | None, limit: float, *, as_json: bool
) -> int:
    """Runs one component again; the exit code."""
    from conductor.author.subject import subjects
    from conductor.cli import log_replay_report
    from conductor.record.replay import player, recording
    from conductor.spec.catalog import resolve

    spec = resolve(component, configured.here())
    shown = name or spec.name
    recorded = recording.load(trace, shown)
    if output is not None:
        _write_transcript(output, shown, recorded)
    outcomes: list[ReplayOutcome] = []
    with subjects(spec, patience=limit) as make:
        for steps in recorded.runs:
            with closing(make()) as subject:
                outcomes.append(player.replay(recorded, shown, subject, steps))
            if outcomes[-1].divergence is not None:
                break
    tell = log_replay_report.tell_json if as_json else log_replay_report.tell
    tell(shown, outcomes, len(recorded.runs))
    if output is not None and not as_json:
        report.say(f"written {output}")
    return 0 if outcomes[-1].divergence is None else EXIT_DIFFERENT


def _play_agent(trace: str) -> int:
    """Plays the agent of a trace on standard input and output, until the input ends."""
    from conductor.record.replay import chain_recording
    from conductor.record.replay.agent import Agent

    agent = Agent(chain_recording.load(trace).agent)
    for line in sys.stdin.buffer:
        report.send(b"".join(agent.receive(line.rstrip(b"\r\n"))))
        while agent.warnings:
            report.write(agent.warnings.pop(0), word="warning")
    return 0


def _write_transcript(path: str, name: str, recording: Recording) -> None:
    """Writes the conversation as a transcript. Raises `UsageError`."""
    if not recording.sided:
        raise UsageError(
            f"`{name}` spoke over one connection, not over the channel, so its conversation cannot "
            "become a transcript",
            "replay the trace itself: leave out --output",
        )
    if len(recording.runs) > 1:
        raise UsageError(
            f"`{name}` was started {len(recording.runs)} times in this trace, and a transcript is "
            "one conversation",
            "replay the trace itself: leave out --output",
        )
    text = [b"# What `%b` received and sent; written by `conductor log replay`." % name.encode()]
    for step in recording.runs[0]:
        if step.failed:
            break  # a transcript cannot say that
        if not step.given:
            continue
        text += [b"> " + line.whole for line in step.given]
        text += [b"< " + line.whole for line in step.sent]
        text.append(b"")
    try:
        with open(path, "xb") as file:
            file.write(b"\n".join(text))
    except FileExistsError:
        raise UsageError(f"`{path}` is there already", "name another file, or delete it") from None
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"cannot write `{path}`: {why}", "check the path") from None
