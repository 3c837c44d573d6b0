"""System calls that Python's library does not offer, made through the C library (Linux only)."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any, Final

LINUX: Final = sys.platform == "linux"

MACHINE: Final = os.uname().machine if LINUX and os.uname().machine in ("x86_64", "aarch64") else ""
"""`x86_64` or `aarch64` where system call numbers are known; else an empty string."""

_COLUMN: Final = {"x86_64": 0, "aarch64": 1}

_NUMBERS: Final = {
    "capget": (125, 90),
    "capset": (126, 91),
    "close_range": (436, 436),
    "landlock_create_ruleset": (444, 444),
    "landlock_restrict_self": (446, 446),
    "seccomp": (317, 277),
}
"""The few calls made here -> their numbers on x86_64 and aarch64."""


class Unsupported(Exception):  # noqa: N818 - no fault: this system lacks something
    """This system cannot do it; the message is the reason."""


def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    libc.prctl.restype = ctypes.c_int
    return libc


_library: Any = _libc() if LINUX else None


def require_linux() -> None:
    """Raise `Unsupported` on another system."""
    if not LINUX:
        raise Unsupported("only Linux has it")


def number(name: str) -> int:
    """The number of a system call on this machine.

    Raises:
        Unsupported: no Linux, or a processor whose numbers are not known.
    """
    require_linux()
    if not MACHINE:
        raise Unsupported(f"not known for the processor {os.uname().machine}")
    return _NUMBERS[name][_COLUMN[MACHINE]]


def syscall(name: str, *arguments: int) -> int:
    """Make one system call; its result.

    Raises:
        OSError: the kernel refused.
        Unsupported: see `number`.
    """
    # Each argument as wide as a register: ctypes would pass plain integers as 32 bits.
    result: int = _library.syscall(
        ctypes.c_long(number(name)), *(ctypes.c_long(argument) for argument in arguments)
    )
    return _checked(result)


def prctl(option: int, *arguments: int) -> int:
    """Call `prctl(2)`; missing arguments are 0, as the kernel demands.

    Raises:
        OSError: the kernel refused.
        Unsupported: no Linux.
    """
    require_linux()
    padded = (*arguments, 0, 0, 0, 0)[:4]
    result: int = _library.prctl(option, *(ctypes.c_ulong(argument) for argument in padded))
    return _checked(result)


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def thread_count() -> int:
    """Threads of this process, those of native libraries included.

    Raises:
        OSError: `/proc` is not there.
    """
    with open("/proc/self/stat", "rb", buffering=0) as file:
        fields = file.read(1024).rpartition(b")")[2].split()
    return int(fields[17])
