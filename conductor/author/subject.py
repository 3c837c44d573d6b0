"""A component under test: a caged guest or a program, which takes lines and returns lines.

`check` and `test` try components by it, without a conductor between.
"""

from __future__ import annotations

import functools
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from queue import Empty, SimpleQueue
from typing import Final, Protocol

import msgspec

import wasm_host
from conductor.author.caged import CagedGuests
from conductor.author.channel_adapter import ChannelAdapter
from conductor.core import json_text
from conductor.errors import ComponentError, UsageError
from conductor.run.segment_spec import GuestSpec, guest_spec
from conductor.spec import managed, trust
from conductor.spec.model import Spec
from conductor.spec.paths import compiled_modules
from conductor.spec.settings import environment

PATIENCE: Final = 60.0
"""Seconds a program may take for one delivery, and to end after its input has ended."""


class Subject(Protocol):
    """A running component."""

    def exchange(self, lines: bytes) -> bytes:
        """Delivers lines of the channel; all lines it returns. Raises `ComponentError`."""

    def close(self) -> None:
        """Ends it; may be called again."""


@contextmanager
def subjects(
    spec: Spec, *, guests: CagedGuests | None = None, patience: float = PATIENCE
) -> Iterator[Callable[[], Subject]]:
    """Makes instances of a component; each is closed by the caller.

    Args:
        guests: hosts the instances of a sandboxed component; by default hosts of their own, which
            end with the context.
        patience: seconds a program may be silent.

    Raises:
        UsageError: it runs inside of conductor, or the managed policy forbids it.
        ComponentError: it cannot be loaded or started; the yielded function raises this error too.
    """
    spec = managed.tried(spec)
    if spec.command is not None:
        trust.check_program(spec)
        yield functools.partial(ProgramSubject, spec.command, spec, patience)
        return
    if not spec.sandboxed:
        raise UsageError(
            f"{spec.label('component')} runs inside of conductor, so it cannot be run alone",
            "run it as a program",
        )
    module = guest_spec(spec, b"null", policed=False)
    with nullcontext(guests) if guests is not None else CagedGuests(compiled_modules()) as hosts:
        try:
            hosts.carrier(module)  # loads it now, before the caller begins
        except wasm_host.GuestError as error:
            raise ComponentError(f"{module.label}: {error}", error.hint) from None
        yield lambda: GuestSubject(hosts, module, spec)


class GuestSubject:
    """An instance of a sandboxed component."""

    def __init__(self, guests: CagedGuests, module: GuestSpec, spec: Spec) -> None:
        with _failures():
            self._guest = guests.instantiate(module, spec.name)
            # Lines it returns at its start count as an answer to the first delivery.
            self._first = self._guest.start(b"")
        is_command = self._guest.carrier == "wasi"
        self._adapter = None
        if is_command and spec.dialect == "acp":
            self._adapter = ChannelAdapter(self._deliver)

    def exchange(self, lines: bytes) -> bytes:
        """Delivers lines of the channel; a line beyond its limits is an error here."""
        return self._deliver(lines) if self._adapter is None else self._adapter.exchange(lines)

    def _deliver(self, lines: bytes) -> bytes:
        first, self._first = self._first, b""
        with _failures():
            return first + self._guest.deliver(lines)

    def close(self) -> None:
        """Ends the instance."""
        self._guest.close()


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except wasm_host.GuestError as error:
        raise ComponentError(str(error), error.hint or "correct its source") from None


class ProgramSubject:
    """A program, on its standard input and output."""

    def __init__(self, command: list[str], spec: Spec, patience: float) -> None:
        self._label = spec.label("component")
        self._patience = patience
        self._barriers = 0
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment(spec),
            )
        except OSError as error:
            why = error.strerror or str(error)
            raise ComponentError(
                f"{self._label} cannot be started: {why}", "check its command"
            ) from None
        self._lines: SimpleQueue[bytes] = SimpleQueue()
        # A thread, since a pipe cannot be read line by line with a deadline.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def exchange(self, lines: bytes) -> bytes:
        """Delivers lines of the channel.

        The delivery is over when the program answers a request that only this method makes: a
        program answers in order, and a request it does not know with an error.
        """
        self._barriers += 1
        barrier = f"conductor-test:{self._barriers}"
        request = {"jsonrpc": "2.0", "id": barrier, "method": "_conductor-test/barrier"}
        if not self._write(lines + b"c" + json_text.encode(request) + b"\n"):
            raise ComponentError(f"{self._label} has ended", "run it by itself")
        returned: list[bytes] = []
        while not _answers(line := self._line(), barrier):
            returned.append(line)
        return b"".join(returned)

    def _line(self) -> bytes:
        try:
            line = self._lines.get(timeout=self._patience)
        except Empty:
            raise ComponentError(
                f"{self._label} does not answer a request on `c` that it does not know",
                "answer with error -32601 (docs/architecture.md#the-channel)",
            ) from None
        if not line:
            code = self._process.wait()
            raise ComponentError(f"{self._label} has ended with exit code {code}", "")
        return line

    def close(self) -> None:
        """Ends the program, by force if the end of its input is not enough."""
        try:
            # As long as for a delivery: a program that writes files at its end must not be
            # killed halfway on a loaded machine.
            self._process.wait(self._patience if self._end_input() else 0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _write(self, data: bytes) -> bool:
        """Writes whole lines; False if the program is gone."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(data)
            self._process.stdin.flush()
        except OSError:
            return False
        return True

    def _end_input(self) -> bool:
        """Ends its input; False if the program is gone and has not read all of it."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except OSError:
            return False
        return True

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(b"")


def _answers(line: bytes, barrier: str) -> bool:
    # The search for the id comes first: it spares every other line from being decoded.
    if not line.startswith(b"c") or barrier.encode() not in line:
        return False
    try:
        answer = json_text.decode(line[1:])
    except msgspec.DecodeError:
        return False
    return isinstance(answer, dict) and answer.get("id") == barrier and "method" not in answer
