"""Compiling in a process of its own, within limits of its own.

The cost of compiling a module is not known before: 45 KB may take gigabytes and minutes. So this
process, which others depend on, compiles only modules too small to matter (`is_harmless`). All
others are compiled in a child with bounded memory and processor time, which this process kills if
it takes too long by the clock. A module that fails in the child is refused, not tried again.

The child is a fork if that is safe: on Linux, while this process has one thread. Else it is a
fresh interpreter. Both ways leave none of wasmtime's threads behind in this process, since a cage
would not cover them (`wasm_host.harden`).

The cost of a function grows faster than its size where blocks nest or locals are many, so the child
counts both before the compiler sees them (`check_bodies`). The baseline compiler gets no module of
a stranger, and somebody waits for it: nothing is counted then.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
from typing import IO, TYPE_CHECKING, Final, NoReturn

import msgspec

from wasm_host.engine import compiler_for
from wasm_host.errors import LoadError, cause, over
from wasm_host.format import CORE_VERSION, Reader, bare, parts
from wasm_host.harden import isolated_python
from wasm_host.harden.kernel import LINUX, thread_count
from wasm_host.limits import Limits

if TYPE_CHECKING:
    from wasm_host.info import ModuleInfo


_HARMLESS_BYTES: Final = 4096
"""A core module up to this size, none of whose types is wider, compiles in milliseconds."""
_HARMLESS_VALUES: Final = 16

_CLOCK_FACTOR: Final = 3
"""By the clock a compile may take this many times its processor time: the machine may be busy."""
_START_SECONDS: Final = 10.0
"""And this much more, to start."""

_REFUSED: Final = 3
"""Exit code of a child whose standard error is a `LoadError`, as `_Refusal`."""

_PAYLOAD_BYTES: Final = 32 << 20
_PAYLOAD_FACTOR: Final = 8
"""A compiled module has at most `_PAYLOAD_BYTES` and this many times the module's bytes: this
process reads it, and the cache keeps it."""

_FEATURES: Final = "it may be damaged, or need a WebAssembly feature this host leaves out"
_DISTRUST: Final = "do not use it; it may be meant to bring its host down"

_Refusal = tuple[str, str | None, str, str]
"""Message, limit, detail and hint of a `LoadError`."""


def seconds(limits: Limits) -> float:
    """The most seconds by the clock that compiling a module may take."""
    return _CLOCK_FACTOR * limits.compile_ms / 1000 + _START_SECONDS


def is_harmless(info: ModuleInfo) -> bool:
    """Whether a module may be compiled in this very process."""
    return (
        info.carrier != "component"
        and info.size <= _HARMLESS_BYTES
        and info.widest_type <= _HARMLESS_VALUES
        and not info.tables  # the compiler writes each out in full, and a few bytes declare it
    )


def compiled(
    data: bytes, info: ModuleInfo, label: str, limits: Limits, *, baseline: bool = False
) -> bytes:
    """Compile a module, to wasmtime's serialized form; `baseline`: by the baseline compiler.

    Raises:
        LoadError: a function exceeds a limit, or it does not compile within its limits.
    """
    try:
        # Files, not pipes: the child cannot block on a reader, and RLIMIT_FSIZE bounds them.
        with tempfile.TemporaryFile() as result, tempfile.TemporaryFile() as stderr:
            if may_fork():
                code = _by_fork(data, limits, result, stderr, baseline)
            elif is_harmless(info):
                code = _work(data, limits, result, stderr, baseline)
            else:
                code = _by_interpreter(data, limits, result, stderr, baseline)
            stderr.seek(0)
            if code != 0:
                raise _failure(code, stderr.read(1 << 20), limits).of(label)
            result.seek(0)
            return result.read()
    except OSError as error:
        raise LoadError(
            f"{label} cannot be compiled: {error.strerror or error}",
            hint="see that there is room for temporary files and processes",
        ) from None


# -- function bodies ---------------------------------------------------------------------------

_LEB: Final = rb"[\x80-\xff]*+[\x00-\x7f]"
_MEMARG: Final = (
    rb"(?:[\x00-\x3f]|[\x80-\xbf]\x80*+\x00)" + _LEB
    + rb"|(?:[\x40-\x7f]|[\xc0-\xff]\x80*+\x00)" + _LEB + _LEB
)  # fmt: skip
"""Alignment; the memory, where bit 6 of the alignment says that it follows; offset."""
_BLOCK_TYPE: Final = rb"(?:[\x63\x64]" + _LEB + rb"|" + _LEB + rb")"

_ORDINARY: Final = (
    # Locals, globals, tables, constants, branches, calls, references: one number.
    rb"[\x20-\x26\x41\x42\x0c\x0d\x10\x12\x3f\x40\x08\x14\x15\xd0\xd2\xd5\xd6]" + _LEB,
    # Arithmetic, and all other instructions without an operand.
    rb"[\x45-\xc4\x1a\x1b\x0f\x00\x01\x05\x0a\xd1\xd3\xd4]++",
    rb"[\x28-\x3e](?:" + _MEMARG + rb")",
    rb"[\x11\x13]" + _LEB + _LEB,
    rb"\x43.{4}",
    rb"\x44.{8}",
    rb"\x1c\x01" + _BLOCK_TYPE,
    rb"\xfc(?:[\x00-\x07]|[\x08\x0a\x0c\x0e]" + _LEB + _LEB + rb"|[\x09\x0b\x0d\x0f-\x11]"
    + _LEB + rb")",
    rb"\xfd(?:[\x00-\x0b\x5c\x5d](?:" + _MEMARG + rb")|[\x0c\x0d].{16}|[\x15-\x22]."
    rb"|[\x54-\x5b](?:" + _MEMARG + rb").|[\x0e-\x14\x23-\x53\x5e-\x7f]"
    rb"|[\x80-\xff]\x01|[\x80-\x9f]\x02)",
)  # fmt: skip

_NEXT: Final = re.compile(
    rb"(?>" + rb"|".join(_ORDINARY) + rb")*+"
    rb"(?:([\x02-\x04]" + _BLOCK_TYPE + rb")|(\x0b++)|(\x0e)|(\x1f" + _BLOCK_TYPE + rb"))",
    re.DOTALL,
)  # fmt: skip
"""Ordinary instructions, then one of: block, loop or if; ends; a branch table; try_table."""
_CATCH: Final = re.compile(rb"[\x00\x01]" + _LEB + _LEB + rb"|[\x02\x03]" + _LEB)
_OPENS, _ENDS, _TABLE = 1, 2, 3

_CONTINUED: Final = bytes(range(0x80, 0x100))


def check_bodies(data: bytes, limits: Limits) -> None:
    """Refuse functions with too many locals or blocks, or with unknown instructions.

    Raises:
        LoadError: the module has such a function.
    """
    try:
        for component, sections in parts(data, limits):
            for code, section in sections:
                if component or code != 10:
                    continue
                for _ in range(section.number()):
                    size = section.number()
                    start = section.skip(size)
                    count, depth = _measure(Reader(data, start, start + size))
                    if count > limits.locals:
                        raise over("locals", f"a function has {count} locals", limits.locals)
                    if depth > limits.blocks:
                        raise over("blocks", f"a function nests {depth} blocks", limits.blocks)
    except (IndexError, ValueError) as error:
        raise LoadError(f"it does not compile: {error}", hint=_FEATURES) from None


def _measure(body: Reader) -> tuple[int, int]:
    """The number of locals of a body, and the nesting of its blocks.

    Raises:
        ValueError: it is damaged, or has an instruction that this host does not know.
        IndexError: it ends early.
    """
    count = 0
    for _ in range(body.number()):
        count += body.number()
        body.value_type()
    depth = deepest = 0
    while body.at < body.end:
        # One match skips all instructions that open and close nothing: a body of a megabyte is
        # walked in milliseconds.
        match = _NEXT.match(body.data, body.at, body.end)
        if match is None:
            raise ValueError("a function has an instruction that this host does not know")
        body.at = match.end()
        kind = match.lastindex
        if kind == _ENDS:
            depth -= body.at - match.start(_ENDS)
            # The last end closes the function itself.
            if depth < 0 and (depth < -1 or body.at < body.end):
                raise ValueError("a function ends more blocks than it begins")
        elif kind == _TABLE:
            _skip_numbers(body, body.number() + 1)
        else:
            depth += 1
            deepest = max(deepest, depth)
            if kind != _OPENS:
                _skip_catches(body, body.number())
    return count, deepest


def _skip_numbers(body: Reader, count: int) -> None:
    """Skip the labels of a branch table without reading each: there may be millions."""
    while count:
        # Each number has one byte that does not continue, and at least one byte.
        some = body.data[body.at : min(body.at + count, body.end)]
        if not some:
            raise IndexError("a branch table ends early")
        body.at += len(some)
        count -= len(some.translate(None, _CONTINUED))


def _skip_catches(body: Reader, count: int) -> None:
    for _ in range(count):
        match = _CATCH.match(body.data, body.at, body.end)
        if match is None:
            raise IndexError("a try_table ends early")
        body.at = match.end()


# -- in the child ------------------------------------------------------------------------------


def main() -> NoReturn:
    """Entry point of a fresh interpreter: on its input come limits and whether to use the baseline
    compiler, a newline, and the module."""
    line = sys.stdin.buffer.readline()
    limits, baseline = msgspec.json.decode(line, type=tuple[Limits, bool])
    data = sys.stdin.buffer.read()
    _confine(limits, len(data))
    os._exit(_work(data, limits, sys.stdout.buffer, sys.stderr.buffer, baseline))


def _confine(limits: Limits, size: int) -> None:
    """Bound this process, as far as the system has the means; `size`: bytes of the module."""
    import resource

    cpu = -(-limits.compile_ms // 1000)
    data = _data_bytes() + limits.compile_bytes
    payload = _PAYLOAD_BYTES + _PAYLOAD_FACTOR * size
    for name, soft, hard in (
        ("RLIMIT_CORE", 0, 0),
        # SIGXCPU at the soft limit says why it died; SIGKILL at the hard one is certain.
        ("RLIMIT_CPU", cpu, cpu + 1),
        ("RLIMIT_DATA", data, data),
        ("RLIMIT_FSIZE", payload, payload),
    ):
        # macOS knows the names, and does not always accept them.
        with contextlib.suppress(AttributeError, OSError, ValueError):
            resource.setrlimit(getattr(resource, name), (soft, hard))


def _data_bytes() -> int:
    """Bytes of data this process has already, which RLIMIT_DATA counts too."""
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:
            return int(file.read(256).split()[5]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def _work(data: bytes, limits: Limits, result: IO[bytes], stderr: IO[bytes], baseline: bool) -> int:
    """Check and compile a module and write the result; an exit code."""
    try:
        if not baseline:
            check_bodies(data, limits)
        component = data[4:8] != CORE_VERSION
        engine, kind = compiler_for(limits, component=component, baseline=baseline)
        result.write(kind(engine, bare(data)).serialize())
        result.flush()
        return 0
    except LoadError as error:
        failure = error
    except MemoryError:
        failure = _too_large(limits)
    except (IndexError, ValueError, RecursionError) as error:
        failure = LoadError(f"it does not compile: {error}", hint=_FEATURES)
    except Exception as error:
        # Of one of two classes, which need not both be imported.
        if type(error).__name__ != "WasmtimeError":
            raise
        message = f"it does not compile: {cause(str(error))}"[:500]
        failure = LoadError(message, detail=str(error)[:65536], hint=_FEATURES)
    refusal: _Refusal = (str(failure), failure.limit, failure.detail, failure.hint)
    stderr.write(msgspec.json.encode(refusal))
    stderr.flush()
    return _REFUSED


# -- in the parent -----------------------------------------------------------------------------


def may_fork() -> bool:
    """Whether a fork is safe: a lock that another thread holds would stay locked in the child."""
    try:
        return LINUX and thread_count() == 1
    except OSError:
        return False


def _by_fork(
    data: bytes, limits: Limits, result: IO[bytes], stderr: IO[bytes], baseline: bool
) -> int:
    import select

    parent = os.getpid()
    ended, alive = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            from wasm_host.harden.layers import die_with_parent

            os.close(ended)
            die_with_parent(parent)
            # The output of the compiler itself, such as a failed allocation, explains its end.
            os.dup2(stderr.fileno(), 2)
            _confine(limits, len(data))
            code = _work(data, limits, result, stderr, baseline)
        finally:
            # Not a return: the rest of this program belongs to the parent.
            os._exit(code)
    os.close(alive)
    try:
        # The pipe closes when the child ends: a wait with a time limit, without signals.
        if not select.select([ended], [], [], seconds(limits))[0]:
            raise _too_slow(limits)
    finally:
        os.close(ended)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
    return os.waitstatus_to_exitcode(status)


def _by_interpreter(
    data: bytes, limits: Limits, result: IO[bytes], stderr: IO[bytes], baseline: bool
) -> int:
    command = isolated_python("from wasm_host.cache.compile_process import main; main()")
    with tempfile.TemporaryFile() as source:
        source.write(msgspec.json.encode((limits, baseline)) + b"\n" + data)
        source.seek(0)
        try:
            return subprocess.run(
                command,
                stdin=source,
                stdout=result,
                stderr=stderr,
                timeout=seconds(limits),
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            raise _too_slow(limits) from None


def _failure(code: int, stderr: bytes, limits: Limits) -> LoadError:
    """The error for a child that failed with an exit code."""
    if code == _REFUSED:
        with contextlib.suppress(msgspec.DecodeError):
            message, limit, detail, hint = msgspec.json.decode(stderr, type=_Refusal)
            return LoadError(message, limit=limit, detail=detail, hint=hint)
    if b"memory allocation of" in stderr or b"MemoryError" in stderr:
        return _too_large(limits)
    if code == -signal.SIGXCPU:
        return over("compile_ms", "compiling it takes more processor time", limits.compile_ms)
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return LoadError(
        f"it makes the compiler fail ({how})",
        detail=stderr.decode("utf-8", "replace").strip(),
        hint=_DISTRUST,
    )


def _too_large(limits: Limits) -> LoadError:
    return over("compile_bytes", "compiling it takes more memory", limits.compile_bytes)


def _too_slow(limits: Limits) -> LoadError:
    text = f"compiling it takes more than {seconds(limits):g} s"
    return over("compile_ms", text, limits.compile_ms)
