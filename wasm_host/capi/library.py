"""wasmtime's shared library: where it is, its version, and the functions taken from it."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from importlib.machinery import PathFinder
from typing import Any, Final

from wasm_host.capi.layouts import Callback
from wasm_host.machine import PROCESSOR

VERSION: Final = "50.0"
"""The one minor version whose structures `wasm_host.capi.layouts` has."""

_FILES: Final = {"linux": "_libwasmtime.so", "darwin": "_libwasmtime.dylib"}
_MACHINES: Final = {"arm64": "aarch64"}

_P = ctypes.c_void_p
_TEXT = ctypes.c_char_p
_SIZE = ctypes.c_size_t
_BOOL = ctypes.c_bool
_U64 = ctypes.c_uint64
_I64 = ctypes.c_int64

FUNCTIONS: Final[dict[str, tuple[Any, ...]]] = {
    # Configuration and engine.
    "wasm_config_new": (_P,),
    "wasmtime_config_concurrency_support_set": (None, _P, _BOOL),
    "wasmtime_config_consume_fuel_set": (None, _P, _BOOL),
    "wasmtime_config_cranelift_nan_canonicalization_set": (None, _P, _BOOL),
    "wasmtime_config_epoch_interruption_set": (None, _P, _BOOL),
    "wasmtime_config_max_wasm_stack_set": (None, _P, _SIZE),
    "wasmtime_config_memory_may_move_set": (None, _P, _BOOL),
    "wasmtime_config_memory_reservation_set": (None, _P, _U64),
    "wasmtime_config_strategy_set": (None, _P, ctypes.c_uint8),
    "wasmtime_config_wasm_component_model_async_set": (None, _P, _BOOL),
    "wasmtime_config_wasm_gc_set": (None, _P, _BOOL),
    "wasmtime_config_wasm_memory64_set": (None, _P, _BOOL),
    "wasmtime_config_wasm_multi_memory_set": (None, _P, _BOOL),
    "wasmtime_config_wasm_relaxed_simd_deterministic_set": (None, _P, _BOOL),
    "wasmtime_config_wasm_stack_switching_set": (None, _P, _BOOL),
    "wasmtime_config_wasm_threads_set": (None, _P, _BOOL),
    "wasm_engine_new_with_config": (_P, _P),
    "wasm_engine_delete": (None, _P),
    "wasmtime_engine_increment_epoch": (None, _P),
    # Modules.
    "wasmtime_module_new": (_P, _P, _TEXT, _SIZE, _P),
    "wasmtime_module_deserialize": (_P, _P, _TEXT, _SIZE, _P),
    "wasmtime_module_deserialize_file": (_P, _P, _TEXT, _P),
    "wasmtime_module_serialize": (_P, _P, _P),
    "wasmtime_module_imports": (None, _P, _P),
    "wasmtime_module_delete": (None, _P),
    # Types.
    "wasm_importtype_vec_delete": (None, _P),
    "wasm_importtype_name": (_P, _P),
    "wasm_importtype_type": (_P, _P),
    "wasm_externtype_as_functype": (_P, _P),
    "wasm_functype_params": (_P, _P),
    "wasm_functype_results": (_P, _P),
    "wasm_functype_delete": (None, _P),
    "wasm_valtype_kind": (ctypes.c_uint8, _P),
    # Stores.
    "wasmtime_store_new": (_P, _P, _P, _P),
    "wasmtime_store_context": (_P, _P),
    "wasmtime_store_limiter": (None, _P, _I64, _I64, _I64, _I64, _I64),
    "wasmtime_store_delete": (None, _P),
    "wasmtime_context_set_epoch_deadline": (None, _P, _U64),
    "wasmtime_context_set_fuel": (_P, _P, _U64),
    # Instances, functions and memories.
    "wasmtime_instance_new": (_P, _P, _P, _P, _SIZE, _P, _P),
    "wasmtime_instance_export_get": (_BOOL, _P, _P, _TEXT, _SIZE, _P),
    "wasmtime_extern_delete": (None, _P),
    "wasmtime_func_type": (_P, _P, _P),
    "wasmtime_func_call": (_P, _P, _P, _P, _SIZE, _P, _SIZE, _P),
    "wasmtime_func_call_unchecked": (_P, _P, _P, _P, _SIZE, _P),
    "wasmtime_val_unroot": (None, _P),
    "wasmtime_memory_data": (_P, _P, _P),
    "wasmtime_memory_data_size": (_SIZE, _P, _P),
    # Host functions.
    "wasmtime_func_new": (None, _P, _P, Callback, _P, _P, _P),
    "wasmtime_caller_export_get": (_BOOL, _P, _TEXT, _SIZE, _P),
    "wasmtime_trap_new": (_P, _TEXT, _SIZE),
    # Errors and traps.
    "wasmtime_error_message": (None, _P, _P),
    "wasmtime_error_delete": (None, _P),
    "wasm_trap_message": (None, _P, _P),
    "wasm_trap_delete": (None, _P),
    "wasm_byte_vec_delete": (None, _P),
}
"""The called functions, by name: the type of the result, then the types of the arguments."""


@functools.cache
def folder() -> str:
    """The folder of the installed package `wasmtime`, found without executing it; or ''."""
    spec = PathFinder.find_spec("wasmtime")
    return os.path.dirname(spec.origin) if spec is not None and spec.origin else ""


@functools.cache
def version() -> str:
    """Version of the installed package `wasmtime`.

    Read off the name of its metadata folder: importlib.metadata takes 18 ms to import.
    """
    if folder():
        for name in os.listdir(os.path.dirname(folder())):
            if name.startswith("wasmtime-") and name.endswith(".dist-info"):
                return name.removeprefix("wasmtime-").removesuffix(".dist-info")
    from importlib.metadata import version

    return version("wasmtime")


@functools.cache
def missing() -> tuple[str, ...]:
    """The parts that this binding needs and the installed wasmtime lacks; empty: it can be used."""
    if not folder():
        return ("its package",)
    if not version().startswith(f"{VERSION}."):
        return (f"version {VERSION}",)
    try:
        library = _loaded()
    except (OSError, KeyError):
        return ("a library for this system",)
    return tuple(name for name in FUNCTIONS if not hasattr(library, name))


@functools.cache
def _loaded() -> ctypes.CDLL:
    """The library.

    Raises:
        KeyError: nobody knows how it is called on this system.
        OSError: it cannot be loaded.
    """
    place = f"{sys.platform}-{_MACHINES.get(PROCESSOR, PROCESSOR)}"
    return ctypes.CDLL(os.path.join(folder(), place, _FILES[sys.platform]))


def untyped(name: str, *, keep_gil: bool = False, returns: Any = None) -> Any:
    """A function that converts no arguments: its callers pass ctypes objects of the right size.

    With `keep_gil` other threads do not run meanwhile: for a function that writes one field,
    giving up the lock would cost more than the call.
    """
    library: Any = _loaded()
    # library[...] makes a new object each time, so the result type set here stays private.
    function = (ctypes.PyDLL(None, handle=library._handle) if keep_gil else library)[name]
    function.restype = returns
    return function


class _Library:
    """The functions of `FUNCTIONS` as attributes that convert and check their arguments."""

    def __getattr__(self, name: str) -> Any:
        result, *arguments = FUNCTIONS[name]
        function = getattr(_loaded(), name)
        function.restype = result
        function.argtypes = arguments
        setattr(self, name, function)
        return function


LIBRARY: Final = _Library()
