"""Calls of core guests by wasmtime's C functions.

The public `Func.__call__` reads the function's type again for each call and builds a dozen
objects; the raw call with prepared arguments costs a tenth. The rules that make it safe:

* arguments and results live in one buffer made once per function, never in temporaries;
* errors and traps are freed where they are read (`wasm_host.capi.failures`);
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
from typing import Any

from wasm_host.calls import Ended, FindMemory, Handler, wild
from wasm_host.capi.failures import check
from wasm_host.capi.layouts import Callback, Extern, FunctionHandle, RawValues
from wasm_host.capi.library import LIBRARY, untyped
from wasm_host.capi.objects import Func, FuncType, Memory, Store, item_of

UINT32 = 0xFFFFFFFF
UINT64 = 0xFFFFFFFFFFFFFFFF


class CapiMemory:
    """Checked access to an instance's linear memory, through a view of the memory itself. Addresses
    are unsigned.

    Reading and writing compare with the size last seen first: memories only grow, so a range
    inside it is valid and needs no call of wasmtime.
    """

    __slots__ = ("_base", "_memory", "_size", "_store", "_view")

    def __init__(self, store: Store, memory: Memory) -> None:
        self._store = store
        self._memory = memory
        self._base = memory.address(store)
        self._size = 0
        self._view = memoryview(b"")
        self._refresh()

    def memory_size(self) -> int:
        """Current size in bytes."""
        return self._refresh()

    def read(self, pointer: int, length: int) -> bytes:
        """Bytes at an address; raises `WildPointer`."""
        end = pointer + length
        if end > self._size and end > self._refresh():
            raise wild("a call", pointer, length, self._size)
        return self._view[pointer:end].tobytes()

    def write(self, pointer: int, data: bytes) -> None:
        """Store bytes at an address; raises `WildPointer`."""
        end = pointer + len(data)
        if end > self._size and end > self._refresh():
            raise wild("a call", pointer, len(data), self._size)
        self._view[pointer:end] = data

    def drop(self) -> None:
        """Forget everything that points into the store, which is about to be freed."""
        self._view = memoryview(b"")
        self._size = 0

    def _refresh(self) -> int:
        """Span the view over the memory's present size, and return the size."""
        size = self._memory.data_len(self._store)
        if size != self._size:
            if self._memory.address(self._store) != self._base:
                raise RuntimeError("wasmtime moved a memory although its engine forbids it")
            span = (ctypes.c_ubyte * size).from_address(self._base)
            self._view = memoryview(span).cast("B")
            self._size = size
        return size


class CapiCalls(CapiMemory):
    """`wasm_host.calls.Calls` by raw C calls; belongs to one thread at a time."""

    __slots__ = (
        "_abi", "_call", "_context", "_count_1", "_count_2", "_deadline", "_deliver", "_reserve",
        "_set_deadline", "_ticks", "_trap", "_trap_ref", "_values", "_values_ref",
    )  # fmt: skip

    def __init__(self, store: Store, exports: Any) -> None:
        self._call, self._set_deadline = _raw_functions()
        super().__init__(store, exports["memory"])
        # Converted once: without that each call would make an object for each argument.
        self._context = ctypes.c_void_p.from_param(store.context)
        self._abi = ctypes.byref(exports["channel_abi"].handle)
        self._reserve = ctypes.byref(exports["channel_reserve"].handle)
        self._deliver = ctypes.byref(exports["channel_deliver"].handle)
        self._values = RawValues()
        self._values_ref = ctypes.byref(self._values)
        self._count_1 = ctypes.c_size_t.from_param(1)
        self._count_2 = ctypes.c_size_t.from_param(2)
        self._trap = ctypes.c_void_p()
        self._trap_ref = ctypes.byref(self._trap)
        self._ticks, self._deadline = -1, ctypes.c_uint64.from_param(0)

    def exchange(self, lines: bytes, ticks: int) -> bytes:
        values = self._values
        context = self._context
        if ticks != self._ticks:
            self._ticks, self._deadline = ticks, ctypes.c_uint64.from_param(ticks)
        # Each time: the count begins at the present epoch.
        self._set_deadline(context, self._deadline)
        length = len(lines)
        if length > UINT32:
            raise wild("channel_reserve", 0, length, self.memory_size())
        # channel_reserve(length) -> pointer
        values[0] = length
        error = self._call(context, self._reserve, self._values_ref, self._count_1, self._trap_ref)
        if error or self._trap.value:
            check(error, self._trap)
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
            check(error, self._trap)
        answer = values[0]
        pointer = answer >> 32
        end = pointer + (answer & UINT32)
        if end > self._size and end > self._refresh():
            raise wild("channel_deliver", pointer, answer & UINT32, self._size)
        return self._view[pointer:end].tobytes()

    def abi_version(self, ticks: int) -> int:
        """The result of `channel_abi`."""
        self._set_deadline(self._context, ctypes.c_uint64(ticks))
        error = self._call(
            self._context, self._abi, self._values_ref, self._count_1, self._trap_ref
        )
        if error or self._trap.value:
            check(error, self._trap)
        return ctypes.c_int32(self._values[0] & UINT32).value


@functools.cache
def _raw_functions() -> tuple[Any, Any]:
    """The two functions of each delivery, without conversion of arguments."""
    return (
        untyped("wasmtime_func_call_unchecked", returns=ctypes.c_void_p),
        untyped("wasmtime_context_set_epoch_deadline", keep_gil=True),
    )


_handlers: dict[int, Handler] = {}
_next_handler = itertools.count(1)


def _call_handler(
    index: int, caller: int, args: Any, nargs: int, results: Any, nresults: int
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
    trap: int = LIBRARY.wasmtime_trap_new(text, len(text))
    return trap


def _memory_of(caller: int, store: Store) -> CapiMemory | None:
    """The memory that the caller of a host function exports."""
    found = Extern()
    if not LIBRARY.wasmtime_caller_export_get(caller, b"memory", 6, ctypes.byref(found)):
        return None
    memory = item_of(found)
    return CapiMemory(store, memory) if isinstance(memory, Memory) else None


_TRAMPOLINE = Callback(_call_handler)
"""The C callback of all host functions, which must outlive every store. Made when this module is
imported: a sealed process can make no executable memory."""


class CapiHost:
    """Host functions of one store: C callbacks, which can end a guest without an exception."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: list[int] = []

    def make(self, store: Store, kind: FuncType, handler: Handler) -> Func:
        """A function of this type, which calls the handler."""
        key = next(_next_handler)
        _handlers[key] = handler
        self._keys.append(key)
        handle = FunctionHandle()
        LIBRARY.wasmtime_func_new(
            store.context, kind.pointer, _TRAMPOLINE, key, None, ctypes.byref(handle)
        )
        return Func(handle)

    def drop(self) -> None:
        """Forget the handlers, after the store is closed."""
        for key in self._keys:
            _handlers.pop(key, None)
        self._keys.clear()
