"""Calls to core guests by wasmtime's C functions, which are private API.

The public `Func.__call__` reads the function's type again for each call and builds a dozen
objects; the raw call with prepared arguments costs a tenth. The rules that make it safe:

* arguments and results live in one buffer made once per function, never in temporaries;
* error and trap pointers go to wasmtime's own classes, which free them;
* the memory's base address is kept because the engine forbids memories to move
  (`engine.MEMORY_RESERVATION`), and its size because memories only grow: a range inside the
  size last seen is inside the memory, anything else is checked against the size of now;
* bytes are copied through a memoryview that spans exactly the size last seen, so a mistake here
  would raise `ValueError` rather than touch foreign memory.
"""

from __future__ import annotations

import _thread
import ctypes
import itertools
from collections.abc import Iterable
from typing import Any, ClassVar

import wasmtime
from wasmtime import _ffi as ffi

from wasm_host.calls.common import Ended, Handler, wild

SYMBOLS = (
    "dll",
    "wasm_trap_t",
    "wasmtime_caller_export_get",
    "wasmtime_error_t",
    "wasmtime_extern_t",
    "wasmtime_func_callback_t",
    "wasmtime_func_new",
    "wasmtime_func_t",
    "wasmtime_memory_t",
    "wasmtime_memory_data",
    "wasmtime_memory_data_size",
    "wasmtime_trap_new",
)
"""What this module takes from `wasmtime._ffi`; absent in an unexpected version."""
C_SYMBOLS = ("wasmtime_func_call_unchecked", "wasmtime_context_set_epoch_deadline")

RawValues = ctypes.c_uint64 * 4
"""One `wasmtime_val_raw_t` is 16 bytes; integers sit zero-extended in its first 8."""

UINT32 = 0xFFFFFFFF
UINT64 = 0xFFFFFFFFFFFFFFFF


def missing_symbols() -> list[str]:
    """Names the fast path needs and this wasmtime does not have; empty when it can be used."""
    return absent(SYMBOLS, C_SYMBOLS)


def absent(symbols: Iterable[str], functions: Iterable[str]) -> list[str]:
    """Which symbols `wasmtime._ffi` does not have, and which C functions its library."""
    missing = [name for name in symbols if not hasattr(ffi, name)]
    if "dll" not in missing:
        missing += [name for name in functions if not hasattr(ffi.dll, name)]
    return missing


def c_function(name: str, *, keep_gil: bool) -> Any:
    """A C function without argument conversion: callers pass ctypes objects of the right size."""
    if keep_gil:
        return ctypes.PyDLL(None, handle=ffi.dll._handle)[name]
    return ffi.dll[name]


class _Shared:
    """The C functions, resolved once."""

    __slots__ = ("call", "set_deadline")

    def __init__(self) -> None:
        # dll[...] makes a new function object each time, so these settings stay private.
        self.call = c_function("wasmtime_func_call_unchecked", keep_gil=False)
        self.call.restype = ctypes.c_void_p
        # Writes one field; giving up the GIL for it would cost more than the call.
        self.set_deadline = c_function("wasmtime_context_set_epoch_deadline", keep_gil=True)
        self.set_deadline.restype = None


class FastMemory:
    """`wasm_host.calls.common.GuestMemory` through a view of the memory itself."""

    __slots__ = ("_base", "_memory", "_size", "_store", "_view")

    def __init__(self, store: wasmtime.Store, memory: wasmtime.Memory) -> None:
        self._store = store
        self._memory = ctypes.pointer(memory._memory)
        self._base = ctypes.cast(self._data(), ctypes.c_void_p).value or 0
        self._size = 0
        self._view = memoryview(b"")
        self._look()

    def memory_size(self) -> int:
        """See `wasm_host.calls.common.GuestMemory.memory_size`."""
        return self._look()

    def read(self, pointer: int, length: int) -> bytes:
        """See `wasm_host.calls.common.GuestMemory.read`."""
        end = pointer + length
        if end > self._size and end > self._look():
            raise wild("a call", pointer, length, self._size)
        return self._view[pointer:end].tobytes()

    def write(self, pointer: int, data: bytes) -> None:
        """See `wasm_host.calls.common.GuestMemory.write`."""
        end = pointer + len(data)
        if end > self._size and end > self._look():
            raise wild("a call", pointer, len(data), self._size)
        self._view[pointer:end] = data

    def drop(self) -> None:
        """See `wasm_host.calls.common.GuestMemory.drop`."""
        self._view = memoryview(b"")
        self._size = 0

    def _data(self) -> Any:
        return ffi.wasmtime_memory_data(self._store._context(), self._memory)

    def _look(self) -> int:
        """Take note of how large the memory is now, and return it."""
        size = ffi.wasmtime_memory_data_size(self._store._context(), self._memory)
        if size != self._size:
            if ctypes.cast(self._data(), ctypes.c_void_p).value != self._base:
                raise RuntimeError("wasmtime moved a memory although its engine forbids it")
            span = (ctypes.c_ubyte * size).from_address(self._base)
            self._view = memoryview(span).cast("B")
            self._size = size
        return size


class FastCalls(FastMemory):
    """`wasm_host.calls.common.Calls` by raw C calls; belongs to one thread at a time."""

    __slots__ = (
        "_abi",
        "_call",
        "_context",
        "_deadline",
        "_deliver",
        "_one_value",
        "_reserve",
        "_set_deadline",
        "_trap",
        "_trap_ref",
        "_two_values",
        "_values",
        "_values_ref",
    )

    way = "fast"
    _shared: ClassVar[_Shared | None] = None

    def __init__(self, store: wasmtime.Store, exports: Any) -> None:
        if FastCalls._shared is None:
            FastCalls._shared = _Shared()
        self._call = FastCalls._shared.call
        self._set_deadline = FastCalls._shared.set_deadline
        super().__init__(store, exports["memory"])
        self._context = ctypes.cast(store._context(), ctypes.c_void_p)
        self._abi = ctypes.pointer(exports["channel_abi"]._func)
        self._reserve = ctypes.pointer(exports["channel_reserve"]._func)
        self._deliver = ctypes.pointer(exports["channel_deliver"]._func)
        self._values = RawValues()
        self._values_ref = ctypes.byref(self._values)
        self._one_value = ctypes.c_size_t(1)
        self._two_values = ctypes.c_size_t(2)
        self._trap = ctypes.c_void_p()
        self._trap_ref = ctypes.byref(self._trap)
        self._deadline = ctypes.c_uint64()

    def exchange(self, lines: bytes, ticks: int) -> bytes:
        """See `wasm_host.calls.common.Calls.exchange`."""
        values = self._values
        context = self._context
        self._deadline.value = ticks
        self._set_deadline(context, self._deadline)
        length = len(lines)
        if length > UINT32:
            raise wild("channel_reserve", 0, length, self.memory_size())
        values[0] = length
        error = self._call(
            context, self._reserve, self._values_ref, self._one_value, self._trap_ref
        )
        if error or self._trap.value:
            self._fail(error)
        pointer = values[0] & UINT32
        end = pointer + length
        if end > self._size and end > self._look():
            raise wild("channel_reserve", pointer, length, self._size)
        if length:
            self._view[pointer:end] = lines
        values[0] = pointer
        values[2] = length
        error = self._call(
            context, self._deliver, self._values_ref, self._two_values, self._trap_ref
        )
        if error or self._trap.value:
            self._fail(error)
        answer = values[0]
        pointer = answer >> 32
        end = pointer + (answer & UINT32)
        if end > self._size and end > self._look():
            raise wild("channel_deliver", pointer, answer & UINT32, self._size)
        return self._view[pointer:end].tobytes()

    def abi_version(self, ticks: int) -> int:
        """See `wasm_host.calls.common.Calls.abi_version`."""
        self._deadline.value = ticks
        self._set_deadline(self._context, self._deadline)
        error = self._call(
            self._context, self._abi, self._values_ref, self._one_value, self._trap_ref
        )
        if error or self._trap.value:
            self._fail(error)
        return ctypes.c_int32(self._values[0] & UINT32).value

    def _fail(self, error: int | None) -> None:
        """Raise what a call reported; wasmtime's classes own the pointers from here on."""
        if error:
            pointer = ctypes.cast(error, ctypes.POINTER(ffi.wasmtime_error_t))
            raise wasmtime.WasmtimeError._from_ptr(pointer)
        trap = ctypes.cast(self._trap.value or 0, ctypes.POINTER(ffi.wasm_trap_t))
        self._trap.value = None
        raise wasmtime.Trap._from_ptr(trap)


_handlers: dict[int, Handler] = {}
_next_handler = itertools.count(1)


def _call_handler(
    index: int, caller: Any, args: Any, nargs: int, results: Any, nresults: int
) -> int:
    """Call a handler; ends the guest when it says so, and never lets an exception through."""
    try:
        values = [
            args[i].of.i32 & UINT32 if args[i].kind == 0 else args[i].of.i64 & UINT64
            for i in range(nargs)
        ]
        answer = _handlers[index](_Caller(caller), *values)
        if not isinstance(answer, Ended):
            if nresults:
                results[0].kind = 0
                results[0].of.i32 = answer or 0
            return 0
        reason = answer.reason
    except BaseException as error:
        # A fault of the host. Raising is impossible here, so the guest ends naming it; Ctrl-C is
        # asked for once more.
        if isinstance(error, KeyboardInterrupt):
            _thread.interrupt_main()
        reason = f"host function failed: {error!r}"
    text = reason.encode()
    return ctypes.cast(ffi.wasmtime_trap_new(text, len(text)), ctypes.c_void_p).value or 0


class _Caller:
    """Whoever called a host function, while the call lasts."""

    __slots__ = ("_pointer",)

    def __init__(self, pointer: Any) -> None:
        self._pointer = pointer

    def memory(self, store: wasmtime.Store) -> FastMemory | None:
        """Its exported memory."""
        # Private, hence not imported before missing_symbols() had its say.
        from wasmtime._extern import wrap_extern

        item = ffi.wasmtime_extern_t()
        if not ffi.wasmtime_caller_export_get(self._pointer, b"memory", 6, ctypes.byref(item)):
            return None
        found = wrap_extern(item)
        return FastMemory(store, found) if isinstance(found, wasmtime.Memory) else None


class FastHost:
    """`Host` by C callbacks, which can end a guest without an exception."""

    __slots__ = ("_keys",)

    _trampoline: ClassVar[Any] = None

    def __init__(self) -> None:
        self._keys: list[int] = []

    def make(
        self, store: wasmtime.Store, kind: wasmtime.FuncType, handler: Handler
    ) -> wasmtime.Func:
        """See `wasm_host.calls.common.Host.make`."""
        if FastHost._trampoline is None:
            # One for the whole process, which must never be freed.
            FastHost._trampoline = ffi.wasmtime_func_callback_t(_call_handler)
        key = next(_next_handler)
        _handlers[key] = handler
        self._keys.append(key)
        raw = ffi.wasmtime_func_t()
        ffi.wasmtime_func_new(
            store._context(),
            kind.ptr(),
            FastHost._trampoline,
            key,
            ctypes.cast(0, ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
            ctypes.byref(raw),
        )
        return wasmtime.Func._from_raw(raw)

    def drop(self) -> None:
        """See `wasm_host.calls.common.Host.drop`."""
        for key in self._keys:
            _handlers.pop(key, None)
        self._keys.clear()
