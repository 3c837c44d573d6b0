"""WASI 0.2 for components that have nothing: enough for Python and JavaScript runtimes to start.

The same services as in `wasm_host.wasi.preview1`: standard error kept, no arguments, environment
or files, a clock that stands at 0 and random bytes that repeat, unless granted. Whatever else a
component imports from WASI is a trap that names itself when called.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import wasmtime
from wasmtime import component

from wasm_host.carriers.guest import BaseGuest

MAX_RANDOM = 1 << 20
"""Most random bytes one call gets; lists are converted one element at a time."""

WRITE_ROOM = 1 << 16
"""Bytes one write to an output stream may carry."""

_RESOURCES = {
    "error": 1,
    "pollable": 2,
    "input-stream": 3,
    "output-stream": 4,
    "terminal-input": 5,
    "terminal-output": 6,
}
"""Host resource types by WIT name; the numbers mean nothing outside this table."""
_CLOSED = object()
"""A handler's result that stands for the stream error `closed`."""

Handler = Callable[..., Any]
"""Takes the store and the arguments of a call."""


def _returns(make: Callable[[], Any]) -> Handler:
    """A handler that makes the same result for each call, whatever its arguments."""

    def handler(store: Any, *arguments: Any) -> Any:
        _release(store, *arguments)
        return make()

    return handler


def _returns_resource(name: str) -> Handler:
    number = _RESOURCES[name]
    # A new one for each call: passing it to the guest uses it up.
    return _returns(lambda: component.ResourceHost.own(number, number))


def _release(store: Any, *arguments: Any) -> None:
    """Give borrowed handles back; wasmtime keeps them until then."""
    for argument in arguments:
        if isinstance(argument, component.ResourceAny):
            argument.drop(store)


def _all_ready(store: Any, pollables: list[Any]) -> list[int]:
    _release(store, *pollables)
    return list(range(len(pollables)))


def _datetime(seconds: int, nanoseconds: int) -> component.Record:
    record = component.Record()
    record.seconds = seconds  # type: ignore[attr-defined]
    record.nanoseconds = nanoseconds  # type: ignore[attr-defined]
    return record


def _nothing() -> None:
    return None


_FIXED: dict[str, Handler] = {
    "wasi:cli/environment.get-environment": _returns(list),
    "wasi:cli/environment.get-arguments": _returns(list),
    "wasi:cli/environment.initial-cwd": _returns(_nothing),
    "wasi:cli/stdin.get-stdin": _returns_resource("input-stream"),
    "wasi:cli/stdout.get-stdout": _returns_resource("output-stream"),
    "wasi:cli/stderr.get-stderr": _returns_resource("output-stream"),
    "wasi:cli/terminal-stdin.get-terminal-stdin": _returns(_nothing),
    "wasi:cli/terminal-stdout.get-terminal-stdout": _returns(_nothing),
    "wasi:cli/terminal-stderr.get-terminal-stderr": _returns(_nothing),
    "wasi:clocks/monotonic-clock.resolution": _returns(lambda: 1),
    "wasi:clocks/monotonic-clock.subscribe-duration": _returns_resource("pollable"),
    "wasi:clocks/monotonic-clock.subscribe-instant": _returns_resource("pollable"),
    "wasi:clocks/wall-clock.resolution": _returns(lambda: _datetime(0, 1)),
    "wasi:filesystem/preopens.get-directories": _returns(list),
    "wasi:io/error.[method]error.to-debug-string": _returns(str),
    "wasi:io/poll.[method]pollable.block": _returns(_nothing),
    "wasi:io/poll.[method]pollable.ready": _returns(lambda: True),
    "wasi:io/poll.poll": _all_ready,
    "wasi:io/streams.[method]input-stream.blocking-read": _returns(lambda: _CLOSED),
    "wasi:io/streams.[method]input-stream.read": _returns(lambda: _CLOSED),
    "wasi:io/streams.[method]input-stream.subscribe": _returns_resource("pollable"),
    "wasi:io/streams.[method]output-stream.blocking-flush": _returns(_nothing),
    "wasi:io/streams.[method]output-stream.check-write": _returns(lambda: WRITE_ROOM),
    "wasi:io/streams.[method]output-stream.flush": _returns(_nothing),
    "wasi:io/streams.[method]output-stream.subscribe": _returns_resource("pollable"),
}
"""Host functions that are the same for every instance, by `interface.function`."""


class Wasi2:
    """Host functions of one component instance."""

    def __init__(self, guest: BaseGuest, grants: frozenset[str]) -> None:
        self._guest = guest
        self._clock = "clock" in grants
        self._random = "random" in grants
        self._drawn = 0
        self.handlers: dict[str, Handler] = {
            **_FIXED,
            "wasi:cli/exit.exit": self._exit,
            "wasi:clocks/monotonic-clock.now": self._monotonic,
            "wasi:clocks/wall-clock.now": self._wall,
            "wasi:io/streams.[method]output-stream.blocking-write-and-flush": self._write,
            "wasi:io/streams.[method]output-stream.write": self._write,
            "wasi:random/insecure-seed.insecure-seed": self._seed,
            "wasi:random/insecure.get-insecure-random-bytes": self._bytes,
            "wasi:random/insecure.get-insecure-random-u64": self._u64,
            "wasi:random/random.get-random-bytes": self._bytes,
            "wasi:random/random.get-random-u64": self._u64,
        }

    def _exit(self, store: Any, status: Any) -> None:
        raise wasmtime.WasmtimeError("guest called exit")

    def _monotonic(self, store: Any) -> int:
        return time.monotonic_ns() if self._clock else self._frozen()

    def _wall(self, store: Any) -> component.Record:
        now = time.time_ns() if self._clock else self._frozen()
        return _datetime(now // 1_000_000_000, now % 1_000_000_000)

    def _frozen(self) -> int:
        self._guest.denied.add("clock")
        return 0

    def _draw(self, length: int) -> bytes:
        if length > MAX_RANDOM:
            raise wasmtime.WasmtimeError(f"{length} random bytes at once are too many")
        if self._random:
            return os.urandom(length)
        self._guest.denied.add("random")
        self._drawn += 1
        seed = b"wasm_host" + self._drawn.to_bytes(8, "little")
        return hashlib.shake_128(seed).digest(length)

    def _bytes(self, store: Any, length: int) -> bytes:
        return self._draw(length)

    def _u64(self, store: Any) -> int:
        return int.from_bytes(self._draw(8), "little")

    def _seed(self, store: Any) -> tuple[int, int]:
        return self._u64(store), self._u64(store)

    def _write(self, store: Any, stream: Any, data: bytes | list[int]) -> None:
        _release(store, stream)
        self._guest.keep_stderr(bytes(data))


def define(linker: component.Linker, compiled: component.Component, wasi: Wasi2) -> None:
    """Define in `linker` everything `compiled` imports: handlers, and traps for the rest."""
    engine = linker.engine
    kind = compiled.type
    with linker.root() as root:
        for name, extern in kind.imports(engine).items():
            instance = extern.ty
            if not isinstance(instance, component.ComponentInstanceType):
                continue
            interface = name.partition("@")[0]
            items = instance.exports(engine)
            definitions, results = _definitions(interface, items, wasi)
            if not definitions:
                continue
            with root.add_instance(name) as target:
                for item, definition in definitions.items():
                    if isinstance(definition, int):
                        target.add_resource(item, component.ResourceType.host(definition), _forget)
                    else:
                        target.add_func(item, _guarded(definition, results[item]))
    linker.define_unknown_imports_as_traps(compiled)


def _definitions(
    interface: str, items: Mapping[str, Any], wasi: Wasi2
) -> tuple[dict[str, Handler | int], dict[str, Any]]:
    """The definitions of this host for one imported interface.

    Returns:
        Handlers and resource type numbers by name, and the result types of the handlers.
    """
    definitions: dict[str, Handler | int] = {}
    results: dict[str, Any] = {}
    for item, extern in items.items():
        kind = extern.ty
        if isinstance(kind, component.FuncType):
            handler = wasi.handlers.get(f"{interface}.{item}")
            if handler is not None:
                definitions[item] = handler
                results[item] = kind.result
        elif isinstance(kind, component.ResourceType) and item in _RESOURCES:
            definitions[item] = _RESOURCES[item]
    # Interfaces that only mention these resources, such as files', stay traps as a whole.
    if results or interface.startswith(("wasi:io/", "wasi:cli/terminal-")):
        return definitions, results
    return {}, {}


def _guarded(handler: Handler, result: Any) -> Handler:
    """The handler with its result in wasmtime's form, and its exceptions as wasmtime errors.

    Other exceptions would travel through a global of wasmtime and could surface elsewhere.
    """

    def guarded(store: Any, *arguments: Any) -> Any:
        try:
            return _lowered(handler(store, *arguments), result)
        except wasmtime.WasmtimeError:
            raise
        except Exception as error:
            raise wasmtime.WasmtimeError(f"host function failed: {error!r}") from None

    return guarded


def _lowered(value: Any, kind: Any) -> Any:
    """Tag a `result` where wasmtime cannot tell its cases apart by their Python classes."""
    if not isinstance(kind, component.ResultType):
        return value
    if value is not _CLOSED:
        return component.Variant("ok", value) if _ambiguous((kind.ok, kind.err)) else value
    error = kind.err
    assert isinstance(error, component.VariantType)
    closed = component.Variant("closed") if _ambiguous(dict(error.cases).values()) else None
    return component.Variant("err", closed) if _ambiguous((kind.ok, kind.err)) else closed


def _ambiguous(cases: Iterable[Any]) -> bool:
    """Whether two cases of a variant have a Python class in common."""
    seen: set[type] = set()
    for case in cases:
        classes: set[type] = set()
        if case is None:
            classes.add(object)
        else:
            case.add_classes(classes)
        if classes & seen:
            return True
        seen |= classes
    return False


def _forget(store: Any, rep: int) -> None:
    """Nothing stands behind a host resource here."""
