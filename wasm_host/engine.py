"""wasmtime engines, one per configuration, and the facts that compiled modules depend on.

The first function here that needs wasmtime loads it: this package itself must import fast.
"""

from __future__ import annotations

from _thread import allocate_lock
from typing import TYPE_CHECKING, Any, Final

from wasm_host import capi
from wasm_host.calls import Api
from wasm_host.capi.library import VERSION, version
from wasm_host.errors import LoadError
from wasm_host.limits import MAX_STACK_BYTES
from wasm_host.machine import PROCESSOR, SYSTEM
from wasm_host.ticker import TICKER

if TYPE_CHECKING:
    from wasm_host.limits import Limits


EngineKey = tuple[int, bool, bool]
"""The differences between engines: stack size, counted fuel, and the compiler: wasmtime's usual
compiler, or its baseline compiler, which takes a fifth of the time and makes slower code."""

_WINCH: Final = 2
"""The baseline compiler's number in wasmtime's C interface."""

MEMORY_RESERVATION: Final = 1 << 32
"""Address space reserved for each memory. A 32-bit memory cannot grow beyond it, so a memory
never moves and `wasm_host.calls.capi` may keep its base address."""

_engines: dict[tuple[str, EngineKey], Any] = {}
"""The engines, by the name of the `Api` that has the engine's class, and by the engine's key."""
_lock = allocate_lock()


def has_baseline(limits: Limits) -> bool:
    """Whether there is a baseline compiler for modules with these limits: where wasmtime holds it
    as ready as its usual one."""
    return limits.fuel is None and (SYSTEM, PROCESSOR) == ("Linux", "x86_64")


def engine_key(limits: Limits, *, baseline: bool = False) -> EngineKey:
    """The engine configuration for limits; the other limits belong to a store."""
    # Frames of baseline code are larger: a stack that fits usual code must fit baseline code.
    stack_bytes = min(2 * limits.stack_bytes, MAX_STACK_BYTES) if baseline else limits.stack_bytes
    return stack_bytes, limits.fuel is not None, baseline


def engine_for(limits: Limits, api: Api = capi, *, baseline: bool = False) -> Any:
    """The engine of `api` for these limits, made once per process and ticked from then on.

    Raises:
        LoadError: this host is made for another wasmtime than the installed one.
    """
    key = engine_key(limits, baseline=baseline)
    with _lock:
        engine = _engines.get((api.__name__, key))
        if engine is None:
            engine = _engines[api.__name__, key] = _new_engine(api, _settings(key))
            TICKER.add_engine(engine.increment_epoch)
        return engine


def _settings(key: EngineKey) -> dict[str, int]:
    """Settings of wasmtime's configuration, by the names it gives them."""
    stack_bytes, fuel, baseline = key
    settings = {
        "epoch_interruption": True,
        "consume_fuel": fuel,
        "max_wasm_stack": stack_bytes,
        "memory_reservation": MEMORY_RESERVATION,
        "memory_may_move": False,
        # Same frames, same answers, on any machine: a recording can be replayed.
        "cranelift_nan_canonicalization": True,
        "wasm_relaxed_simd_deterministic": True,
        # No channel guest needs these; each would be one more thing to bound.
        "wasm_threads": False,
        "wasm_memory64": False,
        # The store bounds the number of memories. The engine must allow several: the code that
        # joins the parts of a component copies between memories, and the compiler panics without
        # them.
        "wasm_multi_memory": True,
        "wasm_gc": False,
        "wasm_stack_switching": False,
        # No call of a guest overlaps another. With support for that, wasmtime 50 fails a component
        # that lends its host two handles in one call.
        "wasm_component_model_async": False,
        "concurrency_support": False,
    }
    if baseline:
        settings["strategy"] = _WINCH
    return settings


def _new_engine(api: Api, settings: dict[str, int]) -> Any:
    if lacks := capi.missing():
        raise LoadError(
            f"wasmtime lacks {', '.join(lacks)}",
            hint=f"install wasmtime {VERSION}: `pip install 'wasmtime~={VERSION}.0'`",
        )
    if api is capi:
        return capi.Engine(settings)
    import wasmtime

    config = wasmtime.Config()
    for name, value in settings.items():
        # Not by the package's properties: it has none for some of these settings.
        getattr(wasmtime._ffi, f"wasmtime_config_{name}_set")(config.ptr(), value)
    return wasmtime.Engine(config)


def engine_identity(limits: Limits, *, baseline: bool = False) -> str:
    """Everything a compiled module depends on besides its source, as a stable string."""
    stack_bytes, fuel, _ = engine_key(limits, baseline=baseline)
    return "|".join(
        (
            "channel-engine-4",
            f"wasmtime {wasmtime_version()}",
            f"stack {stack_bytes}",
            f"fuel {fuel}",
            SYSTEM,
            PROCESSOR,
            *(("baseline",) if baseline else ()),
        )
    )


def wasmtime_version() -> str:
    """Version of the installed wasmtime package, which is not imported for it.

    Raises:
        ModuleNotFoundError: there is none.
    """
    return version()


def compiler_for(
    limits: Limits, *, component: bool, baseline: bool = False
) -> tuple[Any, type[Any]]:
    """The engine that compiles for these limits, and the class of its results: components or
    core modules."""
    if component:
        import wasmtime
        from wasmtime import component as components

        return engine_for(limits, wasmtime, baseline=baseline), components.Component
    return engine_for(limits, baseline=baseline), capi.Module
