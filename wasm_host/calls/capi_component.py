"""Calls of a component's `deliver`, a string for a string: two ways, as with core guests.

wasmtime's public `Func.__call__` makes a dozen objects for each call, and has the text coded
twice on either side. The fast way gives the very bytes to wasmtime's C function, by the rules of
`wasm_host.calls.capi`:

* the argument and the result are two values made once, and laid out as that C interface has them;
  whether this wasmtime has it so is looked at before (`missing_symbols`);
* wasmtime copies the argument and never frees it; the line stays referenced while the call lasts;
* the result is copied, then given back to wasmtime, which allocated it;
* error pointers go to wasmtime's own class, which frees them;
* wasmtime takes it for granted that a string is UTF-8: the caller has looked.
"""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import wasmtime
from wasmtime import _ffi as ffi

from wasm_host.calls.capi import absent, c_function
from wasm_host.engine import choose_way

if TYPE_CHECKING:
    from wasmtime import component


SYMBOLS = (
    "dll",
    "WASMTIME_COMPONENT_STRING",
    "wasm_name_t",
    "wasmtime_component_val_t",
    "wasmtime_component_valunion_t",
    "wasmtime_error_t",
)
C_SYMBOLS = (
    "wasmtime_component_func_call",
    "wasmtime_component_val_delete",
    "wasmtime_context_set_epoch_deadline",
)


class Deliver(Protocol):
    """A component's `deliver`, in one instance."""

    way: str
    """`fast` or `public`."""

    def exchange(self, lines: bytes, ticks: int) -> bytes:
        """Call it within `ticks` epoch ticks. `lines` must be UTF-8.

        Raises:
            wasmtime.WasmtimeError: it trapped.
        """
        ...


class _Text(ctypes.Structure):
    """A `wasmtime_component_val_t` that holds a string."""

    _fields_: ClassVar[Any] = [
        ("kind", ctypes.c_uint8),
        ("size", ctypes.c_size_t),
        ("data", ctypes.c_char_p),
        ("rest", ctypes.c_void_p),
    ]


class _Said(ctypes.Structure):
    """The same, for what wasmtime has allocated."""

    _fields_: ClassVar[Any] = [
        ("kind", ctypes.c_uint8),
        ("size", ctypes.c_size_t),
        ("data", ctypes.c_void_p),
        ("rest", ctypes.c_void_p),
    ]


def missing_symbols() -> list[str]:
    """What the fast way needs and this wasmtime does not have; empty when it can be used."""
    missing = absent(SYMBOLS, C_SYMBOLS)
    if not missing and not _laid_out():
        missing.append("wasmtime_component_val_t as it was")
    return missing


def _laid_out() -> bool:
    """Whether a string lies in a value where `_Text` has it."""
    value: Any = ffi.wasmtime_component_val_t
    string: Any = ffi.wasm_name_t
    inside: int = value.of.offset + ffi.wasmtime_component_valunion_t.string.offset
    return (
        ctypes.sizeof(value) == ctypes.sizeof(_Text) == ctypes.sizeof(_Said)
        and (value.kind.offset, value.kind.size) == (0, 1)
        and (inside + string.size.offset, string.size.size) == (_Text.size.offset, 8)
        and (inside + string.data.offset, string.data.size) == (_Text.data.offset, 8)
    )


class _Shared:
    """The C functions, resolved once."""

    __slots__ = ("call", "delete", "kind", "set_deadline")

    def __init__(self) -> None:
        self.call = c_function("wasmtime_component_func_call", keep_gil=False)
        self.call.restype = ctypes.c_void_p
        # These only write or free something; giving up the GIL for it would cost more.
        self.delete = c_function("wasmtime_component_val_delete", keep_gil=True)
        self.delete.restype = None
        self.set_deadline = c_function("wasmtime_context_set_epoch_deadline", keep_gil=True)
        self.set_deadline.restype = None
        self.kind: int = ffi.WASMTIME_COMPONENT_STRING.value


class FastDeliver:
    """`Deliver` by wasmtime's C function; belongs to one thread at a time."""

    __slots__ = (
        "_call",
        "_context",
        "_deadline",
        "_delete",
        "_function",
        "_one",
        "_said",
        "_said_ref",
        "_set_deadline",
        "_text",
        "_text_ref",
    )

    way = "fast"
    _shared: ClassVar[_Shared | None] = None

    def __init__(self, store: wasmtime.Store, function: component.Func) -> None:
        shared = FastDeliver._shared
        if shared is None:
            shared = FastDeliver._shared = _Shared()
        self._call = shared.call
        self._delete = shared.delete
        self._set_deadline = shared.set_deadline
        self._context = ctypes.cast(store._context(), ctypes.c_void_p)
        self._function = ctypes.pointer(function._func)
        self._text = _Text(shared.kind, 0, None, None)
        self._text_ref = ctypes.byref(self._text)
        self._said = _Said()
        self._said_ref = ctypes.byref(self._said)
        self._one = ctypes.c_size_t(1)
        self._deadline = ctypes.c_uint64()

    def exchange(self, lines: bytes, ticks: int) -> bytes:
        """See `Deliver.exchange`."""
        self._deadline.value = ticks
        self._set_deadline(self._context, self._deadline)
        text, said = self._text, self._said
        text.size = len(lines)
        text.data = lines
        try:
            error = self._call(
                self._function, self._context, self._text_ref, self._one, self._said_ref, self._one
            )
        finally:
            text.data = None  # however large, it is not kept
        if error:
            pointer = ctypes.cast(error, ctypes.POINTER(ffi.wasmtime_error_t))
            raise wasmtime.WasmtimeError._from_ptr(pointer)
        size = said.size
        out = ctypes.string_at(said.data, size) if size else b""
        self._delete(self._said_ref)
        return out


class PlainDeliver:
    """`Deliver` by wasmtime's public API: the fallback, and the fast way's judge."""

    __slots__ = ("_function", "_store")

    way = "public"

    def __init__(self, store: wasmtime.Store, function: component.Func) -> None:
        self._store = store
        self._function = function
        # Every call asks for the type, and takes half its time to read it.
        kind = function.type(store)
        kept = SimpleNamespace(params=kind.params, result=kind.result)
        function.__dict__["type"] = lambda store: kept

    def exchange(self, lines: bytes, ticks: int) -> bytes:
        """See `Deliver.exchange`."""
        self._store.set_epoch_deadline(ticks)
        said: str = self._function(self._store, lines.decode("utf-8"))
        return said.encode("utf-8")


def deliver_for(
    store: wasmtime.Store, function: component.Func, force: str | None = None
) -> Deliver:
    """How to call a component's `deliver`; see `wasm_host.engine.calls_for`."""
    if choose_way(force, missing_symbols()) == "public":
        return PlainDeliver(store, function)
    return FastDeliver(store, function)
