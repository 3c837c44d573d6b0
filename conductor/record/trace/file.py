"""The file of a trace: private, written in large pieces, and never a hindrance to the chain."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Callable
from typing import Final

from conductor.errors import UsageError, hidden_json_line
from conductor.record.turns.line import Line, written
from conductor.run.log import Sink
from conductor.spec.limits import size_in_words
from conductor.spec.private_files import HINT, open_private, reason

FLUSH_BYTES: Final = 64 * 1024
"""Bytes that are held back at most …"""

FLUSH_SECONDS: Final = 0.2
"""… and for how long."""

_ROOM: Final = 256
"""Bytes of the last line of a trace that is full, and of what stands around records."""

_BEHIND: Final = 0.01
"""Seconds until a reader (of a pipe) that is behind is tried again."""
_PIECE: Final = 1024 * 1024
"""Bytes that are put together at a time."""

Later = Callable[[float, Callable[[], None]], object]
"""Calls a function after so many seconds."""


class TraceFile(Sink[Line]):
    """Buffers lines and writes them; a failure is reported once and ends the trace, nothing else.

    Made by `TraceFile.create`. `log` takes level, component and text. `most` is how many bytes the
    file may have, with the line that says that it is full; 0: any number.
    """

    def __init__(
        self,
        fd: int,
        path: str,
        log: Callable[[str, str, str], None],
        later: Later | None = None,
        most: int = 0,
    ) -> None:
        self._fd = fd
        self._most = most
        self._taken = 0
        """Bytes of all lines so far."""
        self._path = path
        self._log = log
        self._later = later or _on_the_loop
        self._held: deque[bytes] = deque()
        """Lines that are not written yet, behind what is left of a piece …"""
        self._piece = memoryview(b"")
        self._size = 0
        """… and their bytes."""
        self._scheduled = False
        """Whether `_on_time` will be called."""
        self._records: list[bytes] = []
        self._records_size = 0

    @classmethod
    def create(cls, path: str, log: Callable[[str, str, str], None], most: int = 0) -> TraceFile:
        """Opens `path`, empty and for its owner only. Raises `UsageError`."""
        try:
            return cls(open_private(path, os.O_WRONLY | os.O_TRUNC), path, log, most=most)
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot write the trace `{path}`: {reason(error)}", HINT) from None

    def take(self, item: Line, at: float, mode: str) -> None:
        """See `Sink`."""
        if item.ended is not None:
            self._write_records()  # it is the last line
        self.put(written(item))

    def put(self, line: bytes) -> None:
        """Takes a line."""
        if self.failed:
            return
        line = hidden_json_line(line)
        if self._most and self._taken + len(line) + self._records_size + _ROOM > self._most:
            self._is_full()
            return
        self._hold(line)
        if self._size >= FLUSH_BYTES:
            self.flush()
        if self._size:
            self._schedule()

    def _hold(self, line: bytes) -> None:
        self._held.append(line)
        self._size += len(line)
        self._taken += len(line)

    def _is_full(self) -> None:
        """The file is full: its last line says so, and so does the log."""
        self._end(b'{"type":"_conductor","full":%d}\n' % self._most)
        text = f"the trace `{self._path}` is full ({size_in_words(self._most)})"
        hint = "`trace-size` takes another size, or `none`"
        self._log("warning", "trace", f"{text}, nothing more is written to it\nhint: {hint}")

    def _end(self, last: bytes) -> None:
        """It takes nothing more, and is closed once its reader has all, with a last line."""
        if self._records:
            self._hold(hidden_json_line(self._of_records()))
        self._hold(last)
        self.failed = True
        self._on_time()

    def gather(self, record: bytes) -> None:
        """Takes a record (JSON): those of a moment share a line of type `_conductor`."""
        if self.failed:
            return
        self._records.append(record)
        self._records_size += len(record) + 1
        if self._records_size >= FLUSH_BYTES:
            self._write_records()
        else:
            self._schedule()

    def _schedule(self, after: float = FLUSH_SECONDS) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._later(after, self._on_time)

    def _write_records(self) -> None:
        if self._records:
            self.put(self._of_records())

    def _of_records(self) -> bytes:
        """The line of the records that wait, which then wait no more."""
        records, self._records, self._records_size = self._records, [], 0
        return b'{"type":"_conductor","records":[' + b",".join(records) + b"]}\n"

    def flush(self) -> None:
        """Writes what is held, as far as its reader takes it."""
        try:
            with contextlib.suppress(BlockingIOError):
                while self._size and self._fd >= 0:
                    if not self._piece:
                        self._piece = memoryview(self._next())
                    count = os.write(self._fd, self._piece)
                    self._piece, self._size = self._piece[count:], self._size - count
        except OSError as error:
            self._fail(reason(error))

    def _next(self) -> bytes:
        lines = [self._held.popleft()]
        size = len(lines[0])
        while self._held and size < _PIECE:
            lines.append(self._held.popleft())
            size += len(lines[-1])
        return lines[0] if len(lines) == 1 else b"".join(lines)

    def close(self) -> None:
        """Writes what is held and closes the file."""
        self._write_records()
        self.flush()
        if self._size and not self.failed:
            self._fail("its reader does not keep up")
        self._close()

    @property
    def behind(self) -> int:
        """See `Sink`."""
        return 0 if self.failed else self._size

    def drop(self) -> str:
        """See `Sink`. What is held waits on for the reader."""
        why = b"the reader did not keep up: the rest is missing"
        self._end(b'{"type":"_conductor","gap":"%b"}\n' % why)
        return f"the trace `{self._path}`"

    def _close(self) -> None:
        self.failed = True
        self._held.clear()
        self._piece, self._size = memoryview(b""), 0
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _on_time(self) -> None:
        self._scheduled = False
        self._write_records()
        self.flush()
        if self._size:
            self._schedule(_BEHIND)
        elif self.failed:
            self._close()

    def _fail(self, why: str) -> None:
        is_known = self.failed
        self._close()
        if not is_known:
            text = f"the trace `{self._path}` is incomplete, nothing more is written to it: {why}"
            self._log("error", "trace", f"{text}\nhint: make room, or trace to another file")


def _on_the_loop(delay: float, work: Callable[[], None]) -> object:
    return asyncio.get_running_loop().call_later(delay, work)
