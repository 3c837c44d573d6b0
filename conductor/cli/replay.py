"""`conductor replay`: runs one component again on what a trace recorded of it."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Final

import typer

from conductor.cli import report
from conductor.errors import UsageError

if TYPE_CHECKING:
    from conductor.record.replay.player import Outcome
    from conductor.record.replay.recording import Recording

EXIT_DIFFERENT: Final = 1

HELP: Final = (
    "Run a component again, alone, on what a trace recorded of it, and compare what it says with "
    "what it said then.\n\nWhatever it asks, of its neighbours, the clock, its store or the "
    "network, is answered as it was then; nothing of that is done again, and nothing has to be "
    "granted.\n\nWith --agent it plays the agent of the trace instead, so that a chain can be "
    "tried without the real one.\n\nExit code 1 when it says something else."
)
EPILOG: Final = (
    "Examples:\n\n  conductor exec --trace today.jsons ./my_proxy.py,grant=clock demo -p hi\n\n"
    "  conductor replay today.jsons ./my_proxy.py\n\n"
    "  conductor replay today.jsons ./my_proxy.py --to transcripts/today.txt\n\n"
    '  conductor exec ./my_proxy.py "conductor replay today.jsons --agent" -p hi'
)


def replay(
    trace: Annotated[
        str,
        typer.Argument(metavar="TRACE", help="What --trace wrote.", show_default=False),
    ],
    components: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMPONENT",
            help="What to run: components that were recorded, or changed ones; each by itself.",
            show_default=False,
        ),
    ] = None,
    agent: Annotated[
        bool,
        typer.Option(
            "--agent",
            help="Be the agent of the trace, on standard input and output: put this command at the "
            "end of a chain.",
        ),
    ] = False,
    name: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="NAME",
            help="Which component of the trace it is. Default: the one of its name.",
            show_default=False,
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="FILE",
            help="Write what was recorded as a transcript too, which `conductor test` plays. For "
            "proxies that speak `channel`, as sandboxed ones do.",
            show_default=False,
        ),
    ] = None,
    timeout: Annotated[
        str,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            help="How long a program may take for a message that came then.",
        ),
    ] = "10",
    json_: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
) -> int:
    """Runs components again, one by one."""
    from conductor.cli import options

    limit = options.read("--timeout", timeout, options.seconds)
    if agent or not components:
        if components or not agent:
            raise UsageError(
                "--agent takes no components" if agent else "no component to replay",
                f"`conductor replay {trace} COMPONENT` replays one, --agent plays the agent",
            )
        return _play_agent(trace)
    if len(components) > 1 and (name is not None or to is not None):
        raise UsageError(
            f"{'--as' if name is not None else '--to'} is about one component",
            "replay the components one by one",
        )
    return max(
        _replay(trace, component, name, to, limit, as_json=json_) for component in components
    )


def _replay(
    trace: str, component: str, name: str | None, to: str | None, limit: float, *, as_json: bool
) -> int:
    """Runs one component again; the exit code."""
    from conductor.author.subject import subjects
    from conductor.cli import replay_report
    from conductor.record.replay import player, recording
    from conductor.spec.catalog import resolve

    spec = resolve(component)
    shown = name or spec.name
    recorded = recording.load(trace, shown)
    if to is not None:
        _write_transcript(to, shown, recorded)
    outcomes: list[Outcome] = []
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
    """Answers what comes on standard input until that ends."""
    from conductor.record.replay import agent as agents

    agent = agents.Agent(agents.load(trace))
    for line in sys.stdin.buffer:
        for answer in agent.receive(line.rstrip(b"\r\n")):
            sys.stdout.buffer.write(answer)
        sys.stdout.buffer.flush()
        while agent.warnings:
            report.write(agent.warnings.pop(0), word="warning")
    return 0


def _write_transcript(path: str, name: str, recording: Recording) -> None:
    """Writes the conversation as a transcript. Raises `UsageError`."""
    if not recording.sided:
        raise UsageError(
            f"`{name}` spoke over one connection, not over the channel, so its conversation is no "
            "transcript",
            "replay the trace itself: leave out --to",
        )
    if len(recording.runs) > 1:
        raise UsageError(
            f"`{name}` was started {len(recording.runs)} times in this trace, and a transcript is "
            "one conversation",
            "replay the trace itself: leave out --to",
        )
    text = [b"# What `%b` was given and said; `conductor replay` wrote it." % name.encode()]
    for step in recording.runs[0]:
        if step.failed:
            break  # a transcript cannot say that
        if not step.given:
            continue
        text += [b"> " + line.whole for line in step.given]
        text += [b"< " + line.whole for line in step.said]
        text.append(b"")
    try:
        with open(path, "xb") as file:
            file.write(b"\n".join(text))
    except FileExistsError:
        raise UsageError(f"`{path}` is there already", "name another file, or delete it") from None
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"cannot write `{path}`: {why}", "check the path") from None
