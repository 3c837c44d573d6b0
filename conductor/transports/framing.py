"""Splits a byte stream into frames. Pure: chunks in, whole lines out.

A line beyond the limit is skipped, not kept: its sender could fill memory otherwise.
"""

from __future__ import annotations

from typing import Final

LINE_LIMIT: Final = 64 * 1024 * 1024
"""Longest line taken, in bytes, unless configured otherwise."""

_HEAD: Final = 4096

_SMALL: Final = 4096
"""Bytes of a part that others are added to."""

_LARGE: Final = 64 * 1024
_FEW: Final = 64


def split(chunk: bytes) -> list[bytes]:
    """`chunk.split(b"\\n")`. Split looks at each byte; in a large chunk a search skips over long
    lines."""
    if len(chunk) < _LARGE:
        return chunk.split(b"\n")
    lines: list[bytes] = []
    start, end = 0, chunk.find(b"\n")
    while end >= 0:
        if len(lines) == _FEW:  # so the lines are short
            return lines + chunk[start:].split(b"\n")
        lines.append(chunk[start:end])
        start, end = end + 1, chunk.find(b"\n", end + 1)
    lines.append(chunk[start:])
    return lines


def keep_part(parts: list[bytes], part: bytes) -> None:
    """Adds a part of a line. A small part becomes one with the part before: a line may come in
    parts of two bytes, of which each would take forty."""
    if parts and len(parts[-1]) < _SMALL:
        parts[-1] += part
    else:
        parts.append(part)


class LineSplitter:
    """Collects lines, however the chunks fall.

    A line longer than `limit` is skipped, not kept: its first bytes are handed to `oversized`
    (so that an id may be read off them) and the stream goes on. A blank line is no frame, and
    `\\r\\n` counts as a line end since a carriage return is JSON white space.
    """

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self.held = 0
        """Bytes of a line that is not complete."""
        self._skipping = False
        self.blank = 0
        """Blank lines in the last chunk."""
        self.oversized: list[bytes] = []
        """The first bytes of lines skipped since the owner last cleared this list."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes, without their newlines."""
        lines = split(chunk)
        rest = lines.pop()
        if lines:
            if self.held or self._skipping:
                lines[0] = self._complete(lines[0])
            if len(chunk) > self._limit:
                lines = [line for line in lines if self._within(line)]
        if rest:
            self._keep(rest)
        self.blank = 0
        if b"" not in lines:
            return lines
        frames = [line for line in lines if line]
        self.blank = len(lines) - len(frames)
        return frames

    def end(self) -> bytes:
        """The rest when the stream ends: a last line without newline, or nothing."""
        return self._complete(b"")

    def _complete(self, last: bytes) -> bytes:
        if self._skipping:
            self._skipping = False
            return b""
        self._parts.append(last)
        line = b"".join(self._parts)
        self._parts.clear()
        self.held = 0
        return line if self._within(line) else b""

    def _keep(self, rest: bytes) -> None:
        if self._skipping:
            return
        keep_part(self._parts, rest)
        self.held += len(rest)
        if self.held > self._limit:
            self._within(b"".join(self._parts))
            self._parts.clear()
            self.held = 0
            self._skipping = True

    def _within(self, line: bytes) -> bool:
        if len(line) <= self._limit:
            return True
        self.oversized.append(line[:_HEAD])
        return False
