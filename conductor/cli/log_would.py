"""`conductor log show --would FILE`: violations that were only watched, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from conductor.cli import log_audit, report
from conductor.cli.log_kinds import AUDIT, EMPTY, Kind
from conductor.cli.log_rows import DIM, HEAD, PLAIN, Rows
from conductor.cli.log_verify import records
from conductor.core import json_text
from conductor.errors import counted, one_line
from conductor.record.audit.file import BrokenChainError
from conductor.record.turns import reader as turns
from conductor.record.turns.detail import verdict_of
from conductor.record.turns.filter import Filter

WOULD: Final = "would"
_decode = json_text.Decoder(dict[str, Any]).decode


class Watched(msgspec.Struct, frozen=True):
    """A violation that nobody stopped, since it is only watched."""

    component: str
    rule: str
    """The rule that would have stopped it; `watch`: the component itself is watched."""
    direction: str
    method: str
    text: str
    count: int = 1
    """How often it happened."""


def show(path: str, chosen: Filter, kind: Kind, *, as_json: bool, whole: bool) -> int:
    """Prints the watched violations, most frequent first; 1 if somebody has altered the audit.
    Raises `UsageError`."""
    found: Counter[Watched] = Counter()
    broken: BrokenChainError | None = None
    try:
        is_audit = kind in (AUDIT, EMPTY)
        found.update(_of_audit(path, chosen) if is_audit else _of_trace(path, chosen))
    except BrokenChainError as error:
        broken = error
    counts = found.most_common()
    if as_json:
        for each, count in counts:
            row = msgspec.structs.replace(each, count=count)
            report.say_line(json_text.encode(row) + b"\n")
    else:
        report.say_styled(*_lines(counts, Rows(whole=whole)))
    return 0 if broken is None else log_audit.altered(path, broken)


def _of_trace(path: str, chosen: Filter) -> Iterator[Watched]:
    trace = turns.opened(path)
    for row in trace.matching(chosen):
        if row.kind == WOULD:
            yield _watched(_decode(trace.line(row.n))["verdict"])


def _of_audit(path: str, chosen: Filter) -> Iterator[Watched]:
    for sealed, _, line in records(path):
        record = _decode(line)
        row = log_audit.row_of(sealed.seq, record)
        if row.kind == WOULD and chosen.matches(row, log_audit.text_of(line)):
            yield _watched(record)


def _watched(record: dict[str, Any]) -> Watched:
    held = verdict_of(record)
    return Watched(held.component, held.rule, held.direction, held.method, held.text)


def _lines(counts: Sequence[tuple[Watched, int]], rows: Rows) -> Iterator[tuple[str, str]]:
    totals: Counter[str] = Counter()
    by_rule: dict[str, list[str]] = {}
    for each, count in counts:
        totals[each.rule] += count
        by_rule.setdefault(each.rule, []).append(f"  {count:>5} x {_what(each)}")
    if not totals:
        yield PLAIN, "nothing was only watched"
    for rule, total in totals.most_common():
        yield HEAD, rows.fit(f"rule {one_line(rule, 60)}: {counted(total, 'time')}")
        for line in by_rule[rule]:
            yield PLAIN, rows.fit(line)
    if totals:
        yield DIM, "All of this happened as if there were no such rule."


def _what(each: Watched) -> str:
    """The component and its act, without the file of the component."""
    who, text = one_line(each.component, 60), each.text.partition("\n")[0]
    _, named, rest = text.partition(f"`{each.component}`")
    did = rest.partition(") ")[2] if rest.startswith(" (") else rest.lstrip(": ")
    return f"{who} {one_line(did if named else text, 2_000) or f'`{each.method}`'}"
