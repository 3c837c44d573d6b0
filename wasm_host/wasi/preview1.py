"""WASI preview 1 for guests that have nothing: enough for language runtimes to start.

A guest gets:

* no arguments, no environment, no files, no sockets: such calls answer `ENOTCAPABLE`;
* standard error, of which the last 8 KiB are kept for messages;
* without the grant `clock` clocks that start in 1970 and advance only by the time the guest
  asks to sleep, which passes at once; without `random` the same pseudo-random bytes in every
  run. Runtimes of Go and Rust abort without either, and this way a run can be repeated exactly.

The guest's `denied` names the refused and faked calls.
"""

from __future__ import annotations

import hashlib
import os
import struct
import time
from typing import TYPE_CHECKING, Any

from wasm_host.calls import Ended, FindMemory, Handler, WildPointer
from wasm_host.calls.capi import CapiHost, CapiMemory
from wasm_host.carriers.guest import STDERR_KEPT, BaseGuest
from wasm_host.errors import EXITED

if TYPE_CHECKING:
    from wasm_host import capi

SUCCESS, AGAIN, BADF, FAULT, INVAL, NOTSUP, SPIPE, NOTCAPABLE = 0, 6, 8, 21, 28, 58, 70, 76

STDIN, STDOUT, STDERR = 0, 1, 2
STREAMS = (STDIN, STDOUT, STDERR)
"""Files a guest has besides these: none."""

SUB_CLOCK, SUB_READ = 0, 1
ABSOLUTE = 1

MAX_ENTRIES = 1024
"""Most entries of a vector and most bytes of randomness one call may ask for: a host call is not
interrupted by the guest's CPU limit, so its work must be bounded itself."""
MAX_RANDOM = 1 << 20

MONOTONIC_START = 1_000_000_000
"""The begin of the pretended monotonic clock: Go gives up when it reads zero."""

LAST = 1 << 63
"""The end of the pretended clock: a guest may sleep for ever, again and again."""

CHARACTER_DEVICE = 2
NONBLOCK = 1 << 2
RIGHT_READ, RIGHT_WRITE, RIGHT_POLL = 1 << 1, 1 << 6, 1 << 27

_UNRECORDED = frozenset(("fd_prestat_get", "fd_prestat_dir_name", "fd_close", "fd_seek", "fd_tell",
                         "fd_sync", "fd_datasync"))  # fmt: skip
"""Refusals that `denied` leaves out: every runtime makes these calls, and none depends on them."""


class Subscription:
    """One entry of `poll_oneoff`: wait for a clock, or for a stream."""

    __slots__ = ("clock", "fd", "flags", "kind", "start", "timeout", "user")

    def __init__(self, raw: bytes) -> None:
        self.user, self.kind = struct.unpack_from("<QB", raw)
        (self.fd,) = struct.unpack_from("<I", raw, 16)
        self.clock = self.fd
        self.timeout, _, self.flags = struct.unpack_from("<QQH", raw, 24)
        self.start = -1

    def due(self, now: int) -> int:
        """Nanoseconds until a clock subscription fires; relative ones count from the first call."""
        if self.flags & ABSOLUTE:
            return int(self.timeout - now)
        if self.start < 0:
            self.start = now
        return int(self.start + self.timeout - now)

    def event(self) -> bytes:
        """The event that reports this subscription as ready, or as refused."""
        error = BADF if self.kind != SUB_CLOCK and self.fd not in STREAMS else SUCCESS
        return struct.pack("<QHB5xQH6x", self.user, error, self.kind, 1, 0)


class Wasi:
    """The imports of one instance from `wasi_snapshot_preview1`.

    Its standard streams are those of a reactor, which gets lines by another call: no input, and
    output is kept with standard error. Programs override them (`wasm_host.carriers.wasi`).
    """

    def __init__(self, guest: BaseGuest, grants: frozenset[str], polls: bool = False) -> None:
        self._guest = guest
        self._clock = "clock" in grants
        self._random = "random" in grants
        # Whether input is declared non-blocking, to programs that then poll for it.
        self._polls = polls
        self._memory: CapiMemory | None = None
        self._host = CapiHost()
        self._store: capi.Store | None = None
        # Nanoseconds by which the pretended clock has advanced.
        self._now = 0
        self._drawn = 0

    def read_stdin(self, room: int) -> bytes | Ended:
        """Up to `room` bytes, blocking until there are some; empty at the end of input."""
        return b""

    def stdin_ready(self) -> bool:
        """Whether `read_stdin` would not block."""
        return True

    def wait_stdin(self) -> None:
        """Block until `stdin_ready`."""

    def stdout_room(self, size: int) -> int | Ended:
        """How many of `size` bytes to take, the last ones; or the end of the guest."""
        return min(size, STDERR_KEPT)

    def write_stdout(self, data: bytes) -> None:
        """Take the bytes that the guest wrote."""
        self._guest.keep_stderr(data)

    def exited(self, code: int) -> None:
        """Take the code given to `proc_exit`; the trap that follows names it too."""

    def sleep(self, seconds: float) -> None:
        """Really sleep, on behalf of a guest with a real clock, as long as it may."""
        self._guest.denied.add("poll_oneoff")

    def functions(self, store: capi.Store, module: capi.Module) -> list[Any]:
        """Host functions for every import, in the module's order."""
        self._store = store
        # Functions all of them: `wasm_host.info` refused the rest.
        return [
            self._host.make(store, item.type, self._handler(item.name or ""))
            for item in module.imports
            if item.type is not None
        ]

    def drop(self) -> None:
        """Let go of the store, which has been closed."""
        self._host.drop()
        if self._memory is not None:
            self._memory.drop()
        self._memory = self._store = None

    def _handler(self, name: str) -> Handler:
        """A function that finds the caller's memory, then runs the call named `name`."""
        # A name of the module, but of WASI too: `wasm_host.info` refused all others.
        method = getattr(self, f"_{name}", None)

        def handle(find_memory: FindMemory, *arguments: int) -> int | Ended:
            if method is None:
                self._deny(name)
                return BADF if name.startswith("fd_") else NOTCAPABLE
            if self._memory is None:
                # Not before the first call: the module's start function may make it.
                assert self._store is not None
                self._memory = find_memory(self._store)
                if self._memory is None:
                    return FAULT
            try:
                answer: int | Ended = method(self._memory, *arguments)
            except WildPointer:
                return FAULT
            return answer

        return handle

    def _deny(self, name: str) -> None:
        """Record that a call was refused or faked."""
        if name not in _UNRECORDED:
            self._guest.denied.add(name)

    # Arguments and environment: none.

    def _args_sizes_get(self, memory: CapiMemory, count: int, size: int) -> int:
        memory.write(count, bytes(4))
        memory.write(size, bytes(4))
        return SUCCESS

    _environ_sizes_get = _args_sizes_get

    def _args_get(self, memory: CapiMemory, pointers: int, data: int) -> int:
        return SUCCESS

    _environ_get = _args_get

    # Clock and randomness.

    def _clock_res_get(self, memory: CapiMemory, clock: int, result: int) -> int:
        memory.write(result, struct.pack("<Q", 1))
        return SUCCESS

    def _clock_time_get(self, memory: CapiMemory, clock: int, precision: int, result: int) -> int:
        if not self._clock:
            self._deny("clock_time_get")
        memory.write(result, struct.pack("<Q", self._time(clock)))
        return SUCCESS

    def _time(self, clock: int) -> int:
        """Nanoseconds on a clock: 0 is the wall clock, the others never go back."""
        if not self._clock:
            return self._now if clock == 0 else MONOTONIC_START + self._now
        return time.time_ns() if clock == 0 else time.monotonic_ns()

    def _random_get(self, memory: CapiMemory, pointer: int, length: int) -> int:
        if length > MAX_RANDOM:
            return INVAL
        if self._random:
            memory.write(pointer, os.urandom(length))
            return SUCCESS
        self._deny("random_get")
        self._drawn += 1
        seed = b"wasm_host" + self._drawn.to_bytes(8, "little")
        memory.write(pointer, hashlib.shake_128(seed).digest(length))
        return SUCCESS

    def _sched_yield(self, memory: CapiMemory) -> int:
        return SUCCESS

    def _proc_exit(self, memory: CapiMemory, code: int) -> Ended:
        self.exited(code)
        return Ended(f"{EXITED} with code {code}")

    # Streams.

    def _vectors(self, memory: CapiMemory, pointer: int, count: int) -> list[tuple[int, int]]:
        raw = memory.read(pointer, count * 8)
        return list(struct.iter_unpack("<II", raw))

    def _fd_write(
        self, memory: CapiMemory, fd: int, vectors: int, count: int, written: int
    ) -> int | Ended:
        if fd not in (STDOUT, STDERR):
            return BADF
        if count > MAX_ENTRIES:
            return INVAL
        memory.read(written, 4)
        places = self._vectors(memory, vectors, count)
        for at, size in places:
            memory.read(at + size, 0)
        size = sum(size for _, size in places)
        room = STDERR_KEPT
        if fd == STDOUT:
            # Vectors may overlap: their sum is known before any byte is copied.
            answer = self.stdout_room(size)
            if isinstance(answer, Ended):
                return answer
            room = answer
        data = _last(memory, places, room)
        if fd == STDERR:
            self._guest.keep_stderr(data)
        else:
            self.write_stdout(data)
        memory.write(written, struct.pack("<I", size & 0xFFFFFFFF))
        return SUCCESS

    def _fd_read(
        self, memory: CapiMemory, fd: int, vectors: int, count: int, result: int
    ) -> int | Ended:
        if fd != STDIN:
            return BADF
        if count > MAX_ENTRIES:
            return INVAL
        # All mistakes in the arguments are found before any input is consumed.
        memory.read(result, 4)
        places = self._vectors(memory, vectors, count)
        for at, size in places:
            if at + size > memory.memory_size():
                return FAULT
        if self._polls and not self.stdin_ready():
            return AGAIN
        data = self.read_stdin(sum(size for _, size in places))
        if isinstance(data, Ended):
            return data
        taken = 0
        for at, size in places:
            part = data[taken : taken + size]
            memory.write(at, part)
            taken += len(part)
        memory.write(result, struct.pack("<I", taken))
        return SUCCESS

    def _fd_fdstat_get(self, memory: CapiMemory, fd: int, result: int) -> int:
        if fd not in STREAMS:
            return BADF
        rights = (RIGHT_READ | RIGHT_POLL) if fd == STDIN else RIGHT_WRITE
        # A terminal, so that C's stdio flushes its output at each newline.
        flags = NONBLOCK if self._polls and fd == STDIN else 0
        memory.write(result, struct.pack("<BxHxxxxQQ", CHARACTER_DEVICE, flags, rights, 0))
        return SUCCESS

    def _fd_filestat_get(self, memory: CapiMemory, fd: int, result: int) -> int:
        if fd not in STREAMS:
            return BADF
        memory.write(result, struct.pack("<QQB7xQQQQQ", 0, fd, CHARACTER_DEVICE, 1, 0, 0, 0, 0))
        return SUCCESS

    def _fd_fdstat_set_flags(self, memory: CapiMemory, fd: int, flags: int) -> int:
        if fd not in STREAMS:
            return BADF
        return NOTSUP if flags & ~NONBLOCK else SUCCESS

    def _fd_close(self, memory: CapiMemory, fd: int) -> int:
        return SUCCESS if fd in STREAMS else BADF

    _fd_sync = _fd_datasync = _fd_close

    def _fd_seek(self, memory: CapiMemory, fd: int, offset: int, whence: int, result: int) -> int:
        return SPIPE if fd in STREAMS else BADF

    def _fd_tell(self, memory: CapiMemory, fd: int, result: int) -> int:
        return SPIPE if fd in STREAMS else BADF

    # Waiting.

    def _poll_oneoff(
        self, memory: CapiMemory, subscriptions: int, events: int, count: int, result: int
    ) -> int:
        if not 0 < count <= MAX_ENTRIES:
            return INVAL
        memory.read(result, 4)
        wanted = [
            Subscription(memory.read(subscriptions + 48 * index, 48)) for index in range(count)
        ]
        reads = [item for item in wanted if item.kind == SUB_READ and item.fd == STDIN]
        clocks = [item for item in wanted if item.kind == SUB_CLOCK]
        others = len(wanted) > len(reads) + len(clocks)
        if reads and not others and not self.stdin_ready():
            # Input or nothing: a guest runs only while something is delivered to it, so timers
            # beside a wait for input fire when input comes, if they are due by then.
            self.wait_stdin()
        elif clocks and not reads and not others:
            self._sleep(min(item.due(self._time(item.clock)) for item in clocks))
        ready = [item for item in wanted if self._is_ready(item)]
        memory.write(events, b"".join(item.event() for item in ready))
        memory.write(result, struct.pack("<I", len(ready)))
        return SUCCESS

    def _is_ready(self, item: Subscription) -> bool:
        if item.kind == SUB_CLOCK:
            return item.due(self._time(item.clock)) <= 0
        return item.kind != SUB_READ or item.fd != STDIN or self.stdin_ready()

    def _sleep(self, nanoseconds: int) -> None:
        if nanoseconds <= 0:
            return
        if self._clock:
            self.sleep(nanoseconds / 1e9)
        else:
            self._deny("clock_time_get")
            self._now = min(self._now + nanoseconds, LAST)


def _last(memory: CapiMemory, places: list[tuple[int, int]], room: int) -> bytes:
    """The last bytes of vectors, as many as there is room for."""
    parts = []
    for at, size in reversed(places):
        taken = min(size, room)
        parts.append(memory.read(at + size - taken, taken))
        room -= taken
        if not room:
            break
    return b"".join(reversed(parts))
