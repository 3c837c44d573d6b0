"""The loop of a host of guests: it reads lines of the parent, and writes lines for the parent."""

from __future__ import annotations

import math
import os
import select
from typing import TYPE_CHECKING, Final

from conductor.core import parts
from conductor.transports.buffers import (
    BIG_CHUNK,
    CHUNK,
    QUIET,
    give_back,
    give_back_code,
    keep_large,
)
from conductor.transports.framing import LineSplitter

if TYPE_CHECKING:
    from conductor.run.segment import Segment

HIGH_WATER: Final = 8 * 1024 * 1024
"""Bytes that wait for the parent, or for guests since the parent sent them, above which nothing
more is done, or read."""

_ROOM: Final = 4096
"""Bytes that the parent may add to a line: the side byte, and an id that is longer."""

EXIT_GUEST_FAILED: Final = 70

_LOADED: Final = 0.5
"""Seconds without input after which the first messages of a chain have passed."""

_NOTHING: Final = memoryview(b"")


class ParentOutput:
    """Lines for the parent on descriptor 1, which must not block once `flush` is used."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._unsent = _NOTHING

    @property
    def unsent(self) -> int:
        """Bytes that the last `flush` had to leave."""
        return len(self._unsent)

    def send(self, lines: bytes) -> None:
        """Queues whole lines."""
        self._lines.append(lines)

    def flush(self) -> None:
        """Writes as much as the pipe takes."""
        if self._lines:
            lines = [bytes(self._unsent), *self._lines] if self._unsent else self._lines
            self._unsent = memoryview(lines[0] if len(lines) == 1 else b"".join(lines))
            self._lines = []
        while self._unsent:
            try:
                sent = os.write(1, self._unsent)
            except BlockingIOError:
                return
            # An empty slice would still hold the whole buffer.
            self._unsent = self._unsent[sent:] if sent < len(self._unsent) else _NOTHING


class _Input:
    """Lines of the parent on descriptor 0; reads more at once while a long one comes in."""

    def __init__(self, line_limit: int) -> None:
        self._splitter = LineSplitter(line_limit)
        self._chunk = CHUNK
        self.tidying: float | None = 0.0
        """Seconds without input after which the host tidies up: at once after its start, then once
        the first messages have passed, later after something large; None: the host is tidy."""

    def read(self) -> list[bytes] | None:
        """Complete lines; None at the end of the input. Blocks until there is something."""
        data = os.read(0, self._chunk)
        return self.lines(data) if data else None

    def lines(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes."""
        if len(data) >= CHUNK:
            self.tidying = QUIET
        lines = self._splitter.feed(data)
        if self._splitter.held < CHUNK:
            self._chunk = CHUNK
        else:
            keep_large()
            self._chunk = BIG_CHUNK
        return lines


def serve(segment: Segment, output: ParentOutput, line_limit: int, begun: bytes) -> int:
    """Serves until the input ends; the exit code. `begun`: the part of it that has been read.

    The loop blocks: its only work is to read, route, deliver and write. It polls only where it
    waits for more than input, which spares a system call a message.
    """
    segment.start()
    source, poll = _Input(line_limit + _ROOM), select.poll()
    segment.feed(source.lines(begun))
    while True:
        wait = segment.settle()
        if segment.failed:
            break
        # Work of the next minute, such as a look at a request that a guest holds, is not due now.
        idle = (wait is None or wait > QUIET) and not output.unsent
        if idle and source.tidying is not None:
            wait = source.tidying
        if output.unsent or wait is not None:
            reads = output.unsent < HIGH_WATER and segment.incoming < HIGH_WATER
            poll.register(0, select.POLLIN if reads else 0)
            poll.register(1, select.POLLOUT if output.unsent else 0)
            ready = dict(poll.poll(None if wait is None else math.ceil(wait * 1000)))
            if idle and not ready:
                source.tidying = None if source.tidying else _LOADED
                parts.load(client=False)  # now nobody waits for it
                give_back()
                give_back_code()
            segment.run_due()
            if not ready.get(0, 0) & (select.POLLIN | select.POLLHUP):
                continue
        lines = source.read()
        if lines is None:
            break
        segment.feed(lines)
        del lines  # perhaps megabytes, which would be held until the next line comes
    os.set_blocking(1, True)
    output.flush()
    segment.close()
    return EXIT_GUEST_FAILED if segment.failed else 0
