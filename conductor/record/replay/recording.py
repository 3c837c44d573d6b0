"""Reads what a trace records of one component: what it was given and what it said, in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from conductor.core import surrogates
from conductor.errors import UsageError
from conductor.record.trace.records import FORMAT
from conductor.spec import untrusted_files

_MARK: Final = b'{"type":"_conductor"'
MOST_LINE: Final = 256 * 1024 * 1024
"""Bytes of a line of a trace: the longest message, and what is recorded with it."""

MOST_HELD: Final = 512 * 1024 * 1024
"""Bytes of a trace that are taken into memory."""

_RECORD_HINT: Final = "record one: `conductor agent --trace FILE …`"


class Line(NamedTuple):
    """A line of one component: its side byte or nothing, and the text behind it."""

    side: str
    text: bytes
    is_message: bool

    @property
    def whole(self) -> bytes:
        """The line itself, without its newline."""
        return self.side.encode() + self.text


class Step(NamedTuple):
    """Lines that were given at once, and lines that were said: of a guest, what came of them."""

    delivery: int | None
    given: list[Line]
    said: list[Line]
    failed: str
    """Why the component ended of it."""


class Recording(NamedTuple):
    """What a trace holds of one component."""

    content: str
    """`all`, or `redacted`: secrets were taken out."""
    runs: list[list[Step]]
    """What each of its instances was given and said."""

    @property
    def sided(self) -> bool:
        """Whether its lines have side bytes: it spoke over the channel."""
        return all(
            line.side for steps in self.runs for one in steps for line in (*one.given, *one.said)
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


_line: Final = msgspec.json.Decoder(_Line)
_str: Final = msgspec.json.Decoder(str)


def load(path: str, name: str) -> Recording:
    """What the trace at `path` holds of the component `name`. Raises `UsageError`."""
    first: _Line | None = None
    runs: dict[int, list[Step]] = {}
    others: set[str] = set()
    for found, hidden in _lines(path):
        if first is None:
            first = _checked(path, found)
        for record in found.records:
            others.add(record.component)
            if record.component == name:
                if record.left_out:
                    raise UsageError(
                        f"a message of `{name}` was too large to be recorded",
                        "raise --line-limit when you record",
                    )
                _add(runs.setdefault(record.run, []), _step(record, hidden=hidden), record.delivery)
    if first is None:
        raise _no_trace(path)
    if not runs:
        known = [one for one in first.components if one in others]
        raise UsageError(
            f"the trace `{path}` has no component `{name}`",
            f"--as NAME says which one it was: {', '.join(known)}"
            if known
            else f"it has nothing of any proxy; {_RECORD_HINT}",
        )
    return Recording(first.content, [runs[number] for number in sorted(runs)])


def head(path: str) -> str:
    """What the trace at `path` holds of messages: `all` or `redacted`. Raises `UsageError`."""
    for found, _ in _lines(path):
        return _checked(path, found).content
    raise _no_trace(path)


def _no_trace(path: str) -> UsageError:
    return UsageError(
        f"`{path}` is no trace, or one by an older conductor that cannot be replayed", _RECORD_HINT
    )


def _lines(path: str) -> Iterator[tuple[_Line, bool]]:
    """The lines that hold records, each with whether lone surrogates are marked in it."""
    try:
        held = 0
        with untrusted_files.ordinary(path) as file:
            for number, text in enumerate(untrusted_files.lines(file, path, MOST_LINE), 1):
                if text.startswith(_MARK):
                    held = counted(path, held + len(text))
                    found = _decoded(text)
                    if found is not None:
                        yield found
                    elif text.endswith(b"\n"):  # else it was cut off when the conductor was killed
                        raise UsageError(
                            f"{path}:{number}: it is not as conductor writes it", _RECORD_HINT
                        )
    except OSError as error:
        raise unreadable(path, error) from None


def unreadable(path: str, error: OSError) -> UsageError:
    """What is wrong with the file of a trace."""
    why = error.strerror or str(error)
    return UsageError(f"cannot read the trace `{path}`: {why}", "check the path")


def counted(path: str, held: int) -> int:
    """The bytes of records so far: those of a replay are all in memory. Raises `UsageError`."""
    if held > MOST_HELD:
        raise UsageError(
            f"the trace `{path}` holds more than {MOST_HELD >> 20} MiB of messages",
            "record less at a time",
        )
    return held


def _decoded(text: bytes) -> tuple[_Line, bool] | None:
    for shown, hidden in ((text, False), (surrogates.hide(text), True)):
        try:
            if shown is not None:
                return _line.decode(shown), hidden
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
    return None


def _checked(path: str, head: _Line) -> _Line:
    if head.format is None or head.format > FORMAT:
        raise UsageError(
            f"`{path}` is a trace by another version of conductor", "replay it with that version"
        )
    if head.content == "none":
        raise UsageError(
            f"the trace `{path}` was written without content, so there is nothing to replay",
            "record it with --trace-content redacted (the default) or all",
        )
    return head


def _step(record: _Record, *, hidden: bool) -> Step:
    return Step(
        record.delivery,
        [_read(one, hidden=hidden) for one in record.given],
        [_read(one, hidden=hidden) for one in record.said],
        record.failed,
    )


def _read(parts: list[msgspec.Raw], *, hidden: bool) -> Line:
    side, text = _str.decode(parts[0]), bytes(parts[1])
    if len(parts) > 2:
        return Line(side, _str.decode(parts[2]).encode(), is_message=False)
    return Line(side, surrogates.show(text) if hidden else text, is_message=True)


def _add(steps: list[Step], step: Step, delivery: int | None) -> None:
    """Adds a step; a large delivery was recorded in parts."""
    if delivery is not None and steps and steps[-1].delivery == delivery:
        last = steps[-1]
        steps[-1] = Step(delivery, last.given + step.given, last.said + step.said, step.failed)
    else:
        steps.append(step)
