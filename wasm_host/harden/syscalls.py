"""System calls by name: their numbers on (x86_64, aarch64), and what becomes of them once sealed.

`None`: the machine does not have it. A call in none of the tables fails with `EPERM`.
"""

from __future__ import annotations

from typing import Final

Numbers = tuple[int | None, int | None]

NEWER: Final = 450
"""Numbers from here on came later than these tables."""

ALLOWED: Final[dict[str, Numbers]] = {
    "read": (0, 63),
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
"""What a host of guests does while it runs: talk on open descriptors, use memory, wait, handle
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
"""Allowed if a check of `seccomp.py` finds the arguments harmless."""

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
"""Never made by accident: whoever makes one has taken over the process, which ends at once."""

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
"""Reported as not existing: libraries know an older way, which is then judged by its arguments."""
