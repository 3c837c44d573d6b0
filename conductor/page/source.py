"""The trace that a page shows: a file, which may grow."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from typing import Final, Protocol

from conductor.errors import ConductorError
from conductor.record.turns.lines import FileLines, HeldLines
from conductor.record.turns.model import Head
from conductor.record.turns.reader import Reader

_SLICE: Final = 0.02
"""Seconds of reading at a time: requests are answered between."""
_POLL: Final = 0.25
"""Seconds between two looks at a file that grows."""


class Source(Protocol):
    """A trace that a page shows."""

    @property
    def reader(self) -> Reader:
        """The trace as it was read so far. The reader changes if another trace takes its place."""

    @property
    def live(self) -> bool:
        """Whether more may come."""

    @property
    def notice(self) -> str:
        """A notice for the person; empty: there is none."""

    async def run(self, changed: Callable[[], None]) -> None:
        """Reads the lines of the trace as they come; `changed` is called when there are more."""


def head(source: Source) -> Head:
    """The head of a trace as it is shown."""
    return source.reader.head(live=source.live)


class TraceFile:
    """The trace in a file.

    With `follow` it is read on as it grows; it need not be there yet, and once another file takes
    its place, the new file is shown.
    """

    def __init__(self, path: str, *, follow: bool) -> None:
        """Raises `UsageError` for a file that cannot be read."""
        self._path = path
        self._lines: FileLines | None = None
        self._follow = follow
        self._ended = False
        self._more = False
        self._news = ""
        if follow and not os.path.lexists(path):
            self.reader = Reader(HeldLines(), path)
        else:
            self._begin()

    def _begin(self) -> None:
        self._lines = FileLines(self._path)
        self.reader = Reader(self._lines, self._path)

    @property
    def live(self) -> bool:
        """Whether more may come."""
        return not self._ended

    @property
    def notice(self) -> str:
        """A notice for the person; empty: there is none."""
        if self._lines is None:
            return "This file is not there yet. The page shows it as soon as a chain writes it."
        if not self._more:
            return self._news
        with contextlib.suppress(OSError, ZeroDivisionError):
            part = self._lines.read / os.path.getsize(self._path)
            return f"Reading the trace: {part:.0%} …"
        return "Reading the trace …"

    async def run(self, changed: Callable[[], None]) -> None:
        """See `Source`."""
        try:
            # In a thread: of a line of many megabytes even the reading takes long.
            while await asyncio.to_thread(self._read) or self._follow:
                changed()
                await asyncio.sleep(0 if self._more else _POLL)
                if not self._more:
                    self._look(changed)
        except ConductorError as error:
            self.reader.gap(error.text)
        if self._lines is not None and self._lines.cut:
            self.reader.gap("the last line is cut off")
        self._ended, self._more = True, False
        changed()

    def _look(self, changed: Callable[[], None]) -> None:
        """Looks whether another file has taken the place of this file."""
        try:
            if self._lines is None:
                if os.path.lexists(self._path):
                    self._begin()
                    changed()
            elif not self._lines.is_of(self._path):
                self._begin()
                self._news = "The file was replaced: this is the new trace."
                changed()
        except FileNotFoundError:
            self._news = "The file has been deleted: this was its content."

    def _read(self) -> bool:
        """Reads for a moment; whether there may be more at once."""
        lines = self._lines
        if lines is None:
            return False
        end = time.monotonic() + _SLICE
        self._more = True
        while time.monotonic() < end:
            line = lines.next()
            if line is None:
                self._more = False
                break
            self.reader.take(line)
        return self._more

    def close(self) -> None:
        """Closes the file."""
        if self._lines is not None:
            with contextlib.suppress(OSError):
                self._lines.close()
