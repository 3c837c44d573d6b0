"""Reads the lines of a trace, ours or the reference's: events, how they belong together, turns.

Each line is read once. The reader keeps a few numbers of an event. The text stays where it is
(`conductor.record.turns.lines`) and is read again when somebody looks at it: a trace may be much
larger than memory.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterator
from typing import Final

import msgspec

from conductor.errors import UsageError
from conductor.record.turns.event import Event
from conductor.record.turns.filter import Filter
from conductor.record.turns.fold import Fold
from conductor.record.turns.line import (
    AGENT,
    CLIENT,
    FORMAT,
    LONGEST,
    Line,
    Ring,
    read_line,
)
from conductor.record.turns.lines import MOST_HELD, FileLines, HeldLines, Lines
from conductor.record.turns.model import Change, Head, Row, Turn, TurnDetail
from conductor.record.turns.open_turn import OpenTurn
from conductor.record.turns.rows import row_of

_MOST_TURNS: Final = 200_000
_MOST_GAPS: Final = 20
_LATEST: Final = 1e10
"""Seconds: times beyond the year 2286 are none."""
CUT: Final = "the last line is cut off"
"""The gap at the end of a file whose last line is incomplete."""

_CHANGES: Final = tuple(Change)
_PLACES: Final = {change: place for place, change in enumerate(_CHANGES)}
_NO_CHANGE: Final = 255
"""In place of a change: the sender is an end of the chain, or the conductor."""


class Reader:
    """Takes the lines of one trace in order. Never raises for the content of a line.

    While one thread takes lines, other threads may look at the lines that it has taken."""

    def __init__(self, lines: Lines, source: str = "") -> None:
        """`lines`: gives each line again once it was taken. `source`: the origin of the trace."""
        self._lines = lines
        self._fold = Fold(_MOST_TURNS)
        self._head = Head(source=source, content="unknown")
        self._count = 0
        """How many events and verdicts there are."""
        self._pairs = array("i")
        """Of a response the event of its request, of a request that of its response; else -1."""
        self._got = array("i")
        """The event with which the sender got the message that this event passes on; else -1."""
        self._turn_of = array("i")
        self._later = array("i")
        """The next event of the same turn; else -1. Turns of many sessions run at once: a search
        for one turn's events among all events would take time with the square."""
        self._ms_in = array("f")
        self._change_of = bytearray()
        self._turns: list[OpenTurn] = [self._fold.rest]
        self._gaps: list[str] = []
        self._between: list[int] = []
        """Lines about components since the last turn ended."""
        self._ended_at = 0
        """The last event of that turn."""
        self._before_turn: dict[int, list[int]] = {}
        """Such lines by the turn that came then: it is the first turn that they matter to."""

    # -- the events that were read -------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._pairs)

    def head(self, *, live: bool = False) -> Head:
        """The origin of the trace, and its chain. `live`: whether more may come."""
        return msgspec.structs.replace(
            self._head,
            components=tuple(self.components),
            events=self._count,
            live=live,
            gaps=tuple(self._gaps),
            paused=tuple(self._fold.paused),
            by="conductor" if self._fold.is_ours else "reference",
        )

    @property
    def components(self) -> list[str]:
        """The names in the order of the chain: `client`, the proxies, `agent`."""
        fold = self._fold
        order = [name for name in fold.order if name != fold.agent]
        # Without content a header names no roles; as the agent, the last component is `agent` in
        # events.
        has_no_roles = fold.is_ours and not fold.agent
        if has_no_roles and order and order[-1] not in fold.met and AGENT in fold.met:
            order = order[:-1]
        return [CLIENT, *order, AGENT]

    @property
    def top(self) -> str:
        """The component whose end of the chain shows the client's messages; see `Fold`."""
        return self._fold.top

    @property
    def turns(self) -> list[Turn]:
        """The turns so far, in order; the first turn holds all that belongs to no turn."""
        return [self._made(turn) for turn in self._turns]

    @property
    def count(self) -> int:
        """How many turns there are so far."""
        return len(self._turns)

    def turn(self, number: int) -> Turn:
        """A turn by its number. Raises `IndexError`."""
        if number < 0:
            raise IndexError(number)
        return self._made(self._turns[number])

    @property
    def running(self) -> list[int]:
        """The turns that have not ended."""
        return [turn.number for turn in list(self._fold.running.values())]

    def span(self, number: int) -> tuple[int, int]:
        """Numbers of the first event of a turn and behind its last. Raises `IndexError`."""
        turn = self._turns[number]
        return turn.first, turn.last + 1

    def line(self, number: int) -> bytes:
        """A line as it is in the trace; empty if it is not there."""
        return self._lines.line(number)

    def rows(self, after: int = 0, limit: int = 1_000) -> list[Row]:
        """The events from number `after` on, in short; at most `limit` of them."""
        made: list[Row] = []
        for number in range(max(after, 0), len(self)):
            if len(made) == limit:
                break
            row = self.row(number)
            if row is not None:
                made.append(row)
        return made

    def row(self, number: int) -> Row | None:
        """An event in short; None for a line that is none."""
        line = read_line(self._lines.line(number))
        if line is None:
            return None
        pair, asked = self._pairs[number], None
        says_all = line.own is not None and line.own.method and line.own.ms is not None
        if line.type == "response" and pair >= 0 and not says_all:
            asked = read_line(self._lines.line(pair))
        return row_of(
            number, line, self._turn_of[number], pair=pair, asked=asked,
            ms_in=self._ms_in[number], change=self.change(number),
        )  # fmt: skip

    def detail(self, number: int) -> TurnDetail:
        """All that is shown of a turn. Raises `IndexError`."""
        from conductor.record.turns.detail import detail

        return detail(self, self.turn(number))

    def of_turn(self, turn: Turn) -> Iterator[tuple[int, Line]]:
        """The events of a turn, each with its number."""
        before = self._before_turn.get(turn.number, ())
        for number in itertools.chain(before, self._from(turn)):
            if self._turn_of[number] == turn.number:
                line = read_line(self._lines.line(number))
                if line is not None:
                    yield number, line

    def _from(self, turn: Turn) -> Iterator[int]:
        """The events of a turn since its first, and maybe others."""
        number, behind = turn.events
        if not turn.number:
            yield from range(number, min(behind, len(self)))
            return
        while 0 <= number < behind:
            yield number
            number = self._later[number]

    def pair(self, number: int) -> int:
        """The event of the request that a response answers, or of the response to a request; -1:
        none."""
        return self._pairs[number]

    def before(self, number: int) -> int | None:
        """The event with which the sender of an event got the message that it passes on; None: the
        sender passes nothing on, or got the message long ago."""
        got = self._got[number]
        return None if got < 0 else got

    def turn_of(self, number: int) -> int:
        """The turn that an event belongs to; -1 for a line that is none."""
        return self._turn_of[number]

    @property
    def is_empty(self) -> bool:
        """Whether no event has come so far."""
        return not self._fold.met

    def change(self, number: int) -> Change | None:
        """How the sender of an event treated the message that it passes on; None: no component."""
        place = self._change_of[number]
        return None if place == _NO_CHANGE else _CHANGES[place]

    def direction(self, line: Line) -> str:
        """See `Fold.direction`."""
        return self._fold.direction(line.source, line.target)

    def _made(self, turn: OpenTurn) -> Turn:
        return turn.shown(self.components, self.top, self._lines.line)

    def matching(self, chosen: Filter) -> Iterator[Row]:
        """The events that a filter chooses."""
        rows = map(self.row, range(len(self)))
        return (row for row in rows if row is not None and chosen.matches(row, self._text))

    def _text(self, number: int) -> str:
        return self.line(number).decode("utf-8", "replace")

    # -- reading -------------------------------------------------------------------------------

    def take(self, text: bytes) -> None:
        """Takes the next line, which `lines` has already."""
        is_blank = not text.strip()
        line = None if is_blank else read_line(text)
        if not self.read(line) and not is_blank:
            self.gap(f"line {len(self)} is no event")

    def read(self, line: Line | None) -> bool:
        """Takes the next line, which `lines` has already. False: the line tells nothing."""
        for numbers in (self._pairs, self._got, self._turn_of, self._later):
            numbers.append(-1)
        self._ms_in.append(0.0)
        self._change_of.append(_NO_CHANGE)
        event = self._fold.take(line)
        if event is not None:
            self._event(event)
        elif line is not None and line.type == "_conductor":
            self._about(line)
        else:
            return False
        return True

    def gap(self, text: str) -> None:
        """Notes that something is missing."""
        if len(self._gaps) < _MOST_GAPS:
            self._gaps.append(text)
        elif len(self._gaps) == _MOST_GAPS:
            self._gaps.append("more like this")

    def _about(self, line: Line) -> None:
        """A line about the trace: its header, or its end."""
        if line.components is not None:
            self._head.content = line.content or "redacted"
            self._head.process = line.process
            if line.began is not None and 0 < line.began < _LATEST:
                self._head.began = line.began
            if line.ring is not None:
                self._head.ring = _of_ring(line.ring)
        elif line.ended is not None:
            self._head.ended = True
        elif line.full is not None:
            number = len(self)
            self.gap(f"the trace was full at line {number}: later messages are not in it")
        elif line.gap:
            self.gap(f"line {len(self)}: {line.gap[:LONGEST]}")

    def _event(self, event: Event) -> None:
        number, turn = event.number, event.turn
        self._count += 1
        if event.gap:
            self.gap(event.gap)
        if event.begins:
            self._begin(turn)
        elif event.line.happened is not None:
            self._happened(number, turn)
        self._belongs(number, turn)
        if event.line.type == "response" and event.asked is not None:
            self._pairs[number], self._pairs[event.asked.event] = event.asked.event, number
        if event.got is not None:
            self._got[number] = event.got.event
        if event.change is not None:
            self._change_of[number] = _PLACES[event.change]
        self._ms_in[number] = event.ms_in
        for each in event.uncut:
            self._change_of[each] = _PLACES[Change.SAME]

    def _begin(self, turn: OpenTurn) -> None:
        """A turn begins: it shows the events of components before it."""
        if self._between:
            former = self._turns[-1]
            if former.last == self._between[-1]:
                former.last = self._ended_at
            for each in self._between:
                self._turn_of[each] = turn.number
            self._before_turn[turn.number], self._between = self._between, []
        self._turns.append(turn)

    def _happened(self, number: int, turn: OpenTurn) -> None:
        """Something has happened to a component. Between two turns the next turn shows the event,
        and until that turn begins the former turn shows it."""
        if turn.number and not self._fold.running:
            if not self._between:
                self._ended_at = turn.last
            self._between.append(number)

    def _belongs(self, number: int, turn: OpenTurn) -> None:
        self._turn_of[number] = turn.number
        if turn.number and turn.last != number:
            self._later[turn.last] = number
        turn.last = number


def _of_ring(ring: Ring) -> str:
    """The content of the file of a ring, in words."""
    why = f" ({ring.why[:LONGEST]})" if ring.why else ""
    begins = "it begins in mid-session, older messages are not in it"
    return f"a ring{why}: {begins if ring.forgotten else 'it has all since the start'}"


# -- whole traces ----------------------------------------------------------------------------------


def opened(path: str) -> Reader:
    """Reads the whole trace in a file. Raises `UsageError` for a file that is no trace, or a trace
    of a later format, as soon as that is known."""
    lines = FileLines(path)
    reader = Reader(lines, path)
    is_trace = False
    while (text := lines.next()) is not None:
        is_trace = is_trace or _is_of_trace(text, path)
        reader.take(text)
    if not is_trace:
        raise _no_trace(path)
    if lines.cut:
        reader.gap(CUT)
    return reader


def check(path: str) -> None:
    """Raises `UsageError` as `opened` does, without reading more than that takes."""
    lines = FileLines(path)
    if not any(_is_of_trace(text, path) for text in iter(lines.next, None)):
        raise _no_trace(path)


def _no_trace(path: str) -> UsageError:
    return UsageError(
        f"`{path}` is no trace",
        "`conductor agent --trace FILE …` writes one; so does the reference conductor",
    )


def _is_of_trace(text: bytes, path: str) -> bool:
    """Whether only a trace has such a line. Raises `UsageError` for that of a later format."""
    line = read_line(text)
    if line is None or not (line.is_event or line.components is not None):
        return False
    if line.format is not None and line.format > FORMAT:
        later = f"`{path}` is a trace of format {line.format}, this conductor reads {FORMAT}"
        raise UsageError(later, "read it with the conductor that wrote it, or a later one")
    return True


def held(most: int = MOST_HELD) -> tuple[Reader, HeldLines]:
    """A reader of lines that are in memory alone, and the holder of these lines."""
    lines = HeldLines(most)
    return Reader(lines), lines
