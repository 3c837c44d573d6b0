"""The C structures that cross the border, as wasmtime 50.0 lays them out.

`tests/wasm_host/test_capi.py` compares each with the package `wasmtime`.
"""

from __future__ import annotations

import ctypes
from typing import ClassVar, Final

FUNCTION: Final = 0
MEMORY: Final = 3
"""`kind` of an `Extern`: a function, a memory."""

I32: Final = 0
I64: Final = 1
"""`kind` of a `Value`."""

TYPES: Final = {0: "i32", 1: "i64", 2: "f32", 3: "f64", 128: "externref", 129: "funcref"}
"""Names of WebAssembly's types by their numbers in C."""


class Bytes(ctypes.Structure):
    """`wasm_byte_vec_t`: bytes that wasmtime allocated."""

    _fields_: ClassVar = [("size", ctypes.c_size_t), ("data", ctypes.c_void_p)]
    size: int
    data: int | None


class Pointers(ctypes.Structure):
    """`wasm_importtype_vec_t` and `wasm_valtype_vec_t`: pointers that wasmtime allocated."""

    _fields_: ClassVar = [
        ("size", ctypes.c_size_t),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
    ]
    size: int
    data: ctypes._Pointer[ctypes.c_void_p]


class FunctionHandle(ctypes.Structure):
    """`wasmtime_func_t`."""

    _fields_: ClassVar = [("store_id", ctypes.c_uint64), ("private", ctypes.c_void_p)]


class _MemoryStart(ctypes.Structure):
    _fields_: ClassVar = [("store_id", ctypes.c_uint64), ("private", ctypes.c_uint32)]


class MemoryHandle(ctypes.Structure):
    """`wasmtime_memory_t`."""

    _fields_: ClassVar = [("start", _MemoryStart), ("private", ctypes.c_uint32)]


class InstanceHandle(ctypes.Structure):
    """`wasmtime_instance_t`."""

    _fields_: ClassVar = [("store_id", ctypes.c_uint64), ("private", ctypes.c_size_t)]


class _ExternUnion(ctypes.Union):
    _fields_: ClassVar = [("function", FunctionHandle), ("memory", MemoryHandle)]
    function: FunctionHandle
    memory: MemoryHandle


class Extern(ctypes.Structure):
    """`wasmtime_extern_t`: an import or export of a module."""

    _fields_: ClassVar = [("kind", ctypes.c_uint8), ("of", _ExternUnion)]
    kind: int
    of: _ExternUnion


class _ValueUnion(ctypes.Union):
    # References are the largest values; nothing here reads a reference.
    _fields_: ClassVar = [
        ("i32", ctypes.c_int32),
        ("i64", ctypes.c_int64),
        ("reference", ctypes.c_uint64 * 3),
    ]
    i32: int
    i64: int


class Value(ctypes.Structure):
    """`wasmtime_val_t`: an argument or a result."""

    _fields_: ClassVar = [("kind", ctypes.c_uint8), ("of", _ValueUnion)]
    kind: int
    of: _ValueUnion


RawValues = ctypes.c_uint64 * 4
"""Two `wasmtime_val_raw_t`, of 16 bytes each; integers sit zero-extended in their first 8."""

Callback = ctypes.CFUNCTYPE(
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.POINTER(Value),
    ctypes.c_size_t,
    ctypes.POINTER(Value),
    ctypes.c_size_t,
)
"""`wasmtime_func_callback_t`: a key of ours, the caller, arguments and results with their counts;
returns a trap, which belongs to wasmtime from then on, or nothing."""
