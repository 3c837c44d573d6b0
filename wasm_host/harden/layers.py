"""Layers that bound or reduce the rights of this process: one function each.

Each returns its effect, or raises `Unsupported` or `OSError`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from typing import Final

from wasm_host.harden import kernel
from wasm_host.harden.kernel import Unsupported

PR_SET_PDEATHSIG: Final = 1
PR_SET_DUMPABLE: Final = 4
PR_SET_NO_NEW_PRIVS: Final = 38
SIGKILL: Final = 9

FILE_CAPABILITIES: Final = 1 << 1 | 1 << 2
"""Capabilities kept until files have been read: CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH."""
CAPABILITY_VERSION: Final = 0x20080522

_LAST: Final = 0xFFFFFFFF
"""The highest descriptor there may be."""

_CGROUPS: Final = "/sys/fs/cgroup"
_OWN_CGROUP: Final = "/proc/self/cgroup"
_CGROUP_PREFIX: Final = "conductor-host-"
_CGROUP_TASKS: Final = 64
"""Processes and threads in the group; a host has a few threads, one more for each WASI command."""


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
        # Nothing reads it any more: `clear` has removed each variable from the list of pointers.
        ctypes.memset(start, 0, end - start)


def no_descriptors(but: int) -> str:
    """Close every descriptor but 0, 1, 2 and `but`."""
    for first, last in ((3, but - 1), (max(but, 2) + 1, _LAST)):
        if first > last:
            continue
        try:
            kernel.syscall("close_range", first, last, 0)
        except (Unsupported, OSError):
            os.closerange(first, min(last, _highest_descriptor()) + 1)
    return "standard input, output and error only"


def _highest_descriptor() -> int:
    for folder in ("/proc/self/fd", "/dev/fd"):
        if os.path.isdir(folder):
            return max(map(int, os.listdir(folder)))
    return min(int(os.sysconf("SC_OPEN_MAX")), 1 << 16)


def no_new_privileges() -> str:
    """Give up rights from set-user-id files; only then may anybody use Landlock and filters."""
    kernel.prctl(PR_SET_NO_NEW_PRIVS, 1)
    return "no program could raise its rights"


def no_dump() -> str:
    """Hide this process's memory from debuggers, core files and, in `/proc`, other users."""
    import resource

    if kernel.LINUX:
        kernel.prctl(PR_SET_DUMPABLE, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not kernel.LINUX:
        raise Unsupported("no core files, but only Linux keeps debuggers away")
    return "no core files, no debuggers"


def die_with_parent(parent: int | None) -> str:
    """Ask the kernel to kill this process when the thread that started it ends.

    The kill follows the end of the thread, not of the process. So a thread that lasts must start
    hosts, best the main thread.
    """
    before = os.getppid() if parent is None else parent
    kernel.prctl(PR_SET_PDEATHSIG, SIGKILL)
    if os.getppid() != before:
        # The parent died before the call above, so no signal will ever come.
        os.kill(os.getpid(), SIGKILL)
    return "ends when its parent does"


def keep_capabilities(kept: int) -> str:
    """Reduce the calling thread's capabilities to some of `kept`, a mask.

    Raises:
        Unsupported: there are other threads, which keep theirs.
    """
    # Only permitted, effective and inheritable sets that shrink: the kernel allows that to anybody.
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


def limit(memory: int | None) -> str:
    """Bound files, descriptors and, if `memory` is given, writable private memory in bytes."""
    import resource

    # RLIMIT_NPROC is of no use: it counts all of the user's processes, and root's not at all.
    free = os.dup(0)
    os.close(free)
    bounds = {resource.RLIMIT_FSIZE: 0, resource.RLIMIT_CORE: 0, resource.RLIMIT_NOFILE: free}
    achieved = "no file may grow, no further descriptors"
    if memory is not None:
        bounds[resource.RLIMIT_DATA] = memory
        achieved += f", memory up to {memory >> 20} MiB"
    for which, bound in bounds.items():
        resource.setrlimit(which, (bound, bound))
    return achieved


def enter_cgroup(memory: int | None, root: str = _CGROUPS, current: str = _OWN_CGROUP) -> str:
    """Make a control group, where the user may, and move this process into it.

    Limits of a process count the memory that it maps itself, by the calls they know. A group counts
    all memory that the kernel gives its processes, and their number. It is made beside the group of
    this process (cgroup v2, as systemd delegates it to users), since a group with processes has no
    children. Groups that ended hosts have left are removed.

    Raises:
        Unsupported: this system has no such groups, or this user may make none.
        OSError: the kernel refused.
    """
    kernel.require_linux()
    # Strings throughout: to load `pathlib` takes a tenth of the start of a host.
    beside = f"{root}{_own_cgroup(current)}".rstrip("/")
    parent = os.path.dirname(beside)
    try:
        delegated = set(_read(f"{parent}/cgroup.subtree_control").split())
    except OSError:
        raise Unsupported("no cgroup v2 whose parent can be read") from None
    if not {"memory", "pids"} <= delegated or beside == root:
        raise Unsupported("no cgroup v2 with memory and pids is delegated to this user")
    with contextlib.suppress(OSError):
        for name in os.listdir(parent):
            if name.startswith(_CGROUP_PREFIX):
                with contextlib.suppress(OSError):  # a group in use stays
                    os.rmdir(f"{parent}/{name}")
    group = f"{parent}/{_CGROUP_PREFIX}{os.getpid()}"
    try:
        os.mkdir(group)
    except OSError as error:
        raise Unsupported(f"this user may make no cgroup: {error.strerror}") from None
    try:
        _write(f"{group}/pids.max", _CGROUP_TASKS)
        if memory is not None:
            _write(f"{group}/memory.max", memory)
        _write(f"{group}/cgroup.procs", os.getpid())
    except OSError as error:
        with contextlib.suppress(OSError):
            os.rmdir(group)
        raise Unsupported(f"this process may not enter a cgroup: {error.strerror}") from None
    achieved = f"at most {_CGROUP_TASKS} threads and processes"
    return achieved if memory is None else f"{achieved}, {memory >> 20} MiB altogether"


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _write(path: str, number: int) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(str(number))


def _own_cgroup(current: str) -> str:
    """The group of cgroup v2 this process is in."""
    try:
        lines = _read(current).splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("0::/"):
            return line[3:]
    raise Unsupported("this system has no cgroup v2")
