"""The sizes of buffers: of one read, of a pipe, and of the freed memory that this process keeps.

glibc hands every large block back to the system and asks for it anew, page fault by page fault.
With a few megabytes kept, a conductor passes large messages in half the time.

Memory that a flood leaves behind between blocks still in use is given back in a quiet moment: it is
no leak, but looks like a leak in a process list. Pages of libraries are given back after the start,
which reads ten times as much of their code as messages need.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # the child that hosts guests has no event loop
    import asyncio

CHUNK: Final = 64 * 1024
"""Bytes of one read. A read of so many bytes or more is part of something large."""

BIG_CHUNK: Final = 1024 * 1024
"""Bytes of one read while a long line comes in."""

_PIPE: Final = 1024 * 1024
"""Bytes of a pipe: a message of 1 MB then crosses in one go."""

_MAPPED: Final = 8 * 1024 * 1024
"""Bytes of a block that is given back as soon as it is free."""

_KEPT: Final = 16 * 1024 * 1024
"""Bytes of freed memory that are kept: a host holds a message of 1 MB a dozen times at once."""

_LOOK: Final = 5.0
"""Seconds between two checks whether memory is to be given back."""

_BUSY: Final = 6
"""Checks in a row with traffic after which memory is given back although it is not quiet."""

_EACH: Final = 64 * 1024
"""Bytes that a connection leaves behind beside its data: its objects, its buffers."""

_LEFT: Final = 64 * 1024 * 1024
"""Bytes that connections may leave behind until memory is given back although it is not quiet."""

QUIET: Final = 0.03
"""Seconds without another large chunk after which memory is given back: longer than an echo takes,
since getting the memory anew costs as much as the message."""

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_MADV_DONTNEED: Final = 4


@functools.cache
def keep_large() -> None:
    """Lets this process keep up to 16 MiB of freed memory; does nothing without glibc.

    Called when the first long line arrives: most sessions never need it.
    """
    _set((_M_MMAP_THRESHOLD, _MAPPED), (_M_TRIM_THRESHOLD, _KEPT))


def share_heap() -> None:
    """Has all threads take memory from one heap; does nothing without glibc.

    The end of any other heap is never given back, and Python runs one thread at a time.
    """
    _set((_M_ARENA_MAX, 1))


def _set(*options: tuple[int, int]) -> None:
    if sys.platform != "linux":
        return
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option, value in options:
            mallopt(option, value)


def enlarge_pipe(fd: int) -> None:
    """Makes the pipe behind `fd` hold 1 MiB, where the system can do that."""
    if sys.platform == "linux":
        import fcntl

        with contextlib.suppress(OSError):  # over the user's quota: the default size does
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _PIPE)


def give_back() -> None:
    """Gives all freed memory back to the system, also between blocks in use; about a millisecond
    for every 10 MB."""
    # The collector first: a conductor rarely lets it run, and cycles hold memory.
    gc.collect()
    if sys.platform != "linux":
        return
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


@functools.cache
def library_code() -> list[tuple[int, int]]:
    """Address and size of the code and the constants of each library, where each page is as in the
    library's file: a page that was written to, as a debugger does, is nowhere else. They are looked
    up once: a host that is locked up can read no file."""
    if sys.platform != "linux":
        return []
    found: list[tuple[int, int]] = []
    with contextlib.suppress(OSError), open("/proc/self/smaps", "rb") as mappings:
        head = b""
        for line in mappings:
            if not head:
                head = line
                is_clean = True
            elif line.startswith((b"Anonymous:", b"Swap:")):
                is_clean = is_clean and line.split()[1] == b"0"
            elif line.startswith(b"VmFlags:"):  # the last line of each mapping
                if is_clean and _is_library(head):
                    begin, end = (int(edge, 16) for edge in head.split()[0].split(b"-"))
                    found.append((begin, end - begin))
                head = b""
    return found


def _is_library(mapping: bytes) -> bool:
    """Whether a mapping is code or constants of a library."""
    _, rights, *_, name = mapping.split()
    return b".so" in name and rights in (b"r-xp", b"r--p")


def give_back_code() -> None:
    """Gives back the pages of the code of libraries. Code that runs again comes from their
    files, which the system mostly has in memory: to map it takes a millisecond. For processes of
    conductor's own alone: a program that embeds a chain may have gigabytes to look through."""
    import ctypes

    for address, size in library_code():
        ctypes.CDLL(None).madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), _MADV_DONTNEED)


class Tidying:
    """Gives memory back in quiet moments of an event loop: soon after large messages, and every few
    checks after others."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._passed = 0
        self._large_at = 0.0
        """The loop's time of the last large chunk."""
        self._waiting: asyncio.TimerHandle | None = None
        """Runs `_quiet` once nothing large has come for `QUIET` seconds."""
        self._seen = self._given = self._busy = 0
        """`_passed` at the last check and when memory was last given back; busy checks in a row."""
        self._left = 0
        """Bytes that connections have left behind since memory was last given back."""
        self._looking = loop.call_later(_LOOK, self._look)

    def passed(self, size: int) -> None:
        """Counts one chunk of `size` bytes."""
        self._passed += 1
        if size >= CHUNK:
            self._large_at = self._loop.time()
            if self._waiting is None:
                self._waiting = self._loop.call_later(QUIET, self._quiet)

    def ended(self, held: int) -> None:
        """Counts a connection that has ended and held so many bytes. They are in cycles of objects,
        which only the collector frees."""
        self.passed(held)
        before, self._left = self._left, self._left + held + _EACH
        if before < _LEFT <= self._left:
            self._loop.call_soon(self._give_back)

    def stop(self) -> None:
        """Cancels all timers."""
        self._looking.cancel()
        if self._waiting is not None:
            self._waiting.cancel()

    def _quiet(self) -> None:
        left = self._large_at + QUIET - self._loop.time()
        if left > 0:
            self._waiting = self._loop.call_later(left, self._quiet)
            return
        self._waiting = None
        self._give_back()

    def _look(self) -> None:
        self._looking = self._loop.call_later(_LOOK, self._look)
        moved, self._seen = self._passed != self._seen, self._passed
        self._busy = self._busy + 1 if moved else 0
        if self._passed != self._given and (not moved or self._busy >= _BUSY):
            self._give_back()

    def _give_back(self) -> None:
        self._given, self._busy, self._left = self._passed, 0, 0
        give_back()
