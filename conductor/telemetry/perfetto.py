"""Writes spans as a picture for ui.perfetto.dev: the JSON trace events of Chrome.

Each component is a process, in the order of the chain; its rows are threads, so that overlapping
spans stand below each other. Arrows lead from the cause of a span to the span.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from conductor.core import json_text
from conductor.record.turns.line import AGENT, CLIENT, CONDUCTOR
from conductor.telemetry.progress import PASSED, TOOLS, TURNS
from conductor.telemetry.span import Place, Span, What

_encode: Final = json_text.encode
_ROWS: Final = 1_000_000
"""Rows that a lane has at most."""
_FIRST: Final = (TURNS, CLIENT)
_LAST: Final = (AGENT, TOOLS, CONDUCTOR)


def written(spans: Iterable[Span], components: Sequence[str], began: float) -> Iterator[bytes]:
    """The pieces of the file.

    Args:
        spans: They may be an iterator that makes them.
        components: The names in the order of the chain; read when all spans were made.
        began: When the trace began, in seconds of Unix time.
    """
    picture = _Picture()
    yield b'{"displayTimeUnit":"ms","otherData":{"began":%s},"traceEvents":[\n' % _encode(began)
    for span in spans:
        for event in picture.events(span):
            yield _encode(event) + b",\n"
    named = [_encode(event) for event in picture.names(components)]
    yield b",\n".join(named) + b"\n]}\n"


class _Picture:
    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        """The process of each lane."""
        self._rows: set[Place] = set()
        self._arrows = 0

    def _at(self, place: Place) -> dict[str, int]:
        self._rows.add(place)
        pid = self._numbers.setdefault(place.lane, len(self._numbers) + 1)
        # A number for each thread, among all processes.
        return {"pid": pid, "tid": pid * _ROWS + place.row}

    def events(self, span: Span) -> Iterator[dict[str, Any]]:
        """The events that draw a span."""
        where, start = self._at(span.place), _micros(span.start)
        shown = {key: value for key, value in span.attributes.items() if value != ""}
        if span.error:
            shown["error"] = span.error
        yield {
            "ph": "X",
            "name": span.name,
            "cat": span.what.value,
            "ts": start,
            "dur": max(_micros(span.end) - start, 0.001),
            **where,
            "args": shown,
        }
        for moment in span.moments:
            yield {
                "ph": "i", "s": "t", "name": moment.name, "cat": What.VERDICT.value,
                "ts": _micros(moment.at), **where, "args": moment.attributes,
            }  # fmt: skip
        if span.origin is not None and span.origin != span.place:
            self._arrows += 1
            arrow = {"id": self._arrows, "name": "passes", "cat": "flow", "ts": start}
            yield {"ph": "s", **arrow, **self._at(span.origin)}
            yield {"ph": "f", "bp": "e", **arrow, **where}

    def names(self, components: Sequence[str]) -> Iterator[dict[str, Any]]:
        """The events that name the processes and their rows, and put them in order."""
        order = [*_FIRST, *components, *_LAST]
        self._numbers.setdefault(TURNS, len(self._numbers) + 1)
        for lane, pid in self._numbers.items():
            place = order.index(lane) if lane in order else len(order)
            head = {"ph": "M", "pid": pid, "tid": 0, "ts": 0}
            yield {**head, "name": "process_name", "args": {"name": lane}}
            yield {**head, "name": "process_sort_index", "args": {"sort_index": place}}
        for row in sorted(self._rows):
            yield {"ph": "M", "ts": 0, "name": "thread_name",
                   "args": {"name": _row_name(row)}, **self._at(row)}  # fmt: skip


def _row_name(place: Place) -> str:
    if place.row >= PASSED:
        return f"{place.lane}: notifications {place.row - PASSED + 1}"
    return place.lane if place.row == 0 else f"{place.lane} {place.row + 1}"


def _micros(seconds: float) -> float:
    """Microseconds, as these events count."""
    return round(seconds * 1_000_000, 3)
