"""`conductor ps`: the running chains of this user; below it the commands that change a chain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

import msgspec
import typer

from conductor.cli import pages, report
from conductor.cli.typer_options import JsonArray, option, paragraphs, switch
from conductor.control import client
from conductor.control.places import Id
from conductor.control.protocol import ChainState, ComponentState
from conductor.errors import UsageError, one_line

HELP: Final = paragraphs(
    "Show your running chains: the process of each chain, its starter and folder, and the state of "
    "each component.",
    "`--watch` shows for each component: how long it had messages (median, 95th and 99th "
    "percentile of the last five minutes), how many it sent and changed, and the load of its "
    "process. j and k choose a component, p pauses and resumes it, q quits.",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor ps",
    '  conductor ps --watch --pid 4711 --filter "~method session/prompt"',
    "  conductor ps pause datetime",
)

_HEAD: Final = ("component", "state", "memory", "open", "restarts", "verdicts")


def ps(
    context: typer.Context,
    watch: Annotated[
        bool,
        switch("--watch", "Show the figures of each component live; without a terminal once."),
    ] = False,
    pid: Annotated[
        str | None,
        option("--pid", "PID", "Only the chains of this process, or one of them, as in 4711-2."),
    ] = None,
    wanted: Annotated[
        str | None,
        option(
            "--filter",
            "FILTER",
            "With `--watch`: count only these messages (`conductor help filters`).",
        ),
    ] = None,
    json_: JsonArray = False,
) -> int:
    """Shows the chains that run. Raises `UsageError`."""
    if context.invoked_subcommand is not None:
        if watch or wanted is not None or json_ or pid is not None:
            name = f"conductor ps {context.invoked_subcommand}"
            raise UsageError(f"options of `{name}` follow its name", f"see `{name} --help`")
        return 0
    if watch:
        from conductor.cli import ps_watch

        return ps_watch.watch(client.read_id(pid), wanted or "", as_json=json_)
    if wanted is not None:
        raise UsageError("`--filter` counts messages, which `--watch` shows", "add `--watch`")
    return _show(client.read_id(pid), as_json=json_)


def chains(only: Id | None) -> list[client.Running]:
    """The chains of a process, or one of them; None: all. Raises `UsageError` for none."""
    found = [one for one in client.running() if only is None or one.id.is_of(only)]
    if only is not None and not found:
        raise UsageError(f"no chain of yours runs as process {only}", "`conductor ps` lists them")
    return found


def _show(only: Id | None, *, as_json: bool) -> int:
    found = chains(only)
    if as_json:
        report.say_json([_as_json(each) for each in found])
        return 0
    if not found:
        report.say("no chain of yours runs")
    for at, each in enumerate(found):
        if at:
            report.say("")
        for line in _lines(each):
            report.say(line)
    return 0


def _as_json(each: client.Running) -> object:
    if each.state is None:
        return {"id": str(each.id), "pid": each.id.process, "error": each.why}
    return {"id": str(each.id), **msgspec.to_builtins(each.state)}


def _lines(each: client.Running) -> Iterator[str]:
    if each.state is None:
        yield f"{each.id}  does not answer: {one_line(each.why, 200)}"
        return
    yield heading(each.id, each.state)
    for line in pages.aligned([_HEAD, *map(_row, each.state.components)], left=2):
        yield f"  {line}"


def heading(id_: Id, state: ChainState) -> str:
    """A chain in a line."""
    what = one_line(state.command, 20)
    if state.chain:
        what += f" {one_line(state.chain, 40)}"
    if state.principal:
        what += f" for {one_line(state.principal, 40)}"
    by = f" by {one_line(state.parent, 40)}" if state.parent else ""
    turn = "a turn runs" if state.turn else "idle"
    return (
        f"{id_}  conductor {what}, started{by} {_ago(state.uptime)} ago in "
        f"{one_line(state.folder, 200)}: {turn}, {size(state.memory)}"
    )


def _row(one: ComponentState) -> tuple[str, ...]:
    numbers = (one.open, one.restarts, one.verdicts)
    name = one_line(one.name, 30)
    return (name, one_line(one.state, 20), size(one.memory), *(f"{n or '-'}" for n in numbers))


def size(size: int | None) -> str:
    """Bytes for people."""
    return "-" if size is None else f"{size / 1024**2:.0f} MiB"


def _ago(seconds: float) -> str:
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"
