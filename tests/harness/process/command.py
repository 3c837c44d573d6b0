"""Runs the real command line as a process, for the tests beside."""

import fcntl
import os
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from tests.harness.process import forks
from tests.places import DEADLINE, ROOT

UNDER_TEST: Final = os.environ.get("CONDUCTOR_UNDER_TEST", "")
"""Another command to test, for example that of an installed wheel."""
COMMAND: Final = tuple(shlex.split(UNDER_TEST)) or (sys.executable, "-m", "conductor")
"""The conductor under test."""

ERROR = re.compile(r"error: \S.*\n\nhint: \S.*\n\Z", re.DOTALL)
"""The end of every error: the fault, a blank line, the remedy."""
_LATE = re.compile(r"^(?:waiting|loading) .*, (?:[5-9]|\d\d+) s …\n", re.MULTILINE)
"""The line about a stage that lasts 5 s: on a busy machine any may."""


def environment(**extra: str) -> dict[str, str]:
    """Our environment without variables that change output; the checkout is importable."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GITHUB_", "FORCE_", "PY_"))}
    return kept | {"PYTHONPATH": str(ROOT), "NO_COLOR": "1", "COLUMNS": "100", **extra}


NO_BYTECODE: Final = {"PYTHONDONTWRITEBYTECODE": "1"}
"""For a process whose files may not grow: Python keeps half a file of bytecode, and all later
processes fail at it."""


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of a command; `err` without the lines about stages that last long."""

    code: int
    out: str
    err: str

    def assert_error(self, code: int, *fragments: str) -> None:
        """Asserts an error in the one form that errors have, with these words, and without a
        traceback."""
        assert "Traceback" not in self.err
        assert ERROR.search(self.err), self.err
        assert self.code == code, self.err
        for fragment in fragments:
            assert fragment in self.err


def conductor(
    *arguments: str,
    stdin: bytes = b"",
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    command: Sequence[str] = COMMAND,
) -> Ran:
    """Runs `conductor ARGUMENTS` to its end; `command` is what runs in place of `conductor`."""
    code, out, err = forks.run([*command, *arguments], stdin, cwd, env or environment())
    return Ran(code, out.decode(), _LATE.sub("", err.decode()))


class Running:
    """`conductor ARGUMENTS` while it runs; what it writes is collected from both streams.

    `terminal`: standard input and error are a new terminal, as for a user who pipes the answer.
    `screen`: so is standard output, with so many columns and lines.
    `env`: variables beside those of `environment`.
    """

    def __init__(
        self,
        *arguments: str,
        terminal: bool = False,
        screen: tuple[int, int] | None = None,
        env: dict[str, str] | None = None,
    ) -> None:
        self._texts: dict[int, bytes] = {}
        slave = -1
        terminal = terminal or screen is not None
        if terminal:
            self._typing, slave = os.openpty()
        if screen is not None:
            columns, lines = screen
            size = struct.pack("HHHH", lines, columns, 0, 0)
            fcntl.ioctl(slave, termios.TIOCSWINSZ, size)
            env = {"TERM": "xterm", **(env or {})}
        streams = (
            slave if terminal else subprocess.DEVNULL,
            subprocess.PIPE if screen is None else slave,
            slave if terminal else subprocess.PIPE,
        )
        whole = environment(**(env or {}))
        self.process = forks.start([*COMMAND, *arguments], whole, streams=streams, leads=True)
        if terminal:
            os.close(slave)
            self.err = self._typing
        else:
            assert self.process.stderr is not None
            self.err = self.process.stderr.fileno()
        self.out = self.err if self.process.stdout is None else self.process.stdout.fileno()
        self._texts = {self.out: b"", self.err: b""}
        self._open = {self.out, self.err}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        if self.process.stderr is None:
            os.close(self.err)

    def text(self, stream: int) -> str:
        """The output of `stream` so far; a terminal's line ends are given as the program wrote
        them."""
        return self._texts[stream].decode(errors="replace").replace("\r\n", "\n")

    def wait_for(self, stream: int, wanted: str) -> None:
        """Reads until `wanted` has appeared; fails at the end of the stream or the deadline."""
        self.wait_until(stream, lambda text: wanted in text, repr(wanted))

    def wait_until(self, stream: int, done: Callable[[str], bool], what: str) -> None:
        """Reads until `done` finds in all of `stream` what it wants; fails as `wait_for` does."""
        deadline = time.monotonic() + DEADLINE
        while not done(self.text(stream)):
            assert stream in self._open, f"never came to {what}: {self._texts}"
            self._read(deadline)

    def close_output(self) -> None:
        """Stops reading its standard output, as a reader that has gone away."""
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._open.discard(self.out)

    def interrupt(self, number: signal.Signals = signal.SIGINT) -> None:
        """Sends a signal to the conductor alone."""
        os.kill(self.process.pid, number)

    def type(self, text: str) -> None:
        """Types on the terminal."""
        os.write(self.err, text.encode())

    def end(self) -> Ran:
        """Reads everything to the end; returns the outcome."""
        deadline = time.monotonic() + DEADLINE
        while self._open:
            self._read(deadline)
        code = self.process.wait(DEADLINE)
        return Ran(code, self.text(self.out), self.text(self.err))

    def _read(self, deadline: float) -> None:
        ready, _, _ = select.select(list(self._open), [], [], max(0, deadline - time.monotonic()))
        assert ready, f"nothing more came: {self._texts}"
        for stream in ready:
            try:
                data = os.read(stream, 65536)
            except OSError:  # how a terminal says that nobody holds its other end any more
                data = b""
            if not data:
                self._open.discard(stream)
            self._texts[stream] += data
