"""wasmtime engines, one per configuration, and the choice of how to call into guests.

wasmtime is imported by the first function here that needs it, not with the package.
"""

from __future__ import annotations

import os
import platform
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from wasm_host.ticker import TICKER

if TYPE_CHECKING:
    from collections.abc import Mapping

    import wasmtime
    from wasmtime._exportable import AsExtern

    from wasm_host.calls.common import Calls, Host
    from wasm_host.limits import Limits


CALLS_VARIABLE = "WASM_HOST_CALLS"
"""Environment variable that forces the way guests are called: `fast` or `public`."""

EngineKey = tuple[int, bool]
"""What distinguishes one engine from another: stack size, and whether fuel is counted."""

MEMORY_RESERVATION = 1 << 32
"""Address space reserved for each memory. It holds all a 32-bit memory can grow to, so a memory
never moves and the fast path may keep its base address."""

_engines: dict[EngineKey, wasmtime.Engine] = {}
_lock = threading.Lock()


def engine_key(limits: Limits) -> EngineKey:
    """The engine configuration that limits ask for; the other limits belong to a store."""
    return limits.stack_bytes, limits.fuel is not None


def engine_for(limits: Limits) -> wasmtime.Engine:
    """The engine for these limits, made once a process and ticked from then on."""
    key = engine_key(limits)
    with _lock:
        engine = _engines.get(key)
        if engine is None:
            engine = _engines[key] = _new_engine(key)
            TICKER.add_engine(engine.increment_epoch)
        return engine


def _new_engine(key: EngineKey) -> wasmtime.Engine:
    import wasmtime

    stack_bytes, fuel = key
    config = wasmtime.Config()
    config.epoch_interruption = True
    config.consume_fuel = fuel
    config.max_wasm_stack = stack_bytes
    config.memory_reservation = MEMORY_RESERVATION
    config.memory_may_move = False
    # Same frames, same answers, on any machine: a recording can be replayed.
    config.cranelift_nan_canonicalization = True
    config.wasm_relaxed_simd_deterministic = True
    # Nothing a channel guest needs; each would be one more thing to bound.
    config.wasm_threads = False
    config.wasm_memory64 = False
    # How many memories there are a store bounds. Here they must be allowed: code that joins the
    # parts of a component copies from one to another, and without them compiling it is a panic.
    config.wasm_multi_memory = True
    config.wasm_gc = False
    config.wasm_stack_switching = False
    return wasmtime.Engine(config)


def engine_identity(limits: Limits) -> str:
    """Everything a compiled module depends on besides its source, as a stable string."""
    stack_bytes, fuel = engine_key(limits)
    return "|".join(
        (
            "channel-engine-3",
            f"wasmtime {wasmtime_version()}",
            f"stack {stack_bytes}",
            f"fuel {fuel}",
            platform.system(),
            platform.machine(),
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


def calls_for(
    store: wasmtime.Store, exports: Mapping[str, AsExtern], force: str | None = None
) -> Calls:
    """How to call a core guest: raw calls where this wasmtime has them, else its public API.

    `force` (or, without it, the variable `WASM_HOST_CALLS`) may be `fast` or `public`.

    Raises:
        ValueError: the forced way does not exist or does not work with this wasmtime.
    """
    from wasm_host.calls import capi

    if choose_way(force, capi.missing_symbols()) == "public":
        from wasm_host.calls.public import PlainCalls

        return PlainCalls(store, exports)
    return capi.FastCalls(store, exports)


def host_functions() -> Host:
    """A maker of host functions, of the kind `calls_for` would choose."""
    from wasm_host.calls import capi

    if choose_way(None, capi.missing_symbols()) == "public":
        from wasm_host.calls.public import PlainHost

        return PlainHost()
    return capi.FastHost()


def choose_way(force: str | None, missing: list[str]) -> str:
    """`fast`, where nothing is missing for it, or `public`; see `calls_for`."""
    way = force or os.environ.get(CALLS_VARIABLE) or ""
    if way not in ("", "fast", "public"):
        raise ValueError(f"{CALLS_VARIABLE} must be 'fast' or 'public', not {way!r}")
    if way == "fast" and missing:
        raise ValueError(f"fast calls need wasmtime symbols that are missing: {missing}")
    return "public" if way == "public" or missing else "fast"
