"""wasmtime engines, one per configuration, and what compiled modules depend on.

The first function here that needs wasmtime imports it: the package itself must import fast.
"""

from __future__ import annotations

import platform
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wasm_host.limits import MAX_STACK_BYTES
from wasm_host.ticker import TICKER

if TYPE_CHECKING:
    import wasmtime

    from wasm_host.limits import Limits


EngineKey = tuple[int, bool, bool]
"""What distinguishes two engines: stack size, whether fuel is counted, and the compiler: wasmtime's
usual one, or its baseline compiler, which takes a fifth of the time and makes slower code."""

_WINCH: Final = 2
"""The baseline compiler's number in wasmtime's C interface; its Python interface has no name for
it."""

MEMORY_RESERVATION: Final = 1 << 32
"""Address space reserved for each memory. It holds all a 32-bit memory can grow to, so a memory
never moves and `wasm_host.calls.capi` may keep its base address."""

_engines: dict[EngineKey, wasmtime.Engine] = {}
_lock = threading.Lock()


def has_baseline(limits: Limits) -> bool:
    """Whether there is a baseline compiler for modules with these limits: where wasmtime holds it
    as ready as its usual one."""
    return limits.fuel is None and (platform.system(), platform.machine()) == ("Linux", "x86_64")


def engine_key(limits: Limits, *, baseline: bool = False) -> EngineKey:
    """The engine configuration that limits ask for; the other limits belong to a store."""
    # Frames of baseline code are larger: what fits with the usual code must fit with this.
    stack_bytes = min(2 * limits.stack_bytes, MAX_STACK_BYTES) if baseline else limits.stack_bytes
    return stack_bytes, limits.fuel is not None, baseline


def engine_for(limits: Limits, *, baseline: bool = False) -> wasmtime.Engine:
    """The engine for these limits, made once per process and ticked from then on."""
    key = engine_key(limits, baseline=baseline)
    with _lock:
        engine = _engines.get(key)
        if engine is None:
            engine = _engines[key] = _new_engine(key)
            TICKER.add_engine(engine.increment_epoch)
        return engine


def _new_engine(key: EngineKey) -> wasmtime.Engine:
    import wasmtime

    stack_bytes, fuel, baseline = key
    config = wasmtime.Config()
    config.epoch_interruption = True
    config.consume_fuel = fuel
    config.max_wasm_stack = stack_bytes
    config.memory_reservation = MEMORY_RESERVATION
    config.memory_may_move = False
    # Same frames, same answers, on any machine: a recording can be replayed.
    config.cranelift_nan_canonicalization = True
    config.wasm_relaxed_simd_deterministic = True
    # No channel guest needs these; each would be one more thing to bound.
    config.wasm_threads = False
    config.wasm_memory64 = False
    # The store bounds the number of memories. The engine must allow several: the code that joins
    # the parts of a component copies between memories, and the compiler panics without them.
    config.wasm_multi_memory = True
    config.wasm_gc = False
    config.wasm_stack_switching = False
    if baseline:
        wasmtime._ffi.wasmtime_config_strategy_set(config.ptr(), _WINCH)
    return wasmtime.Engine(config)


def engine_identity(limits: Limits, *, baseline: bool = False) -> str:
    """Everything a compiled module depends on besides its source, as a stable string."""
    stack_bytes, fuel, _ = engine_key(limits, baseline=baseline)
    return "|".join(
        (
            "channel-engine-3",
            f"wasmtime {wasmtime_version()}",
            f"stack {stack_bytes}",
            f"fuel {fuel}",
            platform.system(),
            platform.machine(),
            *(("baseline",) if baseline else ()),
        )
    )


def wasmtime_version() -> str:
    """Version of the installed wasmtime package.

    Read off the name of its metadata folder: importlib.metadata takes 18 ms to import.
    """
    import wasmtime

    for path in Path(wasmtime.__file__).parents[1].iterdir():
        if path.name.startswith("wasmtime-") and path.suffix == ".dist-info":
            return path.stem.removeprefix("wasmtime-")
    from importlib.metadata import version

    return version("wasmtime")


def compiled_class(*, component: bool) -> Any:
    """wasmtime's class of compiled components, or of compiled core modules."""
    if component:
        from wasmtime import component as components

        return components.Component
    import wasmtime

    return wasmtime.Module
