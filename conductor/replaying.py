"""Starts a component for a replay: a guest in this process, or a program."""

from __future__ import annotations

import os
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue

from conductor import playing
from conductor.catalog import Spec
from conductor.delivery_report import text_lines
from conductor.errors import ComponentError, UsageError
from conductor.replay import Target


@contextmanager
def targets(spec: Spec, timeout: float) -> Iterator[Callable[[], Target]]:
    """Makes instances of a component, and ends them; `timeout`: seconds a program may be silent.

    Raises `UsageError` for one that cannot be run alone, `ComponentError` for one that cannot be
    loaded.
    """
    made: list[Guest | Program] = []
    if spec.sandboxed:
        load = playing.loader(spec)

        def make() -> Guest | Program:
            return Guest(load(), spec)
    elif spec.command is not None:
        command = spec.command

        def make() -> Guest | Program:
            return Program(command, spec, timeout)
    else:
        raise UsageError(
            f"{spec.label('component')} runs inside of conductor, so it cannot be replayed",
            "run it as a program",
        )

    def again() -> Target:
        while made:
            made.pop().close()
        made.append(make())
        return made[-1]

    try:
        yield again
    finally:
        for one in made:
            one.close()


class Guest:
    """A guest."""

    waits = False
    silence = ""

    def __init__(self, guest: playing.Guest, spec: Spec) -> None:
        self._guest = guest
        self.sided = guest.carrier != "wasi" or spec.dialect == "channel"
        self._said: deque[str] = deque()

    def send(self, lines: bytes) -> None:
        """One delivery."""
        self._said += text_lines(self._guest.deliver_as_in_a_chain(lines))

    def next(self) -> str | None:
        """What came of it."""
        return self._said.popleft() if self._said else None

    def finish(self) -> None:
        """A guest says nothing unasked."""

    def close(self) -> None:
        """Frees it."""
        self._guest.close()


class Program:
    """A program, on its standard input and output."""

    waits = True

    def __init__(self, command: list[str], spec: Spec, timeout: float) -> None:
        self._timeout = timeout
        self._lines: SimpleQueue[bytes] = SimpleQueue()
        self._ended = False
        self.sided = spec.dialect == "channel"
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=spec.env or {**os.environ},
            )
        except OSError as error:
            why = error.strerror or str(error)
            label = spec.label("component")
            raise ComponentError(f"{label} cannot be started: {why}", "check its command") from None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def silence(self) -> str:
        """Why nothing came."""
        if self._ended:
            return f"it has ended with exit code {self._process.wait()}"
        return f"nothing came for {self._timeout:g} s"

    def send(self, lines: bytes) -> None:
        """Gives it lines; that it is gone is seen by what does not come."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(lines)
            self._process.stdin.flush()
        except OSError:
            return

    def next(self) -> str | None:
        """The next line, as soon as it comes."""
        if self._ended:
            return None
        try:
            line = self._lines.get(timeout=self._timeout)
        except Empty:
            return None
        if not line:
            self._ended = True
            return None
        return line.removesuffix(b"\n").decode("utf-8", "backslashreplace")

    def finish(self) -> None:
        """Ends its input."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except OSError:  # it is gone, and did not read all
            return

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.isspace():
                self._lines.put(line)
        self._lines.put(b"")

    def close(self) -> None:
        """Ends it, by force if it takes more than the end of its input."""
        self.finish()
        try:
            self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
