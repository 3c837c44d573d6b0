"""A component under test: a caged guest or a program, which takes lines and returns lines.

`check` and `test` try components by it, without a conductor between.
"""

from __future__ import annotations

import functools
import os
import select
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
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

_PIECE: Final = 64 * 1024
_MIB: Final = 1024 * 1024
_MOST: Final = 16 * _MIB
"""Bytes that a program may return for one delivery: no transcript is longer."""


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
        patience: seconds a program may take for one delivery.

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
    """A program, on its standard input and output.

    It may do anything: read nothing, write without end, close its output and go on, or leave its
    output to a process of its own. So each wait has an end, and its lines have a bound.
    """

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
                bufsize=0,
            )
        except OSError as error:
            why = error.strerror or str(error)
            raise ComponentError(
                f"{self._label} cannot be started: {why}", "check its command"
            ) from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        os.set_blocking(self._input.fileno(), False)
        self._given = memoryview(b"")
        """The rest of the lines that it has not read yet."""
        self._held = bytearray()
        """Its bytes that nobody has taken yet."""

    def exchange(self, lines: bytes) -> bytes:
        """Delivers lines of the channel.

        The delivery is over when the program answers a request that only this method makes: a
        program answers in order, and a request it does not know with an error.
        """
        self._barriers += 1
        barrier = f"conductor-test:{self._barriers}"
        request = {"jsonrpc": "2.0", "id": barrier, "method": "_conductor-test/barrier"}
        self._given = memoryview(lines + b"c" + json_text.encode(request) + b"\n")
        until = time.monotonic() + self._patience
        returned: list[bytes] = []
        size = 0
        while not _answers(line := self._line(until), barrier):
            returned.append(line)
            size += len(line)
            if size > _MOST:
                raise self._too_much()
        return b"".join(returned)

    def _line(self, until: float) -> bytes:
        searched = 0
        while (end := self._held.find(b"\n", searched)) < 0:
            searched = len(self._held)
            if searched > _MOST:
                raise self._too_much()
            if not self._move(until):
                raise self._ended()
        line = bytes(self._held[: end + 1])
        del self._held[: end + 1]
        return line

    def _move(self, until: float) -> bool:
        """Waits until the program reads or writes, and moves some bytes; False at the end of its
        output. Raises `ComponentError` where it does neither in time."""
        poll = select.poll()
        poll.register(self._output, select.POLLIN)
        if self._given:
            poll.register(self._input, select.POLLOUT)
        left = until - time.monotonic()
        ready = dict(poll.poll(left * 1000)) if left > 0 else {}
        if not ready:
            raise ComponentError(
                f"{self._label} does not answer a request on `c` that it does not know",
                "answer with error -32601 (docs/architecture.md#the-channel)",
            )
        if self._given and self._input.fileno() in ready:
            try:
                self._given = self._given[os.write(self._input.fileno(), self._given[:_PIECE]) :]
            except OSError:  # it reads no more; its output says whether it has ended
                self._given = memoryview(b"")
        if self._output.fileno() not in ready:
            return True
        data = os.read(self._output.fileno(), _PIECE)
        self._held += data
        return bool(data)

    def _too_much(self) -> ComponentError:
        text = f"{self._label} returns more than {_MOST // _MIB} MiB for one delivery"
        return ComponentError(text, "see whether it writes in a circle")

    def _ended(self) -> ComponentError:
        try:
            code = self._process.wait(self._patience)
        except subprocess.TimeoutExpired:
            text = f"{self._label} has closed its standard output, and goes on"
            return ComponentError(text, "keep it open until standard input ends")
        return ComponentError(f"{self._label} has ended with exit code {code}", "run it by itself")

    def close(self) -> None:
        """Ends the program, by force if the end of its input is not enough."""
        if self._output.closed:
            return
        unread = bool(self._given)
        self._given = memoryview(b"")
        self._input.close()
        # As long as for a delivery: a program that writes files at its end must not be
        # killed halfway on a loaded machine.
        until = time.monotonic() + (0.0 if unread else self._patience)
        try:
            while self._move(until):
                self._held.clear()  # a full pipe would keep it from ending
            self._process.wait(max(0.0, until - time.monotonic()))
        except (ComponentError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._output.close()


def _answers(line: bytes, barrier: str) -> bool:
    # The search for the id comes first: it spares every other line from being decoded.
    if not line.startswith(b"c") or barrier.encode() not in line:
        return False
    try:
        answer = json_text.decode(line[1:])
    except msgspec.DecodeError:
        return False
    return isinstance(answer, dict) and answer.get("id") == barrier and "method" not in answer
