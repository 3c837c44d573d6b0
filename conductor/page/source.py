"""What the page of a trace shows: a file, which may grow."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final, Protocol

from conductor.errors import ConductorError
from conductor.record.turns.lines import FileLines
from conductor.record.turns.model import Head
from conductor.record.turns.reader import Reader

_SLICE: Final = 2_000
"""Lines that are read at a time: requests are answered between."""
_POLL: Final = 0.25
"""Seconds between two looks at a file that grows."""


class Source(Protocol):
    """A trace that a page shows."""

    reader: Reader

    @property
    def live(self) -> bool:
        """Whether more may come."""

    async def run(self, changed: Callable[[], None]) -> None:
        """Reads what there is, and what comes; `changed` is called whenever there is more."""


def head(source: Source) -> Head:
    """What is shown of it as a whole."""
    return source.reader.head(live=source.live)


class TraceFile:
    """The trace in a file. With `follow` it is read on as it grows."""

    def __init__(self, path: str, *, follow: bool) -> None:
        """Raises `UsageError` for a file that cannot be read."""
        self._lines = FileLines(path)
        self.reader = Reader(self._lines, path)
        self._follow = follow
        self._ended = False

    @property
    def live(self) -> bool:
        """Whether more may come."""
        return self._follow or not self._ended

    async def run(self, changed: Callable[[], None]) -> None:
        """See `Source`."""
        try:
            while self._read(changed) or self._follow:
                await asyncio.sleep(0 if self._more else _POLL)
        except ConductorError as error:
            self.reader.gap(error.text)
        if self._lines.cut:
            self.reader.gap("the last line is cut off")
        self._ended, self._follow = True, False
        changed()

    _more = False

    def _read(self, changed: Callable[[], None]) -> bool:
        """Reads a slice; whether there may be more at once."""
        count = 0
        while count < _SLICE and (line := self._lines.next()) is not None:
            self.reader.take(line)
            count += 1
        self._more = count == _SLICE
        if count:
            changed()
        return self._more

    def close(self) -> None:
        """Closes the file."""
        with contextlib.suppress(OSError):
            self._lines.close()
