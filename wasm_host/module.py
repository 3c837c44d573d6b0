"""Loading: from a file to something that can be instantiated, by way of the compile cache."""

from __future__ import annotations

import contextlib
import importlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from wasm_host.cache.store import Cache
from wasm_host.engine import compiler_for, engine_for, engine_identity, has_baseline
from wasm_host.errors import LoadError
from wasm_host.info import ModuleInfo, info_of, label_of, read_source, require_guest
from wasm_host.limits import Limits

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from wasm_host.carriers import Guest


GRANTS: Final = frozenset(("clock", "random"))
"""The possible `grants`; each opens one WASI service to the guest."""


class Module(msgspec.Struct, kw_only=True, eq=False):
    """A compiled guest, from which any number of instances can be made."""

    info: ModuleInfo
    """Static facts about the file."""
    label: str
    """Its name in messages."""
    limits: Limits
    """Bounds of each instance."""
    grants: frozenset[str]
    """WASI services that its instances get."""
    cache_report: str
    """The result of the compile cache: `off`, `hit`, `stored`, or `ignored: …` with the reason."""
    compiled: Any
    """The compiled module, as wasmtime has it."""
    baseline: bool = False
    """Whether it is the baseline compiler's code, which is slower (`load`)."""
    preface: bytes = b""
    """Lines that each instance of a component gets when it is made."""
    source_digest: str = ""
    """SHA-256 of the source in `preface`, in hex; empty: it has none."""

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

    def instantiate(self, name: str = "guest") -> Guest:
        """A fresh instance, called `name` in every message about it.

        Raises:
            GuestError: phase `instantiate`: it trapped or exceeded a limit while starting.
        """
        limits, grants = self.limits, self.grants
        wasi = grants if self.info.wasi else None
        if self.carrier == "component":
            from wasm_host.carriers.component import ComponentGuest

            engine, _ = compiler_for(limits, component=True, baseline=self.baseline)
            guest = ComponentGuest(engine, self.compiled, name, limits, grants=wasi)
            if self.preface:
                guest.prepare(self.preface)
            return guest
        engine = engine_for(limits, baseline=self.baseline)
        if self.carrier == "core":
            from wasm_host.carriers.core import CoreGuest

            return CoreGuest(engine, self.compiled, name, limits, grants=wasi)
        from wasm_host.carriers.wasi import WasiGuest

        # A blocking read would block all goroutines; Go polls instead if its input is declared
        # non-blocking.
        polls = self.info.language == "Go"
        return WasiGuest(engine, self.compiled, name, limits, grants=grants, polls=polls)

    def warm(self) -> None:
        """Import and make everything that its instances need on first use.

        A sealed process can import nothing and make no executable memory (`harden.seal`).
        """
        component, wasi = self.carrier == "component", bool(self.info.wasi)
        for name, needed in (
            ("calls.capi", True),
            ("calls.capi_component", component),
            (f"carriers.{self.carrier}", True),
            ("wasi.preview2", wasi and component),
            ("wasi.preview1", wasi and not component),
        ):
            if needed:
                importlib.import_module(f"wasm_host.{name}")


def load(
    source: str | os.PathLike[str] | bytes | bytearray,
    *,
    limits: Limits | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    grants: frozenset[str] = frozenset(),
    check: Callable[[ModuleInfo], None] | None = None,
    digest: str = "",
    compiling: Callable[[], None] | None = None,
    baseline: bool = False,
) -> Module:
    """Check, compile (or take from the cache) and return a guest module; runs none of it.

    Args:
        source: path of a `.wasm` file, or its bytes.
        limits: bounds of each instance; the defaults of `Limits` when omitted.
        cache_dir: folder of compiled modules; made when absent, ignored (see
            `Module.cache_report`) unless it is ours alone. No cache when omitted.
        grants: `clock` and `random` give WASI guests the real ones.
        check: called with the facts of the file before it is compiled; may raise to refuse it.
        digest: SHA-256 that the caller vouches for; if the cache holds the module compiled from
            it, the file is not even read.
        compiling: called before the module is compiled for the cache, which may take seconds.
        baseline: if the cache holds no code for `digest`, use the baseline compiler where there is
            one (`Module.baseline`). Never for a stranger's module: that compiler has had more holes
            than the usual one.

    Raises:
        LoadError: not WebAssembly, no guest, or imports it may not have, with all of them listed.
        ValueError: an unknown grant.
    """
    if unknown := grants - GRANTS:
        raise ValueError(f"unknown grants {sorted(unknown)}; known are {sorted(GRANTS)}")
    limits = limits if limits is not None else Limits()
    loading = _Loading(source, label_of(source), limits, check, digest, compiling)
    info, compiled, report = None, None, ""
    cache = Cache(cache_dir, engine_identity(limits)) if cache_dir is not None else None
    baseline = baseline and cache is not None and has_baseline(limits) and not cache.holds(digest)
    if baseline and cache_dir is not None:
        quick = Cache(cache_dir, engine_identity(limits, baseline=True))
        # The usual compiler judges modules that the baseline compiler does not take.
        with contextlib.suppress(LoadError):
            info, compiled, report = _load(loading, quick, baseline=True)
    if info is None:
        baseline = False
        info, compiled, report = _load(loading, cache, baseline=False)
    return Module(
        info=info,
        label=loading.label,
        limits=limits,
        grants=grants,
        cache_report=report,
        compiled=compiled,
        baseline=baseline,
    )


def optimise(
    source: str | os.PathLike[str], digest: str, limits: Limits, cache_dir: str | os.PathLike[str]
) -> None:
    """Compile a module for the next start, if the cache has only the baseline compiler's code.

    Another process that does so already is not waited for, and whoever needs the code meanwhile
    does not wait for this process.
    """
    cache = Cache(cache_dir, engine_identity(limits))
    with contextlib.suppress(LoadError, TimeoutError), cache.lock(f"{digest} later", 0.0):
        if cache.holds(digest):
            return
        label = label_of(source)
        data = read_source(source, label, limits)
        info = info_of(data, label, limits)
        if info.digest == digest:
            from wasm_host.cache.compile_process import compiled

            cache.store(digest, compiled(data, info, label, limits))
            cache.remember(digest, msgspec.json.encode(info).decode())
            Cache(cache_dir, engine_identity(limits, baseline=True)).drop(digest)


class _Loading(msgspec.Struct, frozen=True):
    """The module for `load`."""

    source: str | os.PathLike[str] | bytes | bytearray
    label: str
    limits: Limits
    check: Callable[[ModuleInfo], None] | None
    digest: str
    compiling: Callable[[], None] | None


def _load(loading: _Loading, cache: Cache | None, *, baseline: bool) -> tuple[ModuleInfo, Any, str]:
    """The facts and the code of a module, and the report of the cache."""
    digest = loading.digest
    known = _known(loading, cache, baseline=baseline) if cache is not None and digest else None
    if known is not None:
        return known
    info, compiled, report = _load_anew(loading, cache, baseline=baseline)
    if cache is not None and digest == info.digest:
        cache.remember(digest, msgspec.json.encode(info).decode())
    return info, compiled, report


def _known(
    loading: _Loading, cache: Cache, *, baseline: bool
) -> tuple[ModuleInfo, Any, str] | None:
    """As `_load_anew`, by the digest of the file alone; `None` if the cache does not hold it."""
    text = cache.recall(loading.digest)
    if text is None:
        return None
    try:
        info = msgspec.json.decode(text, type=ModuleInfo)
    except msgspec.DecodeError:
        return None
    if info.digest != loading.digest:
        return None
    compiled, report = _fetch(cache, info, loading.limits, baseline=baseline)
    if compiled is None:
        return None
    if loading.check is not None:
        loading.check(info)
    return info, compiled, report


def _load_anew(
    loading: _Loading, cache: Cache | None, *, baseline: bool
) -> tuple[ModuleInfo, Any, str]:
    """The facts and the code of a file that was read, and the report of the cache."""
    label, limits = loading.label, loading.limits
    data = read_source(loading.source, label, limits)
    info = info_of(data, label, limits)
    if loading.check is not None:
        loading.check(info)
    require_guest(info, label)
    compiled, report = _compile(data, info, loading, cache, baseline=baseline)
    if info.carrier == "component":
        from wasm_host.carriers.component import find_deliver

        # Only the compiled form has the types of a component's exports.
        engine, _ = compiler_for(limits, component=True, baseline=baseline)
        if find_deliver(compiled, engine) is None:
            raise LoadError(
                f"{label}: no exported interface has deliver: func(lines: string) -> string",
                hint="build it for the world in wasm_host/channel.wit",
            )
    return info, compiled, report


def _compile(
    data: bytes, info: ModuleInfo, loading: _Loading, cache: Cache | None, *, baseline: bool
) -> tuple[Any, str]:
    """The code of a file, compiled unless the cache holds it; and the report of the cache."""
    label, limits = loading.label, loading.limits
    if cache is not None:
        code, report = _fetch(cache, info, limits, baseline=baseline)
        if code is not None:
            return code, report
    # The compiler takes long to import, and an editor waits: only where it is needed.
    from wasm_host.cache.compile_process import compiled, seconds

    component = info.carrier == "component"
    engine, kind = compiler_for(limits, component=component, baseline=baseline)
    if cache is None:
        return kind.deserialize(engine, compiled(data, info, label, limits)), "off"
    try:
        with cache.lock(info.digest, seconds(limits)):
            # Another process may have stored it while this one waited for the lock.
            code, report = _fetch(cache, info, limits, baseline=baseline)
            if code is not None:
                return code, report
            if loading.compiling is not None:
                loading.compiling()
            payload = compiled(data, info, label, limits, baseline=baseline)
            report = cache.store(info.digest, payload)
            # From the file, whose pages need no memory of their own.
            stored = report == "stored"
            code = _fetch(cache, info, limits, baseline=baseline)[0] if stored else None
            return code or kind.deserialize(engine, payload), report
    except TimeoutError:
        raise LoadError(
            f"{label}: another process has been compiling it for {seconds(limits):g} s",
            hint="end that process, or raise the component's compile_ms",
        ) from None


def _fetch(cache: Cache, info: ModuleInfo, limits: Limits, *, baseline: bool) -> tuple[Any, str]:
    component = info.carrier == "component"
    engine, kind = compiler_for(limits, component=component, baseline=baseline)
    return cache.fetch(info.digest, lambda path: kind.deserialize_file(engine, path))
