"""Non-blocking reading and writing of file descriptors on the running event loop.

One read takes everything there is up to the size of a chunk, which is larger within a long line:
many short lines at once would leave the caches of the processor. One write sends everything that
was queued for a peer since the last turn: under load many messages share a system call.

However much one read takes, only so many lines are reported in one turn of the event loop: a peer
that floods with short lines holds up nobody else.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from conductor.transports.buffers import BIG_CHUNK, CHUNK, keep_large
from conductor.transports.framing import LineSplitter

_PAUSE: Final = 0.02
"""Seconds for which a flooding writer is not read from: it waits, and no other peer does."""

_MANY: Final = 256
"""The most lines that are reported in one turn of the event loop, where somebody waits for them."""

_FLOOD: Final = 16 * 1024
"""Bytes in one go that are a flood, where nothing large is expected."""

_BLANK: Final = 1000
"""Blank lines in one go that are a flood anywhere."""

_LAST_READS: Final = 64
"""How often `drain` reads: more than ever fits into a pipe."""


class FdReader:
    """Reads lines from a descriptor; owns and closes it."""

    def __init__(
        self,
        fd: int,
        limit: int,
        on_lines: Callable[[list[bytes]], None],
        on_oversized: Callable[[bytes, int], None],
        on_end: Callable[[OSError | None], None],
        on_part: Callable[[], None] | None = None,
        *,
        unhurried: bool = False,
    ) -> None:
        """`on_part` is called when more than a chunk of a line is `held`. `unhurried`: nobody waits
        for these lines, so a writer of much waits."""
        self._unhurried = unhurried
        self._resting: asyncio.TimerHandle | None = None
        self._fd = fd
        self._limit = limit
        self._lines = LineSplitter(limit)
        self._due: Iterator[bytes] = iter(())
        """Lines that later turns of the event loop report."""
        self._on_lines = on_lines
        self._on_oversized = on_oversized
        self._on_end = on_end
        self._on_part = on_part
        self._chunk = CHUNK
        self._loop = asyncio.get_running_loop()
        self._paused = False
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self.read)

    @property
    def held(self) -> int:
        """Bytes of a line that is not complete."""
        return self._lines.held

    def read(self) -> bool:
        """Takes one chunk, once no lines are due; False when there was nothing to take (now, or
        ever again)."""
        if self._fd < 0:
            return False
        try:
            data = os.read(self._fd, self._chunk)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            self._end(error)
            return False
        if not data:
            self._end(None)
            return False
        splitter = self._lines
        lines = splitter.feed(data)
        if splitter.oversized:
            self._report_oversized()
        if len(lines) > _MANY and not self._unhurried:
            self._due = iter(lines)
            self._report_due()
        elif lines:
            self._on_lines(lines)
        self._chunk = CHUNK
        if splitter.held >= CHUNK:
            self._long_line()
        if splitter.blank > _BLANK or (self._unhurried and len(data) >= _FLOOD):
            self._rest(_PAUSE)
        return True

    def _report_due(self) -> bool:
        """Reports the lines of this turn of the event loop; False: there are none."""
        lines = [*islice(self._due, _MANY)]
        if lines:
            self._rest(0)
            self._on_lines(lines)
        return bool(lines)

    def _long_line(self) -> None:
        """The end of a long line is to come: takes more at once from now on."""
        keep_large()
        self._chunk = BIG_CHUNK
        if self._on_part is not None and self._lines.held > CHUNK:
            self._on_part()

    def drain(self, then: Callable[[], object], reads: int = _LAST_READS) -> None:
        """Takes the rest, without waiting for more, and then calls `then`. The rest is as much as
        the other side can have written before it ended. Processes that it started may write on for
        ever."""
        if self._report_due():
            self._loop.call_soon(self.drain, then, reads)
        elif reads and self.read():
            self._loop.call_soon(self.drain, then, reads - 1)
        else:
            then()

    def pause(self) -> None:
        """Stops reading."""
        if not self._paused and self._fd >= 0:
            self._paused = True
            if self._resting is None:
                self._loop.remove_reader(self._fd)

    def resume(self) -> None:
        """Reads on."""
        if self._paused and self._fd >= 0:
            self._paused = False
            self._rest(0)  # soon: who says so may be in the middle of something

    def _rest(self, seconds: float) -> None:
        if self._resting is None and self._fd >= 0:
            if not self._paused:
                self._loop.remove_reader(self._fd)
            self._resting = self._loop.call_later(seconds, self._rested)

    def _rested(self) -> None:
        self._resting = None
        if not self._paused and not self._report_due():
            self._loop.add_reader(self._fd, self.read)

    def close(self) -> None:
        """Gives the descriptor back; nothing is reported any more."""
        if self._fd >= 0:
            if self._resting is not None:
                self._resting.cancel()
                self._resting = None
            elif not self._paused:
                self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1
            self._due = iter(())

    def _end(self, error: OSError | None) -> None:
        last = self._lines.end()
        if self._lines.oversized:
            self._report_oversized()
        self.close()
        if last:
            self._on_lines([last])
        self._on_end(error)

    def _report_oversized(self) -> None:
        heads, self._lines.oversized = self._lines.oversized, []
        for head in heads:
            self._on_oversized(head, self._limit)


class FdWriter:
    """Writes to a descriptor; keeps the bytes that do not fit. Owns and closes it."""

    def __init__(
        self,
        fd: int,
        on_drained: Callable[[], None],
        on_broken: Callable[[OSError], None],
        release: Callable[[int], None] = os.close,
    ) -> None:
        """`release` gives the descriptor back (a socket must be shut down first)."""
        self._fd = fd
        self._release = release
        self._queue: deque[memoryview] = deque()
        self.buffered = 0
        self._on_drained = on_drained
        self._on_broken = on_broken
        self._loop = asyncio.get_running_loop()
        self._waiting = False
        self._closing = False
        os.set_blocking(fd, False)

    def write(self, data: bytes) -> None:
        """Sends as much as it can at once and queues the rest."""
        if self._fd < 0 or self._closing:
            return
        if not self._queue:
            try:
                sent = os.write(self._fd, data)
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError as error:
                self._broken(error)
                return
            if sent == len(data):
                return
            self._queue.append(memoryview(data)[sent:])
            self.buffered += len(data) - sent
        else:
            self._queue.append(memoryview(data))
            self.buffered += len(data)
        if not self._waiting:
            self._waiting = True
            self._loop.add_writer(self._fd, self._send)

    def finish(self) -> None:
        """Closes once everything queued has left."""
        self._closing = True
        if not self._queue:
            self.close()

    def close(self) -> None:
        """Closes now; queued bytes are lost."""
        if self._fd >= 0:
            if self._waiting:
                self._loop.remove_writer(self._fd)
                self._waiting = False
            self._release(self._fd)
            self._fd = -1
        self._queue.clear()
        self.buffered = 0

    def _send(self) -> None:
        try:
            sent = os.writev(self._fd, [self._queue[i] for i in range(min(len(self._queue), 64))])
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._broken(error)
            return
        self.buffered -= sent
        while sent:
            head = self._queue[0]
            if len(head) > sent:
                self._queue[0] = head[sent:]
                break
            sent -= len(head)
            self._queue.popleft()
        if not self._queue:
            self._loop.remove_writer(self._fd)
            self._waiting = False
            if self._closing:
                self.close()
        self._on_drained()

    def _broken(self, error: OSError) -> None:
        self.close()
        self._on_broken(error)
