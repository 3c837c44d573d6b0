"""The clock behind CPU limits: one thread a process that advances engine epochs while guests run.

It counts the processor time of this process, not the time on the wall: a busy machine must not end
a guest for the time it gave to other processes. Waiting, such as sleep, is bounded where it waits.

An idle process must not wake up a hundred times a second, so the thread blocks on a lock when no
guest has run for a second; entering a guest costs one set operation and one flag test.
"""

from __future__ import annotations

import atexit
import os
import time
from _thread import allocate_lock, start_new_thread  # `threading` takes 0.2 MB
from typing import TYPE_CHECKING

from wasm_host.limits import TICK_MS

if TYPE_CHECKING:
    from collections.abc import Callable


IDLE_TICKS = 100
"""Ticks without any guest running after which the thread goes to sleep."""

TICK_NS = TICK_MS * 1_000_000


class Ticker:
    """Advances the epoch of every engine each `TICK_MS` of processor time while a guest runs.

    Usage, for each entry into a guest::

        ticker.running.add(key)
        if ticker.asleep:
            ticker.wake()
        try:
            ...  # set the epoch deadline, call the guest
        finally:
            ticker.running.discard(key)
    """

    __slots__ = (
        "_bell", "_ended", "_engines", "_lock", "_started", "_stop",
        "asleep", "clock", "running", "ticks",
    )  # fmt: skip

    def __init__(self, clock: Callable[[], int] = time.process_time_ns) -> None:
        self.clock = clock
        self.running: set[object] = set()
        self.asleep = True
        # Ticks given since the process began; for tests and diagnosis.
        self.ticks = 0
        self._engines: tuple[Callable[[], None], ...] = ()
        self._reset()

    def _reset(self) -> None:
        self._lock = allocate_lock()
        self._bell = allocate_lock()
        """Free once the bell has rung. The thread takes it to wait for that."""
        self._ended = allocate_lock()
        """Free once the thread has ended."""
        self._started = self._stop = False
        self.running.clear()
        self.asleep = True

    def add_engine(self, increment_epoch: Callable[[], None]) -> None:
        """Advance one more engine from now on; `increment_epoch` must not raise."""
        with self._lock:
            self._engines = (*self._engines, increment_epoch)

    def wake(self) -> None:
        """Make sure the thread ticks; to be called if `asleep` is set after entering."""
        with self._lock:
            self.asleep = False
            if self._stop:
                return
            if not self._started:
                self._started = True
                self._ended.acquire()
                start_new_thread(self._run, ())
            else:
                self._ring()

    def stop(self) -> None:
        """End the thread and wait for it; at interpreter exit, before modules are torn down."""
        with self._lock:
            self._stop = True
            self._ring()
        if self._ended.acquire(timeout=1.0):
            self._ended.release()

    def _ring(self) -> None:
        if self._bell.locked():
            self._bell.release()

    def after_fork(self) -> None:
        """Forget the parent's thread in a forked child; the next guest starts a new one."""
        self._reset()

    def _run(self) -> None:
        try:
            self._tick()
        finally:
            self._ended.release()

    def _tick(self) -> None:
        pause = TICK_MS / 1000
        idle = 0
        running = self.running
        used = self.clock()
        while not self._stop:
            time.sleep(pause)
            # Not one tick for each pause: after a late wake-up several are due.
            while used + TICK_NS <= self.clock():
                used += TICK_NS
                self.ticks += 1
                for increment in self._engines:
                    increment()
            idle = 0 if running else idle + 1
            if idle >= IDLE_TICKS:
                self._doze()
                idle = 0
                used = self.clock()

    def _doze(self) -> None:
        """Block until a guest is entered.

        The order matters: `asleep` is raised first and `running` looked at second, while an
        entering thread does it the other way round, so one of the two always sees the other.
        """
        self._bell.acquire(blocking=False)
        self.asleep = True
        if self.running:
            self.asleep = False
            return
        if not self._stop:
            self._bell.acquire()


TICKER = Ticker()
atexit.register(TICKER.stop)
os.register_at_fork(after_in_child=TICKER.after_fork)
