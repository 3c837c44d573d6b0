"""A span: a piece of work with a beginning and an end, before any format."""

from __future__ import annotations

from enum import StrEnum
from hashlib import blake2b
from typing import NamedTuple

import msgspec

Value = str | bool | int | float | tuple[str, ...]
Attributes = dict[str, Value]


class What(StrEnum):
    """The subject of a span."""

    TURN = "turn"
    HOP = "hop"
    """A request and its answer between two components."""
    MCP = "mcp"
    """The same, of MCP."""
    TOOL = "tool"
    PASSED = "passed"
    """A component had a notification; for pictures alone."""
    RUN = "run"
    """The chain, from its start to its end."""
    VERDICT = "verdict"
    """Conductor refused something, at a moment to which no other span belongs."""


class Kind(StrEnum):
    """OpenTelemetry's kinds."""

    INTERNAL = "internal"
    SERVER = "server"
    CLIENT = "client"


class Place(NamedTuple):
    """Where a picture draws a span: no two that overlap have the same place."""

    lane: str
    """A component, or `turns`, or `tools`."""
    row: int


class Moment(NamedTuple):
    """Something that happened within a span."""

    at: float
    name: str
    attributes: Attributes


class Context(NamedTuple):
    """The identity of a span for other programs: the ids of W3C's `traceparent`."""

    trace: int
    span: int
    sampled: bool | None = None
    """Whether the program that began the trace sends it to a collector; None: we began it."""

    def traceparent(self, *, sampled: bool) -> str:
        """As it is written in a message."""
        return f"00-{self.trace:032x}-{self.span:016x}-{sampled:02x}"


class Span(msgspec.Struct, kw_only=True):
    """One span. Times are seconds since the trace began."""

    what: What
    name: str
    kind: Kind = Kind.INTERNAL
    context: Context
    parent: Context | None = None
    is_remote: bool = False
    """Whether the parent is another program's."""
    links: tuple[Context, ...] = ()
    start: float
    end: float
    attributes: Attributes = {}
    moments: list[Moment] = []
    error: str = ""
    """The error of the span; empty: there is none."""
    place: Place
    origin: Place | None = None
    """The place of the span's cause."""
    event: int = 0
    """Number of the line that began it."""


class Ids:
    """Makes ids. The same seed gives the same ids: a trace exported twice does not become two."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._count = 0

    def _next(self, size: int) -> int:
        self._count += 1
        digest = blake2b(self._count.to_bytes(8), digest_size=size, key=self._seed[:64])
        return int.from_bytes(digest.digest()) or 1

    def below(self, parent: Context | None) -> Context:
        """A new span below another span, or of a new trace."""
        if parent is None:
            return Context(self._next(16), self._next(8))
        return Context(parent.trace, self._next(8), parent.sampled)


def read_traceparent(text: str) -> Context | None:
    """The context that a `traceparent` of W3C names; None if it is not valid."""
    parts = text.split("-")
    if len(parts) < 4 or (parts[0] == "00" and len(parts) > 4) or parts[0] == "ff":
        return None
    lengths = [len(part) for part in parts[:4]]
    digits = frozenset("0123456789abcdef")
    if lengths != [2, 32, 16, 2] or not all(digits.issuperset(part) for part in parts[:4]):
        return None
    trace, span = int(parts[1], 16), int(parts[2], 16)
    if not trace or not span:
        return None
    return Context(trace, span, bool(int(parts[3], 16) & 1))
