"""The system call filter of a sealed process: the calls to compute and talk, nothing else.

Built as classic BPF for `seccomp(2)`, x86_64 and aarch64. Three verdicts: calls that a running
host of guests makes are allowed; calls that only an attacker who broke out would make end the
process; all others fail with `EPERM`, or with `ENOSYS` where the C library then makes another call.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from typing import Final

from wasm_host.harden.kernel import Unsupported, prctl, syscall

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


Numbers = tuple[int | None, int | None]
"""Of a call, on (x86_64, aarch64); `None`: the machine does not have it."""

NEWER: Final = 450
"""Numbers from here on came later than these tables."""

ALLOWED: Final[dict[str, Numbers]] = {
    "read": (0, 63),
    "pread64": (17, 67),
    "write": (1, 64),
    "readv": (19, 65),
    "writev": (20, 66),
    "close": (3, 57),
    "poll": (7, None),
    "ppoll": (271, 73),
    "futex": (202, 98),
    "munmap": (11, 215),
    "madvise": (28, 233),
    "brk": (12, 214),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101),
    "gettimeofday": (96, 169),
    "time": (201, None),
    "getrandom": (318, 278),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "restart_syscall": (219, 128),
    "sched_yield": (24, 124),
    "sched_getaffinity": (204, 123),
    "getpid": (39, 172),
    "gettid": (186, 178),
    "getrlimit": (97, 163),
    "set_robust_list": (273, 99),
    "rseq": (334, 293),
    "exit": (60, 93),
    "exit_group": (231, 94),
}
"""The calls of a running host of guests: talk on open descriptors, use memory, wait, handle
traps, tell the time, run and end threads."""

CHECKED: Final[dict[str, tuple[Numbers, str]]] = {
    "mmap": ((9, 222), "counted"),
    "mremap": ((25, 216), "moved"),
    "mprotect": ((10, 226), "not executable"),
    "clone": ((56, 220), "thread"),
    "tgkill": ((234, 131), "own process"),
    "kill": ((62, 129), "own process"),
    "fcntl": ((72, 25), "flags"),
    "ioctl": ((16, 29), "blocking"),
    "prctl": ((157, 167), "thread name"),
    "prlimit64": ((302, 261), "own limits"),
    "seccomp": ((317, 277), "another filter"),
}
"""Allowed if the named check (`_checks`) finds the arguments harmless."""

HOSTILE: Final[dict[str, Numbers]] = {
    # Other programs and processes.
    "execve": (59, 221),
    "execveat": (322, 281),
    "fork": (57, None),
    "vfork": (58, None),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "kcmp": (312, 272),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    # The network.
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "accept": (43, 202),
    "accept4": (288, 242),
    "sendto": (44, 206),
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
    "recvfrom": (45, 207),
    "recvmsg": (47, 212),
    "recvmmsg": (299, 243),
    # Files by other ways than paths.
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "fanotify_init": (300, 262),
    # The kernel.
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "unshare": (272, 97),
    "setns": (308, 268),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "personality": (135, 92),
    "modify_ldt": (154, None),
    "iopl": (172, None),
    "ioperm": (173, None),
    "acct": (163, 89),
    "syslog": (103, 116),
    "quotactl": (179, 60),
}
"""Calls that nobody makes by accident: their caller has taken over the process, which ends."""

ABSENT: Final[dict[str, Numbers]] = {
    "clone3": (435, 435),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "openat2": (437, 437),
    "faccessat2": (439, 439),
    "close_range": (436, 436),
    "statx": (332, 291),
    "membarrier": (324, 283),
    "futex_waitv": (449, 449),
}
"""Reported as not existing: libraries then make an older call, which is judged by its arguments.
`clone3` passes its flags in memory, where no filter can read them."""


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
    """Allows a thread such as C libraries make; else kills."""
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
    """The code that checks arguments, by name of the check in `CHECKED`."""
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
    # First the architecture: the same number is another call in a 32-bit program.
    parts = [_step(_LOAD, _MACHINE_AT), _step(_EQUAL, architecture, 1, 0), _give(KILL)]
    parts.append(_step(_LOAD, _NUMBER_AT))
    if machine == "x86_64":
        parts += [_step(_AT_LEAST, _X32, 0, 1), _give(KILL)]

    def case(numbers: Numbers, block: bytes) -> None:
        number = numbers[column]
        if number is not None:
            parts.append(_step(_EQUAL, number, 0, len(block) // 8) + block)

    checks = _checks(pid, threads)
    for numbers in ALLOWED.values():
        case(numbers, _give(ALLOW))
    for numbers, check in CHECKED.values():
        case(numbers, checks[check])
    for numbers in HOSTILE.values():
        case(numbers, _give(KILL))
    for numbers in ABSENT.values():
        case(numbers, _fail(errno.ENOSYS))
    # Libraries try new calls first and fall back on ENOSYS only.
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
