"""The system call filter of a sealed process: what it needs to compute and talk, nothing else.

Built as classic BPF for `seccomp(2)`, x86_64 and aarch64. Three verdicts: calls a running guest
host makes are allowed; calls that only somebody who broke out would make end the process; all
others fail with `EPERM`, or with `ENOSYS` where the C library then takes another way.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from typing import Final

from wasm_host.harden.kernel import Unsupported, prctl, syscall
from wasm_host.harden.syscalls import ABSENT, ALLOWED, CHECKED, HOSTILE, NEWER

SET_MODE_FILTER: Final = 1
TSYNC_FLAG: Final = 1
PR_SET_SECCOMP: Final = 22
MODE_FILTER: Final = 2

ALLOW: Final = 0x7FFF0000
KILL: Final = 0x80000000
ERRNO: Final = 0x00050000

_MACHINES: Final = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Machine -> (column of the tables, architecture in the kernel's words)."""

_X32: Final = 0x40000000
"""Bit of system call numbers of the x32 ABI, which has the architecture of x86_64."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER_AT, _MACHINE_AT = 0, 4

PROT_WRITE: Final = 2
PROT_EXEC: Final = 4
UNCOUNTED: Final = 0x1 | 0x100 | 0x40000
"""MAP_SHARED, MAP_GROWSDOWN, MAP_HUGETLB: memory that RLIMIT_DATA does not count."""
MREMAP_FLAGS: Final = (0, 1)
"""None, and MREMAP_MAYMOVE, as `realloc` has it."""
FIONBIO: Final = 0x5421
THREAD_FLAGS: Final = 0x003D0F00
"""CLONE_VM, FS, FILES, SIGHAND, THREAD, SYSVSEM, SETTLS, PARENT_SETTID, CHILD_CLEARTID: how C
libraries start threads, some with a historic flag that means nothing any more."""
DETACHED_FLAG: Final = 0x00400000
FCNTL_COMMANDS: Final = (1, 2, 3, 4)
"""F_GETFD, F_SETFD, F_GETFL, F_SETFL. Not F_SETOWN, which would send signals to others."""
PRCTL_OPTIONS: Final = (15, 16)
"""PR_SET_NAME, PR_GET_NAME."""


def _step(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, then, otherwise, value)


def _argument(index: int, *, high: bool = False) -> bytes:
    """Load half of an argument; both machines are little-endian."""
    return _step(_LOAD, 16 + 8 * index + (4 if high else 0))


def _give(verdict: int) -> bytes:
    return _step(_RETURN, verdict)


def _fail(code: int) -> bytes:
    return _give(ERRNO | code)


def _only(index: int, values: tuple[int, ...], otherwise: bytes) -> bytes:
    """Allow if the lower half of an argument is one of `values`."""
    tests = b"".join(_step(_EQUAL, value, 0, 1) + _give(ALLOW) for value in values)
    return _argument(index) + tests + otherwise


def _not_executable() -> bytes:
    return _argument(2) + _step(_ANY_BIT, PROT_EXEC, 0, 1) + _fail(errno.EPERM) + _give(ALLOW)


def _counted() -> bytes:
    """Memory that is not executable, and counts towards the limit of this process: it can be
    written, or not be touched at all."""
    refuse = _fail(errno.EPERM)
    executable = _argument(2) + _step(_ANY_BIT, PROT_EXEC, 0, 1) + refuse
    untouched = _step(_EQUAL, 0, 2, 0) + _step(_ANY_BIT, PROT_WRITE, 1, 0) + refuse
    counted = _argument(3) + _step(_ANY_BIT, UNCOUNTED, 0, 1) + refuse + _give(ALLOW)
    return executable + untouched + counted


def _clone(threads: bool) -> bytes:
    """A thread like those of C libraries, or the end."""
    verdict = _give(ALLOW) if threads else _fail(errno.EAGAIN)
    flags = _argument(0) + _step(_AND, 0xFFFFFFFF & ~DETACHED_FLAG)
    return flags + _step(_EQUAL, THREAD_FLAGS, 0, 1) + verdict + _give(KILL)


def _own_limits() -> bytes:
    """`prlimit64` that reads limits of this process: no pid, no new values."""
    refuse = _fail(errno.EPERM)
    zero = _step(_EQUAL, 0, 1, 0) + refuse
    return _argument(0) + zero + _argument(2) + zero + _argument(2, high=True) + zero + _give(ALLOW)


def _another_filter(threads: bool) -> bytes:
    """Filters only ever take away; the last one forbids even that."""
    refuse = _fail(errno.EPERM)
    if not threads:
        return refuse
    mode = _argument(0) + _step(_EQUAL, SET_MODE_FILTER, 1, 0) + refuse
    return mode + _argument(1) + _step(_EQUAL, TSYNC_FLAG, 1, 0) + refuse + _give(ALLOW)


def _checks(pid: int, threads: bool) -> dict[str, bytes]:
    """What is asked of the arguments, by name of the check in `syscalls.CHECKED`."""
    return {
        "not executable": _not_executable(),
        "counted": _counted(),
        "moved": _only(3, MREMAP_FLAGS, _fail(errno.EPERM)),
        "thread": _clone(threads),
        "own process": _only(0, (pid,), _give(KILL)),
        "flags": _only(1, FCNTL_COMMANDS, _fail(errno.EPERM)),
        "blocking": _only(1, (FIONBIO,), _fail(errno.ENOTTY)),
        "thread name": _only(0, PRCTL_OPTIONS, _fail(errno.EPERM)),
        "own limits": _own_limits(),
        "another filter": _another_filter(threads),
    }


def program(machine: str, pid: int, *, threads: bool) -> bytes:
    """The filter for a process, as an array of `struct sock_filter`.

    Args:
        machine: `x86_64` or `aarch64`.
        pid: number of the process, the only one it may signal.
        threads: whether it may still start threads, and install one more filter.

    Raises:
        Unsupported: another machine.
    """
    if machine not in _MACHINES:
        raise Unsupported(f"no filter is known for the processor {machine or 'of this machine'}")
    column, architecture = _MACHINES[machine]
    parts = [_step(_LOAD, _MACHINE_AT), _step(_EQUAL, architecture, 1, 0), _give(KILL)]
    parts.append(_step(_LOAD, _NUMBER_AT))
    if machine == "x86_64":
        parts += [_step(_AT_LEAST, _X32, 0, 1), _give(KILL)]

    def case(numbers: tuple[int | None, int | None], block: bytes) -> None:
        found = numbers[column]
        if found is not None:
            parts.append(_step(_EQUAL, found, 0, len(block) // 8) + block)

    checks = _checks(pid, threads)
    for numbers in ALLOWED.values():
        case(numbers, _give(ALLOW))
    for numbers, check in CHECKED.values():
        case(numbers, checks[check])
    for numbers in HOSTILE.values():
        case(numbers, _give(KILL))
    for numbers in ABSENT.values():
        case(numbers, _fail(errno.ENOSYS))
    parts += [_step(_AT_LEAST, NEWER, 0, 1), _fail(errno.ENOSYS), _fail(errno.EPERM)]
    return b"".join(parts)


def install(filter_program: bytes) -> bool:
    """Put a filter in force, for good; True if for all threads, False for the calling one only.

    Filters add up: of several the strictest verdict counts.

    Raises:
        Unsupported: this kernel filters no system calls.
        OSError: the kernel refused.
    """
    steps = ctypes.create_string_buffer(filter_program, len(filter_program))
    head = ctypes.create_string_buffer(
        struct.pack("@HP", len(filter_program) // 8, ctypes.addressof(steps))
    )
    try:
        stuck = syscall("seccomp", SET_MODE_FILTER, TSYNC_FLAG, ctypes.addressof(head))
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise Unsupported("this kernel filters no system calls") from None
        if error.errno != errno.ENOSYS:
            raise
        prctl(PR_SET_SECCOMP, MODE_FILTER, ctypes.addressof(head))
        return False
    if stuck:
        raise OSError(errno.ESRCH, f"thread {stuck} has a filter of its own")
    return True
