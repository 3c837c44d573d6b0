"""`conductor trace show FILE`: a block for each turn of a trace.

What each component took and made of the prompt comes first, since that is what people ask.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Final

import typer

from conductor.cli import report
from conductor.cli.typer_options import paragraphs
from conductor.core import json_text
from conductor.errors import UsageError, counted, one_line
from conductor.record.turns import filter as filters
from conductor.record.turns import reader as turns
from conductor.record.turns.line import CLIENT
from conductor.record.turns.model import (
    OTHER_CLIENT,
    Change,
    Edit,
    Head,
    Item,
    Op,
    Share,
    Turn,
    TurnDetail,
    Visit,
)

Line = tuple[str, str]
"""A style of the terminal, or "", and a text."""

PLAIN: Final = ""
HEAD: Final = "\x1b[1m"
DIM: Final = "\x1b[2m"
ADDED: Final = "\x1b[32m"
REMOVED: Final = "\x1b[31m"
WRONG: Final = "\x1b[1;31m"

_WIDEST: Final = 120
_BARS: Final = (4, 16)
"""Columns of the longest bar, on a narrow and on a wide terminal."""
_MOST_EDITS: Final = 6
"""Edits of one component that are shown without --all …"""
_MOST_ITEMS: Final = 8
"""… and items of a turn."""
_PART_OF_WAY: Final = 0.05
_LEAST_WAY: Final = 10.0
"""Time that nobody had a turn is shown from this part of it, and from so many milliseconds on."""
_MOST_LINES: Final = 4
"""Lines of an error or a verdict."""
_SIGNS: Final = {Op.ADDED: "+", Op.REMOVED: "-", Op.CHANGED: "~"}

HELP: Final = paragraphs(
    "Show what passed through a chain, a block for each turn: how long each component took, what "
    "it added or changed, what the agent did, what conductor refused.",
    "A filter chooses turns: those with an event that it matches (`conductor help filters`).",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor exec --trace today.jsons datetime redact demo -p hi",
    "  conductor trace show today.jsons",
    '  conductor trace show today.jsons "~from redact & ~changed"',
)

File = Annotated[
    str,
    typer.Argument(
        metavar="FILE", help="What --trace wrote; also of the reference.", show_default=False
    ),
]
Wanted = Annotated[
    str,
    typer.Argument(metavar="[FILTER]", help="Which events are of interest.", show_default=False),
]


def show(
    file: File,
    wanted: Wanted = "",
    turn: Annotated[
        int | None,
        typer.Option("--turn", metavar="NUMBER", min=0, help="Only this turn.", show_default=False),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every edit and item, uncut.")] = False,
    json_: Annotated[
        bool, typer.Option("--json", help="Print one JSON object for each turn, a line each.")
    ] = False,
) -> int:
    """Shows the turns of a trace."""
    chosen = filters.parse(wanted)
    trace = turns.opened(file)
    every = trace.turns
    shown = list(_chosen(trace, every, chosen, turn))
    if turn is not None and not shown:
        last = len(every) - 1
        if turn > last:
            raise UsageError(f"the trace `{file}` has no turn {turn}", f"its turns are 0 to {last}")
        raise UsageError(
            f"the filter `{one_line(wanted)}` chooses no event of turn {turn}",
            "leave out the filter, or --turn to see which turns it chooses",
        )
    if json_:
        for each in shown:
            report.say_line(_json(trace.detail(each.number)))
        return 0
    width = min(shutil.get_terminal_size((80, 24)).columns, _WIDEST)
    report.say_styled(*_heading(trace, shown, width))
    sessions = {each.session for each in every if each.number}
    for each in shown:
        detail = trace.detail(each.number)
        printer = _Printer(detail, width, whole=all_, names_session=len(sessions) > 1)
        report.say_styled((PLAIN, ""), *printer.lines())
    return 0


def _json(detail: TurnDetail) -> bytes:

    return json_text.encode(detail) + b"\n"


def _chosen(
    trace: turns.Reader, every: list[Turn], chosen: filters.Filter, number: int | None
) -> Iterator[Turn]:
    """The turns that are wanted. What belongs to none is shown only where it is asked for."""
    for turn in every:
        if number is not None:
            if turn.number != number:
                continue
        elif turn.number == 0 and not (chosen.text.strip() or turn.verdicts):
            continue
        if not chosen.text.strip() or _matches(trace, turn, chosen):
            yield turn


def _matches(trace: turns.Reader, turn: Turn, chosen: filters.Filter) -> bool:
    rows = (trace.row(number) for number, _ in trace.of_turn(turn))
    return any(row is not None and chosen.matches(row, body(trace)) for row in rows)


def body(trace: turns.Reader) -> Callable[[int], str]:
    """The text of an event, for filters."""
    return lambda number: trace.line(number).decode("utf-8", "replace")


def _heading(trace: turns.Reader, shown: list[Turn], width: int) -> Iterator[Line]:
    head = trace.head()
    yield HEAD, cut(" > ".join(one_line(name, 60) for name in head.components), width)
    count = trace.count - 1
    which = "" if len(shown) in (count, count + 1) else f"{len(shown)} of "
    content = "; without content" if head.content == "none" else ""
    yield DIM, f"{which}{counted(count, 'turn')}, {counted(head.events, 'event')}{content}"
    yield from about_ring(head)
    for gap in head.gaps:
        yield WRONG, f"gap: {gap}"
    if not shown and count:
        yield PLAIN, cut("The filter chooses no event (see `conductor help filters`).", width)


def about_ring(head: Head) -> Iterator[Line]:
    """Says of a ring that it is one: what came before is not in it."""
    if head.ring:
        yield DIM, one_line(f"{head.ring[0].upper()}{head.ring[1:]}", 400)


class _Printer:
    """Writes one turn for people."""

    def __init__(self, detail: TurnDetail, width: int, *, whole: bool, names_session: bool) -> None:
        self._detail = detail
        self._names_session = names_session
        narrow, wide = _BARS
        self._bar = min(max((width - 52) // 4, narrow), wide)
        self._turn = detail.turn
        self._width = width
        self._whole = whole
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
        if session and len(left) + len(session) + len(right) + 12 <= self._width:
            left += f"  session {session}"
        elif session:
            left += f"  {session}"
        room = max(self._width - len(left) - len(right), 2)
        style = WRONG if turn.failed else HEAD
        yield style, self._fit(f"{left}{' ' * room}{right}".rstrip())
        if turn.prompt:
            yield PLAIN, self._fit(f"  “{one_line(turn.prompt, 400)}”", "”")

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
        return self._fit(f"  {shown}  {duration(ms):>8}  {bar:<{self._bar}}  {did}".rstrip())

    def _edits(self) -> Iterator[Line]:
        by_component: dict[str, list[tuple[Visit, Edit | None]]] = {}
        are_items = {each.events[0] for each in self._detail.items if each.kind in _ITEMS}
        for visit in self._detail.visits:
            if visit.change in _SHOWN and visit.got not in are_items:
                made = by_component.setdefault(visit.component, [])
                made += [(visit, edit) for edit in visit.edits] or [(visit, None)]
        most = None if self._whole else _MOST_EDITS
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
            yield PLAIN, self._fit(f"  * {component} {_SHOWN[visit.change]} {what}{times}")
            return
        yield (
            PLAIN,
            self._fit(f"  {_SIGNS[edit.op]} {component} {edit.op} {one_line(edit.what)} in {what}"),
        )
        if edit.before:
            yield REMOVED, self._fit(f"      - {_words(edit.before)}")
        if edit.after:
            yield ADDED, self._fit(f"      + {_words(edit.after)}")

    def _items(self) -> Iterator[Line]:
        items = [item for item in self._detail.items if item.kind != "prompt"]
        most = len(items) if self._whole else _MOST_ITEMS
        for item in items[:most]:
            if item.kind in _WRONG:
                yield from ((WRONG, line) for line in self._whole_item(item))
            else:
                yield DIM, self._fit(_item(item))
        if len(items) > most:
            yield DIM, f"  … {len(items) - most} more (--all)"
        turn = self._turn
        has_error = any(item.kind == "error" for item in items)
        if turn.stop and turn.stop != "end_turn" and not (turn.failed and has_error):
            yield (WRONG if turn.failed else DIM), self._fit(f"  ended    {one_line(turn.stop)}")

    def _whole_item(self, item: Item) -> list[str]:
        """The lines of an item that nobody should have to guess."""
        most = None if self._whole else _MOST_LINES
        return textwrap.wrap(
            _item(item), self._width, subsequent_indent=" " * 11, max_lines=most, placeholder=" …"
        )

    def _fit(self, text: str, end: str = "") -> str:
        return text if self._whole else cut(text, self._width, end)


_SHOWN: Final = {
    Change.CHANGED: "changed", Change.ANSWERED: "itself answered",
    Change.ORIGINATED: "itself sent", Change.DROPPED: "did not pass on",
}  # fmt: skip
"""What is shown of what a component did, in words."""

_KINDS: Final = {
    "text": "says", "thought": "thinks", "tool": "tool", "plan": "plan", "question": "asks",
    "answer": "answered", "refusal": "refused", "mode": "mode", "mcp": "MCP", "verdict": "refused",
    "error": "error", "notice": "note",
}  # fmt: skip
_WRONG: Final = {"verdict", "refusal", "error"}
_TIMED: Final = {"tool", "question", "mcp", "answer", "refusal"}
_ITEMS: Final = {"mcp", "answer", "refusal"}
"""Kinds of items that a component's answer to a request is shown as."""


def _words(text: str) -> str:
    """Words that were added or removed, in one line."""
    return one_line(text, 2_000) if text.strip() else "(line breaks or spaces)"


def _item(item: Item) -> str:
    word = _KINDS.get(item.kind, item.kind)
    text, who = one_line(item.text, 2_000), one_line(item.component, 60)
    if item.kind == "verdict":
        named = "" if f"`{who}`" in text else f"{who}: "
        return f"  {word:<8} by conductor (rule {one_line(item.status, 60)}): {named}{text}"
    if item.kind in ("answer", "refusal"):
        who = f"by {who}"
    if who:
        text = f"{who}: {text}"
    if item.status:
        text += f"  → {one_line(item.status, 60)}"
    if item.ms and (item.kind in _TIMED or (item.kind == "notice" and item.status)):
        text += f"  {duration(item.ms)}"
    if item.nested:
        return f"  ┆ {word:<6} {one_line(item.nested, 60)}: {text}"
    return f"  {word:<8} {text}"


def _did(share: Share) -> str:
    """What a component did, in words."""
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


def duration(ms: float) -> str:
    """A time as a person reads it, from milliseconds."""
    if ms < 1:
        return f"{ms:.2f} ms"
    if ms < 100:
        return f"{ms:.1f} ms"
    if ms < 1_000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    return f"{ms // 60_000:.0f} min {ms % 60_000 / 1000:.0f} s"


def cut(text: str, width: int, end: str = "") -> str:
    """A line that fits a width; `end` stays behind what is cut."""
    return text if len(text) <= width else f"{text[: max(width - 1 - len(end), 0)]}…{end}"
