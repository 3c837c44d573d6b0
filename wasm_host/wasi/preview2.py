"""WASI 0.2 for components that have nothing: enough for Python and JavaScript runtimes to start.

The same gifts as `wasm_host.wasi.preview1`: standard error kept, no arguments, environment or
files, a clock that stands at 0 and random bytes that repeat, unless granted. Whatever else a
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

from wasm_host.carriers.guest import STDERR_KEPT, BaseGuest

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
"""What a handler returns for the stream error `closed`."""

Handler = Callable[..., Any]


class Wasi2:
    """Host functions of one component instance, by `interface.function`."""

    def __init__(self, guest: BaseGuest, grants: frozenset[str]) -> None:
        self._guest = guest
        self._clock = "clock" in grants
        self._random = "random" in grants
        self._drawn = 0
        self.handlers: dict[str, Handler] = {
            "wasi:cli/environment.get-environment": _empty,
            "wasi:cli/environment.get-arguments": _empty,
            "wasi:cli/environment.initial-cwd": _nothing,
            "wasi:cli/exit.exit": self._exit,
            "wasi:cli/stdin.get-stdin": _resource("input-stream"),
            "wasi:cli/stdout.get-stdout": _resource("output-stream"),
            "wasi:cli/stderr.get-stderr": _resource("output-stream"),
            "wasi:cli/terminal-stdin.get-terminal-stdin": _nothing,
            "wasi:cli/terminal-stdout.get-terminal-stdout": _nothing,
            "wasi:cli/terminal-stderr.get-terminal-stderr": _nothing,
            "wasi:clocks/monotonic-clock.now": self._monotonic,
            "wasi:clocks/monotonic-clock.resolution": _one,
            "wasi:clocks/monotonic-clock.subscribe-duration": _resource("pollable"),
            "wasi:clocks/monotonic-clock.subscribe-instant": _resource("pollable"),
            "wasi:clocks/wall-clock.now": self._wall,
            "wasi:clocks/wall-clock.resolution": _resolution,
            "wasi:filesystem/preopens.get-directories": _empty,
            "wasi:io/error.[method]error.to-debug-string": _no_text,
            "wasi:io/poll.[method]pollable.block": _nothing,
            "wasi:io/poll.[method]pollable.ready": _yes,
            "wasi:io/poll.poll": _all_ready,
            "wasi:io/streams.[method]input-stream.blocking-read": _ended,
            "wasi:io/streams.[method]input-stream.read": _ended,
            "wasi:io/streams.[method]input-stream.subscribe": _pollable_of,
            "wasi:io/streams.[method]output-stream.blocking-flush": _done,
            "wasi:io/streams.[method]output-stream.blocking-write-and-flush": self._write,
            "wasi:io/streams.[method]output-stream.check-write": _room,
            "wasi:io/streams.[method]output-stream.flush": _done,
            "wasi:io/streams.[method]output-stream.subscribe": _pollable_of,
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
        written = bytes(data)[-STDERR_KEPT:]
        self._guest.stderr_tail = (self._guest.stderr_tail + written)[-STDERR_KEPT:]


def define(linker: component.Linker, compiled: component.Component, wasi: Wasi2) -> None:
    """Define in `linker` everything `compiled` imports: what is known, and traps."""
    engine = linker.engine
    kind = compiled.type
    with linker.root() as root:
        for name, extern in kind.imports(engine).items():
            instance = extern.ty
            if not isinstance(instance, component.ComponentInstanceType):
                continue
            interface = name.partition("@")[0]
            items = instance.exports(engine)
            known, results = _known(interface, items, wasi)
            if not known:
                continue
            with root.add_instance(name) as target:
                for item, what in known.items():
                    if isinstance(what, int):
                        target.add_resource(item, component.ResourceType.host(what), _forget)
                    else:
                        target.add_func(item, _guarded(what, results[item]))
    linker.define_unknown_imports_as_traps(compiled)


def _known(
    interface: str, items: Mapping[str, Any], wasi: Wasi2
) -> tuple[dict[str, Handler | int], dict[str, Any]]:
    """What this host defines of one imported interface.

    Returns handlers and resource type numbers by name, and the result types of the handlers.
    """
    known: dict[str, Handler | int] = {}
    results: dict[str, Any] = {}
    for item, extern in items.items():
        what = extern.ty
        if isinstance(what, component.FuncType):
            handler = wasi.handlers.get(f"{interface}.{item}")
            if handler is not None:
                known[item] = handler
                results[item] = what.result
        elif isinstance(what, component.ResourceType) and item in _RESOURCES:
            known[item] = _RESOURCES[item]
    # Interfaces that only mention these resources, such as files', stay traps as a whole.
    if results or interface.startswith(("wasi:io/", "wasi:cli/terminal-")):
        return known, results
    return {}, {}


def _guarded(handler: Handler, result: Any) -> Handler:
    """The handler, its answer in the form wasmtime wants, its exceptions made wasmtime errors.

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


def _release(store: Any, *resources: Any) -> None:
    """Give back borrowed handles; wasmtime keeps them until told."""
    for resource in resources:
        if isinstance(resource, component.ResourceAny):
            resource.drop(store)


def _resource(name: str) -> Handler:
    number = _RESOURCES[name]

    def make(store: Any, *arguments: Any) -> component.ResourceHost:
        return component.ResourceHost.own(number, number)

    return make


def _pollable_of(store: Any, resource: Any) -> component.ResourceHost:
    _release(store, resource)
    return component.ResourceHost.own(_RESOURCES["pollable"], _RESOURCES["pollable"])


def _all_ready(store: Any, pollables: list[Any]) -> list[int]:
    _release(store, *pollables)
    return list(range(len(pollables)))


def _datetime(seconds: int, nanoseconds: int) -> component.Record:
    record = component.Record()
    record.seconds = seconds  # type: ignore[attr-defined]
    record.nanoseconds = nanoseconds  # type: ignore[attr-defined]
    return record


def _resolution(store: Any) -> component.Record:
    return _datetime(0, 1)


def _empty(store: Any) -> list[Any]:
    return []


def _one(store: Any) -> int:
    return 1


def _nothing(store: Any, *resources: Any) -> None:
    _release(store, *resources)


def _no_text(store: Any, error: Any) -> str:
    _release(store, error)
    return ""


def _yes(store: Any, pollable: Any) -> bool:
    _release(store, pollable)
    return True


def _done(store: Any, stream: Any) -> None:
    _release(store, stream)


def _room(store: Any, stream: Any) -> int:
    _release(store, stream)
    return WRITE_ROOM


def _ended(store: Any, stream: Any, length: int) -> object:
    _release(store, stream)
    return _CLOSED
