"""Carrier 3: a WASI command, an ordinary program that reads lines and writes lines.

`_start` is one call that lasts as long as the program, so it runs on a thread of its own. It parks
there, inside its read of standard input, whenever it has consumed its input.
Exactly one of the two threads runs at any time: they pass a baton, made of two locks. `WasiGuest`
is the host's side of it, `_Program` has the functions that the program calls on its own thread.
"""

from __future__ import annotations

import enum
import threading
import time
from typing import TYPE_CHECKING, Any

from wasm_host import capi
from wasm_host.calls import Ended
from wasm_host.carriers.abi import check_inbox, check_outbox, exceeded
from wasm_host.carriers.guest import BaseGuest
from wasm_host.errors import GuestError
from wasm_host.wasi.preview1 import Wasi

if TYPE_CHECKING:
    from collections.abc import Callable

    from wasm_host.limits import Limits


CLOSING_SECONDS = 0.1
"""Seconds a program may go on after the end of its input."""


class _State(enum.Enum):
    """The state of a program's thread: decides which thread frees the store."""

    ALIVE = enum.auto()
    """Not started, running or parked; nobody may free it yet."""
    FINISHED = enum.auto()
    """`_start` has returned; the host's thread frees it."""
    ABANDONED = enum.auto()
    """The host no longer waits for it; its own thread frees it."""


class WasiGuest(BaseGuest):
    """An instance of a program; its lines carry no side byte.

    A program that ends by itself, with code 0, delivers its last lines and is dead from then on;
    with another code, or by a trap, it raises, and the error's `outbox` has its last lines.

    Args:
        polls: reading does not block, and the program waits in `poll_oneoff` instead.
    """

    carrier = "wasi"

    _thread: threading.Thread | None = None
    _state = _State.ALIVE
    _partial = b""
    """The text that the program wrote after its last newline."""

    def __init__(
        self,
        engine: capi.Engine,
        module: capi.Module,
        name: str,
        limits: Limits,
        *,
        grants: frozenset[str],
        polls: bool,
    ) -> None:
        super().__init__(capi, engine, name, limits)
        self._state_lock = threading.Lock()
        self._program = _Program(self, grants, limits, polls)
        store = self._store
        assert store is not None
        with self._running("instantiate"):
            functions = self._program.functions(store, module)
            self._exports = capi.Instance(store, module, functions).exports(store)
        memory: Any = self._exports["memory"]
        self._memory: capi.Memory = memory

    @property
    def memory_bytes(self) -> int | None:
        """Current size of the linear memory in bytes; 0 once closed."""
        if self._store is None or self._program.closing:
            return 0
        return self._memory.data_len(self._store)

    @property
    def exit_code(self) -> int | None:
        """The exit code of the program; `None` while it runs, or when it trapped."""
        return self._program.exit_code

    def _begin(self, config: bytes) -> bytes:
        check_inbox(config, self._limits)
        self._thread = threading.Thread(target=self._run, name=f"wasi-{self.name}", daemon=True)
        self._program.feed(config)
        self.rearm()
        self._hand_over(self._thread.start)
        return self._outcome("start")

    def deliver(self, lines: bytes) -> bytes:
        """Deliver complete lines, return complete lines; see `wasm_host.Guest`."""
        self._check_alive("deliver")
        if not self._started:
            return self.start(lines)
        check_inbox(lines, self._limits)
        self._program.feed(lines)
        self._hand_over(self._program.to_guest.release)
        return self._outcome("deliver")

    def _hand_over(self, go: Callable[[], None]) -> None:
        """Let the program run until it parks or ends."""
        self._enter()
        try:
            go()
            self._program.to_host.acquire()
        except BaseException:
            # Ctrl-C while the program runs: it goes on without us, and must find its end.
            self.dead = True
            self._cause = "interrupted"
            self._program.close_by = 0.0
            if not self._abandon():
                self._leave()
            raise
        self._leave()

    def rearm(self) -> None:
        """Give the program a fresh allowance; called while it stands still."""
        self._arm()
        self._program.sleep_left = self._limits.cpu_ms / 1000

    def _outcome(self, phase: str) -> bytes:
        """The text that the program wrote up to its last newline, once it parked or ended."""
        program, limits = self._program, self._limits
        data = self._partial + program.output
        program.output.clear()
        cut = data.rfind(b"\n") + 1
        out, self._partial = data[:cut], data[cut:]
        try:
            check_outbox(out, limits, phase, self.name, sides=False)
            if len(self._partial) > limits.message_bytes:
                # Reported as a whole line, newline or not.
                check_outbox(self._partial + b"\n", limits, phase, self.name, sides=False)
        except GuestError as error:
            program.error = error
        failure = self._failure(phase)
        if failure is not None:
            # Nothing counts of the delivery in which a program broke a rule.
            failure.outbox = b"" if failure is program.error else out
            raise self._die(failure)
        if program.exit_code is not None:
            self.dead = True
            self._cause = "exited with code 0"
            self._stop()
        return out

    def _failure(self, phase: str) -> GuestError | None:
        """Why the program is over, if it is and that is an error."""
        program = self._program
        if isinstance(program.error, GuestError):
            return program.error
        if program.error is not None:
            return self._explain(program.error, phase)
        if not program.exit_code:
            return None
        return GuestError(
            phase,
            f"{self.name} exited with code {program.exit_code}",
            detail=self.stderr,
            hint="its standard error is in the detail" if self.stderr_tail else "",
        )

    def _stop(self) -> None:
        """End the input, give the program a tenth of a second, then free the store.

        A program that neither ends nor calls the host is left to its CPU limit on its own thread,
        which then frees the store; it can reach nobody any more.
        """
        self._program.close_by = time.monotonic() + CLOSING_SECONDS
        if self._state is _State.ABANDONED:
            return
        if self._thread is not None:
            if self._state is not _State.FINISHED:
                self._enter()
                self._program.to_guest.release()
                self._program.to_host.acquire(timeout=2 * CLOSING_SECONDS)
                if self._abandon():
                    return
                self._leave()
            self._thread.join()
        self._free()

    def _abandon(self) -> bool:
        """Leave a running program to its limits; False if it is over already."""
        with self._state_lock:
            if self._state is _State.ALIVE:
                self._state = _State.ABANDONED
            return self._state is _State.ABANDONED

    def _free(self) -> None:
        if self._store is not None:
            super()._free()
            self._program.drop()

    def _run(self) -> None:
        """The program's thread: all of its life."""
        program = self._program
        start: Any = self._exports["_start"]
        try:
            start(self._store)
            program.exit_code = 0
        except self._failures as error:
            # The trap that carries out `proc_exit`, or a violation, is not the fault itself.
            if program.exit_code is None and program.error is None:
                program.error = error
        with self._state_lock:
            if self._state is _State.ABANDONED:
                self._leave()
                self._free()
            else:
                self._state = _State.FINISHED
        program.to_host.release()


class _Program(Wasi):
    """The functions that a program calls, on its own thread: its streams, its sleep, its exit.

    The host's thread touches these fields only while the program stands still.
    """

    error: Exception | None = None
    """The trap that ended it, or the violation, a `GuestError`, for which it was ended."""
    exit_code: int | None = None
    close_by: float | None = None
    """The time of its end, by the monotonic clock; `None` while its input is open."""
    sleep_left = 0.0
    """Seconds that it may still sleep within this delivery."""

    def __init__(
        self, guest: WasiGuest, grants: frozenset[str], limits: Limits, polls: bool
    ) -> None:
        super().__init__(guest, grants, polls)
        self._rearm = guest.rearm
        self._limits = limits
        self._input = b""
        self._at = 0
        self.output = bytearray()
        # The baton: each thread waits for its lock, which the other one releases.
        self.to_guest, self.to_host = threading.Lock(), threading.Lock()
        self.to_guest.acquire()
        self.to_host.acquire()

    @property
    def closing(self) -> bool:
        """Whether its input has ended."""
        return self.close_by is not None

    def feed(self, lines: bytes) -> None:
        """Append to its input."""
        self._input = self._input[self._at :] + lines
        self._at = 0

    def read_stdin(self, room: int) -> bytes | Ended:
        if room:
            self.wait_stdin()
        if self._overdue():
            return Ended("closed")
        data = self._input[self._at : self._at + room]
        self._at += len(data)
        return data

    def stdin_ready(self) -> bool:
        return self._at < len(self._input) or self.closing

    def wait_stdin(self) -> None:
        while not self.stdin_ready():
            self.to_host.release()
            self.to_guest.acquire()
            self._rearm()

    def stdout_room(self, size: int) -> int | Ended:
        if self._overdue():
            return Ended("closed")
        if len(self.output) + size <= self._limits.outbox_bytes:
            return size
        # Refused before any of it is copied: vectors that overlap add up to any size.
        self.error = exceeded(
            "outbox_bytes", len(self.output) + size, self._limits, "deliver", self._guest.name
        )
        return Ended("outbox_bytes exceeded")

    def write_stdout(self, data: bytes) -> None:
        self.output += data

    def exited(self, code: int) -> None:
        self.exit_code = code

    def sleep(self, seconds: float) -> None:
        # In all calls of one delivery together no longer than `cpu_ms`: sleep costs no ticks.
        begun = time.monotonic()
        time.sleep(max(0.0, min(seconds, self.sleep_left)))
        self.sleep_left -= time.monotonic() - begun

    def _overdue(self) -> bool:
        return self.close_by is not None and time.monotonic() > self.close_by
