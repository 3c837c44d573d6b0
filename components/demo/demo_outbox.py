"""Standard output: one first-in-first-out queue of whole lines, and the frame log.

The reader thread must never block on a client that does not read, or it would miss the very
cancel that ends the flood. So a small write goes out at once when the pipe certainly takes it,
and everything else is handed to one writer thread, started when first needed.
"""

import os
import select
import threading

from demo_json import dumps, loads

_AT_ONCE = 4096
"""Bytes a pipe that polls writable takes without blocking (PIPE_BUF on Linux; 512 is POSIX's
minimum, and every system this runs on has more room once it reports writable)."""

_HIGH_WATER = 1 << 20
"""Bytes queued above which a patient sender waits."""


class FrameLog:
    """Appends ``{"dir":"in"|"out","frame":…}`` lines to a file; a line that is not JSON is
    logged as ``{"dir":…,"text":"…"}``. Frames stand in it exactly as they were on the wire."""

    def __init__(self, path: str) -> None:
        """Open ``path`` for appending. Raises OSError."""
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def lines(self, direction: str, data: bytes) -> None:
        """Log every line in ``data``."""
        entries = [_entry(direction, line) for line in data.split(b"\n") if line.strip()]
        os.write(self._fd, b"".join(entries))


def _entry(direction: str, line: bytes) -> bytes:
    try:
        text = line.decode()
        loads(text)
    except ValueError:
        shown = dumps(line.decode("utf-8", "replace"))
        return f'{{"dir":"{direction}","text":{shown}}}\n'.encode()
    return b'{"dir":"%s","frame":%s}\n' % (direction.encode(), line.strip())


class Outbox:
    """Writes to one file descriptor from many threads, in the order of the calls to send."""

    def __init__(self, fd: int, log: FrameLog | None) -> None:
        """Write to ``fd``, logging to ``log`` when there is one."""
        self._fd = fd
        self._log = log
        self._queue: list[bytes] = []
        self._queued = 0
        self._changed = threading.Condition()
        self._writer: threading.Thread | None = None
        self._poll = None
        if hasattr(select, "poll"):
            self._poll = select.poll()
            self._poll.register(fd, select.POLLOUT)

    def send(self, data: bytes, patient: bool = False) -> None:
        """Send whole lines. Never blocks unless ``patient``: then it waits while more than a
        mebibyte is queued, which is how a flood meets the client's backpressure."""
        with self._changed:
            if self._log:
                self._log.lines("out", data)
            if not self._queued and len(data) <= _AT_ONCE and self._writable():
                _write(self._fd, data)
                return
            self._queue.append(data)
            self._queued += len(data)
            if self._writer is None:
                self._writer = threading.Thread(target=self._run, daemon=True)
                self._writer.start()
            self._changed.notify_all()
            while patient and self._queued > _HIGH_WATER:
                self._changed.wait()

    def drain(self) -> None:
        """Wait until everything sent so far is written."""
        with self._changed:
            while self._queued:
                self._changed.wait()

    def _writable(self) -> bool:
        return self._poll is not None and bool(self._poll.poll(0))

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue:
                    self._changed.wait()
                data = self._queue[0] if len(self._queue) == 1 else b"".join(self._queue)
                self._queue.clear()
            _write(self._fd, data)
            with self._changed:
                self._queued -= len(data)
                self._changed.notify_all()


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:  # somebody made the shared description non-blocking
            select.select([], [fd], [])
        except (BrokenPipeError, ConnectionError):
            os._exit(0)  # the client is gone: there is nobody left to tell
