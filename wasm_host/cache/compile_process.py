"""Compiling in a process of its own, within limits of its own.

What a module costs to compile is not known before: 45 KB may take gigabytes and minutes. So this
process, which others depend on, compiles nothing but modules too small to matter
(`is_harmless`). All others are compiled in a child with bounded memory and processor time,
which this process ends if it takes too long by the clock. What fails there is not tried again.

The child is a fork where that is safe: on Linux, while this process has one thread. Else it is a
fresh interpreter. Either leaves none of wasmtime's threads behind, which would escape a cage
(`wasm_host.harden`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import msgspec
import wasmtime

import wasm_host
from wasm_host.binary import bare, parts
from wasm_host.cache.code import BodyReader
from wasm_host.engine import engine_for
from wasm_host.errors import LoadError, over
from wasm_host.harden.kernel import LINUX, thread_count
from wasm_host.limits import Limits
from wasm_host.traps import cause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wasm_host.info import ModuleInfo


_HARMLESS_BYTES: Final = 4096
"""A core module up to this size, none of whose types is wider, compiles in milliseconds."""
_HARMLESS_VALUES: Final = 16

_PATIENCE: Final = 3
"""By the clock a compile may take so many times its processor time: the machine may be busy."""
_START: Final = 10.0
"""And so many seconds more, to start."""

_REFUSED: Final = 3
"""Exit code of a child whose standard error is a `_Refusal`."""

_LARGEST: Final = 32 << 20
_GROWTH: Final = 8
"""What is compiled has at most `_LARGEST` bytes, and so many times the module's: this process reads
it, and the cache keeps it."""

_FEATURES: Final = "it may be damaged, or need a WebAssembly feature this host leaves out"
_DISTRUST: Final = "do not use it; it may be meant to bring its host down"


class _Refusal(msgspec.Struct):
    message: str
    limit: str | None
    detail: str
    hint: str


def seconds(limits: Limits) -> float:
    """How long compiling a module may take by the clock."""
    return _PATIENCE * limits.compile_ms / 1000 + _START


def is_harmless(info: ModuleInfo) -> bool:
    """Whether a module may be compiled in this very process."""
    return (
        info.carrier != "component"
        and info.size <= _HARMLESS_BYTES
        and info.widest_type <= _HARMLESS_VALUES
        and not info.tables  # a few bytes fill each of them
    )


@contextlib.contextmanager
def compiled(data: bytes, info: ModuleInfo, label: str, limits: Limits) -> Iterator[IO[bytes]]:
    """Compile a module; a temporary file with the result, in wasmtime's form.

    Raises:
        LoadError: it has functions beyond a limit, does not compile, or not within its limits.
    """
    try:
        with tempfile.TemporaryFile() as result, tempfile.TemporaryFile() as said:
            if _forks():
                code = _by_fork(data, limits, result, said)
            elif is_harmless(info):
                code = _work(data, limits, result, said)
            else:
                code = _by_interpreter(data, limits, result, said)
            if code != 0:
                said.seek(0)
                raise _why(code, said.read(1 << 20), limits).of(label)
            result.seek(0)
            yield result
    except OSError as error:
        raise LoadError(
            f"{label} cannot be compiled: {error.strerror or error}",
            hint="see that there is room for temporary files and processes",
        ) from None


# -- in the child ------------------------------------------------------------------------------


def main() -> None:
    """Entry point of a fresh interpreter: limits, a newline and the module come on its input."""
    line = sys.stdin.buffer.readline()
    data = sys.stdin.buffer.read()
    limits = msgspec.json.decode(line, type=Limits)
    _confine(limits, len(data))
    os._exit(_work(data, limits, sys.stdout.buffer, sys.stderr.buffer))


def _confine(limits: Limits, size: int) -> None:
    """Bound this process, as far as the system has the means; `size`: bytes of the module."""
    try:
        import resource
    except ImportError:
        return
    cpu = -(-limits.compile_ms // 1000)
    for which, soft, hard in (
        ("RLIMIT_CORE", 0, 0),
        ("RLIMIT_CPU", cpu, cpu + 1),
        ("RLIMIT_DATA", _used() + limits.compile_bytes, None),
        ("RLIMIT_FSIZE", _LARGEST + _GROWTH * size, None),
    ):
        # macOS knows the names, and not always what to do about them.
        with contextlib.suppress(AttributeError, OSError, ValueError):
            resource.setrlimit(getattr(resource, which), (soft, soft if hard is None else hard))


def _used() -> int:
    """Bytes of data this process has already, which a limit of the system counts too."""
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:
            return int(file.read(256).split()[5]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def _work(data: bytes, limits: Limits, result: IO[bytes], said: IO[bytes]) -> int:
    """Judge the code, compile it, write the result; an exit code."""
    try:
        check_bodies(data, limits)
        kind: Any = wasmtime.Module
        if data[4:8] != b"\x01\0\0\0":
            from wasmtime import component

            kind = component.Component
        payload = kind(engine_for(limits), bare(data)).serialize()
        result.write(payload)
        result.flush()
    except LoadError as error:
        refusal = _Refusal(str(error), error.limit, error.detail, error.hint)
    except wasmtime.WasmtimeError as error:
        refusal = _Refusal(
            f"it does not compile: {cause(str(error))}"[:500], None, str(error)[:65536], _FEATURES
        )
    except MemoryError:
        refusal = _memory(limits)
    except (IndexError, ValueError, RecursionError) as error:
        refusal = _Refusal(f"it does not compile: {error}", None, "", _FEATURES)
    else:
        return 0
    said.write(msgspec.json.encode(refusal))
    said.flush()
    return _REFUSED


def check_bodies(data: bytes, limits: Limits) -> None:
    """Refuse functions with too many locals or blocks, and those that nobody here understands.

    Raises:
        LoadError: there is one.
    """
    bodies = BodyReader(data)
    try:
        for component, sections in parts(data, limits):
            for code, reader in sections:
                if component or code != 10:
                    continue
                for _ in range(reader.number()):
                    size = reader.number()
                    start = reader.skip(size)
                    count, depth = bodies.measure(start, start + size)
                    if count > limits.locals:
                        raise over("locals", f"a function has {count} locals", limits.locals)
                    if depth > limits.blocks:
                        raise over("blocks", f"a function nests {depth} blocks", limits.blocks)
    except (IndexError, ValueError) as error:
        raise LoadError(f"it does not compile: {error}", hint=_FEATURES) from None


# -- from outside ------------------------------------------------------------------------------


def _forks() -> bool:
    if not LINUX:
        return False
    try:
        return thread_count() == 1
    except OSError:
        return False


def _by_fork(data: bytes, limits: Limits, result: IO[bytes], said: IO[bytes]) -> int:
    import select

    parent = os.getpid()
    over, held = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            from wasm_host.harden.inherited import die_with_parent

            os.close(over)
            die_with_parent(parent)
            os.dup2(said.fileno(), 2)
            _confine(limits, len(data))
            code = _work(data, limits, result, said)
        finally:
            os._exit(code)
    os.close(held)
    try:
        # Its end closes the pipe.
        if not select.select([over], [], [], seconds(limits))[0]:
            raise _too_slow(limits)
    finally:
        os.close(over)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
    return os.waitstatus_to_exitcode(status)


def _by_interpreter(data: bytes, limits: Limits, result: IO[bytes], said: IO[bytes]) -> int:
    paths = sorted(
        {
            str(Path(file).parents[1])
            for file in (wasm_host.__file__, msgspec.__file__, wasmtime.__file__)
            if file is not None
        }
    )
    code = (
        f"import sys;sys.path[:0]={paths!r};from wasm_host.cache.compile_process import main;main()"
    )
    with tempfile.TemporaryFile() as source:
        source.write(msgspec.json.encode(limits) + b"\n")
        source.write(data)
        source.seek(0)
        try:
            return subprocess.run(
                [sys.executable, "-I", "-S", "-c", code],
                stdin=source,
                stdout=result,
                stderr=said,
                timeout=seconds(limits),
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            raise _too_slow(limits) from None


def _why(code: int, said: bytes, limits: Limits) -> LoadError:
    """The error for a child that ended otherwise than well."""
    if code == _REFUSED:
        with contextlib.suppress(msgspec.DecodeError):
            one = msgspec.json.decode(said, type=_Refusal)
            return LoadError(one.message, limit=one.limit, detail=one.detail, hint=one.hint)
    if b"memory allocation of" in said or b"MemoryError" in said:
        one = _memory(limits)
        return LoadError(one.message, limit=one.limit, hint=one.hint)
    if code == -getattr(signal, "SIGXCPU", 0):
        return over("compile_ms", "compiling it takes more processor time", limits.compile_ms)
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return LoadError(
        f"it makes the compiler fail ({how})",
        detail=said.decode("utf-8", "replace").strip(),
        hint=_DISTRUST,
    )


def _memory(limits: Limits) -> _Refusal:
    error = over("compile_bytes", "compiling it takes more memory", limits.compile_bytes)
    return _Refusal(str(error), error.limit, "", error.hint)


def _too_slow(limits: Limits) -> LoadError:
    return over(
        "compile_ms", f"compiling it takes more than {seconds(limits):g} s", limits.compile_ms
    )
