"""wasmtime's objects, each with the methods that `wasm_host` calls, and no others.

Names and signatures come from the package `wasmtime`, whose documentation holds for them too;
the types of arguments are not checked at run time.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from wasm_host.capi.failures import WasmtimeError, check, taken
from wasm_host.capi.layouts import (
    FUNCTION,
    I32,
    I64,
    MEMORY,
    TYPES,
    Bytes,
    Extern,
    FunctionHandle,
    InstanceHandle,
    MemoryHandle,
    Pointers,
    Value,
)
from wasm_host.capi.library import LIBRARY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class _Owned:
    """Something in C that this object frees, once."""

    _pointer: int | None = None
    _free: Callable[[Any], None]

    def _own(self, pointer: int | None, free: Callable[[Any], None]) -> None:
        """Own `pointer`. Keeps `free`, because at exit `LIBRARY` may be gone before this object."""
        self._pointer, self._free = pointer, free

    @property
    def pointer(self) -> int:
        """Its address in C.

        Raises:
            ValueError: it is closed.
        """
        if self._pointer is None:
            raise ValueError("already closed")
        return self._pointer

    def close(self) -> None:
        """Free it; may be called again."""
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            self._free(pointer)

    def __del__(self) -> None:
        self.close()


class Engine(_Owned):
    """An engine with these settings: names and values of wasmtime's configuration."""

    def __init__(self, settings: Mapping[str, int]) -> None:
        config = LIBRARY.wasm_config_new()
        for name, value in settings.items():
            getattr(LIBRARY, f"wasmtime_config_{name}_set")(config, value)
        # The engine owns the configuration from here on.
        pointer = LIBRARY.wasm_engine_new_with_config(config)
        if not pointer:
            raise WasmtimeError("there is no engine with these settings")
        self._own(pointer, LIBRARY.wasm_engine_delete)

    def increment_epoch(self) -> None:
        """Advance its epoch by one."""
        LIBRARY.wasmtime_engine_increment_epoch(self.pointer)


class FuncType(_Owned):
    """The type of a function; its types are named as in WebAssembly's text.

    Args:
        owner: the owner of the type in C, kept as long as it; by default this object.
    """

    def __init__(self, pointer: int, owner: object = None) -> None:
        self._owner = owner
        self._own(pointer, LIBRARY.wasm_functype_delete if owner is None else _leave)

    @property
    def params(self) -> list[str]:
        """Its parameters."""
        return _types(LIBRARY.wasm_functype_params(self.pointer))

    @property
    def results(self) -> list[str]:
        """Its results."""
        return _types(LIBRARY.wasm_functype_results(self.pointer))


def _types(address: int) -> list[str]:
    """Names of types in a vector that somebody else owns."""
    vector = Pointers.from_address(address)
    kinds = (LIBRARY.wasm_valtype_kind(vector.data[index]) for index in range(vector.size))
    return [TYPES.get(kind, "unknown") for kind in kinds]


def _leave(pointer: int) -> None:
    """Free nothing: something else owns it."""


class _Imports(_Owned):
    """The types of a module's imports."""

    def __init__(self, module: int) -> None:
        self.vector = Pointers()
        LIBRARY.wasmtime_module_imports(module, ctypes.byref(self.vector))
        self._own(ctypes.addressof(self.vector), LIBRARY.wasm_importtype_vec_delete)


class Import:
    """An import of a module: its name, and its type if it is a function."""

    __slots__ = ("name", "type")

    def __init__(self, name: str, kind: FuncType | None) -> None:
        self.name = name
        self.type = kind


class Module(_Owned):
    """A compiled module; compiles `wasm`, the bytes of a module."""

    def __init__(self, engine: Engine, wasm: bytes) -> None:
        self._take(LIBRARY.wasmtime_module_new, engine.pointer, wasm, len(wasm))

    def _take(self, make: Callable[..., int | None], *arguments: Any) -> None:
        pointer = ctypes.c_void_p()
        check(make(*arguments, ctypes.byref(pointer)))
        self._own(pointer.value, LIBRARY.wasmtime_module_delete)

    @classmethod
    def deserialize(cls, engine: Engine, encoded: bytes) -> Module:
        """A module from bytes of `serialize`. Never from a stranger: the bytes are machine code."""
        module = cls.__new__(cls)
        # wasmtime copies the bytes.
        module._take(LIBRARY.wasmtime_module_deserialize, engine.pointer, encoded, len(encoded))
        return module

    @classmethod
    def deserialize_file(cls, engine: Engine, path: str) -> Module:
        """The same from a file, whose pages are mapped."""
        module = cls.__new__(cls)
        module._take(LIBRARY.wasmtime_module_deserialize_file, engine.pointer, path.encode())
        return module

    def serialize(self) -> bytes:
        """Its machine code, for the same wasmtime and an engine with the same settings."""
        found = Bytes()
        check(LIBRARY.wasmtime_module_serialize(self.pointer, ctypes.byref(found)))
        return taken(found)

    @property
    def imports(self) -> list[Import]:
        """Its imports, in its order."""
        owner = _Imports(self.pointer)
        return [_import(owner.vector.data[index], owner) for index in range(owner.vector.size)]


def _import(pointer: int, owner: _Imports) -> Import:
    name = Bytes.from_address(LIBRARY.wasm_importtype_name(pointer))
    text = ctypes.string_at(name.data or 0, name.size) if name.size else b""
    kind = LIBRARY.wasm_externtype_as_functype(LIBRARY.wasm_importtype_type(pointer))
    return Import(text.decode(), FuncType(kind, owner) if kind else None)


class Store(_Owned):
    """The store of instances, with all that they use; everything in it ends with it."""

    def __init__(self, engine: Engine) -> None:
        pointer = LIBRARY.wasmtime_store_new(engine.pointer, None, None)
        self._own(pointer, LIBRARY.wasmtime_store_delete)
        self._context: int = LIBRARY.wasmtime_store_context(pointer)

    @property
    def context(self) -> int:
        """The pointer that most functions need of a store.

        Raises:
            ValueError: it is closed.
        """
        if self._pointer is None:
            raise ValueError("already closed")
        return self._context

    def set_limits(
        self, memory_size: int, table_elements: int, instances: int, tables: int, memories: int
    ) -> None:
        """Bound the use of instances: bytes of a memory, elements of a table, and numbers."""
        LIBRARY.wasmtime_store_limiter(
            self.pointer, memory_size, table_elements, instances, tables, memories
        )

    def set_epoch_deadline(self, ticks: int) -> None:
        """Interrupt guests once the engine's epoch is `ticks` beyond the present epoch."""
        LIBRARY.wasmtime_context_set_epoch_deadline(self.context, ticks)

    def set_fuel(self, fuel: int) -> None:
        """Let guests use so much fuel."""
        check(LIBRARY.wasmtime_context_set_fuel(self.context, fuel))


class Memory:
    """A linear memory of an instance."""

    def __init__(self, handle: MemoryHandle) -> None:
        self.handle = handle

    def address(self, store: Store) -> int:
        """The address of its first byte."""
        address: int | None = LIBRARY.wasmtime_memory_data(store.context, ctypes.byref(self.handle))
        return address or 0

    def data_len(self, store: Store) -> int:
        """Its present size in bytes."""
        size: int = LIBRARY.wasmtime_memory_data_size(store.context, ctypes.byref(self.handle))
        return size


class Func:
    """A function in a store."""

    def __init__(self, handle: FunctionHandle) -> None:
        self.handle = handle

    def type(self, store: Store) -> FuncType:
        """Its type."""
        return FuncType(LIBRARY.wasmtime_func_type(store.context, ctypes.byref(self.handle)))

    def __call__(self, store: Store) -> int | None:
        """Call it without arguments; returns the result if that is one integer.

        Raises:
            WasmtimeError: it takes arguments, or wasmtime could not run it.
            Trap: it trapped.
        """
        kind = self.type(store)
        if expected := len(kind.params):
            raise WasmtimeError(f"too few parameters provided: given 0, expected {expected}")
        count = len(kind.results)
        results, trap = (Value * count)(), ctypes.c_void_p()
        error = LIBRARY.wasmtime_func_call(
            store.context, ctypes.byref(self.handle), None, 0, results, count, ctypes.byref(trap)
        )
        check(error, trap)
        value = None
        if count == 1 and results[0].kind in (I32, I64):
            value = results[0].of.i32 if results[0].kind == I32 else results[0].of.i64
        for result in results:
            LIBRARY.wasmtime_val_unroot(ctypes.byref(result))
        return value


class Instance:
    """An instance of a module in a store; making it runs the module's start function.

    Raises:
        WasmtimeError: the imports do not fit, or it exceeds a limit of the store.
        Trap: its start function trapped.
    """

    def __init__(self, store: Store, module: Module, imports: Sequence[Func]) -> None:
        given = (Extern * len(imports))()
        for item, function in zip(given, imports, strict=True):
            item.kind, item.of.function = FUNCTION, function.handle
        self._handle, trap = InstanceHandle(), ctypes.c_void_p()
        error = LIBRARY.wasmtime_instance_new(
            store.context,
            module.pointer,
            given,
            len(imports),
            ctypes.byref(self._handle),
            ctypes.byref(trap),
        )
        check(error, trap)

    def exports(self, store: Store) -> _Exports:
        """Its exported functions and memories, by name."""
        return _Exports(store, self._handle)


class _Exports:
    """The exports of an instance, looked up when asked for; only functions and memories."""

    def __init__(self, store: Store, instance: InstanceHandle) -> None:
        self._store = store
        self._instance = instance

    def get(self, name: str) -> Func | Memory | None:
        """The function or memory of this name."""
        found, text = Extern(), name.encode()
        if not LIBRARY.wasmtime_instance_export_get(
            self._store.context, ctypes.byref(self._instance), text, len(text), ctypes.byref(found)
        ):
            return None
        return item_of(found)

    def __getitem__(self, name: str) -> Func | Memory:
        found = self.get(name)
        if found is None:
            raise KeyError(name)
        return found


def item_of(found: Extern) -> Func | Memory | None:
    """The function or memory that wasmtime wrote to an `Extern`; of anything else nothing."""
    if found.kind == FUNCTION:
        return Func(found.of.function)
    if found.kind == MEMORY:
        return Memory(found.of.memory)
    # Some of the others own something.
    LIBRARY.wasmtime_extern_delete(ctypes.byref(found))
    return None
