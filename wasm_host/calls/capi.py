"""Calls of core guests by wasmtime's C functions, which are private API.

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
import functools
import itertools
from collections.abc import Iterable
from typing import Any, NoReturn

import wasmtime
from wasmtime import _ffi as ffi

from wasm_host.calls import Ended, FindMemory, Handler, wild

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
    """Names this module needs and the installed wasmtime does not have; empty if it can be used."""
    return absent(SYMBOLS, C_SYMBOLS)


def absent(symbols: Iterable[str], functions: Iterable[str]) -> list[str]:
    """Which symbols `wasmtime._ffi` does not have, and which C functions its library."""
    missing = [name for name in symbols if not hasattr(ffi, name)]
    if "dll" not in missing:
        missing += [name for name in functions if not hasattr(ffi.dll, name)]
    return missing


@functools.cache
def c_function(name: str, *, keep_gil: bool = False, returns: Any = None) -> Any:
    """A C function without argument conversion: callers pass ctypes objects of the right size.

    With `keep_gil` other threads do not run meanwhile: for a function that writes one field,
    giving up the lock would cost more than the call.
    """
    # dll[...] makes a new function object each time, so the result type set here stays private.
    function: Any = (ctypes.PyDLL(None, handle=ffi.dll._handle) if keep_gil else ffi.dll)[name]
    function.restype = returns
    return function


def raise_error(pointer: int) -> NoReturn:
    """Raise an error of wasmtime, whose class owns the pointer from here on."""
    typed = ctypes.cast(pointer, ctypes.POINTER(ffi.wasmtime_error_t))
    raise wasmtime.WasmtimeError._from_ptr(typed)


class CapiMemory:
    """`wasm_host.calls.GuestMemory` through a view of the memory itself.

    Reading and writing compare with the size last seen first: memories only grow, so a range
    inside it is valid and needs no call of wasmtime.
    """

    __slots__ = ("_base", "_memory", "_size", "_store", "_view")

    def __init__(self, store: wasmtime.Store, memory: wasmtime.Memory) -> None:
        self._store = store
        self._memory = ctypes.pointer(memory._memory)
        self._base = ctypes.cast(self._data(), ctypes.c_void_p).value or 0
        self._size = 0
        self._view = memoryview(b"")
        self._refresh()

    def memory_size(self) -> int:
        return self._refresh()

    def read(self, pointer: int, length: int) -> bytes:
        end = pointer + length
        if end > self._size and end > self._refresh():
            raise wild("a call", pointer, length, self._size)
        return self._view[pointer:end].tobytes()

    def write(self, pointer: int, data: bytes) -> None:
        end = pointer + len(data)
        if end > self._size and end > self._refresh():
            raise wild("a call", pointer, len(data), self._size)
        self._view[pointer:end] = data

    def drop(self) -> None:
        self._view = memoryview(b"")
        self._size = 0

    def _data(self) -> Any:
        return ffi.wasmtime_memory_data(self._store._context(), self._memory)

    def _refresh(self) -> int:
        """Span the view over the memory's present size, and return that."""
        size = ffi.wasmtime_memory_data_size(self._store._context(), self._memory)
        if size != self._size:
            if ctypes.cast(self._data(), ctypes.c_void_p).value != self._base:
                raise RuntimeError("wasmtime moved a memory although its engine forbids it")
            span = (ctypes.c_ubyte * size).from_address(self._base)
            self._view = memoryview(span).cast("B")
            self._size = size
        return size


class CapiCalls(CapiMemory):
    """`wasm_host.calls.Calls` by raw C calls; belongs to one thread at a time."""

    __slots__ = (
        "_abi", "_call", "_context", "_count_1", "_count_2", "_deadline", "_deliver", "_reserve",
        "_set_deadline", "_trap", "_trap_ref", "_values", "_values_ref",
    )  # fmt: skip

    interface = "fast"

    def __init__(self, store: wasmtime.Store, exports: Any) -> None:
        self._call = c_function("wasmtime_func_call_unchecked", returns=ctypes.c_void_p)
        self._set_deadline = c_function("wasmtime_context_set_epoch_deadline", keep_gil=True)
        super().__init__(store, exports["memory"])
        self._context = ctypes.cast(store._context(), ctypes.c_void_p)
        self._abi = ctypes.pointer(exports["channel_abi"]._func)
        self._reserve = ctypes.pointer(exports["channel_reserve"]._func)
        self._deliver = ctypes.pointer(exports["channel_deliver"]._func)
        self._values = RawValues()
        self._values_ref = ctypes.byref(self._values)
        self._count_1 = ctypes.c_size_t(1)
        self._count_2 = ctypes.c_size_t(2)
        self._trap = ctypes.c_void_p()
        self._trap_ref = ctypes.byref(self._trap)
        self._deadline = ctypes.c_uint64()

    def exchange(self, lines: bytes, ticks: int) -> bytes:
        values = self._values
        context = self._context
        self._deadline.value = ticks
        self._set_deadline(context, self._deadline)
        length = len(lines)
        if length > UINT32:
            raise wild("channel_reserve", 0, length, self.memory_size())
        # channel_reserve(length) -> pointer
        values[0] = length
        error = self._call(context, self._reserve, self._values_ref, self._count_1, self._trap_ref)
        if error or self._trap.value:
            self._fail(error)
        pointer = values[0] & UINT32
        # The guest chose the pointer, and reserving may have grown the memory.
        end = pointer + length
        if end > self._size and end > self._refresh():
            raise wild("channel_reserve", pointer, length, self._size)
        if length:
            self._view[pointer:end] = lines
        # channel_deliver(pointer, length) -> pointer and length of the outbox. Raw values are 16
        # bytes, so the second argument is two places further.
        values[0] = pointer
        values[2] = length
        error = self._call(context, self._deliver, self._values_ref, self._count_2, self._trap_ref)
        if error or self._trap.value:
            self._fail(error)
        answer = values[0]
        pointer = answer >> 32
        end = pointer + (answer & UINT32)
        if end > self._size and end > self._refresh():
            raise wild("channel_deliver", pointer, answer & UINT32, self._size)
        return self._view[pointer:end].tobytes()

    def abi_version(self, ticks: int) -> int:
        self._deadline.value = ticks
        self._set_deadline(self._context, self._deadline)
        error = self._call(
            self._context, self._abi, self._values_ref, self._count_1, self._trap_ref
        )
        if error or self._trap.value:
            self._fail(error)
        return ctypes.c_int32(self._values[0] & UINT32).value

    def _fail(self, error: int | None) -> None:
        """Raise what a call reported; wasmtime's classes own the pointers from here on."""
        if error:
            raise_error(error)
        trap = ctypes.cast(self._trap.value or 0, ctypes.POINTER(ffi.wasm_trap_t))
        self._trap.value = None
        raise wasmtime.Trap._from_ptr(trap)


_handlers: dict[int, Handler] = {}
_next_handler = itertools.count(1)


def _call_handler(
    index: int, caller: Any, args: Any, nargs: int, results: Any, nresults: int
) -> int:
    """Call a handler; end the guest if it answers `Ended`. An exception must not leave this
    function: ctypes would print it and let the guest go on."""
    try:
        values = [
            args[i].of.i32 & UINT32 if args[i].kind == 0 else args[i].of.i64 & UINT64
            for i in range(nargs)
        ]
        find_memory: FindMemory = functools.partial(_memory_of, caller)
        answer = _handlers[index](find_memory, *values)
        if not isinstance(answer, Ended):
            if nresults:
                results[0].kind = 0
                results[0].of.i32 = answer or 0
            return 0
        reason = answer.reason
    except BaseException as error:
        # A fault of the host ends the guest and is named in its trap. Ctrl-C is repeated for the
        # main thread.
        if isinstance(error, KeyboardInterrupt):
            _thread.interrupt_main()
        reason = f"host function failed: {error!r}"
    text = reason.encode()
    return ctypes.cast(ffi.wasmtime_trap_new(text, len(text)), ctypes.c_void_p).value or 0


def _memory_of(caller: Any, store: wasmtime.Store) -> CapiMemory | None:
    """The memory that the caller of a host function exports."""
    # Private, hence imported only after `missing_symbols` found everything.
    from wasmtime._extern import wrap_extern

    item = ffi.wasmtime_extern_t()
    if not ffi.wasmtime_caller_export_get(caller, b"memory", 6, ctypes.byref(item)):
        return None
    memory = wrap_extern(item)
    return CapiMemory(store, memory) if isinstance(memory, wasmtime.Memory) else None


@functools.cache
def _trampoline() -> Any:
    """The C callback of all host functions, which must outlive every store."""
    return ffi.wasmtime_func_callback_t(_call_handler)


class CapiHost:
    """`Host` by C callbacks, which can end a guest without an exception."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: list[int] = []

    def make(
        self, store: wasmtime.Store, kind: wasmtime.FuncType, handler: Handler
    ) -> wasmtime.Func:
        key = next(_next_handler)
        _handlers[key] = handler
        self._keys.append(key)
        raw = ffi.wasmtime_func_t()
        ffi.wasmtime_func_new(
            store._context(),
            kind.ptr(),
            _trampoline(),
            key,
            ctypes.cast(0, ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
            ctypes.byref(raw),
        )
        return wasmtime.Func._from_raw(raw)

    def drop(self) -> None:
        for key in self._keys:
            _handlers.pop(key, None)
        self._keys.clear()
