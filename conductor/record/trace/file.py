"""The file of a trace: private, written in large pieces, and never a hindrance to the chain."""

from __future__ import annotations

import asyncio
import os
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

_MOST_HELD: Final = 32 * 1024 * 1024
"""Bytes that wait for a reader (of a pipe) that does not keep up, before the trace is given up."""

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
        self._held: list[bytes] = []
        """Lines that are not written yet …"""
        self._size = 0
        """… and their bytes."""
        self._scheduled = False
        """Whether `_on_time` will be called."""
        self._blocked = False
        """Whether the reader did not take all of the last write."""
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
        self.put(written(item))

    def put(self, line: bytes) -> None:
        """Takes a line."""
        if self.failed:
            return
        line = hidden_json_line(line)
        if self._most and self._taken + len(line) + self._records_size + _ROOM > self._most:
            self._end()
            return
        self._hold(line)
        # A reader that is behind is not tried with every line: it costs a call and a copy.
        if self._size >= (_MOST_HELD if self._blocked else FLUSH_BYTES):
            self.flush()
        else:
            self._schedule()

    def _hold(self, line: bytes) -> None:
        self._held.append(line)
        self._size += len(line)
        self._taken += len(line)

    def _end(self) -> None:
        """The file is full: its last line says so, and so does the log."""
        if self._records:
            self._hold(hidden_json_line(self._of_records()))
        self._hold(b'{"type":"_conductor","full":%d}\n' % self._most)
        self.flush()
        if not self.failed:
            text = f"the trace `{self._path}` is full ({size_in_words(self._most)})"
            self._stop(
                "warning",
                f"{text}, nothing more is written to it\n"
                "hint: --trace-size takes another size, or `none`",
            )

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

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._later(FLUSH_SECONDS, self._on_time)

    def _write_records(self) -> None:
        if self._records:
            self.put(self._of_records())

    def _of_records(self) -> bytes:
        """The line of the records that wait, which then wait no more."""
        records, self._records, self._records_size = self._records, [], 0
        return b'{"type":"_conductor","records":[' + b",".join(records) + b"]}\n"

    def flush(self) -> None:
        """Writes what is held."""
        if self.failed or not self._held:
            return
        left = memoryview(self._held[0] if len(self._held) == 1 else b"".join(self._held))
        self._blocked = False
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except BlockingIOError:
            self._blocked = True
            if len(left) >= _MOST_HELD:
                self._fail("its reader does not keep up")
                return
        except OSError as error:
            self._fail(reason(error))
            return
        self._held = [bytes(left)] if left else []
        self._size = len(left)

    def close(self) -> None:
        """Writes what is held and closes the file."""
        self._write_records()
        self.flush()
        if not self.failed:
            if self._held:
                self._fail("its reader does not keep up")
                return
            self.failed = True
            os.close(self._fd)

    def _on_time(self) -> None:
        self._write_records()
        self._scheduled = False
        self.flush()
        if self._held and not self.failed:
            self._schedule()

    def _fail(self, why: str) -> None:
        text = f"the trace `{self._path}` is incomplete, nothing more is written to it: {why}"
        self._stop("error", f"{text}\nhint: make room, or trace to another file")

    def _stop(self, level: str, text: str) -> None:
        self.failed = True
        self._held.clear()
        os.close(self._fd)
        self._log(level, "trace", text)


def _on_the_loop(delay: float, work: Callable[[], None]) -> object:
    return asyncio.get_running_loop().call_later(delay, work)
