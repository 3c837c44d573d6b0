"""Carrier 3: a WASI command, an ordinary program that reads lines and writes lines.

`_start` is one call that lasts as long as the program, so it runs on a thread of its own and
parks there, inside its read of standard input, whenever it has consumed what was delivered.
Exactly one of the two threads runs at any time: they pass a baton, made of two locks.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import wasmtime

from wasm_host.calls.common import Ended
from wasm_host.carriers.abi import check_inbox, check_outbox
from wasm_host.carriers.guest import BaseGuest
from wasm_host.errors import GuestError
from wasm_host.traps import explain
from wasm_host.wasi.preview1 import Wasi

if TYPE_CHECKING:
    from collections.abc import Callable

    from wasm_host.limits import Limits


CLOSING_SECONDS = 0.1
"""Seconds a program may go on after the end of its input."""


class WasiGuest(BaseGuest):
    """An instance of a program; its lines carry no side byte.

    A program that ends by itself, with code 0, delivers its last lines and is dead from then on;
    with another code, or by a trap, it raises, and the error's `outbox` has its last lines.

    With `polls` reading does not block, and the program waits in `poll_oneoff` instead.
    """

    carrier = "wasi"

    __slots__ = (
        "_abandoned",
        "_at",
        "_close_by",
        "_closing",
        "_ending_lock",
        "_error",
        "_exit_code",
        "_finished",
        "_input",
        "_instance",
        "_memory",
        "_output",
        "_output_size",
        "_partial",
        "_sleep_left",
        "_store",
        "_thread",
        "_to_guest",
        "_to_host",
        "_violation",
        "_wasi",
    )

    def __init__(
        self,
        engine: wasmtime.Engine,
        module: wasmtime.Module,
        name: str,
        limits: Limits,
        *,
        grants: frozenset[str],
        polls: bool,
    ) -> None:
        super().__init__(name, limits)
        self._to_guest = threading.Lock()
        self._to_guest.acquire()
        self._to_host = threading.Lock()
        self._to_host.acquire()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._close_by = 0.0
        # Guards the two below: which of the threads frees the store.
        self._ending_lock = threading.Lock()
        self._finished = False
        self._abandoned = False
        self._error: Exception | None = None
        self._exit_code: int | None = None
        self._violation: GuestError | None = None
        self._input = b""
        # How much of the input the program has read.
        self._at = 0
        self._output: list[bytes] = []
        self._output_size = 0
        self._partial = b""
        self._wasi = Wasi(grants, self, polls)
        store: wasmtime.Store = wasmtime.Store(engine)
        self._store: wasmtime.Store | None = store
        store.set_limits(limits.memory_bytes, limits.table_elements, 1, 8, 1)
        self._enter()
        try:
            self._arm(limits.ticks)
            self._instance = wasmtime.Instance(store, module, self._wasi.functions(store, module))
        except (wasmtime.Trap, wasmtime.WasmtimeError) as error:
            self._free()
            failure = explain(error, "instantiate", name, limits, stderr=self.stderr)
            raise self._die(failure) from None
        finally:
            self._leave()
        memory: Any = self._instance.exports(store)["memory"]
        self._memory: wasmtime.Memory = memory

    @property
    def memory_bytes(self) -> int | None:
        """Current size of the linear memory in bytes; 0 once closed."""
        if self._store is None or self._closing:
            return 0
        return self._memory.data_len(self._store)

    @property
    def exit_code(self) -> int | None:
        """What the program exited with; `None` while it runs, or when it trapped."""
        return self._exit_code

    def _begin(self, config: bytes) -> bytes:
        check_inbox(config, self._limits)
        self._thread = threading.Thread(target=self._run, name=f"wasi-{self.name}", daemon=True)
        self._input = config
        self._arm(self._limits.ticks)
        self._hand_over(self._thread.start)
        return self._outcome("start")

    def deliver(self, lines: bytes) -> bytes:
        """Deliver complete lines, return complete lines; see `wasm_host.Guest`."""
        self._check_alive("deliver")
        if not self._started:
            return self.start(lines)
        check_inbox(lines, self._limits)
        self._input = self._input[self._at :] + lines
        self._at = 0
        self._hand_over(self._to_guest.release)
        return self._outcome("deliver")

    def close(self) -> None:
        """End the input, give the program a tenth of a second, then stop it.

        One that neither ends nor calls the host is left to its CPU limit, on its own thread, and
        freed there; it can reach nobody any more.
        """
        if not self.dead:
            self.dead = True
            self._cause = "closed"
        self._stop()

    def _hand_over(self, go: Callable[[], None]) -> None:
        """Let the program run until it parks or ends."""
        self._enter()
        try:
            go()
            self._to_host.acquire()
        except BaseException:
            # Ctrl-C while the program runs: it goes on without us, and must find its end.
            self.dead = True
            self._cause = "interrupted"
            self._closing = True
            if not self._abandon():
                self._leave()
            raise
        self._leave()

    def _abandon(self) -> bool:
        """Leave a running program to its limits; False when it is over already."""
        with self._ending_lock:
            self._abandoned = not self._finished
            return self._abandoned

    def _arm(self, ticks: int) -> None:
        """Give the program a fresh allowance; called while it stands still."""
        assert self._store is not None
        self._store.set_epoch_deadline(ticks)
        self._sleep_left = self._limits.cpu_ms / 1000
        if self._limits.fuel is not None:
            self._store.set_fuel(self._limits.fuel)

    def _outcome(self, phase: str) -> bytes:
        """What the program wrote up to its last newline, once it parked or ended."""
        data = self._partial + b"".join(self._output)
        self._output.clear()
        self._output_size = 0
        cut = len(data) if data.endswith(b"\n") else data.rfind(b"\n") + 1
        out, self._partial = data[:cut], data[cut:]
        try:
            check_outbox(out, self._limits, phase, self.name, sides=False)
            bound = self._limits.message_bytes
            if len(self._partial) > bound:
                # Reported as the line it is going to be, newline or not.
                check_outbox(self._partial + b"\n", self._limits, phase, self.name, sides=False)
        except GuestError as error:
            self._violation = error
        if self._violation is not None:
            out = b""
        ended = self._ending(phase)
        if ended is not None:
            ended.outbox = out
            self._stop()
            raise self._die(ended)
        return out

    def _ending(self, phase: str) -> GuestError | None:
        """Why the program is over, if it is and that is an error."""
        if self._violation is not None:
            return self._violation
        if self._error is not None:
            size = self.memory_bytes
            return explain(
                self._error, phase, self.name, self._limits, memory=size, stderr=self.stderr
            )
        if not self._exit_code:
            if self._exit_code == 0:
                self.dead = True
                self._cause = "exited with code 0"
                self._stop()
            return None
        return GuestError(
            phase,
            f"{self.name} exited with code {self._exit_code}",
            detail=self.stderr,
            hint="its standard error is in the detail" if self.stderr_tail else "",
        )

    def _stop(self) -> None:
        """Bring the thread to its end, then free the store; the program is parked or over."""
        self._close_by = time.monotonic() + CLOSING_SECONDS
        self._closing = True
        if self._abandoned:
            return
        if self._thread is not None and not self._finished:
            self._enter()
            self._to_guest.release()
            self._to_host.acquire(timeout=2 * CLOSING_SECONDS)
            if self._abandon():
                return
            self._leave()
        if self._thread is not None:
            self._thread.join()
        self._free()

    def _free(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()
            self._wasi.drop()

    # From here on: called on the guest's thread.

    def _run(self) -> None:
        store = self._store
        assert store is not None
        start: Any = self._instance.exports(store)["_start"]
        try:
            start(store)
            self._exit_code = 0
        except (wasmtime.Trap, wasmtime.WasmtimeError) as error:
            # The trap that carries out proc_exit is no fault.
            if self._exit_code is None:
                self._error = error
        with self._ending_lock:
            self._finished = True
            if self._abandoned:
                self._leave()
                self._free()
        self._to_host.release()

    def read_stdin(self, room: int) -> bytes | Ended:
        """See `wasm_host.wasi.preview1.Streams`."""
        if room:
            self.wait_stdin()
        if self._overdue():
            return Ended("closed")
        data = self._input[self._at : self._at + room]
        self._at += len(data)
        return data

    def stdin_ready(self) -> bool:
        """See `wasm_host.wasi.preview1.Streams`."""
        return self._at < len(self._input) or self._closing

    def wait_stdin(self) -> None:
        """Park until the next delivery, or the end of input."""
        while not self.stdin_ready():
            self._to_host.release()
            self._to_guest.acquire()
            self._arm(self._limits.ticks)

    def stdout_room(self, size: int) -> int | Ended:
        """All of it, or the end of a guest beyond what one delivery may produce."""
        if self._overdue():
            return Ended("closed")
        found, bound = self._output_size + size, self._limits.outbox_bytes
        if found <= bound:
            return size
        self._violation = GuestError(
            "deliver",
            f"{self.name} exceeded outbox_bytes: {found} bytes at once, "
            f"{found - bound} over the limit of {bound}",
            limit="outbox_bytes",
            hint="raise the component's outbox_bytes if this is intended",
        )
        return Ended("outbox_bytes exceeded")

    def write_stdout(self, data: bytes) -> None:
        """See `wasm_host.wasi.preview1.Streams`."""
        self._output.append(data)
        self._output_size += len(data)

    def _overdue(self) -> bool:
        return self._closing and time.monotonic() > self._close_by

    def exited(self, code: int) -> None:
        """See `wasm_host.wasi.preview1.Streams`."""
        self._exit_code = code

    def sleep(self, seconds: float) -> None:
        """Sleep within a delivery, in all of its calls no longer than `cpu_ms`."""
        begun = time.monotonic()
        time.sleep(max(0.0, min(seconds, self._sleep_left)))
        self._sleep_left -= time.monotonic() - begun
