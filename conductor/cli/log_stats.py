"""`conductor log stats FILE`: how long each component takes, by method."""

from __future__ import annotations

import shutil
from typing import Final

import msgspec

from conductor.cli import report
from conductor.cli.log_kinds import TracePath, Wanted, kind_for
from conductor.cli.log_rows import DIM, HEAD, PLAIN, Line, duration
from conductor.cli.log_show import about_head
from conductor.cli.typer_options import JsonArray, paragraphs
from conductor.errors import one_line
from conductor.record.turns import counts
from conductor.record.turns import filter as filters
from conductor.record.turns import reader as turns

HELP: Final = paragraphs(
    "Show how long each component had messages, by method: median, 95th and 99th percentile, and "
    "the longest.",
    "The time is its own: without what passed further down the chain. For the client it is the "
    "time in which a person or the editor answered.",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor log stats today.jsons",
    '  conductor log stats today.jsons "~method session/prompt"',
)


class Stat(msgspec.Struct, kw_only=True):
    """The cost of a component for one method. Times in milliseconds."""

    component: str
    method: str
    messages: int
    p50: float
    p95: float
    p99: float
    longest: float
    changed: int
    bytes: int


def stats(
    file: TracePath,
    wanted: Wanted = "",
    json_: JsonArray = False,
) -> int:
    """Shows the times of a trace."""
    chosen = filters.parse(wanted)
    kind_for(file, "stats")
    trace = turns.opened(file)
    found = counted(trace, chosen)
    if json_:
        report.say_json(found)
        return 0
    report.say_styled(
        *about_head(trace.head()), *_table(found, shutil.get_terminal_size((80, 24)).columns)
    )
    return 0


class _Counter(msgspec.Struct):
    times: list[float] = []
    messages: int = 0
    changed: int = 0
    bytes: int = 0


def counted(trace: turns.Reader, chosen: filters.Filter) -> list[Stat]:
    """The figures of every component and method, in the order of the chain."""
    counters: dict[tuple[str, str], _Counter] = {}
    for row in trace.matching(chosen):
        if not counts.counts(row):
            continue
        counter = counters.setdefault((row.source, row.method), _Counter())
        counter.messages += 1
        counter.bytes += row.bytes
        counter.changed += row.change in counts.CHANGED
        if (ms := counts.time(row)) is not None:
            counter.times.append(ms)
    place = {name: at for at, name in enumerate(trace.components)}
    ordered = sorted(counters.items(), key=lambda each: (place.get(each[0][0], 0), each[0][1]))
    return [_stat(*names, counter) for names, counter in ordered]


def _stat(component: str, method: str, counter: _Counter) -> Stat:
    times = sorted(counter.times)
    p50, p95, p99 = (counts.percentile(times, each) for each in counts.PERCENTILES)
    return Stat(
        component=component,
        method=method,
        messages=counter.messages,
        p50=p50,
        p95=p95,
        p99=p99,
        longest=times[-1] if times else 0.0,
        changed=counter.changed,
        bytes=counter.bytes,
    )


_COLUMNS: Final = ("messages", "p50", "p95", "p99", "longest", "changed")
_COLUMN: Final = 9


def _table(found: list[Stat], width: int) -> list[Line]:
    """A narrow terminal has fewer columns, and shorter methods."""
    names = min(max((len(one_line(s.component)) for s in found), default=9), 20)
    methods = min(max((len(one_line(s.method)) for s in found), default=6), 30)
    columns = list(_COLUMNS)
    for column in ("longest", "changed"):
        if names + 2 + methods + _COLUMN * len(columns) > width:
            columns.remove(column)
    methods = max(min(methods, width - names - 2 - _COLUMN * len(columns)), 10)
    head = "".join(f"{column:>{_COLUMN}}" for column in columns)
    lines: list[Line] = [(HEAD, f"{'component':<{names}}  {'method':<{methods}}{head}")]
    before = ""
    for stat in found:
        name = one_line(stat.component, names) if stat.component != before else ""
        before = stat.component
        cells = "".join(f"{_cell(stat, column):>{_COLUMN}}" for column in columns)
        what = f"{name:<{names}}  {one_line(stat.method, methods):<{methods}}"
        lines.append((PLAIN, f"{what}{cells}".rstrip()))
    if not found:
        lines.append((DIM, "there is no event to count"))
    return lines


def _cell(stat: Stat, column: str) -> str:
    if column == "messages":
        return f"{stat.messages:,}"
    if column == "changed":
        return f"{stat.changed:,}" if stat.changed else ""
    return duration(getattr(stat, column)) if stat.longest else "-"
