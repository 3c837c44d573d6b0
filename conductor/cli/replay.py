"""`conductor replay`: runs a component again on the lines that a trace recorded of it."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Final

import typer

from conductor.cli import configured, report
from conductor.cli.typer_options import Json, paragraphs, takes
from conductor.errors import UsageError

if TYPE_CHECKING:
    from conductor.record.replay.player import ReplayOutcome
    from conductor.record.replay.recording import Recording

EXIT_DIFFERENT: Final = 1

HELP: Final = paragraphs(
    "Run a recorded component again, and compare what it sends with the trace.",
    "Its requests to neighbours, clock, store and network get the answers of the trace: nothing is "
    "performed, and nothing has to be granted.",
    "With --agent, play the agent of the trace instead, to try a chain without the real agent.",
    "Exit code 1 when the component sends something else.",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor exec --trace today.jsons ./my_proxy.py,grant=clock demo -p hi",
    "  conductor replay today.jsons ./my_proxy.py",
    "  conductor replay today.jsons ./my_proxy.py --to transcripts/today.txt",
    '  conductor exec ./my_proxy.py "conductor replay today.jsons --agent" -p hi',
)

_Trace = Annotated[
    str, typer.Argument(metavar="TRACE", help="What --trace wrote.", show_default=False)
]
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


@takes("replay")
def replay(
    trace: _Trace,
    components: _Components = None,
    name: _Name = None,
    json_: Json = False,
    *,
    agent: bool = False,
    to: str | None = None,
    timeout: float = 10.0,
) -> int:
    """Replays components, each by itself, or plays the agent."""
    if agent or not components:
        if components or not agent:
            raise UsageError(
                "--agent takes no components" if agent else "no component to replay",
                f"`conductor replay {trace} COMPONENT` replays it, --agent plays the agent",
            )
        return _play_agent(trace)
    if len(components) > 1 and (name is not None or to is not None):
        raise UsageError(
            f"{'--as' if name is not None else '--to'} is about one component",
            "replay each component by itself",
        )
    return max(
        _replay(trace, component, name, to, timeout, as_json=json_) for component in components
    )


def _replay(
    trace: str, component: str, name: str | None, to: str | None, limit: float, *, as_json: bool
) -> int:
    """Runs one component again; the exit code."""
    from conductor.author.subject import subjects
    from conductor.cli import replay_report
    from conductor.record.replay import player, recording
    from conductor.spec.catalog import resolve

    spec = resolve(component, configured.here())
    shown = name or spec.name
    recorded = recording.load(trace, shown)
    if to is not None:
        _write_transcript(to, shown, recorded)
    outcomes: list[ReplayOutcome] = []
    with subjects(spec, patience=limit) as make:
        for steps in recorded.runs:
            with closing(make()) as subject:
                outcomes.append(player.replay(recorded, shown, subject, steps))
            if outcomes[-1].divergence is not None:
                break
    tell = replay_report.tell_json if as_json else replay_report.tell
    tell(shown, outcomes, len(recorded.runs))
    if to is not None and not as_json:
        report.say(f"written {to}")
    return 0 if outcomes[-1].divergence is None else EXIT_DIFFERENT


def _play_agent(trace: str) -> int:
    """Plays the agent of a trace on standard input and output, until the input ends."""
    from conductor.record.replay import agent as agents

    agent = agents.Agent(agents.load(trace))
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
            "replay the trace itself: leave out --to",
        )
    if len(recording.runs) > 1:
        raise UsageError(
            f"`{name}` was started {len(recording.runs)} times in this trace, and a transcript is "
            "one conversation",
            "replay the trace itself: leave out --to",
        )
    text = [b"# What `%b` received and sent; written by `conductor replay`." % name.encode()]
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
