"""The conductor's own standard input and output, as the transport towards the client."""

from __future__ import annotations

import contextlib
import os
import stat
import sys

from conductor.transports.base import Ended, Events, Piped
from conductor.transports.buffers import enlarge_pipe
from conductor.transports.fds import FdReader, FdWriter
from conductor.transports.framing import LINE_LIMIT


class StdioTransport(Piped):
    """Lines on two descriptors of this process, by default 0 and 1."""

    def __init__(self, stdin: int = 0, stdout: int = 1, *, line_limit: int = LINE_LIMIT) -> None:
        super().__init__()
        self._stdin = stdin
        self._stdout = stdout
        self._limit = line_limit

    async def open(self, events: Events) -> None:
        """Takes both descriptors over."""
        self._events = events
        writer = FdWriter(_own(self._stdout, os.O_WRONLY), events.drained, self._broken)
        reader = FdReader(
            _pollable(_own(self._stdin, os.O_RDONLY)),
            self._limit,
            events.received,
            events.oversized,
            self._end,
        )
        self._carry(reader, writer)

    async def close(self, grace: float) -> None:
        """Gives both descriptors back, after queued lines had `grace` seconds to leave."""
        await super().close(grace)
        for fd in (self._stdin, self._stdout):
            with contextlib.suppress(OSError):  # a terminal is our parent's too: leave it as it was
                os.set_blocking(fd, True)

    def _end(self, error: OSError | None) -> None:
        self._has_ended(Ended("closed its end", clean=error is None))

    def _broken(self, error: OSError) -> None:
        self._has_ended(Ended(f"no longer reads ({error.strerror})", data={"broken": True}))


def _own(fd: int, flags: int) -> int:
    """A descriptor whose non-blocking mode is ours alone.

    A pipe inherited from somebody else may be shared with other processes (or with our own
    standard error); opened anew, it gets a file description of its own. Where that is impossible
    (sockets, other systems) a duplicate has to do.
    """
    if sys.platform == "linux" and stat.S_ISFIFO(os.fstat(fd).st_mode):
        try:
            own = os.open(f"/proc/self/fd/{fd}", flags | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return os.dup(fd)
        enlarge_pipe(own)
        return own
    return os.dup(fd)


def _pollable(fd: int) -> int:
    """`fd`; or, for files and `/dev/null`, which no poller takes, a pipe that is fed from `fd`."""
    facts = os.fstat(fd)
    null = stat.S_ISCHR(facts.st_mode) and facts.st_rdev == os.stat(os.devnull).st_rdev
    if not stat.S_ISREG(facts.st_mode) and not null:
        return fd
    import threading

    source, sink = os.pipe()

    def copy() -> None:
        try:
            while data := os.read(fd, 65536):
                view = memoryview(data)
                while view:
                    view = view[os.write(sink, view) :]
        except OSError:
            return  # the reader is gone
        finally:
            os.close(sink)
            os.close(fd)

    threading.Thread(target=copy, name="stdin-file", daemon=True).start()
    return source
