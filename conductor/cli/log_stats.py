"""`conductor log stats FILE`: how long each component takes, by method."""

from __future__ import annotations

import shutil
from typing import Final

import msgspec

from conductor.cli import pages, report
from conductor.cli.log_kinds import TracePath, Wanted, kind_for
from conductor.cli.log_rows import DIM, HEAD, PLAIN, Line, cut, duration
from conductor.cli.log_show import about_head
from conductor.cli.typer_options import JsonArray, paragraphs
from conductor.errors import one_line
from conductor.record.turns import counts
from conductor.record.turns import filter as filters
from conductor.record.turns import reader as turns

HELP: Final = paragraphs(
    "Show how long each component had messages, by method: median, 95th and 99th percentile, and "
    "the longest.",
    "The time of a component is without the time of components further down the chain. The time of "
    "the client is the time in which a person or the editor answered.",
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


_DROPPED: Final = ("changed", "longest", "p99", "p50", "p95")
"""The columns that a narrow terminal does not show, the least important first."""


def _table(found: list[Stat], width: int) -> list[Line]:
    if not found:
        return [(DIM, "there is no event to count")]
    longest = max(10, min(30, width - 50))
    cells = [{name: name for name in _cells(found[0], longest)}]
    before = ""
    for stat in found:
        is_same, before = stat.component == before, stat.component
        cells.append(_cells(stat, longest) | ({"component": ""} if is_same else {}))
    names = pages.fitting(cells, width, _DROPPED)
    head, *lines = pages.aligned([[row[name] for name in names] for row in cells], left=2)
    return [(HEAD, cut(head, width)), *((PLAIN, cut(line, width)) for line in lines)]


def _cells(stat: Stat, longest: int) -> dict[str, str]:
    """The cells of a row; a method has as many characters as `longest`."""
    times = {
        name: duration(getattr(stat, name)) if stat.longest else "-"
        for name in ("p50", "p95", "p99", "longest")
    }
    return {
        "component": one_line(stat.component, 20),
        "method": one_line(stat.method, longest),
        "messages": f"{stat.messages:,}",
        **times,
        "changed": f"{stat.changed:,}" if stat.changed else "",
    }
