"""Reads the lines that a trace recorded of a component, in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from conductor.core import json_text
from conductor.errors import UsageError
from conductor.record.trace.records import FORMAT
from conductor.record.turns.lines import unreadable
from conductor.spec import untrusted_files

_MARK: Final = b'{"type":"_conductor"'
MOST_LINE: Final = 256 * 1024 * 1024
"""Bytes of a line of a trace: the longest message, and what is recorded with it."""

MOST_HELD: Final = 512 * 1024 * 1024
"""Bytes of a trace that are taken into memory."""

_RECORD_HINT: Final = "record a trace: `conductor agent --trace FILE …`"


class Line(NamedTuple):
    """A line of a component: its side byte or nothing, and the text behind it."""

    side: str
    text: bytes
    is_message: bool

    @classmethod
    def read(cls, parts: list[msgspec.Raw]) -> Line:
        """A line as a trace holds it."""
        side, text = _str.decode(parts[0]), bytes(parts[1])
        if len(parts) > 2:
            return cls(side, json_text.utf8(_str.decode(parts[2])), is_message=False)
        return cls(side, text, is_message=True)

    @property
    def whole(self) -> bytes:
        """The line itself, without its newline."""
        return self.side.encode() + self.text


class Step(NamedTuple):
    """Lines delivered at once, and lines sent: a guest sends them in return."""

    delivery: int | None
    given: list[Line]
    sent: list[Line]
    failed: str
    """Why the delivery ended the component."""


class Recording(NamedTuple):
    """What a trace holds of a component."""

    content: str
    """`all`, or `redacted`: secrets were taken out."""
    runs: list[list[Step]]
    """The steps of each of its instances."""

    @property
    def sided(self) -> bool:
        """Whether its lines have side bytes: it spoke over the channel."""
        return all(
            line.side for steps in self.runs for step in steps for line in step.given + step.sent
        )


class _Record(msgspec.Struct):
    component: str
    run: int
    delivery: int | None = None
    given: list[list[msgspec.Raw]] = []
    said: list[list[msgspec.Raw]] = []
    left_out: int = 0
    failed: str = ""


class _Line(msgspec.Struct):
    format: int | None = None
    content: str = ""
    components: list[str] = []
    records: list[_Record] = []


_line: Final = json_text.Decoder(_Line)
_str: Final = json_text.Decoder(str)


def load(path: str, name: str) -> Recording:
    """What the trace at `path` holds of the component `name`. Raises `UsageError`."""
    header: _Line | None = None
    runs: dict[int, list[Step]] = {}
    recorded: set[str] = set()
    for line in _lines(path):
        header = header or _checked(path, line)
        for record in line.records:
            recorded.add(record.component)
            if record.component != name:
                continue
            if record.left_out:
                raise UsageError(
                    f"a message of `{name}` was too large to be recorded",
                    "raise --line-limit when you record",
                )
            _add(runs.setdefault(record.run, []), record)
    if header is None:
        raise _no_trace(path)
    if not runs:
        known = [component for component in header.components if component in recorded]
        raise UsageError(
            f"the trace `{path}` has no component `{name}`",
            f"--as NAME names a component of it: {', '.join(known)}"
            if known
            else f"it has nothing of any proxy; {_RECORD_HINT}",
        )
    return Recording(header.content, [runs[number] for number in sorted(runs)])


def content_of(path: str) -> str:
    """What the trace at `path` holds of messages: `all` or `redacted`. Raises `UsageError`."""
    for line in _lines(path):
        return _checked(path, line).content
    raise _no_trace(path)


def _no_trace(path: str) -> UsageError:
    return UsageError(f"`{path}` is no trace that can be replayed", _RECORD_HINT)


def _lines(path: str) -> Iterator[_Line]:
    """The lines that hold records."""
    try:
        size = 0
        with untrusted_files.ordinary(path) as file:
            for number, text in enumerate(untrusted_files.lines(file, path, MOST_LINE), 1):
                if text.startswith(_MARK):
                    size = within_memory(path, size + len(text))
                    line = _decoded(text)
                    if line is not None:
                        yield line
                    elif text.endswith(b"\n"):  # else it was cut off when the conductor was killed
                        raise UsageError(
                            f"{path}:{number}: it is not as conductor writes it", _RECORD_HINT
                        )
    except OSError as error:
        raise unreadable(path, error) from None


def within_memory(path: str, size: int) -> int:
    """`size`, the bytes of a trace that are in memory so far. Raises `UsageError` for too many."""
    if size > MOST_HELD:
        raise UsageError(
            f"the trace `{path}` holds more than {MOST_HELD >> 20} MiB of messages",
            "record less at a time",
        )
    return size


def _decoded(text: bytes) -> _Line | None:
    try:
        return _line.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _checked(path: str, header: _Line) -> _Line:
    if header.format is None or header.format > FORMAT:
        raise UsageError(
            f"`{path}` is a trace by another version of conductor", "replay it with that version"
        )
    if header.content == "none":
        raise UsageError(
            f"the trace `{path}` was written without content, so there is nothing to replay",
            "record it with --trace-content redacted (the default) or all",
        )
    return header


def _add(steps: list[Step], record: _Record) -> None:
    """Appends the step of a record, or extends the last: a large delivery has several records."""
    given = [Line.read(parts) for parts in record.given]
    sent = [Line.read(parts) for parts in record.said]
    if record.delivery is not None and steps and steps[-1].delivery == record.delivery:
        last = steps.pop()
        given, sent = last.given + given, last.sent + sent
    steps.append(Step(record.delivery, given, sent, record.failed))
