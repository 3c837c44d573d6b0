"""`conductor log show FILE`: the story of a file, in words.

A trace is shown as a block for each turn, an audit as a row for each record. A block begins with
the time of each component and its changes of the prompt, since people ask for these first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Final

from conductor.cli import log_kinds, report
from conductor.cli.log_kinds import AUDIT, EMPTY, LogPath, Wanted
from conductor.cli.log_rows import DID, DIM, HEAD, PLAIN, WRONG, Line, Rows, cut, duration
from conductor.cli.typer_options import option, paragraphs, switch
from conductor.core import json_text
from conductor.errors import UsageError, counted, one_line
from conductor.record.turns import filter as filters
from conductor.record.turns import reader as turns
from conductor.record.turns.line import CLIENT
from conductor.record.turns.model import (
    OTHER_CLIENT,
    Edit,
    Head,
    Share,
    Turn,
    TurnDetail,
    Visit,
)

_BARS: Final = (4, 16)
"""Columns of the longest bar, on a narrow and on a wide terminal."""
_MOST_EDITS: Final = 6
"""The most edits of one component that are shown without --all."""
_MOST_ITEMS: Final = 8
"""The most items of a turn that are shown without --all."""
_PART_OF_WAY: Final = 0.05
_LEAST_WAY: Final = 10.0
"""Time that nobody had a turn is shown from this part of it, and from so many milliseconds on."""
_ITEMS: Final = {"mcp", "answer", "refusal"}
"""Kinds of items that a component's answer to a request is shown as."""

HELP: Final = paragraphs(
    "Show what happened in a chain: who changed which message and how, and the acts that conductor "
    "refused.",
    "A trace has a block for each turn, with the time of each component and the acts of the agent. "
    "A filter chooses the turns with a matching event. An audit has a row for each record, and the "
    "filter chooses records. Exit code 1 if somebody has altered the audit: then only the lines "
    "before the change are shown.",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor exec --trace today.jsons datetime redact demo -p hi",
    "  conductor log show today.jsons",
    '  conductor log show today.jsons "~from redact & ~changed"',
    '  conductor log show audit.jsonl "~refused | ~change dropped"',
)


def show(
    file: LogPath,
    wanted: Wanted = "",
    turn: Annotated[
        int | None,
        option("--turn", "NUMBER", "Show only this turn of a trace.", min=0),
    ] = None,
    all_: Annotated[
        bool,
        switch(
            "--all",
            "Show every edit and event, uncut, with its line.",
        ),
    ] = False,
    would: Annotated[
        bool,
        switch("--would", "Show only acts that were watched and not stopped, with counts by rule."),
    ] = False,
    json_: Annotated[
        bool,
        switch("--json", "Print one JSON object a line: each turn, or each record."),
    ] = False,
) -> int:
    """Shows the content of a file. Raises `UsageError`."""
    chosen = filters.parse(wanted)
    kind = log_kinds.kind_for(file, "show")
    if would:
        from conductor.cli import log_would

        return log_would.show(file, chosen, kind, as_json=json_, whole=all_)
    if kind in (AUDIT, EMPTY):
        if turn is not None:
            raise UsageError(f"`{file}` is an audit, which has no turns", "leave out --turn")
        from conductor.cli import log_audit

        return log_audit.show(file, chosen, as_json=json_, whole=all_)
    return _turns(file, chosen, turn, as_json=json_, whole=all_)


def _turns(
    file: str, chosen: filters.Filter, turn: int | None, *, as_json: bool, whole: bool
) -> int:
    """Shows the turns of a trace."""
    trace = turns.opened(file)
    every = trace.turns
    shown = list(_chosen(trace, every, chosen, turn))
    if turn is not None and not shown:
        last = len(every) - 1
        if turn > last:
            has = f"it has {counted(last, 'turn')}; 0 stands for messages outside of turns"
            raise UsageError(f"the trace `{file}` has no turn {turn}", has)
        raise UsageError(
            f"the filter `{one_line(chosen.text)}` chooses no event of turn {turn}",
            "leave out the filter, or --turn to see which turns it chooses",
        )
    if as_json:
        for each in shown:
            report.say_line(json_text.encode(trace.detail(each.number)) + b"\n")
        return 0
    rows = Rows(whole=whole)
    report.say_styled(*_heading(trace, shown, rows.width))
    sessions = {each.session for each in every if each.number}
    for each in shown:
        detail = trace.detail(each.number)
        printer = _Printer(detail, rows, names_session=len(sessions) > 1)
        report.say_styled((PLAIN, ""), *printer.lines())
    return 0


def _chosen(
    trace: turns.Reader, every: list[Turn], chosen: filters.Filter, number: int | None
) -> Iterator[Turn]:
    """The wanted turns. Messages of no turn are shown only where they are asked for."""
    is_filtered = bool(chosen.text.strip())
    found = {row.turn for row in trace.matching(chosen)} if is_filtered else set()
    for turn in every:
        if number is not None:
            if turn.number != number:
                continue
        elif turn.number == 0 and not (is_filtered or turn.verdicts):
            continue
        if not is_filtered or turn.number in found:
            yield turn


def _heading(trace: turns.Reader, shown: list[Turn], width: int) -> Iterator[Line]:
    head = trace.head()
    yield HEAD, cut(" > ".join(one_line(name, 60) for name in head.components), width)
    count = trace.count - 1
    which = "" if len(shown) in (count, count + 1) else f"{len(shown)} of "
    content = "; without content" if head.content == "none" else ""
    yield DIM, f"{which}{counted(count, 'turn')}, {counted(head.events, 'event')}{content}"
    yield from about_head(head)
    if not shown and count:
        yield PLAIN, cut("The filter chooses no event (see `conductor help filters`).", width)


def about_head(head: Head) -> Iterator[Line]:
    """Tells that a trace is a ring, and which parts are missing."""
    if head.ring:
        yield DIM, one_line(f"{head.ring[0].upper()}{head.ring[1:]}", 400)
    for gap in head.gaps:
        yield WRONG, f"gap: {one_line(gap, 400)}"


class _Printer:
    """Writes one turn for people."""

    def __init__(self, detail: TurnDetail, rows: Rows, *, names_session: bool) -> None:
        self._detail = detail
        self._names_session = names_session
        narrow, wide = _BARS
        self._bar = min(max((rows.width - 52) // 4, narrow), wide)
        self._turn = detail.turn
        self._rows = rows
        names = [share.component for share in detail.turn.shares]
        self._name = min(max(6, *map(len, names)), 20) if names else 6

    def lines(self) -> Iterator[Line]:
        """The lines of its block."""
        yield from self._title()
        yield from self._shares()
        yield from self._edits()
        yield from self._items()

    def _title(self) -> Iterator[Line]:
        turn = self._turn
        left = f"Turn {turn.number}" if turn.number else "Outside of turns"
        if turn.by == OTHER_CLIENT:
            left += f" by {OTHER_CLIENT}"
        elif turn.by:
            left += f" by {one_line(turn.by, 40)}, unprompted"
        session = one_line(turn.session, 24) if self._names_session else ""
        facts = [] if not turn.number else [self._total(), *_cost(turn)]
        right = ", ".join(fact for fact in facts if fact)
        if session and len(left) + len(session) + len(right) + 12 <= self._rows.width:
            left += f"  session {session}"
        elif session:
            left += f"  {session}"
        room = max(self._rows.width - len(left) - len(right), 2)
        style = WRONG if turn.failed else HEAD
        yield style, self._rows.fit(f"{left}{' ' * room}{right}".rstrip())
        if turn.prompt:
            yield PLAIN, self._rows.fit(f"  “{one_line(turn.prompt, 400)}”", "”")

    def _total(self) -> str:
        return "not ended" if self._turn.ms is None else duration(self._turn.ms)

    def _shares(self) -> Iterator[Line]:
        shares = [share for share in self._turn.shares if share.component != CLIENT]
        times = {share.component: share.ms for share in self._turn.shares}
        longest = max(*times.values(), self._turn.person_ms, self._turn.way_ms) or 1.0
        for share in shares:
            style = WRONG if share.verdicts else PLAIN
            yield style, self._row(share.component, share.ms, longest, _did(share))
        if times.get(CLIENT):
            yield DIM, self._row("client", times[CLIENT], longest, "files, terminals and the like")
        if self._turn.person_ms:
            yield DIM, self._row("you", self._turn.person_ms, longest, "asked, and answered")
        if self._turn.way_ms > max(_PART_OF_WAY * (self._turn.ms or 0.0), _LEAST_WAY):
            did = "on the way, or waiting in conductor"
            yield DIM, self._row("no one", self._turn.way_ms, longest, did)

    def _row(self, name: str, ms: float, longest: float, did: str) -> str:
        bar = "█" * round(self._bar * ms / longest) or "▏"
        shown = one_line(name, self._name).ljust(self._name)
        return self._rows.fit(f"  {shown}  {duration(ms):>8}  {bar:<{self._bar}}  {did}".rstrip())

    def _edits(self) -> Iterator[Line]:
        by_component: dict[str, list[tuple[Visit, Edit | None]]] = {}
        are_items = {each.events[0] for each in self._detail.items if each.kind in _ITEMS}
        for visit in self._detail.visits:
            if visit.change in DID and visit.got not in are_items:
                made = by_component.setdefault(visit.component, [])
                made += [(visit, edit) for edit in visit.edits] or [(visit, None)]
        most = None if self._rows.whole else _MOST_EDITS
        for component, made in by_component.items():
            for visit, edit in made[:most]:
                yield from self._edit(component, visit, edit)
            if more := len(made) - len(made[:most]):
                yield DIM, f"    … {one_line(component, 60)}: {more} more (--all)"

    def _edit(self, component: str, visit: Visit, edit: Edit | None) -> Iterator[Line]:
        component = one_line(component, 60)
        what = {"response": "answer to "}.get(visit.kind, "") + one_line(visit.method)
        if edit is None:
            times = f", {visit.times} times" if visit.times > 1 else ""
            yield self._rows.change(f"{component} {DID[visit.change].format(what)}{times}")
            return
        place = one_line(edit.pointer) if self._rows.whole else ""
        yield from self._rows.edit(component, edit, what, place)

    def _items(self) -> Iterator[Line]:
        items = [item for item in self._detail.items if item.kind != "prompt"]
        most = len(items) if self._rows.whole else _MOST_ITEMS
        for item in items[:most]:
            yield from self._rows.item(item)
        if len(items) > most:
            yield DIM, f"  … {len(items) - most} more (--all)"
        turn = self._turn
        has_error = any(item.kind == "error" for item in items)
        if turn.stop and turn.stop != "end_turn" and not (turn.failed and has_error):
            yield (
                (WRONG if turn.failed else DIM),
                self._rows.fit(f"  ended    {one_line(turn.stop)}"),
            )


def _did(share: Share) -> str:
    """The acts of a component, in words."""
    parts = [share.says] if share.says else []
    if share.tokens:
        parts.append(f"{share.tokens:+,d} tokens")
    if share.verdicts:
        parts.append(f"conductor refused it {counted(share.verdicts, 'time')}")
    return ", ".join(parts)


def _cost(turn: Turn) -> Iterable[str]:
    usage = turn.usage
    if usage is not None and (usage.input or usage.output):
        yield f"{usage.input:,} tokens in, {usage.output:,} out"
    elif turn.tokens_in or turn.tokens_out:
        yield f"≈{turn.tokens_in:,} tokens in, ≈{turn.tokens_out:,} out"
    if usage is not None and usage.cost is not None:
        yield f"{usage.cost:.4g} {one_line(usage.currency, 8)}".rstrip()
