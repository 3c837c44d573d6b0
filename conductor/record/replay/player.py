"""Runs a component again on the lines that a trace recorded of it, and compares what it sends.

It gets the recorded lines, in their order. Its requests, to its neighbours or to the conductor's
services, get the recorded answers: they are paired with the recorded requests by side, method and
content, in order, and answers carry the ids that the component uses now. Nothing is performed: the
player reads no clock and no file, and connects to no host. It does not compare what is logged.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import msgspec

from conductor.core import json_text
from conductor.core.json_text import read_members, write_members
from conductor.errors import ComponentError, UsageError
from conductor.record import diff
from conductor.record.diff import Operation
from conductor.record.replay.messages import MessageReader, SidedMessage
from conductor.record.replay.recording import Line, Recording, Step
from conductor.record.trace.records import Conversation


class ReplaySubject(Protocol):
    """A running component."""

    waits: bool
    """Whether its lines may come later: it is a process."""
    sided: bool
    """Whether its lines have side bytes."""

    def send(self, lines: bytes) -> None:
        """Delivers lines. Raises `ComponentError` if they make it fail."""

    def next(self) -> bytes | None:
        """The next line it has sent; None if nothing comes, or it has ended."""

    def finish(self) -> None:
        """Nothing more will be delivered: the lines it still sends follow."""

    @property
    def silence(self) -> str:
        """Why nothing came."""


class ExpectedMessage:
    """A message that the component sent when it was recorded."""

    __slots__ = ("came", "message")

    def __init__(self, message: SidedMessage) -> None:
        self.message = message
        self.came = False


class Divergence(Exception):  # noqa: N818 - it is no error
    """Where the component begins to behave otherwise."""

    def __init__(
        self,
        expected: ExpectedMessage | None,
        sent: SidedMessage | None,
        content: bytes = b"",
        text: str = "",
    ) -> None:
        """`content`: what of `sent` is compared."""
        super().__init__()
        self.number = 0
        """Of the message, from 1, among those that are compared."""
        self.expected = expected.message if expected is not None else None
        self.sent = sent
        """None: nothing came."""
        self.text = text
        """Why, if the messages do not show it."""
        self._content = content

    @property
    def operations(self) -> list[Operation]:
        """What differs between the two; nothing if they are not of one kind."""
        expected, sent = self.expected, self.sent
        if expected is None or sent is None or "text" in (expected.kind, sent.kind):
            return []
        if (expected.kind, expected.method) != (sent.kind, sent.method):
            return []
        return diff.diff(diff.parse(expected.content()), diff.parse(self._content))


class ReplayOutcome(NamedTuple):
    """The result of running an instance again."""

    delivered: int
    """Messages it got."""
    expected: int
    """Messages it sent then."""
    same: int
    """How many of those came again before something differed."""
    divergence: Divergence | None


def replay(
    recording: Recording, name: str, subject: ReplaySubject, steps: Sequence[Step]
) -> ReplayOutcome:
    """Runs an instance again. Raises `UsageError` for a recording that cannot be replayed."""
    if subject.sided != recording.sided:
        then, now = ("over the channel", "over one connection")[:: 1 if recording.sided else -1]
        raise UsageError(
            f"`{name}` was recorded {then}, and now speaks {now}",
            "replay a guest as a guest and a program as a program; `dialect=channel` behind it "
            "says that a program speaks `channel`",
        )
    player = _Player(recording.content, name, subject, steps)
    try:
        player.run()
    except Divergence as divergence:
        divergence.number = player.same + 1
        return player.outcome(divergence)
    return player.outcome(None)


class _Expectations:
    """The messages that the component sent then and has not sent again.

    Compared in order on each side and in each session. Requests to services are compared without
    order: a component may ask for the time and for a value in either.
    """

    def __init__(self) -> None:
        self._streams: dict[tuple[str, str | None], deque[ExpectedMessage]] = defaultdict(deque)
        self._services: list[ExpectedMessage] = []

    def add(self, expected: ExpectedMessage) -> None:
        """Appends a message, in order."""
        if expected.message.side == "c":
            self._services.append(expected)
        else:
            self._streams[expected.message.stream].append(expected)

    def take(self, message: SidedMessage, content: bytes) -> ExpectedMessage:
        """The expected message that has come now as `message`. Raises `Divergence`."""
        if message.side == "c":
            expected = self._take_service(message, content)
        else:
            stream = self._streams.get(message.stream)
            if not stream or not _same(stream[0].message, message, content):
                raise Divergence(stream[0] if stream else None, message, content)
            expected = stream.popleft()
        expected.came = True
        return expected

    def _take_service(self, message: SidedMessage, content: bytes) -> ExpectedMessage:
        for at, expected in enumerate(self._services):
            if _same(expected.message, message, content):
                return self._services.pop(at)
        similar = (other for other in self._services if other.message.method == message.method)
        raise Divergence(next(similar, None), message, content)


def _same(expected: SidedMessage, message: SidedMessage, content: bytes) -> bool:
    if (expected.kind, expected.side, expected.method) != (
        message.kind, message.side, message.method,
    ):  # fmt: skip
        return False
    known = expected.content()
    return known == content or (message.kind != "text" and diff.same(known, content))


class _Player:
    """Plays the steps of an instance."""

    def __init__(
        self, content: str, name: str, subject: ReplaySubject, steps: Sequence[Step]
    ) -> None:
        self._subject = subject
        # Redacts what is sent now as the trace redacted what was sent then.
        self._cleaner = Conversation(name, 1, lambda _: None, lambda *_: None, content)
        self._reader = MessageReader()
        self._delivered = 0
        self.same = 0
        self._plan: list[tuple[Step, list[SidedMessage], list[ExpectedMessage]]] = []
        self._expected = _Expectations()
        self._due: list[ExpectedMessage] = []
        """Messages that it had sent by this step when it was recorded, and has not sent now."""
        self._ids: dict[tuple[str, str], str] = {}
        """Present ids of its requests, by their recorded keys …"""
        self._ids_then: dict[tuple[str, str], str] = {}
        """… and recorded ids, by their present keys."""
        self._premature: dict[tuple[str, str], Line] = {}
        """Answers to requests that it has not made yet."""
        self._read(steps)

    def _read(self, steps: Sequence[Step]) -> None:
        reader = MessageReader()
        for step in steps:
            given = [reader.read(line, sent=False) for line in step.given]
            sent = [reader.read(line, sent=True) for line in step.sent]
            expected = [ExpectedMessage(message) for message in sent if not _is_log(message)]
            for each in expected:
                self._expected.add(each)
            self._plan.append((step, given, expected))
        if reader.launches:
            raise UsageError(
                "a proxy that launches its successor itself cannot be run alone",
                "replay the others of the chain",
            )

    def run(self) -> None:
        """Plays all steps. Raises `Divergence`."""
        for step, given, expected in self._plan:
            lines = [line for message in given for line in self._deliverable(message)]
            self._delivered += len(given)
            if lines and self._send(lines, step):
                return
            self._due += expected
            self._receive()
        self._subject.finish()
        while (line := self._subject.next()) is not None:
            self._compare(line)
        messages = (message for _, _, expected in self._plan for message in expected)
        missing = next((message for message in messages if not message.came), None)
        if missing is not None:
            raise Divergence(missing, None, text=self._subject.silence)

    def outcome(self, divergence: Divergence | None) -> ReplayOutcome:
        """The result."""
        expected = sum(len(expected) for _, _, expected in self._plan)
        return ReplayOutcome(self._delivered, expected, self.same, divergence)

    # -- to the component --------------------------------------------------------------------------

    def _send(self, lines: list[Line], step: Step) -> bool:
        """Delivers lines; whether they ended the component, as when it was recorded."""
        for line in lines:
            # Both track pending requests, so they must see answers before the lines that follow.
            self._cleaner.line(line.whole.decode("utf-8", "backslashreplace"), sent=False)
            self._reader.read(line, sent=False)
        try:
            self._subject.send(b"".join(line.whole + b"\n" for line in lines))
        except ComponentError as error:
            if step.failed:
                return True
            raise Divergence(None, None, text=f"it failed: {error.text}") from None
        if step.failed:
            raise Divergence(None, None, text=f"it did not fail as it did then: {step.failed}")
        return False

    def _deliverable(self, message: SidedMessage) -> Iterator[Line]:
        """A line as it is to be delivered now; none yet if its request has not been made."""
        if message.kind != "response":
            yield message.line
        elif message.key in self._ids:
            yield _with_id(message.line, self._ids[message.key])
        else:
            self._premature[message.key] = message.line

    # -- from the component ------------------------------------------------------------------------

    def _receive(self) -> None:
        """Compares what it sends: all there is, or of a process until all that is due has come."""
        while True:
            self._due = [expected for expected in self._due if not expected.came]
            if self._subject.waits and not self._due:
                return
            line = self._subject.next()
            if line is None:
                if self._subject.waits:
                    raise Divergence(self._due[0], None, text=self._subject.silence)
                return
            self._compare(line)

    def _compare(self, line: bytes) -> None:
        """Compares a line with the recorded lines. Raises `Divergence`."""
        message = self._reader.read(self._cleaned(line), sent=True)
        if _is_log(message):
            if message.id is not None:
                result = Line(message.id_space, b'{"jsonrpc":"2.0","result":null}', True)
                self._answer(result, message.id)
            return
        cancels = self._ids_then.get(message.cancelled) if message.cancelled is not None else None
        expected = self._expected.take(message, message.content(cancels))
        self.same += 1
        if message.id is not None and message.kind == "request":
            then = expected.message.key
            self._ids[then] = message.id
            self._ids_then[message.key] = then[1]
            answer = self._premature.pop(then, None)
            if answer is not None:
                self._answer(answer, message.id)

    def _answer(self, line: Line, id_: str) -> None:
        self._send([_with_id(line, id_)], Step(None, [], [], ""))

    def _cleaned(self, line: bytes) -> Line:
        """A line as the trace would hold it."""
        text = line.decode("utf-8", "backslashreplace")
        written = self._cleaner.line(text, sent=True)
        if written is None:  # a trace would leave it out
            return Line("", json_text.utf8(text), is_message=False)
        return Line.read(json_text.decode(written, type=list[msgspec.Raw]))


def _is_log(message: SidedMessage) -> bool:
    return message.side == "c" and message.method == "log"


def _with_id(line: Line, id_: str) -> Line:
    held = read_members(line.text) or {}
    if bytes(held.get("id", b"")).decode() == id_:
        return line
    return line._replace(text=bytes(write_members({**held, "id": msgspec.Raw(id_.encode())})))
