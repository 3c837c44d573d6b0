"""The file of a trace: private, and never a hindrance to the chain.

A thread writes it, so that neither a slow disk nor the reader of a pipe holds up a message.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Final

from conductor.errors import UsageError, hidden_json_line
from conductor.record.turns.line import Line, written
from conductor.run.log import Sink
from conductor.spec.limits import size_in_words
from conductor.spec.private_files import HINT, open_private, reason

FLUSH_BYTES: Final = 64 * 1024
"""The most bytes that are held back before they are written."""

FLUSH_SECONDS: Final = 0.2
"""The longest time that lines are held back."""

_ROOM: Final = 256
"""Bytes of the last line of a trace that is full."""

_PATIENCE: Final = 1.0
"""Seconds that the end of a chain waits for lines that are not written yet."""
_MOST_WAITS: Final = 10
"""The wait is repeated so many times while the writing moves on."""
_PIECE: Final = 256 * 1024
"""Bytes that are written at a time."""


class TraceFile(Sink[Line]):
    """Buffers lines and writes them; a failure is reported once and ends the trace, nothing else.

    Made by `TraceFile.create`. `log` takes level, component and text. `most` is how many bytes the
    file may have, with the line that says that it is full; 0: any number.
    """

    def __init__(
        self, fd: int, path: str, log: Callable[[str, str, str], None], most: int = 0
    ) -> None:
        os.set_blocking(fd, True)  # the thread waits, and nobody else
        self._fd = fd
        self._most = most
        self._taken = 0
        """Bytes of all lines so far."""
        self._path = path
        self._log = log
        self._thread: threading.Thread | None = None
        """Writes; begun with the first line."""
        self._change = threading.Condition()
        # State that both threads use:
        self._held: list[bytes] = []
        """Lines that are not being written yet."""
        self._size = 0
        """Bytes that are not written yet."""
        self._over = False
        """Whether no line comes any more."""
        self._why = ""
        """Why no line can be written any more."""

    @classmethod
    def create(cls, path: str, log: Callable[[str, str, str], None], most: int = 0) -> TraceFile:
        """Opens `path`, empty and for its owner only. Raises `UsageError`."""
        try:
            return cls(open_private(path, os.O_WRONLY | os.O_TRUNC), path, log, most)
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot write the trace `{path}`: {reason(error)}", HINT) from None

    def take(self, item: Line, at: float, mode: str) -> None:
        """See `Sink`."""
        self.put(written(item))

    def put(self, line: bytes) -> None:
        """Takes a line."""
        if self._why:
            self._fail()
        if self.failed:
            return
        line = hidden_json_line(line)
        if self._most and self._taken + len(line) + _ROOM > self._most:
            self._is_full()
        else:
            self._hold(line)

    def _hold(self, line: bytes, *, last: bool = False) -> None:
        self._taken += len(line)
        with self._change:
            self._held.append(line)
            self._size += len(line)
            self._over = last
            if last or len(self._held) == 1 or self._size >= FLUSH_BYTES:
                self._change.notify()
        self._start()

    def _is_full(self) -> None:
        """The file is full: its last line says so, and so does the log."""
        self._end(b'{"type":"_conductor","full":%d}\n' % self._most)
        text = f"the trace `{self._path}` is full ({size_in_words(self._most)})"
        hint = "`trace-size` takes another size, or `none`"
        self._log("warning", "trace", f"{text}, nothing more is written to it\nhint: {hint}")

    def _end(self, last: bytes) -> None:
        """Holds a last line, and takes nothing more."""
        self._hold(last, last=True)
        self.failed = True

    def close(self) -> None:
        """Writes the lines that are held, if the reader takes them, and closes the file."""
        with self._change:
            self._over = True
            self._change.notify()
        self._start()
        if self._thread is not None and not self._is_written(self._thread):
            self._why = self._why or "the disk or the reader does not keep up"
        if self._why:
            self._fail()
        self.failed = True

    def _is_written(self, thread: threading.Thread) -> bool:
        """Waits for the thread as long as the thread gets on; whether the thread has ended."""
        for _ in range(_MOST_WAITS):
            left = self._size
            thread.join(_PATIENCE)
            if left in (0, self._size):
                break
        return not thread.is_alive()

    @property
    def behind(self) -> int:
        """See `Sink`."""
        return 0 if self.failed else self._size

    def drop(self) -> str:
        """See `Sink`. Lines that are held still wait for the reader."""
        why = b"the reader did not keep up: the rest is missing"
        self._end(b'{"type":"_conductor","gap":"%b"}\n' % why)
        return f"the trace `{self._path}`"

    def _fail(self) -> None:
        if not self.failed:
            self.failed = True
            text = f"the trace `{self._path}` is incomplete, nothing more is written to it"
            hint = "hint: make room, or trace to another file"
            self._log("error", "trace", f"{text}: {self._why}\n{hint}")

    # -- the thread ----------------------------------------------------------------------------

    def _start(self) -> None:
        """Begins the thread, unless it has begun or cannot."""
        if self._thread is not None or self._why:
            return
        thread = threading.Thread(target=self._write, name="trace", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the process may have no more threads
            self._why = str(error)
            os.close(self._fd)
        else:
            self._thread = thread

    def _write(self) -> None:
        try:
            while lines := self._next():
                data = memoryview(b"".join(lines))
                while data:
                    count = os.write(self._fd, data[:_PIECE])
                    data = data[count:]
                    with self._change:
                        self._size -= count
        except OSError as error:
            self._why = reason(error)
        os.close(self._fd)

    def _next(self) -> list[bytes]:
        """The lines that are to be written now, once there are enough or they have waited long
        enough; none: no line comes any more."""
        with self._change:
            self._change.wait_for(lambda: self._held or self._over)
            self._change.wait_for(lambda: self._over or self._size >= FLUSH_BYTES, FLUSH_SECONDS)
            lines, self._held = self._held, []
            return lines
