"""Hostile native code for `test_harden_attacks.py`: its process locks itself up, then it tries.

`main` takes a cage, an attack, and facts the attacks use as JSON. It prints ``ready``, then what
came of it. Cages: ``none``; ``sealed``; ``settled``; ``unfiltered``, sealed without the system call
filter; and ``unlimited``, without limits either, to see what the other layers do by themselves.
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import signal
import socket
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from wasm_host import harden
from wasm_host.harden import kernel, layers, seccomp
from wasm_host.harden.kernel import Unsupported

PROT_EXEC = 4
Facts = dict[str, Any]
COLUMN = {"x86_64": 0, "aarch64": 1}.get(kernel.MACHINE, 0)


class Attack(NamedTuple):
    """An attempt, and the outcome that it must have in a sealed process.

    ``sealed``: a signal that ends the process, or the name of an error. ``landlock``: the error
    without filter and limits, where one is certain. ``works``: it succeeds outside of any cage.
    """

    run: Callable[[Facts], object]
    sealed: str
    landlock: str = ""
    works: bool = False


def raw(name: str, *arguments: int) -> int:
    """A system call, whatever Python thinks of it."""
    tables: tuple[dict[str, seccomp.Numbers], ...] = (
        seccomp.HOSTILE, seccomp.ABSENT, seccomp.ALLOWED,
        {name: numbers for name, (numbers, _) in seccomp.CHECKED.items()},
        {"dup": (32, 23), "pkey_mprotect": (329, 288), "landlock_create_ruleset": (444, 444),
         "openat": (257, 56), "pipe2": (293, 59), "eventfd2": (290, 19), "setuid": (105, 146),
         "shmget": (29, 194), "new": (600, 600), "capset": (126, 91)},
    )  # fmt: skip
    numbers = next(table[name] for table in tables if name in table)[COLUMN]
    assert numbers is not None
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    done: int = libc.syscall(ctypes.c_long(numbers), *map(ctypes.c_long, arguments))
    if done < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return done


def path(facts: Facts, name: str = "secret") -> str:
    """A file in the folder of the test."""
    return os.path.join(str(facts["folder"]), name)


def read(name: str) -> bytes:
    """A whole file."""
    with open(name, "rb") as file:
        return file.read(4096)


def write(name: str) -> int:
    """A file made or changed."""
    with open(name, "wb") as file:
        return file.write(b"was here")


def openat(facts: Facts) -> int:
    """A file opened without Python's help."""
    name = ctypes.create_string_buffer(path(facts).encode())
    return raw("openat", -100, ctypes.addressof(name), os.O_RDONLY)


def connect(family: int, kind: int, address: Any) -> str:
    """A connection out."""
    with socket.socket(family, kind) as one:
        one.connect(address)
    return "connected"


def execute(facts: Facts) -> None:
    """Another program in place of this one."""
    os.execv(facts["program"], [facts["program"]])  # noqa: S606


def spawn(facts: Facts) -> int:
    """Another program beside this one."""
    return os.posix_spawn(facts["program"], [facts["program"]], {})


def fork(_: Facts) -> str:
    """A second process like this one."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return "forked"


def ptrace(facts: Facts) -> str:
    """The parent stopped and examined; let go again if that works."""
    raw("ptrace", 16, facts["parent"], 0, 0)
    os.waitpid(facts["parent"], 0)
    raw("ptrace", 17, facts["parent"], 0, 0)
    return "attached"


def memory_of_parent(facts: Facts) -> int:
    """Bytes of the parent's memory, at an address that is mapped there as here."""
    buffer = ctypes.create_string_buffer(64)
    vector = (ctypes.c_size_t * 4)(ctypes.addressof(buffer), 64, facts["address"], 64)
    here = ctypes.addressof(vector)
    return raw("process_vm_readv", facts["parent"], here, 1, here + 16, 1, 0)


def executable_memory(_: Facts) -> str:
    """Memory for new machine code."""
    own = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    mmap.mmap(-1, 4096, own, prot=mmap.PROT_READ | mmap.PROT_WRITE | PROT_EXEC).close()
    return "mapped"


def made_executable(call: str) -> Callable[[Facts], object]:
    """Memory written first, made executable then."""

    def run(_: Facts) -> object:
        area = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        first = ctypes.addressof(ctypes.c_char.from_buffer(area))
        return raw(call, first, 4096, mmap.PROT_READ | PROT_EXEC, -1)

    return run


def undo(option: int, value: int) -> Callable[[Facts], object]:
    """A protection taken back."""
    return lambda _: kernel.prctl(option, value)


def in_thread(run: Callable[[Facts], object]) -> Callable[[Facts], object]:
    """The same from a thread that exists since before the cage."""
    start, end = threading.Event(), threading.Event()
    result: list[object] = []

    def work() -> None:
        start.wait()
        try:
            result.append(run(FACTS))
        except OSError as error:
            result.append(error)
        end.set()

    def attack(_: Facts) -> object:
        start.set()
        end.wait()
        if isinstance(result[0], OSError):
            raise result[0]
        return result[0]

    def prepare() -> Callable[[Facts], object]:
        threading.Thread(target=work, daemon=True).start()
        return attack

    attack.prepare = prepare  # type: ignore[attr-defined]
    return attack


def start_thread(_: Facts) -> str:
    """Starts one more thread."""
    thread = threading.Thread(target=lambda: None)
    try:
        thread.start()
    except RuntimeError as error:
        raise OSError(errno.EAGAIN, str(error)) from None
    thread.join()
    return "started"


def import_something(_: Facts) -> str:
    """A module that was not loaded."""
    try:
        import sqlite3  # noqa: F401
    except ModuleNotFoundError as error:
        told = "before the process was sealed" in str(error)
        raise OSError(errno.ENOENT if told else errno.EIO, str(error)) from None
    return "imported"


def grow(_: Facts) -> int:
    """More memory than `seal` allowed."""
    try:
        return len(bytearray(512 << 20))
    except MemoryError:
        raise OSError(errno.ENOMEM, "no memory") from None


def raise_limit(_: Facts) -> str:
    """The number of descriptors raised to what it was."""
    import resource

    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
    except ValueError as error:
        raise OSError(errno.EPERM, str(error)) from None
    return "raised"


KILLED, DENIED, ABSENT = "SIGSYS", "EPERM", "ENOSYS"

ATTACKS: dict[str, Attack] = {
    # Files.
    "read a file": Attack(lambda f: os.open(path(f), os.O_RDONLY), DENIED, "EACCES", True),
    "read a file by open()": Attack(lambda f: read(path(f)), DENIED, "EACCES", True),
    "read a file by a raw call": Attack(openat, DENIED, "EACCES", True),
    "write a file": Attack(lambda f: write(path(f, "victim")), DENIED, "EACCES", True),
    "make a file": Attack(lambda f: write(path(f, "new")), DENIED, "EACCES", True),
    "list a folder": Attack(lambda f: os.listdir(f["folder"]), DENIED, "EACCES", True),
    "list the root": Attack(lambda _: os.listdir("/"), DENIED, "EACCES", True),
    "stat a file": Attack(lambda f: os.stat(path(f)), DENIED, works=True),
    "remove a file": Attack(lambda f: os.unlink(path(f, "victim")), DENIED, "EACCES", True),
    "rename a file": Attack(
        lambda f: os.rename(path(f, "victim"), path(f, "moved")), DENIED, "EACCES", True
    ),
    "make a folder": Attack(lambda f: os.mkdir(path(f, "folder")), DENIED, "EACCES", True),
    "make a link": Attack(
        lambda f: os.symlink("/etc/passwd", path(f, "link")), DENIED, "EACCES", True
    ),
    "change a mode": Attack(lambda f: os.chmod(path(f, "victim"), 0o700), DENIED, works=True),
    "own memory as a file": Attack(
        lambda _: os.open("/proc/self/mem", os.O_RDWR), DENIED, "EACCES"
    ),
    "own memory map": Attack(lambda _: read("/proc/self/maps"), DENIED, "EACCES", True),
    "environment of the parent": Attack(
        lambda f: read(f"/proc/{f['parent']}/environ"), DENIED, "EACCES", True
    ),
    "a file by its handle": Attack(
        lambda _: raw("open_by_handle_at", -100, 0, 0), KILLED
    ),
    "mount": Attack(lambda _: raw("mount", 0, 0, 0, 0, 0), KILLED),
    "chroot": Attack(lambda _: raw("chroot", 0), KILLED),
    "memory as a file": Attack(lambda _: os.memfd_create("x"), ABSENT, works=True),
    "an inherited descriptor": Attack(
        lambda f: os.write(f["inherited"], b"x"), "EBADF", "EBADF", True
    ),
    "one more descriptor": Attack(lambda _: os.dup(1), DENIED, works=True),
    "a pipe": Attack(lambda _: os.pipe(), DENIED, works=True),
    # Network.
    "connect by TCP": Attack(
        lambda f: connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", f["tcp"])),
        KILLED, "EACCES", True,
    ),
    "send by UDP": Attack(
        lambda _: connect(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 9)),
        KILLED, works=True,
    ),
    "connect to a socket file": Attack(
        lambda f: connect(socket.AF_UNIX, socket.SOCK_STREAM, path(f, "socket")),
        KILLED, works=True,
    ),
    "connect to an abstract socket": Attack(
        lambda f: connect(socket.AF_UNIX, socket.SOCK_STREAM, f"\0{f['abstract']}"),
        KILLED, "EPERM", True,
    ),
    "a pair of sockets": Attack(lambda _: socket.socketpair(), KILLED, works=True),
    "a netlink socket": Attack(lambda _: socket.socket(16, socket.SOCK_RAW, 0), KILLED),
    "talk on a socket that is open": Attack(lambda _: raw("sendto", 0, 0, 0, 0, 0, 0), KILLED),
    # Programs and processes.
    "exec": Attack(execute, KILLED, "EACCES"),
    "execveat": Attack(lambda _: raw("execveat", -100, 0, 0, 0, 0), KILLED),
    "spawn": Attack(spawn, KILLED, works=True),
    "a shell": Attack(lambda _: os.system("exit 3"), KILLED, works=True),  # noqa: S605, S607
    "fork": Attack(fork, KILLED, works=True),
    "clone in a new user namespace": Attack(
        lambda _: raw("clone", 0x10000000 | 17, 0, 0, 0, 0), KILLED
    ),
    "a thread in new namespaces": Attack(
        lambda _: raw("clone", seccomp.THREAD_FLAGS | 0x20000, 0, 0, 0, 0), KILLED
    ),
    "clone3": Attack(lambda _: raw("clone3", 0, 0), ABSENT),
    "attach to the parent": Attack(ptrace, KILLED, "EPERM"),
    "probe the parent": Attack(lambda f: os.kill(f["parent"], 0), KILLED, "EPERM", True),
    "end the parent": Attack(lambda f: os.kill(f["parent"], signal.SIGTERM), KILLED, "EPERM"),
    "probe the parent's thread": Attack(
        lambda f: raw("tgkill", f["parent"], f["parent"], 0), KILLED, "EPERM", True
    ),
    "probe the parent by an old call": Attack(
        lambda f: raw("tkill", f["parent"], 0), KILLED, "EPERM", True
    ),
    # Signal 0 only: should the cage fail, everything on this machine would get it.
    "signal everybody": Attack(lambda _: os.kill(-1, 0), KILLED),
    "signal the group": Attack(lambda _: os.kill(0, 0), KILLED, works=True),
    "queue a signal": Attack(lambda f: raw("rt_sigqueueinfo", f["parent"], 0, 0), KILLED),
    "hold the parent": Attack(lambda f: os.pidfd_open(f["parent"]), KILLED, works=True),
    "memory of the parent": Attack(memory_of_parent, KILLED, "EPERM"),
    "memory of the parent, written": Attack(
        lambda f: raw("process_vm_writev", f["parent"], 0, 0, 0, 0, 0), KILLED
    ),
    "compare with the parent": Attack(
        lambda f: raw("kcmp", os.getpid(), f["parent"], 0, 0, 0), KILLED, "EPERM"
    ),
    # Machine code.
    "executable memory": Attack(executable_memory, DENIED, works=True),
    "memory made executable": Attack(made_executable("mprotect"), DENIED, works=True),
    "memory made executable by key": Attack(made_executable("pkey_mprotect"), DENIED),
    "memory that is shared": Attack(lambda _: mmap.mmap(-1, 1 << 32).close(), DENIED, works=True),
    "a stack": Attack(
        lambda _: mmap.mmap(-1, 1 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x100).close(),
        DENIED, works=True,
    ),
    "memory moved and kept": Attack(
        lambda _: raw("mremap", 0, 4096, 4096, 5), DENIED,
    ),
    "shared memory": Attack(lambda _: raw("shmget", 0, 4096, 0o600), DENIED),
    # The kernel.
    "io_uring": Attack(lambda _: raw("io_uring_setup", 1, 0), KILLED),
    "userfaultfd": Attack(lambda _: raw("userfaultfd", 0), KILLED),
    "perf_event_open": Attack(lambda _: raw("perf_event_open", 0, 0, -1, -1, 0), KILLED),
    "bpf": Attack(lambda _: raw("bpf", 0, 0, 0), KILLED),
    "unshare": Attack(lambda _: raw("unshare", 0x10000000), KILLED),
    "setns": Attack(lambda _: raw("setns", 0, 0), KILLED),
    "keyctl": Attack(lambda _: raw("keyctl", 0, -3, 0, 0, 0), KILLED),
    "kexec": Attack(lambda _: raw("kexec_load", 0, 0, 0, 0), KILLED),
    "load a kernel module": Attack(lambda _: raw("init_module", 0, 0, 0), KILLED),
    "personality": Attack(lambda _: raw("personality", 0x0400000), KILLED),
    "a call from the future": Attack(lambda _: raw("new", 0, 0, 0), ABSENT, "ENOSYS"),
    # Undoing.
    "privileges again": Attack(undo(layers.PR_SET_NO_NEW_PRIVS, 0), DENIED, "EINVAL"),
    "dumpable again": Attack(undo(layers.PR_SET_DUMPABLE, 1), DENIED, works=True),
    "outlive the parent": Attack(undo(layers.PR_SET_PDEATHSIG, 0), DENIED, works=True),
    "limits again": Attack(raise_limit, DENIED, works=True),
    "capabilities again": Attack(lambda _: raw("capset", 0, 0), DENIED),
    "another user": Attack(lambda _: raw("setuid", 12345), DENIED),
    "a filter of one's own that asks": Attack(lambda _: raw("seccomp", 1, 8, 0), DENIED),
    "signals to the parent by input": Attack(
        lambda f: __import__("fcntl").fcntl(0, 8, f["parent"]), DENIED
    ),
    "typing into a terminal": Attack(
        lambda _: __import__("fcntl").ioctl(2, 0x5412, b"x"), "ENOTTY", "ENOTTY"
    ),
    "import": Attack(import_something, "ENOENT", "ENOENT", True),
    "more memory than allowed": Attack(grow, "ENOMEM", works=True),
    # From a thread that is older than the cage.
    "a socket from another thread": Attack(
        in_thread(lambda _: socket.socket().fileno()), KILLED, works=True
    ),
    "a file from another thread": Attack(in_thread(lambda f: read(path(f))), DENIED, works=True),
}  # fmt: skip

#: What resource limits refuse by themselves: attack -> error.
LIMITED: dict[str, str] = {
    "memory as a file": "EMFILE",
    "one more descriptor": "EMFILE",
    "a pipe": "EMFILE",
    "a pair of sockets": "EMFILE",
    "hold the parent": "EMFILE",
    "limits again": "EPERM",
    "more memory than allowed": "ENOMEM",
}

#: Attacks only a process that is settled, too, has to withstand.
SETTLED: dict[str, Attack] = {
    "one more thread": Attack(start_thread, "EAGAIN", works=True),
    "one more filter": Attack(lambda _: raw("seccomp", 1, 1, 0), DENIED),
}

FACTS: Facts = {}


def _switched_off(_: object) -> str:
    raise Unsupported("switched off by the test")


def main(cage: str, name: str, facts: str) -> None:
    """Lock up, try, tell, end."""
    import fcntl  # noqa: F401 - some attacks want it, and can not import it later
    import resource  # noqa: F401

    FACTS.update(json.loads(facts))
    attack = (ATTACKS | SETTLED)[name]
    prepare = getattr(attack.run, "prepare", None)
    run: Callable[[Facts], object] = prepare() if prepare is not None else attack.run
    if cage in ("unfiltered", "unlimited"):
        vars(seccomp)["install"] = _switched_off
    if cage == "unlimited":
        vars(layers)["limit"] = _switched_off
    if cage != "none":
        harden.seal(memory=256 << 20)
    if cage == "settled":
        harden.settle()
    os.write(1, b"ready\n")
    try:
        outcome = f"did it: {run(FACTS)!r}"
    except OSError as error:
        outcome = f"refused: {errno.errorcode.get(error.errno or 0, str(error))}"
    os.write(1, outcome.encode() + b"\n")
    os._exit(0)
