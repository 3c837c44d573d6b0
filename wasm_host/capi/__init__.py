"""wasmtime by its C interface: the few functions that a host of core guests needs, over ctypes.

The package `wasmtime` binds the whole interface, which takes 30 ms to import and 5 MB to keep. This
one loads the same library, out of the same package, and executes nothing of the package. Its
classes have the names and methods of the package's classes as far as `wasm_host` uses them: both
are a `wasm_host.calls.Api`. Components need the package's classes.

Owners of memory:

* An object of `wasm_host.capi.objects` owns the memory at its `pointer`, and frees it once: when
  it is closed, or else when Python drops it.
* A configuration belongs to the engine that is made of it.
* Errors and traps are read and freed in the same step (`wasm_host.capi.failures`): exceptions hold
  text, never a pointer. A trap that a host function returns belongs to wasmtime.
* Handles of functions and memories are numbers. They own nothing and are void with their store.
"""

from wasm_host.capi.failures import Trap, WasmtimeError
from wasm_host.capi.library import missing
from wasm_host.capi.objects import Engine, Func, Instance, Memory, Module, Store

__all__ = [
    "Engine",
    "Func",
    "Instance",
    "Memory",
    "Module",
    "Store",
    "Trap",
    "WasmtimeError",
    "missing",
]
