"""The tables of `conductor ps --watch`: one for each chain, in as many columns as there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from conductor.cli import pages, ps
from conductor.cli.log_rows import cut, duration
from conductor.control.places import Id
from conductor.control.protocol import ChainState, ComponentState
from conductor.control.watching import Seen
from conductor.errors import one_line

_HEADS: Final = {
    "name": "component", "state": "state", "p50": "p50", "p95": "p95", "p99": "p99",
    "messages": "msgs", "changed": "changed", "open": "open", "cpu": "cpu", "memory": "memory",
    "restarts": "restarts",
}  # fmt: skip
_DROPPED: Final = (
    "restarts", "p50", "changed", "memory", "p99", "cpu", "messages", "open", "p95", "state",
)  # fmt: skip
"""The columns that a narrow terminal does not show, the least important first."""
_LEFT: Final = frozenset({"name", "state"})
_FIGURES: Final = ("p50", "p95", "p99", "messages", "changed")
_SAME: Final = '"'
"""In place of figures that are equal to those of the row above."""
_SHORTEST: Final = 10
_LONGEST: Final = 24
"""Characters of a name, on a narrow and on a wide terminal."""


class Row(NamedTuple):
    """A line of the screen."""

    text: str
    style: str = ""
    """A style of rich; empty: none."""
    of: tuple[Id, str] | None = None
    """The process of the chain and the component that it shows."""


def rows(chains: Sequence[Seen], width: int) -> Iterator[Row]:
    """All chains."""
    for at, seen in enumerate(chains):
        if at:
            yield Row("")
        if seen.state is None:
            yield Row(cut(f"{seen.id}  does not answer: {one_line(seen.why)}", width), "red")
        else:
            yield from _chain(seen, seen.state, width)
    if not chains:
        yield Row(cut("no chain of yours runs", width), "dim")


def _chain(seen: Seen, state: ChainState, width: int) -> Iterator[Row]:
    yield Row(cut(ps.heading(seen.id, state), width), "bold")
    if seen.why:
        yield Row(cut(f"  {one_line(seen.why)}", width), "red")
    elif state.counted is None:
        yield Row(cut("  it keeps no messages (`ring` is none): no figures", width), "dim")
    longest = min(max(width // 3, _SHORTEST), _LONGEST)
    table = [_HEADS, *_cells(seen, state, longest)]
    names = pages.fitting(table, width - 2, _DROPPED)
    cells = [[row[name] for name in names] for row in table]
    for place, line in enumerate(pages.aligned(cells, left=len(_LEFT & {*names}))):
        text = cut(f"  {line}", width)
        if not place:
            yield Row(text, "dim")
        else:
            one = state.components[place - 1]
            yield Row(text, "dim" if seen.why else _style(one), (seen.id, one.name))


def _cells(seen: Seen, state: ChainState, longest: int) -> Iterator[dict[str, str]]:
    above: ComponentState | None = None
    for one in state.components:
        row = _cell(one, longest)
        row["cpu"] = _processor(seen, one)
        if above is not None and one.process is not None and above.process == one.process:
            row |= dict.fromkeys((*_FIGURES, "cpu", "memory", "open"), _SAME)
        above = one
        yield row


def _cell(one: ComponentState, longest: int) -> dict[str, str]:
    figures = one.figures
    row = {
        "name": one_line(one.name, longest), "state": one_line(one.state, 12),
        "open": f"{one.open or '-'}", "memory": ps.size(one.memory),
        "restarts": f"{one.restarts or '-'}",
    }  # fmt: skip
    for name in ("p50", "p95", "p99"):
        ms = getattr(figures, name, None)
        row[name] = "-" if ms is None else duration(ms)
    row["messages"] = "-" if figures is None else f"{figures.messages:,}"
    row["changed"] = f"{figures.changed:,}" if figures is not None and figures.changed else "-"
    return row


def _processor(seen: Seen, one: ComponentState) -> str:
    """Its part of one processor between the last two looks; without them all its seconds so far."""
    if one.cpu is None:
        return "-"
    earlier = seen.before
    if earlier is not None and earlier.state is not None and seen.at > earlier.at:
        for other in earlier.state.components:
            if other.process == one.process and other.cpu is not None:
                part = max(one.cpu - other.cpu, 0.0) / (seen.at - earlier.at)
                return f"{part * 100:.0f}%"
    return f"{one.cpu:.1f} s"


def _style(one: ComponentState) -> str:
    if one.state == "paused":
        return "yellow"
    if one.state in ("ended", "left out", "restarting", "stopped"):
        return "red"
    return ""
