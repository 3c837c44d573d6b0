"""`conductor top`: what each component of the running chains does, live."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from typing import Annotated, Final

import msgspec
import typer

from conductor.cli import report, top_table
from conductor.cli.typer_options import Json, paragraphs
from conductor.control import client
from conductor.control.watching import Seen
from conductor.errors import ConductorError, UsageError
from conductor.record.turns import filter as filters

HELP: Final = paragraphs(
    "Show live what each component of your running chains does: its state, for how long it had "
    "messages (median, 95th and 99th percentile of the last five minutes), how many it sent and "
    "changed, and what its process takes.",
    "j and k choose a component, p pauses it and resumes it, q quits. Without a terminal it is "
    "shown once. The chain counts only while somebody watches.",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor top",
    '  conductor top 4711 --filter "~method session/prompt"',
    "  conductor top --json",
)


def top(
    pid: Annotated[
        str | None,
        typer.Argument(
            metavar="[PID]",
            help="Only the chains of this process, or one of them, as in 4711-2.",
            show_default=False,
        ),
    ] = None,
    wanted: Annotated[
        str,
        typer.Option(
            "--filter",
            metavar="FILTER",
            help="Count only these messages (`conductor help filters`).",
            show_default=False,
        ),
    ] = "",
    once: Annotated[bool, typer.Option("--once", help="Show it once.")] = False,
    json_: Json = False,
) -> int:
    """Shows the chains that run."""
    filters.parse(wanted)
    only = client.read_id(pid)
    chains = [one for one in client.running() if only is None or one.id.is_of(only)]
    if only is not None and not chains:
        raise UsageError(f"no chain of yours runs as process {only}", "`conductor ps` lists them")
    if json_ or once or not (sys.stdin.isatty() and report.can_draw()):
        seen = [_looked(one, wanted) for one in chains]
        if json_:
            report.say_json([_as_json(one) for one in seen])
        else:
            width = shutil.get_terminal_size((120, 24)).columns
            report.page("\n".join(row.text for row in top_table.rows(seen, width)))
        return 0
    from conductor.cli.top_screen import Screen

    return Screen(only, wanted).run()


def _looked(one: client.Running, wanted: str) -> Seen:
    """A chain, looked at once."""
    if one.state is None:
        return Seen(id=one.id, at=0.0, why=one.why)
    try:
        with contextlib.closing(client.Control.connected(one.path)) as control:
            return Seen(id=one.id, at=time.monotonic(), state=control.figures(wanted))
    except OSError:
        return Seen(id=one.id, at=0.0, why="the chain has ended")
    except ConductorError as error:
        return Seen(id=one.id, at=0.0, why=error.text)


def _as_json(seen: Seen) -> object:
    if seen.state is None:
        return {"id": str(seen.id), "pid": seen.id.process, "error": seen.why}
    return {"id": str(seen.id), **msgspec.to_builtins(seen.state)}
