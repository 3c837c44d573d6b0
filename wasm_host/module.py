"""Loading: from a file to something that can be instantiated, by way of the compile cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from wasm_host.cache.store import Cache
from wasm_host.engine import engine_for, engine_identity
from wasm_host.errors import LoadError
from wasm_host.info import ModuleInfo, info_of, read_source, refusal
from wasm_host.limits import Limits

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from pathlib import Path

    import wasmtime

    from wasm_host.carriers.guest import Guest


GRANTS = frozenset(("clock", "random"))
"""What `grants` may hold; each opens one WASI service to the guest."""


class Module:
    """A compiled guest, from which any number of instances can be made.

    Attributes:
        info: static facts, see `wasm_host.ModuleInfo`.
        limits: bounds of its instances.
        grants: WASI services its instances get.
        cache_report: what the compile cache did: `off`, `hit`, `stored`, or
            `ignored: …` with the reason.
        preface: lines every instance of a component is given when it is made.
    """

    __slots__ = (
        "_compiled",
        "_engine",
        "cache_report",
        "grants",
        "info",
        "label",
        "limits",
        "preface",
    )

    def __init__(
        self,
        info: ModuleInfo,
        engine: wasmtime.Engine,
        compiled: Any,
        *,
        label: str,
        limits: Limits,
        grants: frozenset[str],
        cache_report: str,
    ) -> None:
        self.info = info
        self._engine = engine
        self._compiled = compiled
        self.label = label
        self.limits = limits
        self.grants = grants
        self.cache_report = cache_report
        self.preface = b""

    @property
    def carrier(self) -> str:
        """`core`, `component` or `wasi`."""
        return self.info.carrier

    @property
    def digest(self) -> str:
        """SHA-256 of the file in hex."""
        return self.info.digest

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.info.size

    def instantiate(self, name: str = "guest", *, calls: str | None = None) -> Guest:
        """A fresh instance, called `name` in every message about it.

        `calls` forces the way core modules and components are called, `fast` or `public`;
        by default the fast way is taken where the installed wasmtime has it.

        Raises:
            GuestError: phase `instantiate`: it trapped or exceeded a limit while starting.
        """
        engine, compiled, limits = self._engine, self._compiled, self.limits
        grants, wasi = self.grants, bool(self.info.wasi)
        if self.carrier == "core":
            from wasm_host.carriers.core import CoreGuest

            given = grants if wasi else None
            return CoreGuest(engine, compiled, name, limits, grants=given, calls=calls)
        if self.carrier == "wasi":
            from wasm_host.carriers.wasi import WasiGuest

            # A blocking read would block all goroutines; Go polls if told that stdin cannot block.
            polls = self.info.language == "Go"
            return WasiGuest(engine, compiled, name, limits, grants=grants, polls=polls)
        from wasm_host.carriers.component import ComponentGuest

        guest = ComponentGuest(
            engine, compiled, name, limits, grants=grants, wasi=wasi, calls=calls
        )
        if self.preface:
            guest.prepare(self.preface)
        return guest


def load(
    source: str | os.PathLike[str] | bytes | bytearray,
    *,
    limits: Limits | None = None,
    cache_dir: Path | None = None,
    grants: frozenset[str] = frozenset(),
    check: Callable[[ModuleInfo], None] | None = None,
    digest: str = "",
    compiling: Callable[[], None] | None = None,
) -> Module:
    """Check, compile (or take from the cache) and return a guest module; runs none of it.

    Args:
        source: path of a `.wasm` file, or its bytes.
        limits: bounds of every instance; the defaults of `Limits` when omitted.
        cache_dir: directory of compiled modules; made when absent, ignored (see
            `Module.cache_report`) unless it is ours alone. No cache when omitted.
        grants: `clock` and `random` give WASI guests the real ones.
        check: told what the bytes are that are about to be compiled; may raise to refuse them.
        digest: SHA-256 the caller vouches for; where the cache holds what was compiled from it,
            the file is not even read.
        compiling: called before the module is compiled, which may take seconds.

    Raises:
        LoadError: not WebAssembly, no guest, or imports it may not have, with all of them listed.
        ValueError: an unknown grant.
    """
    unknown = grants - GRANTS
    if unknown:
        raise ValueError(f"unknown grants {sorted(unknown)}; known are {sorted(GRANTS)}")
    limits = limits if limits is not None else Limits()
    cache = Cache(cache_dir, engine_identity(limits)) if cache_dir is not None else None
    known = _known(cache, digest, limits) if cache is not None and digest else None
    if known is not None:
        info, compiled = known
        if check is not None:
            check(info)
        return Module(
            info,
            engine_for(limits),
            compiled,
            label=str(source),
            limits=limits,
            grants=grants,
            cache_report="hit",
        )
    data, label = read_source(source, limits)
    info = info_of(data, label, limits)
    if check is not None:
        check(info)
    refused = refusal(info, label)
    if refused is not None:
        raise refused
    engine = engine_for(limits)
    compiled, report = _compile(data, info, label, limits, cache, compiling=compiling)
    if info.carrier == "component":
        from wasm_host.carriers.component import find_deliver

        if find_deliver(compiled, engine) is None:
            raise LoadError(
                f"{label}: no exported interface has deliver: func(lines: string) -> string",
                hint="build it for the world in wasm_host/channel.wit",
            )
    if cache is not None and digest == info.digest:
        cache.remember(digest, msgspec.json.encode(info).decode())
    return Module(
        info,
        engine,
        compiled,
        label=label,
        limits=limits,
        grants=grants,
        cache_report=report,
    )


def _compile(
    data: bytes,
    info: ModuleInfo,
    label: str,
    limits: Limits,
    cache: Cache | None,
    *,
    compiling: Callable[[], None] | None,
) -> tuple[Any, str]:
    """The compiled module and what the cache did."""
    from wasm_host.cache.compile_process import compiled, seconds

    engine, kind = engine_for(limits), _kind(info)
    if cache is None:
        with compiled(data, info, label, limits) as result:
            return kind.deserialize(engine, result.read()), "off"

    def fetch() -> tuple[Any, str]:
        return cache.fetch(info.digest, lambda path: kind.deserialize_file(engine, path))

    found, report = fetch()
    if found is not None:
        return found, report
    try:
        with cache.alone(info.digest, seconds(limits)):
            found, report = fetch()
            if found is not None:
                return found, report
            if compiling is not None:
                compiling()
            with compiled(data, info, label, limits) as result:
                payload = result.read()
            report = cache.store(info.digest, payload)
            # From the file, whose pages need no memory of their own.
            found = fetch()[0] if report == "stored" else None
            return found or kind.deserialize(engine, payload), report
    except TimeoutError:
        raise LoadError(
            f"{label}: another process has been compiling it for {seconds(limits):g} s",
            hint="end that process, or raise the component's compile_ms",
        ) from None


def _kind(info: ModuleInfo) -> Any:
    """The class of wasmtime that is made of a module."""
    if info.carrier == "component":
        from wasmtime import component

        return component.Component
    import wasmtime

    return wasmtime.Module


def _known(cache: Cache, digest: str, limits: Limits) -> tuple[ModuleInfo, Any] | None:
    """A module that was loaded before, by the digest of its file; `None`: load it."""
    text = cache.recall(digest)
    if text is None:
        return None
    try:
        info = msgspec.json.decode(text, type=ModuleInfo)
    except msgspec.DecodeError:
        return None
    engine, kind = engine_for(limits), _kind(info)
    compiled, _ = cache.fetch(digest, lambda path: kind.deserialize_file(engine, path))
    return None if compiled is None or info.digest != digest else (info, compiled)
