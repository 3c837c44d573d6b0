"""Transcripts of components: read, played against a component, and written anew.

A text file; ``> LINE`` is delivered, ``< LINE`` is expected, each line with its side byte as on
the channel. Consecutive ``>`` lines are one delivery, the ``<`` lines behind them all of its
outbox. A blank line ends a delivery; ``#`` starts a comment line. docs/proxies.md is the page.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import msgspec

from conductor.author import sides
from conductor.author.subject import Subject
from conductor.core.dialects import CANCEL
from conductor.core.json_text import read_members, write_members
from conductor.errors import ComponentError, UsageError
from conductor.record import diff
from conductor.spec.model import Spec


class Delivery(NamedTuple):
    """Lines in, and the outbox expected of them."""

    line: int
    """Of the file, where the delivery begins."""
    given: bytes
    expected: bytes


class Mismatch(NamedTuple):
    """A delivery whose outbox is not the one expected; lines without newlines."""

    line: int
    given: list[bytes]
    expected: list[bytes]
    returned: list[bytes]


class Played(NamedTuple):
    """The result of playing one transcript."""

    deliveries: int
    mismatches: list[Mismatch]
    failure: ComponentError | None
    """Why the component failed; the deliveries after that were not made."""
    text: bytes
    """The transcript with the outboxes that came."""


def play(make: Callable[[], Subject], text: bytes, name: str, *, loose: bool) -> Played:
    """Plays one transcript against an instance of its own. `loose`: see `Matcher`.

    Raises `ValueError` for a transcript that cannot be read.
    """
    deliveries = read(text, name)
    matcher = Matcher(loose=loose)
    mismatches: list[Mismatch] = []
    outboxes: list[bytes] = []
    with closing(make()) as subject:
        for delivery in deliveries:
            try:
                returned = subject.exchange(matcher.given(delivery))
            except ComponentError as error:
                where = f"{name}:{delivery.line}: {error.text}"
                failure = ComponentError(where, error.hint)
                return Played(len(outboxes), mismatches, failure, text)
            mismatch, outbox = matcher.compare(delivery, returned)
            outboxes.append(outbox)
            if mismatch is not None:
                mismatches.append(mismatch)
    return Played(len(deliveries), mismatches, None, updated(text, outboxes))


def require_channel(spec: Spec) -> None:
    """Raises `UsageError` for a component that takes no deliveries."""
    if not spec.sandboxed and (spec.command is None or spec.dialect != "channel"):
        raise UsageError(
            f"{spec.label('component')} is no sandboxed proxy and does not speak `channel`, so "
            "there are no deliveries to play",
            "`conductor test` tries out components of every kind",
        )


# -- the file --------------------------------------------------------------------------------------


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
    """For each delivery the places of its lines, and of the lines expected of it."""
    deliveries: list[tuple[list[int], list[int]]] = []
    is_open = False
    for at, line in enumerate(lines):
        if not line:
            is_open = False
        elif line.startswith(b"> "):
            if is_open and not deliveries[-1][1]:
                deliveries[-1][0].append(at)
            else:
                deliveries.append(([at], []))
            is_open = True
        elif line.startswith(b"< ") and is_open:
            deliveries[-1][1].append(at)
        elif not line.startswith(b"#"):
            raise ValueError(f"{name}:{at + 1}: neither '> ', '< ', '#' nor blank")
    return deliveries


def updated(text: bytes, outboxes: Sequence[bytes]) -> bytes:
    """The transcript with these outboxes, one for each delivery; all else stays as it was."""
    lines = text.split(b"\n")
    places = _places(lines, "transcript")
    removed = {at for _, expected in places for at in expected}
    added: dict[int, list[bytes]] = {}
    for (given, expected), outbox in zip(places, outboxes, strict=True):
        after = expected[0] if expected else given[-1]
        added[after] = [b"< " + line for line in outbox.split(b"\n")[:-1]]
    result: list[bytes] = []
    for at, line in enumerate(lines):
        if at not in removed:
            result.append(line)
        if at in added:
            following = (lines[n] for n in range(at + 1, len(lines)) if n not in removed)
            result += added[at] or _separator(following)
    return b"\n".join(result)


def _separator(following: Iterable[bytes]) -> list[bytes]:
    """A blank line, if a delivery without an outbox would otherwise join the next one."""
    after = next((line for line in following if not line.startswith(b"#")), b"")
    return [b""] if after.startswith(b"> ") else []


# -- the comparison --------------------------------------------------------------------------------


class Matcher:
    """Compares one conversation with its transcript.

    With `loose` values count instead of bytes: spacing, the order of members, and the ids a
    component gives its own requests may differ. Numbers are compared as they are written: `1.10`
    and `1.1` differ.
    """

    def __init__(self, *, loose: bool) -> None:
        self._loose = loose
        self._ids: dict[tuple[bytes, str], Any] = {}
        """The component's ids of its own requests, by side and the id in the transcript."""
        self._shown: dict[tuple[bytes, str], Any] = {}
        """The other way: the ids in the transcript, by side and the component's id."""

    def given(self, delivery: Delivery) -> bytes:
        """The lines to deliver: answers carry the ids that the component's requests really have."""
        if not self._loose:
            return delivery.given
        lines = delivery.given.split(b"\n")[:-1]
        return b"".join(self._answering(line) + b"\n" for line in lines)

    def compare(self, delivery: Delivery, returned: bytes) -> tuple[Mismatch | None, bytes]:
        """The difference, or None; and the outbox as the transcript should have it."""
        expected, lines = delivery.expected.split(b"\n")[:-1], returned.split(b"\n")
        if not lines[-1]:  # a guest's last line may lack its newline
            lines.pop()
        if self._loose:
            self._learn(expected, lines)
        if expected == lines:
            return None, delivery.expected
        if self._loose:
            lines = [self._as_expected(line) for line in lines]
            if len(lines) == len(expected) and all(map(_same, expected, lines)):
                return None, delivery.expected
        given = delivery.given.split(b"\n")[:-1]
        outbox = b"".join(line + b"\n" for line in lines)
        return Mismatch(delivery.line, given, expected, lines), outbox

    def _learn(self, expected: list[bytes], lines: list[bytes]) -> None:
        """Pairs the component's own requests with those expected, in order, by side and method."""
        waiting: dict[tuple[bytes, str], deque[Any]] = {}
        for request in filter(None, map(_request, expected)):
            waiting.setdefault(request[:2], deque()).append(request[2])
        for request in filter(None, map(_request, lines)):
            side, real = request[0], request[2]
            if shown := waiting.get(request[:2]):
                id_ = shown.popleft()
                self._ids[side, json.dumps(id_)] = real
                self._shown[side, json.dumps(real)] = id_

    def _answering(self, line: bytes) -> bytes:
        side, message = _message(line)
        if message is None or "method" in message or "id" not in message:
            return line
        real = self._ids.get((side, json.dumps(message["id"])), message["id"])
        return line if real == message["id"] else _with_id(side, line, real)

    def _as_expected(self, line: bytes) -> bytes:
        """A line of the component's with the ids that the transcript has for them."""
        side, message = _message(line)
        if message is None or "method" not in message:
            return line
        if "id" in message:
            id_ = self._shown.get((side, json.dumps(message["id"])), message["id"])
            return line if id_ == message["id"] else _with_id(side, line, id_)
        params = message.get("params")
        if message["method"] == CANCEL and isinstance(params, dict):
            real = params.get("requestId")
            id_ = self._shown.get((side, json.dumps(real)), real)
            if id_ != real:
                return side + _dumps({**message, "params": {**params, "requestId": id_}})
        return line


def _with_id(side: bytes, line: bytes, id_: Any) -> bytes:
    """The line with another id; the rest stays as it was written."""
    held = read_members(line[len(side) :])
    assert held is not None
    return side + bytes(write_members({**held, "id": msgspec.Raw(_dumps(id_))}))


def _dumps(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def _message(line: bytes) -> tuple[bytes, dict[str, Any] | None]:
    """The side byte, if there is one, and the message, if the line is a message."""
    side, text = sides.split(line)
    if read_members(text) is None:  # `json` reads more than JSON: `NaN`, other encodings
        return side, None
    try:
        message: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError):
        return side, None
    return side, message


def _request(line: bytes) -> tuple[bytes, str, Any] | None:
    """Side, method and id of a request; None for any other line."""
    side, message = _message(line)
    if message is None or "method" not in message or "id" not in message:
        return None
    return side, str(message["method"]), message["id"]


def _same(expected: bytes, line: bytes) -> bool:
    (side, text), (other, other_text) = sides.split(expected), sides.split(line)
    # A library that parses and writes JSON keeps the last of repeated names: that is no mismatch.
    return side == other and diff.same(text, other_text, exact_numbers=True, last_counts=True)
