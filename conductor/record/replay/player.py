"""Runs one component again on what a trace recorded of it, and compares what it says.

It is given what it was given then, in that order. What it asks, of its neighbours or of the
conductor's services, is answered as it was then: its requests are paired with those recorded by
side, method and content, in order, and answers carry the ids that it uses now. Nothing is
performed: no clock is read, no file, no host is asked.

What it logs is not compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from conductor.core import members
from conductor.errors import ComponentError, UsageError
from conductor.record.diff import Operation
from conductor.record.replay.expected import Diverged, Expectations, Expected
from conductor.record.replay.messages import Told, Wire
from conductor.record.replay.recording import Line, Recording, Step
from conductor.record.trace.records import Conversation

_LOG: Final = "log"


class Target(Protocol):
    """A running component."""

    waits: bool
    """Whether what it says may come later: it is a process."""
    sided: bool
    """Whether it takes lines with side bytes."""

    def send(self, lines: bytes) -> None:
        """Gives it lines. Raises `ComponentError` if it fails of them."""

    def next(self) -> str | None:
        """The next line it has said; None if nothing comes, or it has ended."""

    def finish(self) -> None:
        """Nothing more will be given: what it still says follows."""

    @property
    def silence(self) -> str:
        """Why nothing came."""


class Difference(NamedTuple):
    """Where a component begins to behave otherwise."""

    number: int
    """Of the message, from 1, among those that are compared."""
    expected: Told | None
    said: Told | None
    operations: list[Operation]
    """What differs between the two, if both are there and of one kind."""
    text: str
    """Why, where that is not in the messages."""


class Outcome(NamedTuple):
    """What came of one instance."""

    given: int
    """Messages it was given."""
    said: int
    """Messages it said then."""
    same: int
    """How many of those came again before something differed."""
    difference: Difference | None


def replay(recording: Recording, name: str, target: Target, steps: Sequence[Step]) -> Outcome:
    """Runs one instance again. Raises `UsageError` for what cannot be replayed."""
    if target.sided != recording.sided:
        then, now = ("over the channel", "over one connection")[:: 1 if recording.sided else -1]
        raise UsageError(
            f"`{name}` was recorded {then}, and this one speaks {now}",
            "replay a guest as a guest and a program as a program; `dialect=channel` behind it "
            "says that a program speaks `channel`",
        )
    player = _Player(recording.content, name, target, steps)
    try:
        player.run()
    except Diverged as found:
        return player.outcome(found)
    return player.outcome(None)


class _Player:
    def __init__(self, content: str, name: str, target: Target, steps: Sequence[Step]) -> None:
        self._target = target
        self._cleaner = Conversation(name, 1, lambda _: None, lambda *_: None, content)
        self._wire = Wire()
        self._given = 0
        self._same = 0
        self._plan: list[tuple[Step, list[Told], list[Expected]]] = []
        self._expected = Expectations()
        self._due: list[Expected] = []
        """What it had said by now, then, and has not come yet."""
        self._ids: dict[tuple[str, str], str] = {}
        """Ids of its requests, then, and what they are now …"""
        self._then: dict[tuple[str, str], str] = {}
        """… and the other way."""
        self._owed: dict[tuple[str, str], Line] = {}
        """Answers to requests that it has not made yet."""
        self._read(steps)

    def _read(self, steps: Sequence[Step]) -> None:
        wire = Wire()
        for step in steps:
            given = [wire.read(line, said=False) for line in step.given]
            said = [Expected(wire.read(line, said=True)) for line in step.said]
            said = [one for one in said if not _is_log(one.told)]
            for one in said:
                self._expected.add(one)
            self._plan.append((step, given, said))
        if wire.launches:
            raise UsageError(
                "a proxy that launches its successor itself cannot be run alone",
                "replay the others of the chain",
            )

    def run(self) -> None:
        """All of it. Raises `Diverged`."""
        for step, given, said in self._plan:
            lines = [line for told in given for line in self._deliverable(told)]
            self._given += len(given)
            if lines and self._send(lines, step):
                return
            self._due += said
            self._hear()
        self._target.finish()
        while (line := self._target.next()) is not None:
            self._take(line)
        missing = next((one for _, _, said in self._plan for one in said if not one.came), None)
        if missing is not None:
            raise Diverged(missing, None, text=self._target.silence)

    def outcome(self, found: Diverged | None) -> Outcome:
        """What came of it."""
        said = sum(len(said) for _, _, said in self._plan)
        if found is None:
            return Outcome(self._given, said, self._same, None)
        number, operations = self._same + 1, found.operations()
        difference = Difference(number, found.expected, found.said, operations, found.text)
        return Outcome(self._given, said, self._same, difference)

    # -- what it is given ----------------------------------------------------------------------

    def _send(self, lines: list[Line], step: Step) -> bool:
        """Gives it lines; whether it ended of that as it did then."""
        for line in lines:
            text = line.whole.decode("utf-8", "backslashreplace")
            self._cleaner.line(text, said=False)
            self._wire.read(line, said=False)
        try:
            self._target.send(b"".join(line.whole + b"\n" for line in lines))
        except ComponentError as error:
            if step.failed:
                return True
            raise Diverged(None, None, text=f"it failed: {error.text}") from None
        if step.failed:
            raise Diverged(None, None, text=f"it did not fail as it did then: {step.failed}")
        return False

    def _deliverable(self, told: Told) -> Iterator[Line]:
        """A line as it is to be given now; none yet if it answers what has not been asked."""
        if told.kind != "response":
            yield told.line
        elif told.key in self._ids:
            yield _with_id(told.line, self._ids[told.key])
        else:
            self._owed[told.key] = told.line

    # -- what it says --------------------------------------------------------------------------

    def _hear(self) -> None:
        """Takes what it says: all there is, or of a process until all that is due has come."""
        while True:
            self._due = [one for one in self._due if not one.came]
            if self._target.waits and not self._due:
                return
            line = self._target.next()
            if line is None:
                if self._target.waits:
                    raise Diverged(self._due[0], None, text=self._target.silence)
                return
            self._take(line)

    def _take(self, text: str) -> None:
        """Compares one line with what was said then. Raises `Diverged`."""
        told = self._wire.read(self._cleaned(text), said=True)
        if _is_log(told):
            if told.id is not None:
                self._answer(Line(told.space, b'{"jsonrpc":"2.0","result":null}', True), told.id)
            return
        cancels = self._then.get(told.cancelled) if told.cancelled is not None else None
        shown = told.shown(cancels)
        expected = self._expected.take(told, shown)
        self._same += 1
        if told.id is not None and told.kind == "request":
            then = expected.told.key
            self._ids[then] = told.id
            self._then[told.key] = then[1]
            owed = self._owed.pop(then, None)
            if owed is not None:
                self._answer(owed, told.id)

    def _answer(self, line: Line, now: str) -> None:
        self._send([_with_id(line, now)], Step(None, [], [], ""))

    def _cleaned(self, text: str) -> Line:
        shown = self._cleaner.line(text, said=True)
        if shown is None:  # a trace would leave it out
            return Line("", text.encode(), is_message=False)
        parts = msgspec.json.decode(shown, type=list[msgspec.Raw])
        side = msgspec.json.decode(parts[0], type=str)
        if len(parts) > 2:
            return Line(side, msgspec.json.decode(parts[2], type=str).encode(), is_message=False)
        return Line(side, bytes(parts[1]), is_message=True)


def _is_log(told: Told) -> bool:
    return told.side == "c" and told.method == _LOG


def _with_id(line: Line, now: str) -> Line:
    held = members.read(line.text) or {}
    if bytes(held.get("id", b"")).decode() == now:
        return line
    return line._replace(text=bytes(members.write({**held, "id": msgspec.Raw(now.encode())})))
