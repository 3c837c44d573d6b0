"""Starts a component for a replay: a guest, locked up in a process of its own, or a program."""

from __future__ import annotations

import contextlib
import functools
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from conductor.author.transcripts import playing
from conductor.author.transcripts.line_program import LineProgram
from conductor.errors import ComponentError, UsageError
from conductor.record.replay.player import Target
from conductor.run.report_lines import text_lines
from conductor.spec.catalog import Spec


@contextmanager
def targets(spec: Spec, timeout: float) -> Iterator[Callable[[], Target]]:
    """Makes instances of a component, and ends them; `timeout`: seconds a program may be silent.

    Raises `UsageError` for one that cannot be run alone, `ComponentError` for one that cannot be
    loaded.
    """
    made: list[Guest | Program] = []
    with contextlib.ExitStack() as ending:
        make = _maker(spec, timeout, ending)

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


def _maker(
    spec: Spec, timeout: float, ending: contextlib.ExitStack
) -> Callable[[], Guest | Program]:
    """Makes instances, until `ending`."""
    if spec.command is not None:
        return functools.partial(Program, spec.command, spec, timeout)
    if not spec.sandboxed:
        raise UsageError(
            f"{spec.label('component')} runs inside of conductor, so it cannot be replayed",
            "run it as a program",
        )
    load = ending.enter_context(playing.guests(spec))
    return lambda: Guest(load(), spec)


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
        self._ended = False
        self.sided = spec.dialect == "channel"
        try:
            self._program = LineProgram(command, spec.env)
        except OSError as error:
            why = error.strerror or str(error)
            label = spec.label("component")
            raise ComponentError(f"{label} cannot be started: {why}", "check its command") from None

    @property
    def silence(self) -> str:
        """Why nothing came."""
        if self._ended:
            return f"it has ended with exit code {self._program.exit_code()}"
        return f"nothing came for {self._timeout:g} s"

    def send(self, lines: bytes) -> None:
        """Gives it lines; that it is gone is seen by what does not come."""
        self._program.send(lines)

    def next(self) -> str | None:
        """The next line, as soon as it comes."""
        while not self._ended:
            line = self._program.next(self._timeout)
            if line is None:
                return None
            if not line:
                self._ended = True
            elif not line.isspace():
                return line.removesuffix(b"\n").decode("utf-8", "backslashreplace")
        return None

    def finish(self) -> None:
        """Ends its input."""
        self._program.finish()

    def close(self) -> None:
        """Ends it, by force if it takes more than the end of its input."""
        self._program.close(2.0)
