"""What a file is, decided without running it: carrier, imports, exports, reasons to refuse it."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import msgspec

from wasm_host.binary import Binary, parse
from wasm_host.cache.digest import sha256
from wasm_host.errors import LoadError, over
from wasm_host.limits import Limits
from wasm_host.signatures import PREVIEW1_MODULES, PREVIEW1_SIGNATURES

_CHUNK = 1024 * 1024
"""Bytes of a file that are read at once."""
_LISTED = 50
"""Names that a message lists."""

_ABI_EXPORTS = {
    "channel_abi": "() -> i32",
    "channel_reserve": "(i32) -> i32",
    "channel_deliver": "(i32, i32) -> i64",
}
_HINT_EXPORTS = (
    "a guest exports either memory, channel_abi, channel_reserve and channel_deliver, or an "
    "interface with deliver: func(lines: string) -> string, or _start (docs/channel-abi.md)"
)
_HINT_IMPORTS = (
    "a guest may import nothing but WASI; whatever it needs it asks for by a message "
    "(docs/channel-abi.md)"
)


class ModuleInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Static facts about a module; nothing of it was executed.

    Attributes:
        carrier: `core`, `component`, `wasi`, or `unknown` when it is none of them.
        digest: SHA-256 of the file in hex.
        size: bytes of the file.
        imports: `(module, name, kind)` of each import; a component's have an empty name.
        exports: `(name, kind)` of each export.
        forbidden: imports for which the module is refused, as `module.name`.
        wasi: imports from WASI, answered by stubs that give nothing away, as `module.name`.
        abi: channel ABI version where it can be read off the code, else `None`.
        memory_pages: minimum and maximum pages of 64 KiB (maximum `None`: no bound of its
            own); `None` without a memory, and for components.
        language: what it was written in, where its toolchain says so.
        tables: how many there are in a core module.
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


def read_source(
    source: str | os.PathLike[str] | bytes | bytearray, limits: Limits
) -> tuple[bytes, str]:
    """The bytes of a module and what to call it in messages.

    Raises:
        LoadError: the file cannot be read, is none, or is larger than `module_bytes`.
    """
    most = limits.module_bytes
    if isinstance(source, bytes | bytearray):
        if len(source) > most:
            raise over("module_bytes", f"a module of {len(source)} bytes", most)
        return bytes(source), "module"
    path = Path(source)
    try:
        with open(path, "rb", buffering=0, opener=_at_once) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise LoadError(f"{path} is no regular file", hint="name a .wasm file")
            if found.st_size > most:
                raise over("module_bytes", f"{path} has {found.st_size} bytes", most)
            data = bytearray()
            while some := file.read(min(_CHUNK, most + 1 - len(data))):
                data += some
    except FileNotFoundError:
        raise LoadError(f"{path}: no such file", hint="check the path") from None
    except IsADirectoryError:
        raise LoadError(f"{path} is a directory", hint="name the .wasm file in it") from None
    except OSError as error:
        raise LoadError(
            f"{path} cannot be read: {error.strerror or error}", hint="check its permissions"
        ) from None
    if len(data) > most:
        raise over("module_bytes", f"{path} has more than {most} bytes", most)
    return bytes(data), str(path)


def _at_once(path: str, flags: int) -> int:
    """Open without waiting: a pipe that nobody writes to is first seen to be one."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def describe(
    source: str | os.PathLike[str] | bytes | bytearray, limits: Limits | None = None
) -> ModuleInfo:
    """Describe a module, also one that `wasm_host.load` would refuse; never runs it.

    Raises:
        LoadError: it cannot be read, is beyond a limit, or is not WebAssembly at all.
    """
    limits = limits if limits is not None else Limits()
    data, label = read_source(source, limits)
    return info_of(data, label, limits)


def info_of(data: bytes, label: str, limits: Limits) -> ModuleInfo:
    """As `describe`, from bytes already read."""
    try:
        found = parse(data, limits)
    except LoadError as error:
        raise error.of(label) from None
    carrier = _carrier(found)
    forbidden, wasi = _sort_imports(found)
    problems = _export_problems(found, carrier)
    if forbidden:
        problems.append(f"imports what a guest may not have: {_listed(forbidden)}")
    return ModuleInfo(
        carrier=carrier,
        digest=sha256(data),
        size=len(data),
        imports=tuple(found.imports),
        exports=tuple(found.exports),
        forbidden=tuple(forbidden),
        wasi=tuple(wasi),
        abi=found.constants.get("channel_abi"),
        memory_pages=found.memory,
        language=found.language,
        tables=found.tables,
        widest_type=found.widest,
        problems=tuple(problems),
    )


def refusal(info: ModuleInfo, label: str) -> LoadError | None:
    """The error `wasm_host.load` raises for a module with problems."""
    if not info.problems:
        return None
    return LoadError(
        f"{label} is no guest this host runs: {'; '.join(info.problems)}",
        detail="\n".join(info.forbidden[:_LISTED]),
        hint=_HINT_IMPORTS if info.forbidden else _HINT_EXPORTS,
    )


def _carrier(found: Binary) -> str:
    if found.component:
        return "component"
    names = {name for name, _ in found.exports}
    if any(name.startswith("channel_") for name in names):
        return "core"
    return "wasi" if "_start" in names else "unknown"


def _sort_imports(found: Binary) -> tuple[list[str], list[str]]:
    """Imports to refuse the module for, and imports that WASI stubs satisfy."""
    forbidden: list[str] = []
    wasi: list[str] = []
    for module, name, kind in found.imports:
        label = f"{module}.{name}" if name else module
        if found.component:
            known = module.startswith("wasi:")
        else:
            signature = PREVIEW1_SIGNATURES.get(name)
            known = (
                kind == "func"
                and module in PREVIEW1_MODULES
                and signature is not None
                and found.import_signatures.get((module, name)) == signature
            )
        (wasi if known else forbidden).append(label)
    return forbidden, wasi


def _export_problems(found: Binary, carrier: str) -> list[str]:
    if carrier == "component":
        if any(kind == "instance" for _, kind in found.exports):
            return []
        return ["a component without an exported interface"]
    if carrier == "unknown":
        names = _listed([name for name, _ in found.exports]) or "nothing"
        return [f"exports neither channel_deliver nor _start (it exports: {names})"]
    problems = []
    kinds = dict(found.exports)
    wanted = _ABI_EXPORTS if carrier == "core" else {"_start": "()"}
    if kinds.get("memory") != "memory":
        problems.append("exports no memory")
    for name, signature in wanted.items():
        if kinds.get(name) != "func":
            problems.append(f"exports no function {name}")
        elif found.signatures.get(name) != signature:
            seen = found.signatures.get(name)
            problems.append(f"exports {name} as {seen} instead of {signature}")
    if found.memories > 1:
        problems.append(f"has {found.memories} memories instead of one")
    abi = found.constants.get("channel_abi")
    if carrier == "core" and abi is not None and abi != 1:
        problems.append(f"speaks channel ABI {abi}, this host speaks 1")
    return problems


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more
