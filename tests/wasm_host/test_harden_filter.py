"""The system call filter as a program: run by an interpreter, for other machines too."""

import errno
import signal
import struct
import subprocess
import sys

import pytest

from wasm_host.harden import seccomp
from wasm_host.harden.kernel import LINUX, Unsupported
from wasm_host.harden.seccomp import ALLOW, ERRNO, KILL

PID = 4711
#: Machine -> (column of the tables, architecture as `seccomp_data` names it).
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
I386 = 0x40000003
DENIED = ERRNO | errno.EPERM


def verdict(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """The kernel's verdict, by an interpreter of the instructions that the filter uses."""
    padded = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    data = struct.pack("<IIQ6Q", number, architecture, 0, *padded)
    steps = list(struct.iter_unpack("<HBBI", program))
    at = accumulator = 0
    while True:
        code, then, otherwise, value = steps[at]
        at += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, value)
        elif code == 0x54:
            accumulator &= value
        elif code == 0x06:
            return int(value)
        else:
            tests = {
                0x15: accumulator == value,
                0x35: accumulator >= value,
                0x45: bool(accumulator & value),
            }
            at += then if tests[code] else otherwise


class Filter:
    """The filter of one machine, asked by name."""

    def __init__(self, machine: str, *, threads: bool = True) -> None:
        self.column, self.architecture = MACHINES[machine]
        self.program = seccomp.program(machine, PID, threads=threads)

    def number(self, name: str) -> int | None:
        """The number of a call."""
        checked = {name: numbers for name, (numbers, _) in seccomp.CHECKED.items()}
        tables = seccomp.ALLOWED | seccomp.HOSTILE | seccomp.ABSENT | checked
        return tables[name][self.column]

    def __call__(self, name: str, *arguments: int) -> int:
        number = self.number(name)
        assert number is not None
        return verdict(self.program, self.architecture, number, *arguments)


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (seccomp.ALLOWED, ALLOW),
        (seccomp.HOSTILE, KILL),
        (seccomp.ABSENT, ERRNO | errno.ENOSYS),
    ],
    ids=["allowed", "hostile", "absent"],
)
def test_each_table_gets_its_verdict(
    table: dict[str, seccomp.Numbers], expected: int, machine: str
) -> None:
    asked = Filter(machine)
    present = [name for name in table if asked.number(name) is not None]
    assert {name: asked(name) for name in present} == dict.fromkeys(present, expected)


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("mmap", (0, 4096, 3), ALLOW),
        ("mmap", (0, 4096, 3, 0x22), ALLOW),
        ("mmap", (0, 4096, 0, 0x4022), ALLOW),
        ("mmap", (0, 4096, 3, 0x20022), ALLOW),
        ("mmap", (0, 4096, 3, 0x21), DENIED),
        ("mmap", (0, 4096, 3, 0x23), DENIED),
        ("mmap", (0, 4096, 3, 0x122), DENIED),
        ("mmap", (0, 4096, 3, 0x40022), DENIED),
        ("mremap", (4096, 4096, 8192, 1), ALLOW),
        ("mremap", (4096, 4096, 8192, 0), ALLOW),
        ("mremap", (4096, 0, 8192, 3), DENIED),
        ("mremap", (4096, 4096, 8192, 5), DENIED),
        ("mmap", (0, 4096, 7), DENIED),
        ("mmap", (0, 4096, 4), DENIED),
        ("mprotect", (0, 4096, 1), ALLOW),
        ("mprotect", (0, 4096, 5), DENIED),
        ("clone", (0x3D0F00,), ALLOW),
        ("clone", (0x7D0F00,), ALLOW),
        ("clone", (0x11,), KILL),
        ("clone", (0x1200011,), KILL),
        ("clone", (0x4111,), KILL),
        ("clone", (0x3D0F00 | 0x10000000,), KILL),
        ("clone", (0x3D0F00 & ~0x10000,), KILL),
        ("kill", (PID, 6), ALLOW),
        ("kill", (PID + 1, 0), KILL),
        ("kill", (0, 0), KILL),
        ("kill", (2**64 - 1, 0), KILL),
        ("tgkill", (PID, PID + 3, 6), ALLOW),
        ("tgkill", (1, PID, 6), KILL),
        ("fcntl", (0, 3), ALLOW),
        ("fcntl", (0, 4, 2048), ALLOW),
        ("fcntl", (0, 8, 1), DENIED),
        ("fcntl", (0, 0), DENIED),
        ("ioctl", (0, 0x5421), ALLOW),
        ("ioctl", (0, 0x5412), ERRNO | errno.ENOTTY),
        ("prctl", (15,), ALLOW),
        ("prctl", (4, 1), DENIED),
        ("prlimit64", (0, 3, 0, 1), ALLOW),
        ("prlimit64", (1, 3, 0, 1), DENIED),
        ("prlimit64", (0, 3, 1, 0), DENIED),
        ("prlimit64", (0, 3, 1 << 32, 0), DENIED),
        ("seccomp", (1, 1), ALLOW),
        ("seccomp", (1, 9), DENIED),
        ("seccomp", (0, 0), DENIED),
    ],
)  # fmt: skip
def test_arguments_are_judged(
    name: str, arguments: tuple[int, ...], expected: int, machine: str
) -> None:
    assert Filter(machine)(name, *arguments) == expected


def test_a_settled_process_starts_no_threads_and_takes_no_filter(machine: str) -> None:
    asked = Filter(machine, threads=False)
    assert asked("clone", 0x3D0F00) == ERRNO | errno.EAGAIN
    assert asked("clone", 0x11) == KILL
    assert asked("seccomp", 1, 1) == DENIED
    assert asked("read") == ALLOW


def test_another_architecture_is_the_end(machine: str) -> None:
    program = Filter(machine).program
    others = {I386, *(architecture for _, architecture in MACHINES.values())}
    for other in others - {MACHINES[machine][1]}:
        assert {verdict(program, other, number) for number in range(512)} == {KILL}


def test_the_x32_abi_is_the_end() -> None:
    asked = Filter("x86_64")
    for number in range(600):
        assert verdict(asked.program, asked.architecture, 0x40000000 | number) == KILL


def test_nothing_else_is_allowed(machine: str) -> None:
    """Each number that is in no table is refused, and those from the future do not exist."""
    asked = Filter(machine)
    checked = {name: numbers for name, (numbers, _) in seccomp.CHECKED.items()}
    tables = (seccomp.ALLOWED, seccomp.HOSTILE, seccomp.ABSENT, checked)
    numbers = [numbers[asked.column] for table in tables for numbers in table.values()]
    known = [number for number in numbers if number is not None]
    assert len(known) == len(set(known)), "no call has two verdicts"
    for number in set(range(1024)) - set(known):
        expected = ERRNO | errno.ENOSYS if number >= seccomp.NEWER else DENIED
        assert verdict(asked.program, asked.architecture, number) == expected


def test_another_machine_has_no_filter() -> None:
    with pytest.raises(Unsupported, match="no filter is known for the processor riscv64"):
        seccomp.program("riscv64", PID, threads=True)


OLD_KERNEL = """
import errno, os, sys
from wasm_host.harden import kernel, seccomp
def missing(name, *arguments):
    raise OSError(errno.ENOSYS, "no such call")
seccomp.syscall = missing
kernel.prctl(38, 1)  # PR_SET_NO_NEW_PRIVS
program = seccomp.program(kernel.MACHINE, os.getpid(), threads=False)
assert seccomp.install(program) is False
print("filtered", flush=True)
os.kill(os.getppid(), 0)
"""
"""A kernel without the call `seccomp` takes the filter by `prctl`."""


@pytest.mark.skipif(not LINUX, reason="only Linux has the filter")
def test_a_kernel_without_the_call_gets_the_filter_for_the_thread() -> None:
    code = [sys.executable, "-c", OLD_KERNEL]
    ran = subprocess.run(code, check=False, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout.strip()) == (-signal.SIGSYS, "filtered"), ran.stderr
