"""Transcripts of components: what is delivered, and the exact outbox that must come back. Pure.

A text file; ``> LINE`` is delivered, ``< LINE`` is expected, each line with its side byte as on
the channel. Consecutive ``>`` lines are one delivery, the ``<`` lines behind them all of its
outbox. A blank line ends a delivery; ``#`` starts a comment line. docs/authoring.md is the page.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from conductor.core import members

_SIDES: Final = (b"p", b"s", b"c")
_ABSENT: Final = object()


class Delivery(NamedTuple):
    """One crossing: the line of the file where it begins, the lines in, the outbox out."""

    line: int
    given: bytes
    expected: bytes


def read(text: bytes, name: str = "transcript") -> list[Delivery]:
    """The deliveries of a transcript, in order.

    Raises `ValueError` for a line that is none of the four kinds, or an answer without a delivery.
    """
    lines = text.split(b"\n")
    return [
        Delivery(given[0] + 1, _joined(lines, given), _joined(lines, expected))
        for given, expected in _places(lines, name)
    ]


def _joined(lines: list[bytes], places: list[int]) -> bytes:
    return b"".join(lines[at][2:] + b"\n" for at in places)


def _places(lines: list[bytes], name: str) -> list[tuple[list[int], list[int]]]:
    """For each delivery, where its lines are, and those expected of it."""
    found: list[tuple[list[int], list[int]]] = []
    is_open = False
    for at, line in enumerate(lines):
        if not line:
            is_open = False
        elif line.startswith(b"> "):
            if is_open and not found[-1][1]:
                found[-1][0].append(at)
            else:
                found.append(([at], []))
            is_open = True
        elif line.startswith(b"< ") and is_open:
            found[-1][1].append(at)
        elif not line.startswith(b"#"):
            raise ValueError(f"{name}:{at + 1}: neither '> ', '< ', '#' nor blank")
    return found


def updated(text: bytes, outboxes: Sequence[bytes]) -> bytes:
    """The transcript with these outboxes, one for each delivery; all else stays as it was."""
    lines = text.split(b"\n")
    places = _places(lines, "transcript")
    gone = {at for _, expected in places for at in expected}
    put: dict[int, list[bytes]] = {}
    for (given, expected), outbox in zip(places, outboxes, strict=True):
        after = expected[0] if expected else given[-1]
        put[after] = [b"< " + line for line in outbox.split(b"\n")[:-1]]
    found: list[bytes] = []
    for at, line in enumerate(lines):
        if at not in gone:
            found.append(line)
        if at in put:
            following = (lines[n] for n in range(at + 1, len(lines)) if n not in gone)
            found += put[at] or _closing(following)
    return b"\n".join(found)


def _closing(following: Iterable[bytes]) -> list[bytes]:
    """What keeps a delivery without an outbox apart from the one that follows."""
    after = next((line for line in following if not line.startswith(b"#")), b"")
    return [b""] if after.startswith(b"> ") else []


class Difference(NamedTuple):
    """A delivery whose outbox is not the one expected; lines without newlines."""

    line: int
    given: list[bytes]
    expected: list[bytes]
    said: list[bytes]


class Player:
    """Compares one conversation with its transcript.

    With `loose` values count instead of bytes: spacing, the order of members, and the ids a
    component gives its own requests may differ. Numbers and strings are compared as they are read,
    `1.10` and `1.1` differ.
    """

    def __init__(self, *, loose: bool) -> None:
        self._loose = loose
        self._ids: dict[tuple[bytes, str], Any] = {}

    def given(self, delivery: Delivery) -> bytes:
        """What is to be delivered: answers carry the ids that their requests really have."""
        if not self._loose:
            return delivery.given
        lines = delivery.given.split(b"\n")[:-1]
        return b"".join(self._answering(line) + b"\n" for line in lines)

    def compare(self, delivery: Delivery, said: bytes) -> tuple[Difference | None, bytes]:
        """What differs, or None; and the outbox as the transcript should have it."""
        expected, found = delivery.expected.split(b"\n")[:-1], said.split(b"\n")[:-1]
        if said and not said.endswith(b"\n"):
            found.append(said.rpartition(b"\n")[2])
        if expected == found:
            self._learn(expected, found)
            return None, delivery.expected
        if self._loose:
            self._learn(expected, found)
            shown = [self._as_expected(line) for line in found]
            if [_value(line) for line in expected] == [_value(line) for line in shown]:
                return None, delivery.expected
            found = shown
        given = delivery.given.split(b"\n")[:-1]
        outbox = b"".join(line + b"\n" for line in found)
        return Difference(delivery.line, given, expected, found), outbox

    def _learn(self, expected: list[bytes], found: list[bytes]) -> None:
        """Pairs the component's own requests with those expected, in order, by side and method."""
        waiting = [_request(line) for line in expected]
        for line in found:
            one = _request(line)
            for at, other in enumerate(waiting):
                if one is not None and other is not None and one[:2] == other[:2]:
                    self._ids[other[0], json.dumps(other[2])] = one[2]
                    waiting[at] = None
                    break

    def _answering(self, line: bytes) -> bytes:
        side, message = _message(line)
        if message is None or "method" in message or "id" not in message:
            return line
        real = self._ids.get((side, json.dumps(message["id"])), _ABSENT)
        return line if real is _ABSENT or real == message["id"] else _with_id(side, line, real)

    def _as_expected(self, line: bytes) -> bytes:
        """A line of the component's with the ids that the transcript has for them."""
        side, message = _message(line)
        if message is None or "method" not in message:
            return line
        shown = {json.dumps(real): json.loads(mine) for (of, mine), real in self._ids.items()
                 if of == side}  # fmt: skip
        if "id" in message:
            mine = shown.get(json.dumps(message["id"]), message["id"])
            return line if mine == message["id"] else _with_id(side, line, mine)
        params = message.get("params")
        if message["method"] == "$/cancel_request" and isinstance(params, dict):
            asked = params.get("requestId")
            mine = shown.get(json.dumps(asked), asked)
            if mine != asked:
                changed = {**message, "params": {**params, "requestId": mine}}
                return side + _dumps(changed)
        return line


def _with_id(side: bytes, line: bytes, number: Any) -> bytes:
    """The line with another id; all else stays as it is written."""
    held = members.read(line[len(side) :])
    assert held is not None
    return side + bytes(members.write({**held, "id": msgspec.Raw(_dumps(number))}))


def _dumps(message: Any) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )


def _message(line: bytes) -> tuple[bytes, dict[str, Any] | None]:
    """The side byte, if there is one, and the message, if it is one."""
    side = line[:1] if line[:1] in _SIDES else b""
    try:
        found = json.loads(line[len(side) :])
    except (ValueError, RecursionError):
        return side, None
    return side, found if isinstance(found, dict) else None


def _request(line: bytes) -> tuple[bytes, str, Any] | None:
    side, message = _message(line)
    if message is None or "method" not in message or "id" not in message:
        return None
    return side, str(message["method"]), message["id"]


def _value(line: bytes) -> Any:
    """What a line says, numbers as they are written; the line itself if it is no JSON."""
    side = line[:1] if line[:1] in _SIDES else b""
    try:
        return side, json.loads(line[len(side) :], parse_float=_Number, parse_int=_Number)
    except (ValueError, RecursionError):
        return side, line


class _Number(str):
    """A number as it is written, which is no text."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Number) and str(self) == str(other)

    __hash__ = str.__hash__
