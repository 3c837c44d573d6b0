"""The conductor as a process: one thread, one poll, nothing read behind the harness's back."""

import os
import select
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

_CHUNK = 1 << 20
_KEPT_ERRORS = 1 << 16


class Wire:
    """The pipes of one conductor. `turn` moves bytes both ways and hands out whole lines."""

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        on_line: Callable[[bytes], None],
    ) -> None:
        """Starts the command in a process group of its own."""
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            bufsize=0,
            start_new_session=True,
        )
        self.errors = bytearray()
        """The end of its standard error."""
        self.deaf_until = 0.0
        """Monotonic time up to which nothing of its output is read."""
        self.lines = 0
        """The number of lines sent and received."""
        self.sent: list[bytes] = []
        self.got: list[bytes] = []
        """The lines themselves, where `keeps`."""
        self.keeps = False
        self._on_line = on_line
        pipes = (self.process.stdin, self.process.stdout, self.process.stderr)
        self._in, self._out, self._err = (pipe.fileno() if pipe else -1 for pipe in pipes)
        os.set_blocking(self._in, False)
        self._unsent = bytearray()
        self._rest: list[bytes] = []

    @property
    def ended(self) -> bool:
        """Whether nothing more can come."""
        return self._out < 0 and self._err < 0

    def send(self, frame: Mapping[str, Any]) -> None:
        """Queues one frame; as much as possible leaves with the next `turn`."""
        line = msgspec.json.encode(frame)
        self._unsent += line + b"\n"
        self.lines += 1
        if self.keeps:
            self.sent.append(line)

    def turn(self, timeout: float) -> None:
        """Waits at most so many seconds for anything to move, and moves it."""
        poll = select.poll()
        if self._unsent and self._in >= 0:
            poll.register(self._in, select.POLLOUT)
        if self._out >= 0 and time.monotonic() >= self.deaf_until:
            poll.register(self._out, select.POLLIN)
        if self._err >= 0:
            poll.register(self._err, select.POLLIN)
        for fd, _ in poll.poll(max(0.0, timeout) * 1000):
            if fd == self._in:
                self._write()
            elif fd == self._out:
                self._read()
            else:
                self._read_errors()

    def finish(self) -> None:
        """Closes its input."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self._in = -1
        self._unsent.clear()

    def close(self) -> None:
        """Ends it, whatever state it is in, and gives the pipes back."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()

    @property
    def stderr(self) -> str:
        """The end of its standard error."""
        return self.errors.decode(errors="replace")

    def _write(self) -> None:
        try:
            del self._unsent[: os.write(self._in, self._unsent)]
        except BrokenPipeError:  # it has ended; that is noticed by its output
            self.finish()

    def _read(self) -> None:
        data = os.read(self._out, _CHUNK)
        if not data:
            self._out = -1
            return
        first, newline, others = data.partition(b"\n")
        self._rest.append(first)
        if not newline:
            return
        *lines, last = others.split(b"\n")
        head = b"".join(self._rest)
        self._rest = [last] if last else []
        for line in (head, *lines):
            self.lines += 1
            if self.keeps:
                self.got.append(line)
            self._on_line(line)

    def _read_errors(self) -> None:
        data = os.read(self._err, _CHUNK)
        if not data:
            self._err = -1
        self.errors += data
        del self.errors[:-_KEPT_ERRORS]
