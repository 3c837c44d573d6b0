"""How each component treated each message of a turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from conductor.core.policy.key_table import PROMPT
from conductor.record.turns import edits
from conductor.record.turns.line import CLIENT, CONDUCTOR, ENDS, Line
from conductor.record.turns.messages import Update
from conductor.record.turns.model import Change, Visit
from conductor.record.turns.open_turn import Time

if TYPE_CHECKING:
    from conductor.record.turns.reader import Reader

_MOST_VISITS: Final = 2_000
_MOST_WORDS: Final = 2_000_000
"""The most characters of the words of one kind in a turn that are compared, for one component."""
_DONE: Final = {Change.CHANGED, Change.ANSWERED, Change.ORIGINATED, Change.DROPPED}


class _Words:
    """The words of one kind that a component got in a turn, and the words that it passed on."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self._texts: tuple[list[str], list[str]] = ([], [])
        """The texts that the component got, and those that it passed on, up to `_MOST_WORDS`."""
        self._sizes = [0, 0]
        """The number of characters of each, with those beyond `_MOST_WORDS`."""
        self._came: dict[int, float] = {}
        """When it got each chunk that it has not passed on, by event."""
        self._time = Time()

    def take(self, number: int, line: Line, text: str, *, sent: bool, before: int | None) -> None:
        """Takes a chunk; a chunk that is `sent` passes on the chunk of event `before`."""
        visit = self._visit
        self._sizes[sent] += len(text)
        if self._sizes[sent] <= _MOST_WORDS:
            self._texts[sent].append(text)
        if sent:
            visit.sent = number
            if before in self._came:
                self._time.add(self._came.pop(before), line.left)
        else:
            visit.got = number if visit.got is None else visit.got
            visit.times += 1
            self._came[number] = line.ts

    def end(self) -> None:
        """Compares the words that the component got with the words that it passed on."""
        visit = self._visit
        visit.times = max(visit.times, 1)
        visit.ms = round(self._time.ms, 3)
        got, sent = map("".join, self._texts)
        if visit.got is None:
            visit.change = Change.ORIGINATED
        elif visit.sent is None:
            visit.change = Change.DROPPED
        elif got != sent or self._sizes[0] != self._sizes[1]:
            visit.change = Change.CHANGED
            if max(self._sizes) <= _MOST_WORDS:
                visit.edits = edits.of_texts(got, sent)


class Visits:
    """Collects how each component treated each message."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._all: list[Visit] = []
        self._got: dict[int, Visit] = {}
        """The visit of each message that a component got, by the event."""
        self._lines: dict[int, Line] = {}
        """The message of a visit, by the event, until the component passes the message on."""
        self._methods: dict[int, str] = {}
        """The methods of requests, by the event."""
        self._numbered: dict[tuple[str, int], Visit] = {}
        """The visit of each message that a component got, by its name and the message's number."""
        self._words: dict[tuple[str, str], _Words] = {}
        """Words of the agent, by component and kind."""

    def event(self, number: int, line: Line, update: Update | None) -> None:
        """Takes an event of the turn."""
        change = self._reader.change(number)
        if update is not None and update.chunk is not None:
            self._chunk(number, line, update.kind, update.chunk)
            return
        if line.type == "request":
            self._methods[number] = line.method
        if change is not None and CONDUCTOR not in (line.source, line.target):
            self._left(number, line, change)
        if line.target not in ENDS and line.source != CONDUCTOR and not self._ends_there(line):
            self._arrived(number, line)

    def _ends_there(self, line: Line) -> bool:
        """Whether the trace leaves out the messages that the receiver passes on: the reference
        leaves out all that its first proxy sends to the client."""
        return line.target == self._reader.top and line.source != CLIENT and line.type != "response"

    def _chunk(self, number: int, line: Line, kind: str, text: str) -> None:
        """Takes a chunk of words. The chunks of a turn are one visit: a component may cut them
        anew."""
        for end, sent in ((line.target, False), (line.source, True)):
            if end in ENDS or (not sent and self._ends_there(line)):
                continue
            words = self._words.get((end, kind))
            if words is None:
                visit = self._visit(end, line)
                visit.change, visit.times = Change.SAME, 0
                words = self._words[end, kind] = _Words(visit)
            before = self._reader.before(number) if sent else None
            words.take(number, line, text, sent=sent, before=before)

    def _visit(self, component: str, line: Line) -> Visit:
        """A new visit of a message."""
        own_method = line.own.method if line.own is not None else ""
        visit = Visit(
            component=component,
            method=line.method or own_method,
            kind=line.type,
            direction=self._reader.direction(line),
            at=line.ts,
            change=Change.OPEN,
        )
        if len(self._all) < _MOST_VISITS * 10:
            self._all.append(visit)
        return visit

    def _arrived(self, number: int, line: Line) -> None:
        visit = self._visit(line.target, line)
        visit.got = number
        if not visit.method:
            visit.method = self._methods.get(self._reader.pair(number), "")
        self._got[number], self._lines[number] = visit, line
        if line.own is not None and line.own.n:
            self._numbered[line.target, line.own.n] = visit

    def _left(self, number: int, line: Line, change: Change) -> None:
        if change is Change.ORIGINATED:
            made = self._visit(line.source, line)
            made.change, made.sent = change, number
            return
        if change is Change.PAST:
            passed = self._numbered.pop((line.source, line.own.n if line.own else 0), None)
            if passed is not None:
                passed.change = Change.PAST
            return
        before = self._reader.before(number)
        if change is Change.ANSWERED:
            before = self._reader.pair(number)
        visit = self._got.get(before) if before is not None else None
        if visit is None or before is None:
            return
        got = self._lines.pop(before, None)
        visit.sent, visit.change = number, change
        visit.ms = round(max(line.left - visit.at, 0.0) * 1000, 3)
        if change is Change.CHANGED and got is not None:
            visit.edits = edits.of_changed(bytes(got.body), bytes(line.body))
            if line.method == PROMPT:
                visit.tokens = edits.added_tokens(visit.edits)

    def in_order(self, components: list[str]) -> list[Visit]:
        """The visits by component in the order of the chain; visits with a change first, then by
        time. Equal neighbours are merged."""
        place = {name: at for at, name in enumerate(components)}
        for words in self._words.values():
            words.end()
        for visit in self._all:
            if visit.change is Change.OPEN and visit.kind == "notification":
                visit.change = Change.DROPPED
        wanted = [visit for visit in self._all if visit.change is not Change.PAST]
        wanted.sort(key=lambda v: (place.get(v.component, 0), v.change not in _DONE, v.at))
        merged: list[Visit] = []
        end = 0.0
        for visit in wanted:
            last = merged[-1] if merged else None
            if (
                last is not None
                and not visit.edits
                and not last.edits
                and (last.component, last.method, last.kind, last.change, last.direction)
                == (visit.component, visit.method, visit.kind, visit.change, visit.direction)
                and visit.kind == "notification"
            ):
                last.times += 1
                overlap = max(end - visit.at, 0.0) * 1000
                last.ms = round(last.ms + max(visit.ms - overlap, 0.0), 3)
                last.sent = visit.sent
                end = max(end, visit.at + visit.ms / 1000)
            else:
                merged.append(visit)
                end = visit.at + visit.ms / 1000
        return merged[:_MOST_VISITS]
