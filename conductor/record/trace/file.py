"""The file of a trace: private, written in large pieces, and never in the way of the chain."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import Callable
from typing import Final

from conductor.errors import UsageError

FLUSH_BYTES: Final = 64 * 1024
"""What is held back at most …"""

FLUSH_SECONDS: Final = 0.2
"""… and for how long."""

_MOST_HELD: Final = 32 * 1024 * 1024
"""What waits for a reader (of a pipe) that does not keep up, before the trace is given up."""

_HINT: Final = "give a path in a folder that exists and that you may write to"

Later = Callable[[float, Callable[[], None]], object]
"""Calls a function after so many seconds."""


class TraceFile:
    """Buffers lines and writes them; a failure is reported once and ends the trace, nothing else.

    Made by `TraceFile.create`. `log` takes level, component and text.
    """

    def __init__(
        self, fd: int, path: str, log: Callable[[str, str, str], None], later: Later | None = None
    ) -> None:
        self._fd = fd
        self._path = path
        self._log = log
        self._later = later or _on_the_loop
        self._held: list[bytes] = []
        self._size = 0
        self._due = False
        self._blocked = False
        self._gathered: list[bytes] = []
        self._gathered_size = 0
        self.failed = False
        """Whether nothing more can be written."""

    @classmethod
    def create(cls, path: str, log: Callable[[str, str, str], None]) -> TraceFile:
        """Opens `path`, empty and for its owner only. Raises `UsageError`."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        # A pipe nobody reads must hold up neither the start nor the chain.
        for name in ("O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY"):
            flags |= getattr(os, name, 0)
        try:
            fd = os.open(path, flags, 0o600)
            if stat.S_ISREG(os.fstat(fd).st_mode) and hasattr(os, "fchmod"):
                with contextlib.suppress(PermissionError):  # another's file, which they let us use
                    os.fchmod(fd, 0o600)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise UsageError(f"cannot write the trace `{path}`: {why}", _HINT) from None
        return cls(fd, path, log)

    def begin(self, line: bytes) -> None:
        """Takes the first line, before there is an event loop; it is written with the next."""
        self._held.append(line)
        self._size += len(line)

    def write(self, line: bytes) -> None:
        """Takes one line."""
        if self.failed:
            return
        self._held.append(line)
        self._size += len(line)
        if self._size >= (_MOST_HELD if self._blocked else FLUSH_BYTES):
            self.flush()
        elif not self._due:
            self._due = True
            self._later(FLUSH_SECONDS, self._when_due)

    def gather(self, record: bytes) -> None:
        """Takes a record (JSON): those of a moment share a line of type `_conductor`."""
        if self.failed:
            return
        self._gathered.append(record)
        self._gathered_size += len(record)
        if self._gathered_size >= FLUSH_BYTES:
            self._write_gathered()
        elif not self._due:
            self._due = True
            self._later(FLUSH_SECONDS, self._when_due)

    def _write_gathered(self) -> None:
        records, self._gathered, self._gathered_size = self._gathered, [], 0
        if records:
            self.write(b'{"type":"_conductor","records":[' + b",".join(records) + b"]}\n")

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
            self._fail(error.strerror or str(error))
            return
        self._held = [bytes(left)] if left else []
        self._size = len(left)

    def close(self) -> None:
        """Writes what is held and closes the file."""
        self._write_gathered()
        self.flush()
        if not self.failed:
            if self._held:
                self._fail("its reader does not keep up")
                return
            self.failed = True
            os.close(self._fd)

    def _when_due(self) -> None:
        self._write_gathered()
        self._due = False
        self.flush()
        if self._held and not self.failed:
            self._due = True
            self._later(FLUSH_SECONDS, self._when_due)

    def _fail(self, why: str) -> None:
        self.failed = True
        self._held.clear()
        os.close(self._fd)
        text = f"the trace `{self._path}` is incomplete, nothing more is written to it: {why}"
        self._log("error", "trace", f"{text}\nhint: make room, or trace to another file")


def _on_the_loop(delay: float, work: Callable[[], None]) -> object:
    return asyncio.get_running_loop().call_later(delay, work)
