"""The kind of a file, decided without running it: carrier, imports, exports, refusals."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any, Final

import msgspec

from wasm_host.cache.digest import sha256
from wasm_host.errors import LoadError, over
from wasm_host.limits import Limits

if TYPE_CHECKING:
    from wasm_host.binary import Binary

_CHUNK = 1024 * 1024
"""Bytes of one read."""
_LISTED = 50
"""Names that a message lists."""

_ABI_EXPORTS = {
    "channel_abi": "() -> i32",
    "channel_reserve": "(i32) -> i32",
    "channel_deliver": "(i32, i32) -> i64",
}
_ABI_OPTIONAL = {"_initialize": "()", "channel_fault": "() -> i64"}
"""Functions that the host calls if they are there. wasmtime ends the process when somebody asks
for a type that its C interface has no name for, such as `v128`."""
_HINT_EXPORTS = (
    "a guest exports either memory, channel_abi, channel_reserve and channel_deliver, or an "
    "interface with deliver: func(lines: string) -> string, or _start "
    "(docs/architecture.md#the-channel)"
)
_HINT_IMPORTS = (
    "a guest may import nothing but WASI; whatever it needs it asks for by a message "
    "(docs/architecture.md#the-channel)"
)


_PREVIEW1: Final = "wasi_snapshot_preview1"
"""The only module that a core guest may import from. Not `wasi_unstable`: its structures have other
layouts and no toolchain emits it now."""

_BY_SIGNATURE: Final = {
    "(i32) -> i32": "fd_close fd_datasync fd_sync proc_raise",
    "(i32, i32) -> i32": "args_get args_sizes_get clock_res_get environ_get environ_sizes_get "
    "fd_fdstat_get fd_fdstat_set_flags fd_filestat_get fd_prestat_get fd_renumber fd_tell "
    "random_get sock_shutdown",
    "(i32, i32, i32) -> i32": "fd_prestat_dir_name path_create_directory path_remove_directory "
    "path_unlink_file sock_accept",
    "(i32, i64) -> i32": "fd_filestat_set_size",
    "(i32, i64, i32) -> i32": "clock_time_get",
    "(i32, i64, i64) -> i32": "fd_allocate fd_fdstat_set_rights",
    "(i32, i64, i64, i32) -> i32": "fd_advise fd_filestat_set_times",
    "(i32, i64, i32, i32) -> i32": "fd_seek",
    "(i32, i32, i32, i32) -> i32": "fd_read fd_write poll_oneoff",
    "(i32, i32, i32, i64, i32) -> i32": "fd_pread fd_pwrite fd_readdir",
    "(i32, i32, i32, i32, i32) -> i32": "path_filestat_get path_symlink sock_send",
    "(i32, i32, i32, i32, i32, i32) -> i32": "path_readlink path_rename sock_recv",
    "(i32, i32, i32, i32, i32, i32, i32) -> i32": "path_link",
    "(i32, i32, i32, i32, i64, i64, i32) -> i32": "path_filestat_set_times",
    "(i32, i32, i32, i32, i32, i64, i64, i32, i32) -> i32": "path_open",
    "() -> i32": "sched_yield",
    "(i32)": "proc_exit",
}

_PREVIEW1_SIGNATURES: Final = {
    name: signature for signature, names in _BY_SIGNATURE.items() for name in names.split()
}
"""Functions of WASI preview 1 -> their signatures as `wasm_host.binary` writes them. A function
imported with another signature would make the engine fail in words nobody understands."""


class ModuleInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Static facts about a module; nothing of it was executed.

    Attributes:
        carrier: `core`, `component`, `wasi`, or `unknown` when it is none of them.
        digest: SHA-256 of the file in hex.
        size: bytes of the file.
        imports: `(module, name, kind)` of each import; those of a component have an empty module.
        exports: `(name, kind)` of each export.
        forbidden: imports for which the module is refused, as `module.name`.
        wasi: imports from WASI, answered by stubs that give nothing away, as `module.name`.
        abi: channel ABI version if the code shows it, else `None`.
        memory_pages: minimum and maximum pages of 64 KiB (maximum `None`: no bound of its
            own); `None` without a memory, and for components.
        language: the language that it was written in, if its toolchain tells.
        tables: the number of tables of a core module.
        widest_type: most parameters and results of one type of a core module.
        problems: why `wasm_host.load` would refuse it; empty when it would not.
    """

    carrier: str
    digest: str
    size: int
    imports: tuple[tuple[str, str, str], ...]
    exports: tuple[tuple[str, str], ...]
    forbidden: tuple[str, ...]
    wasi: tuple[str, ...]
    abi: int | None
    memory_pages: tuple[int, int | None] | None
    language: str | None
    tables: int
    widest_type: int
    problems: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The same as plain lists, strings and numbers, ready for JSON."""
        result: dict[str, Any] = msgspec.to_builtins(self)
        return result


def label_of(source: str | os.PathLike[str] | bytes | bytearray) -> str:
    """The name of a module in messages."""
    return "module" if isinstance(source, bytes | bytearray) else os.fspath(source)


def read_source(
    source: str | os.PathLike[str] | bytes | bytearray, label: str, limits: Limits
) -> bytes:
    """The bytes of a module.

    Raises:
        LoadError: the file cannot be read, is no regular file, or is larger than `module_bytes`.
    """
    most = limits.module_bytes
    if isinstance(source, bytes | bytearray):
        if len(source) > most:
            raise over("module_bytes", f"a module of {len(source)} bytes", most)
        return bytes(source)
    try:
        with open(source, "rb", buffering=0, opener=_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise LoadError(f"{label} is no regular file", hint="name a .wasm file")
            if status.st_size > most:
                raise over("module_bytes", f"{label} has {status.st_size} bytes", most)
            data = bytearray()
            # The file may grow while it is read, so its size alone bounds nothing.
            while some := file.read(min(_CHUNK, most + 1 - len(data))):
                data += some
    except FileNotFoundError:
        raise LoadError(f"{label}: no such file", hint="check the path") from None
    except IsADirectoryError:
        raise LoadError(f"{label} is a directory", hint="name the .wasm file in it") from None
    except OSError as error:
        raise LoadError(
            f"{label} cannot be read: {error.strerror or error}", hint="check its permissions"
        ) from None
    if len(data) > most:
        raise over("module_bytes", f"{label} has more than {most} bytes", most)
    return bytes(data)


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe that nobody writes to does not block before `fstat` can refuse it."""
    return os.open(path, flags | os.O_NONBLOCK)


def describe(
    source: str | os.PathLike[str] | bytes | bytearray, limits: Limits | None = None
) -> ModuleInfo:
    """Describe a module, also one that `wasm_host.load` would refuse; never runs it.

    Raises:
        LoadError: it cannot be read, is beyond a limit, or is not WebAssembly at all.
    """
    limits = limits if limits is not None else Limits()
    label = label_of(source)
    return info_of(read_source(source, label, limits), label, limits)


def info_of(data: bytes, label: str, limits: Limits) -> ModuleInfo:
    """The same as `describe`, from bytes already read."""
    from wasm_host.binary import parse  # not where the cache knows the file

    try:
        binary = parse(data, limits)
    except LoadError as error:
        raise error.of(label) from None
    carrier = _carrier(binary)
    forbidden, wasi = _sort_imports(binary)
    problems = _export_problems(binary, carrier)
    if forbidden:
        problems.append(f"has imports that no guest may have: {_listed(forbidden)}")
    return ModuleInfo(
        carrier=carrier,
        digest=sha256(data),
        size=len(data),
        imports=tuple(binary.imports),
        exports=tuple(binary.exports),
        forbidden=tuple(forbidden),
        wasi=tuple(wasi),
        abi=binary.constants.get("channel_abi"),
        memory_pages=binary.memory,
        language=binary.language,
        tables=binary.tables,
        widest_type=binary.widest,
        problems=tuple(problems),
    )


def require_guest(info: ModuleInfo, label: str) -> None:
    """Refuse a module with problems.

    Raises:
        LoadError: it has some; the message lists them.
    """
    if info.problems:
        raise LoadError(
            f"{label} is no guest this host runs: {'; '.join(info.problems)}",
            detail="\n".join(info.forbidden[:_LISTED]),
            hint=_HINT_IMPORTS if info.forbidden else _HINT_EXPORTS,
        )


def _carrier(binary: Binary) -> str:
    if binary.component:
        return "component"
    names = {name for name, _ in binary.exports}
    if any(name.startswith("channel_") for name in names):
        return "core"
    return "wasi" if "_start" in names else "unknown"


def _sort_imports(binary: Binary) -> tuple[list[str], list[str]]:
    """Imports for which the module is refused, and imports that WASI stubs satisfy."""
    forbidden: list[str] = []
    wasi: list[str] = []
    for module, name, kind in binary.imports:
        label = f"{module}.{name}" if name else module
        if binary.component:
            known = module.startswith("wasi:")
        else:
            known = (
                kind == "func"
                and module == _PREVIEW1
                and name in _PREVIEW1_SIGNATURES
                and binary.import_signatures.get((module, name)) == _PREVIEW1_SIGNATURES[name]
            )
        (wasi if known else forbidden).append(label)
    return forbidden, wasi


def _export_problems(binary: Binary, carrier: str) -> list[str]:
    if carrier == "component":
        if any(kind == "instance" for _, kind in binary.exports):
            return []
        return ["a component without an exported interface"]
    if carrier == "unknown":
        names = _listed([name for name, _ in binary.exports]) or "nothing"
        return [f"exports neither channel_deliver nor _start (it exports: {names})"]
    problems = []
    kinds = dict(binary.exports)
    required = _ABI_EXPORTS if carrier == "core" else {"_start": "()"}
    if kinds.get("memory") != "memory":
        problems.append("exports no memory")
    problems += [f"exports no function {name}" for name in required if kinds.get(name) != "func"]
    optional = _ABI_OPTIONAL if carrier == "core" else {}
    for name, signature in {**required, **optional}.items():
        actual = binary.signatures.get(name, signature)
        if actual != signature:
            problems.append(f"exports {name} as {actual} instead of {signature}")
    if binary.memories > 1:
        problems.append(f"has {binary.memories} memories instead of one")
    abi = binary.constants.get("channel_abi")
    if carrier == "core" and abi is not None and abi != 1:
        problems.append(f"speaks channel ABI {abi}, this host speaks 1")
    return problems


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more
