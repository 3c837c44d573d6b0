"""Loading: from a file to something that can be instantiated, by way of the compile cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .cache import Cache
from .engine import engine_for, engine_identity
from .errors import LoadError
from .info import ModuleInfo, info_of, read_source, refusal
from .limits import Limits

if TYPE_CHECKING:
    import os
    from pathlib import Path

    import wasmtime

    from .guest import Guest

__all__ = ["GRANTS", "Module", "load"]

#: What ``grants`` may hold; each opens one WASI service to the guest.
GRANTS = frozenset(("clock", "random"))


class Module:
    """A compiled guest, from which any number of instances can be made.

    Attributes:
        info: static facts, see :class:`wasm_host.ModuleInfo`.
        limits: bounds of its instances.
        grants: WASI services its instances get.
        cache_report: what the compile cache did: ``off``, ``hit``, ``stored``, or
            ``ignored: …`` with the reason.
    """

    __slots__ = ("_compiled", "_engine", "cache_report", "grants", "info", "label", "limits")

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

    @property
    def carrier(self) -> str:
        """``core``, ``component`` or ``wasi``."""
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
        """A fresh instance, called ``name`` in every message about it.

        ``calls`` forces the way core modules are called, ``fast`` or ``public``; by default the
        fast way is taken where the installed wasmtime has it.

        Raises:
            GuestError: phase ``instantiate``: it trapped or exceeded a limit while starting.
        """
        engine, compiled, limits = self._engine, self._compiled, self.limits
        grants, wasi = self.grants, bool(self.info.wasi)
        if self.carrier == "core":
            from .core_guest import CoreGuest

            given = grants if wasi else None
            return CoreGuest(engine, compiled, name, limits, grants=given, calls=calls)
        if self.carrier == "wasi":
            from .wasi_guest import WasiGuest

            # A blocking read would block all goroutines; Go polls if told that stdin cannot block.
            polls = self.info.language == "Go"
            return WasiGuest(engine, compiled, name, limits, grants=grants, polls=polls)
        from .component_guest import ComponentGuest

        return ComponentGuest(engine, compiled, name, limits, grants=grants, wasi=wasi)


def load(
    source: str | os.PathLike[str] | bytes | bytearray,
    *,
    limits: Limits | None = None,
    cache_dir: Path | None = None,
    grants: frozenset[str] = frozenset(),
    apart: bool = False,
) -> Module:
    """Check, compile (or take from the cache) and return a guest module; runs none of it.

    Args:
        source: path of a ``.wasm`` file, or its bytes.
        limits: bounds of every instance; the defaults of :class:`Limits` when omitted.
        cache_dir: directory of compiled modules; made when absent, ignored (see
            ``Module.cache_report``) unless it is ours alone. No cache when omitted.
        grants: ``clock`` and ``random`` give WASI guests the real ones.
        apart: compile, if that is needed, in a child process: see :mod:`wasm_host.apart`.

    Raises:
        LoadError: not WebAssembly, no guest, or imports it may not have, with all of them listed.
        ValueError: an unknown grant.
    """
    unknown = grants - GRANTS
    if unknown:
        raise ValueError(f"unknown grants {sorted(unknown)}; known are {sorted(GRANTS)}")
    limits = limits if limits is not None else Limits()
    data, label = read_source(source)
    info = info_of(data, label)
    refused = refusal(info, label)
    if refused is not None:
        raise refused
    engine = engine_for(limits)
    compiled, report = _compile(data, info, label, limits, cache_dir, apart=apart)
    if info.carrier == "component":
        from .component_guest import find_deliver

        if find_deliver(compiled, engine) is None:
            raise LoadError(
                f"{label}: no exported interface has deliver: func(lines: string) -> string",
                hint="build it for the world in wasm_host/channel.wit",
            )
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
    cache_dir: Path | None,
    *,
    apart: bool,
) -> tuple[Any, str]:
    """The compiled module and what the cache did."""
    import wasmtime

    kind: Any = wasmtime.Module
    if info.carrier == "component":
        from wasmtime import component

        kind = component.Component
    engine = engine_for(limits)
    if cache_dir is None:
        cache, compiled, report = None, None, "off"
    else:
        cache = Cache(cache_dir, engine_identity(limits))

        def fetch() -> tuple[Any, str]:
            return cache.fetch(info.digest, lambda path: kind.deserialize_file(engine, path))

        compiled, report = fetch()
        if apart and report == "miss":
            from .apart import apart as work_apart

            if work_apart(lambda: cache.store(info.digest, kind(engine, data).serialize())):
                compiled, report = fetch()
    if compiled is not None:
        return compiled, report
    try:
        compiled = kind(engine, data)
    except wasmtime.WasmtimeError as error:
        raise LoadError(
            f"{label} does not compile: {_first_line(error)}",
            detail=str(error),
            hint="it may be damaged, or need a WebAssembly feature this host leaves out",
        ) from None
    if cache is not None:
        report = cache.store(info.digest, compiled.serialize())
    return compiled, report


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
