"""The trace that the page of a chat shows: of the chain that runs in this process, from memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Final

from conductor.record.turns import reader as turns
from conductor.record.turns.line import Line, written
from conductor.run.log import Sink

_SLICE: Final = 500
"""Lines that are read at a time: the chain goes on between."""
_MOST: Final = 16 * 1024 * 1024
"""Bytes of lines that wait."""
_LINE: Final = 512
"""Bytes that a line takes beside its body, about."""


class RunningChain(Sink[Line]):
    """The trace of a chain: takes its lines (`conductor.run.log.Sink`), and gives them to the page
    (`conductor.page.source.Source`)."""

    is_live = True
    notice = ""

    def __init__(self, name: str) -> None:
        self.reader, self._lines = turns.held()
        self.reader = turns.Reader(self._lines, name)
        self._waiting: deque[Line] = deque()
        self._size = 0
        """Bytes of the lines that wait, about."""
        self._come = asyncio.Event()
        self._ended = False
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop that reads the lines."""

    @property
    def live(self) -> bool:
        """Whether more may come."""
        return not self._ended or bool(self._waiting)

    @property
    def count(self) -> int:
        """How many lines have come."""
        return len(self.reader) + len(self._waiting)

    # -- as a sink -----------------------------------------------------------------------------

    def take(self, item: Line, at: float, mode: str) -> None:
        """See `Sink`. The line is read soon: the chain waits for that only beyond a bound."""
        self._waiting.append(item)
        self._size += _size(item)
        self._come.set()
        if self._size > _MOST:
            self._read()

    def close(self) -> None:
        """See `Sink`."""
        self._ended = True
        if self._loop is None:
            self._come.set()
        else:
            with contextlib.suppress(RuntimeError):  # that loop is closed
                self._loop.call_soon_threadsafe(self._come.set)

    # -- as a source ---------------------------------------------------------------------------

    async def run(self, changed: Callable[[], None]) -> None:
        """See `Source`."""
        self._loop = asyncio.get_running_loop()
        while self.live:
            await self._come.wait()
            self._come.clear()
            while True:
                self._read()
                changed()
                if not self._waiting:
                    break
                await asyncio.sleep(0)

    def _read(self) -> None:
        for _ in range(min(_SLICE, len(self._waiting))):
            line = self._waiting.popleft()
            self._size -= _size(line)
            self._lines.append(written(line))
            self.reader.read(line)


def _size(line: Line) -> int:
    return _LINE + len(line.body)
