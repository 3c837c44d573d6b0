"""Errors and traps: read and freed in one step, so that raised exceptions hold text only."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from wasm_host.capi.layouts import Bytes
from wasm_host.capi.library import LIBRARY

if TYPE_CHECKING:
    from collections.abc import Callable


class WasmtimeError(Exception):
    """wasmtime refused or could not do something; the text is its own."""


class Trap(Exception):  # noqa: N818 - the name that wasmtime gives it
    """A guest trapped; the text has wasmtime's reason and backtrace."""


def check(error: int | None, trap: ctypes.c_void_p | None = None) -> None:
    """Take the error or trap of a call, and raise it.

    Args:
        error: an error or a null pointer; freed here.
        trap: where the call wrote a trap, or null; freed here, and set to null.

    Raises:
        WasmtimeError: there is an error.
        Trap: there is a trap.
    """
    if error:
        text = _text(LIBRARY.wasmtime_error_message, error)
        LIBRARY.wasmtime_error_delete(error)
        raise WasmtimeError(text)
    if trap is not None and trap.value:
        text = _text(LIBRARY.wasm_trap_message, trap.value)
        LIBRARY.wasm_trap_delete(trap.value)
        trap.value = None
        # It ends with a null byte, as texts in C do.
        raise Trap(text.removesuffix("\0"))


def _text(message: Callable[..., Any], pointer: int) -> str:
    """The text that a function writes to bytes, which are ours to free."""
    found = Bytes()
    message(pointer, ctypes.byref(found))
    return taken(found).decode("utf-8", "replace")


def taken(found: Bytes) -> bytes:
    """A copy of bytes that wasmtime allocated for us, and frees here."""
    try:
        return ctypes.string_at(found.data, found.size) if found.data and found.size else b""
    finally:
        LIBRARY.wasm_byte_vec_delete(ctypes.byref(found))
