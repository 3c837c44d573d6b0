"""Where the lines of a trace are while it is read: in its file, or in memory."""

from __future__ import annotations

import contextlib
import os
import threading
from array import array
from collections import deque
from io import BufferedReader
from typing import Final, Protocol

from conductor.errors import UsageError
from conductor.spec import untrusted_files

MOST_LINE: Final = 256 * 1024 * 1024
"""The most bytes of a line. A longer line is no line of a trace."""
_READ: Final = 128 * 1024
"""Bytes that are read at a time."""
_FIRST: Final = 1024
"""Bytes at its beginning by which a file is known: the first line has the time of its chain."""
MOST_HELD: Final = 256 * 1024 * 1024
"""Bytes of lines that are held in memory."""


class Lines(Protocol):
    """The lines of a trace that were read, by their number, from 0."""

    def line(self, number: int) -> bytes:
        """A line that was read before; empty if it is not there any more."""


class FileLines:
    """The lines of a file: it keeps the place of each, and reads a line again when somebody asks.

    `next` goes on where it stopped, so that a file may grow meanwhile. A last line without
    an end is not taken until it has one.
    """

    def __init__(self, path: str) -> None:
        """Raises `UsageError` for a file that cannot be read."""
        self.path = path
        try:
            self._file = BufferedReader(untrusted_files.ordinary(path).detach(), _READ)
        except OSError as error:
            raise unreadable(path, error) from None
        self._fd = self._file.fileno()
        self._starts = array("q")
        self._end = 0
        self._first = b""
        self.cut = False
        """Whether the last line has no end so far."""

    def __len__(self) -> int:
        return len(self._starts)

    def next(self) -> bytes | None:
        """The next line; None: there is none so far. Raises `UsageError`."""
        try:
            line = self._file.readline(MOST_LINE)
        except OSError as error:
            raise unreadable(self.path, error) from None
        if not line:
            self.cut = False
            return None
        if line[-1:] != b"\n":
            if len(line) == MOST_LINE:
                why = f"it has a line of more than {MOST_LINE >> 20} MiB"
                raise UsageError(f"`{self.path}` is no trace: {why}", "check the path")
            self.cut = True
            self._file.seek(self._end)
            return None
        self._first = self._first or line[:_FIRST]
        self._starts.append(self._end)
        self._end += len(line)
        return line

    @property
    def read(self) -> int:
        """Bytes of the file that were read."""
        return self._end

    def is_of(self, path: str) -> bool:
        """Whether the file at a path is this file, with all that was read of it. A file that was
        emptied and written anew is another. Raises `OSError`."""
        found, held = os.stat(path), os.fstat(self._fd)
        is_same = os.path.samestat(found, held) and found.st_size >= self._end
        return is_same and os.pread(self._fd, len(self._first), 0) == self._first

    def line(self, number: int) -> bytes:
        """See `Lines`."""
        if not 0 <= number < len(self._starts):
            return b""
        behind = self._starts[number + 1] if number + 1 < len(self._starts) else self._end
        try:
            # Without a position of its own: several threads may read at a time.
            return os.pread(self._fd, behind - self._starts[number], self._starts[number])
        except OSError:
            return b""

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, OSError):
            self.close()

    def close(self) -> None:
        """Closes the file; it is closed by itself once nobody has it any more."""
        self._file.close()


class HeldLines:
    """Lines in memory, of a chain that runs. Beyond `most` bytes it forgets the oldest lines."""

    def __init__(self, most: int = MOST_HELD) -> None:
        self._most = most
        self._held: deque[bytes] = deque()
        self._change = threading.Lock()
        self._size = 0
        self.forgotten = 0
        """Number of lines that are not there any more."""

    def __len__(self) -> int:
        return self.forgotten + len(self._held)

    def append(self, line: bytes) -> None:
        """Takes a line."""
        with self._change:
            self._held.append(line)
            self._size += len(line)
            while self._size > self._most and len(self._held) > 1:
                self._size -= len(self._held.popleft())
                self.forgotten += 1

    def line(self, number: int) -> bytes:
        """See `Lines`."""
        with self._change:
            place = number - self.forgotten
            return self._held[place] if 0 <= place < len(self._held) else b""


def unreadable(path: str, error: OSError) -> UsageError:
    """The error for a file of a trace that cannot be read."""
    why = error.strerror or str(error)
    return UsageError(f"cannot read the trace `{path}`: {why}", "check the path")
