"""`conductor ps`: the chains of this user that run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from conductor.cli import report
from conductor.cli.typer_options import Json, paragraphs
from conductor.control import client
from conductor.control.places import Id
from conductor.control.protocol import ChainState, ComponentState
from conductor.errors import one_line

HELP: Final = paragraphs(
    "Show the chains of yours that run: the process of each, what started it and where, and the "
    "state of each component.",
    "A chain is found a moment after it has started; one with `--control off` is not.",
)
EPILOG: Final = paragraphs("Examples:", "  conductor ps", "  conductor ps --json")

_HEAD: Final = ("component", "state", "memory", "open", "restarts", "verdicts")


def ps(json_: Json = False) -> int:
    """Shows the chains that run."""
    chains = client.running()
    if json_:
        report.say_json([_as_json(each) for each in chains])
        return 0
    if not chains:
        report.say("no chain of yours runs")
    for at, each in enumerate(chains):
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
    rows = [_HEAD, *map(_row, each.state.components)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(_HEAD))]
    for row in rows:
        cells = [
            f"{cell:<{width}}" if at < 2 else f"{cell:>{width}}"
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  " + "  ".join(cells).rstrip()


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
