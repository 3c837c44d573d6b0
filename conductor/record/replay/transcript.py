"""Writes what a trace recorded of a guest as a transcript: its lines in order, with side bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from conductor.core import json_text
from conductor.errors import UsageError
from conductor.record.trace.records import FORMAT
from conductor.record.turns.line import RECORDS
from conductor.record.turns.reader import Reader

_HINT: Final = "replay the trace itself: leave out --output"


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
    records: list[_Record] = []


_line: Final = json_text.Decoder(_Line).decode
_text: Final = json_text.Decoder(str).decode


def transcript(path: str, trace: Reader, name: str) -> bytes:
    """The conversation of a component, for `conductor test`. Raises `UsageError` where it has none
    that a transcript can hold."""
    records = [record for record in _records(path, trace) if record.component == name]
    if not records:
        raise UsageError(f"the trace `{path}` has no records of `{name}`", "record a trace anew")
    if any(record.left_out for record in records):
        raise UsageError(
            f"a message of `{name}` was too large to be recorded",
            "raise `line-limit` when you record",
        )
    runs = len({record.run for record in records})
    if runs > 1:
        raise UsageError(
            f"`{name}` was started {runs} times in this trace, and a transcript is one "
            "conversation",
            _HINT,
        )
    text = [b"# What `%b` received and sent; written by `conductor log replay`." % name.encode()]
    for record in _deliveries(records):
        if not all(_text(line[0]) for line in record.given + record.said):
            raise UsageError(
                f"`{name}` spoke over one connection, not over the channel, so its conversation "
                "cannot become a transcript",
                _HINT,
            )
        text += [b"> " + _whole(line) for line in record.given]
        text += [b"< " + _whole(line) for line in record.said]
        text.append(b"")
    return b"\n".join(text)


def _records(path: str, trace: Reader) -> Iterator[_Record]:
    """The records of a trace."""
    try:
        if (_line(trace.line(0)).format or FORMAT + 1) > FORMAT:
            raise UsageError(
                f"`{path}` is a trace by another version of conductor",
                "replay it with that version",
            )
        for number in range(1, len(trace)):
            line = trace.line(number)
            if line.startswith(RECORDS):
                yield from _line(line).records
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise UsageError(
            f"the records of `{path}` are not as conductor writes them", "record a trace anew"
        ) from None


def _deliveries(records: list[_Record]) -> Iterator[_Record]:
    """What was given at once, and what was sent then, until a delivery that ended the component: a
    transcript cannot say that. A large delivery has several records."""
    made: list[_Record] = []
    for record in records:
        if made and record.delivery is not None and made[-1].delivery == record.delivery:
            made[-1].given += record.given
            made[-1].said += record.said
            made[-1].failed = record.failed
        else:
            made.append(record)
    for record in made:
        if record.failed:
            return
        if record.given:
            yield record


def _whole(parts: list[msgspec.Raw]) -> bytes:
    """A line of a component, as a record has it: its side byte and a message, or a text."""
    text = bytes(parts[1]) if len(parts) == 2 else json_text.utf8(_text(parts[2]))
    return _text(parts[0]).encode() + text
