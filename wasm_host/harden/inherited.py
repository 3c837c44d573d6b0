"""What a process inherits and gives up at once: the steps of `harden.early`, one function each.

Each says what it achieved, or raises `Unsupported` or `OSError`.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import TYPE_CHECKING, Final

from wasm_host.harden import kernel
from wasm_host.harden.kernel import Unsupported

if TYPE_CHECKING:
    from types import ModuleType


PR_SET_PDEATHSIG: Final = 1
PR_SET_DUMPABLE: Final = 4
PR_SET_NO_NEW_PRIVS: Final = 38
SIGKILL: Final = 9

FILE_CAPABILITIES: Final = 1 << 1 | 1 << 2
"""Capabilities kept until files have been read: CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH."""
CAPABILITY_VERSION: Final = 0x20080522


def no_environment() -> str:
    """Remove the variables from Python, from the C library, and where the kernel put them."""
    if os.environ:
        os.environ.clear()
        if kernel.LINUX:
            _wipe_first_environment()
    return "no variable of the parent's"


def _wipe_first_environment() -> None:
    with open("/proc/self/stat", "rb", buffering=0) as file:
        fields = file.read(4096).rpartition(b")")[2].split()
    start, end = int(fields[47]), int(fields[48])
    if 0 < start < end:
        # Nobody reads it any more: every variable was taken out of the list that points there.
        ctypes.memset(start, 0, end - start)


def no_descriptors() -> str:
    """Close every descriptor but 0, 1 and 2."""
    try:
        kernel.syscall("close_range", 3, 0xFFFFFFFF, 0)
    except (Unsupported, OSError):
        os.closerange(3, _highest_descriptor() + 1)
    return "standard input, output and error only"


def _highest_descriptor() -> int:
    for folder in ("/proc/self/fd", "/dev/fd"):
        if os.path.isdir(folder):
            return max(map(int, os.listdir(folder)))
    return min(int(os.sysconf("SC_OPEN_MAX")), 1 << 16)


def no_new_privileges() -> str:
    """Give up rights from set-user-id files; also what lets anybody use Landlock and filters."""
    kernel.prctl(PR_SET_NO_NEW_PRIVS, 1)
    return "no program could raise its rights"


def no_dump() -> str:
    """Hide this process's memory from debuggers, core files and, in `/proc`, other users."""
    if kernel.LINUX:
        kernel.prctl(PR_SET_DUMPABLE, 0)
    resource = limits_module()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not kernel.LINUX:
        raise Unsupported("no core files, but only Linux keeps debuggers away")
    return "no core files, no debuggers"


def limits_module() -> ModuleType:
    """The standard library's `resource`, which not every system has."""
    try:
        import resource
    except ImportError:
        raise Unsupported("this system has no resource limits") from None
    return resource


def die_with_parent(parent: int | None) -> str:
    """Ask the kernel to kill this process when the thread that started it ends.

    A thread, not a process: hosts are to be started by threads that last, best the main one.
    """
    before = os.getppid() if parent is None else parent
    kernel.prctl(PR_SET_PDEATHSIG, SIGKILL)
    if os.getppid() != before:
        # It died before it could be tied to us, so nobody will ever tell us to end.
        os.kill(os.getpid(), SIGKILL)
    return "ends when its parent does"


def keep_capabilities(kept: int) -> str:
    """Reduce the calling thread's capabilities to some of `kept`, a mask.

    Raises:
        Unsupported: there are other threads, which keep theirs.
    """
    header = ctypes.create_string_buffer(struct.pack("=Ii", CAPABILITY_VERSION, 0), 8)
    data = ctypes.create_string_buffer(24)
    kernel.syscall("capget", ctypes.addressof(header), ctypes.addressof(data))
    low = struct.unpack("=6I", data.raw)[:3]
    fewer = [word & kept for word in low[:2]]
    changed = struct.pack("=6I", *fewer, 0, 0, 0, 0)
    if changed != data.raw:
        data.raw = changed
        kernel.syscall("capset", ctypes.addressof(header), ctypes.addressof(data))
        if kept == 0:
            require_one_thread("capabilities that open files")
    return "none" if kept == 0 else "none but those that open files"


def require_one_thread(what: str) -> None:
    """Raise `Unsupported` if other threads exist, which keep `what`."""
    others = kernel.thread_count() - 1
    if others:
        raise Unsupported(f"{others} threads that were started before sealing keep {what}")
