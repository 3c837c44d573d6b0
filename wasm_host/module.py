"""Loading: from a file to something that can be instantiated, by way of the compile cache."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .cache import Cache
from .engine import engine_for, engine_identity
from .errors import LoadError
from .guest import Guest
from .info import ModuleInfo, info_of, read_source, refusal
from .limits import Limits

if TYPE_CHECKING:
    import wasmtime

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
        if self.carrier == "core":
            from .core_guest import CoreGuest

            grants = self.grants if self.info.wasi else None
            return CoreGuest(self._engine, self._compiled, name, self.limits, grants, calls)
        if self.carrier == "wasi":
            from .wasi_guest import WasiGuest

            return WasiGuest(self._engine, self._compiled, name, self.limits, self.grants)
        from .component_guest import ComponentGuest

        wasi = bool(self.info.wasi)
        return ComponentGuest(
            self._engine, self._compiled, name, self.limits, self.grants, wasi
        )


def load(
    source: str | os.PathLike[str] | bytes | bytearray,
    *,
    limits: Limits | None = None,
    cache_dir: Path | None = None,
    grants: frozenset[str] = frozenset(),
) -> Module:
    """Check, compile (or take from the cache) and return a guest module; runs none of it.

    Args:
        source: path of a ``.wasm`` file, or its bytes.
        limits: bounds of every instance; the defaults of :class:`Limits` when omitted.
        cache_dir: directory of compiled modules; made when absent, ignored (see
            ``Module.cache_report``) unless it is ours alone. No cache when omitted.
        grants: ``clock`` and ``random`` give WASI guests the real ones.

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
    import wasmtime

    kind: Any = wasmtime.Module
    if info.carrier == "component":
        from wasmtime import component

        kind = component.Component
    engine = engine_for(limits)
    cache = Cache(cache_dir, engine_identity(limits)) if cache_dir is not None else None
    compiled, report = None, "off"
    if cache is not None:
        compiled, report = cache.fetch(info.digest, lambda path: kind.deserialize_file(engine, path))
    if compiled is None:
        try:
            compiled = kind(engine, data)
        except wasmtime.WasmtimeError as error:
            raise LoadError(
                f"{label} does not compile: {_first_line(error)}",
                detail=str(error),
                hint="it may be damaged, or need a WebAssembly feature this host leaves out",
            ) from None
        if cache is not None and not report.startswith("ignored"):
            report = cache.store(info.digest, compiled.serialize())
    if info.carrier == "component":
        from .component_guest import find_deliver

        if find_deliver(compiled, engine) is None:
            raise LoadError(
                f"{label}: no exported interface has deliver: func(lines: string) -> string",
                hint="build it for the world in wasm_host/channel.wit",
            )
    return Module(info, engine, compiled, label, limits, grants, report)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
