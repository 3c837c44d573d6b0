"""Calls of a component's `deliver`, a string for a string, by wasmtime's C function.

The public `Func.__call__` makes a dozen objects for each call and encodes the text twice on either
side. This module passes the bytes themselves, by the rules of `wasm_host.calls.capi`, and these:

* the argument and the result are two values made once, laid out as wasmtime 50.0 has them
  (`tests/wasm_host/test_capi.py` compares that with the package);
* wasmtime copies the argument and never frees it; the line stays referenced while the call lasts;
* the result is copied, then given back to wasmtime, which allocated it;
* wasmtime takes it for granted that a string is UTF-8: the caller must have checked.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, ClassVar

import wasmtime
from wasmtime import _ffi as ffi

from wasm_host.capi.failures import check
from wasm_host.capi.library import untyped

if TYPE_CHECKING:
    from wasmtime import component


def _string(pointer: type[Any]) -> list[tuple[str, type[Any]]]:
    """The fields of a `wasmtime_component_val_t` that holds a string."""
    rest = ("rest", ctypes.c_void_p)
    return [("kind", ctypes.c_uint8), ("size", ctypes.c_size_t), ("data", pointer), rest]


class Argument(ctypes.Structure):
    """A string of ours: the field keeps the bytes alive and passes their address."""

    _fields_: ClassVar[Any] = _string(ctypes.c_char_p)


class Result(ctypes.Structure):
    """A string that wasmtime allocated; its address must not become Python bytes by itself."""

    _fields_: ClassVar[Any] = _string(ctypes.c_void_p)


class CapiDeliver:
    """`wasm_host.calls.Calls` of a component; belongs to one thread at a time."""

    __slots__ = (
        "_argument", "_argument_ref", "_call", "_context", "_count", "_deadline", "_delete",
        "_function", "_result", "_result_ref", "_set_deadline",
    )  # fmt: skip

    def __init__(self, store: wasmtime.Store, function: component.Func) -> None:
        self._call = untyped("wasmtime_component_func_call", returns=ctypes.c_void_p)
        self._delete = untyped("wasmtime_component_val_delete", keep_gil=True)
        self._set_deadline = untyped("wasmtime_context_set_epoch_deadline", keep_gil=True)
        self._context = ctypes.cast(store._context(), ctypes.c_void_p)
        self._function = ctypes.pointer(function._func)
        self._argument = Argument(ffi.WASMTIME_COMPONENT_STRING.value, 0, None, None)
        self._argument_ref = ctypes.byref(self._argument)
        self._result = Result()
        self._result_ref = ctypes.byref(self._result)
        self._count = ctypes.c_size_t(1)
        self._deadline = ctypes.c_uint64()

    def exchange(self, lines: bytes, ticks: int) -> bytes:
        self._deadline.value = ticks
        self._set_deadline(self._context, self._deadline)
        argument, result, count = self._argument, self._result, self._count
        argument.size = len(lines)
        argument.data = lines
        try:
            error = self._call(
                self._function, self._context, self._argument_ref, count, self._result_ref, count
            )
        finally:
            argument.data = None  # or a line of many megabytes would live until the next call
        check(error)
        size = result.size
        out = ctypes.string_at(result.data, size) if size else b""
        self._delete(self._result_ref)
        return out
