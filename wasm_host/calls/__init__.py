"""Calls between host and guests, both ways, through wasmtime's C interface.

A delivery through the API of the package `wasmtime` costs ten times as much for a core module and
more than twice as much for a component, and to import the package costs 30 ms. So core modules live
in objects of `wasm_host.capi` and are called by `wasm_host.calls.capi`. Components live in the
package's and are called by `wasm_host.calls.capi_component`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from wasm_host.calls.capi import CapiMemory


class Api(Protocol):
    """wasmtime's classes: `wasm_host.capi`, or the package `wasmtime`.

    Callers use the same names for objects of either; objects of the two do not mix.
    """

    __name__: str

    @property
    def Store(self) -> Any:  # noqa: N802 - as wasmtime has it
        """The class of the store of instances."""
        ...

    @property
    def Trap(self) -> type[Exception]:  # noqa: N802
        """Raised when a guest traps."""
        ...

    @property
    def WasmtimeError(self) -> type[Exception]:  # noqa: N802
        """Raised when wasmtime cannot do something."""
        ...


class WildPointer(Exception):  # noqa: N818 - the host is fine, the guest is not
    """A guest named bytes outside its memory; the message states which."""


class Calls(Protocol):
    """Calls of `deliver` in one instance (docs/architecture.md#the-channel)."""

    def exchange(self, lines: bytes, ticks: int) -> bytes:
        """Copy lines in, deliver them and copy the outbox out, within `ticks` epoch ticks.

        A component's lines must be UTF-8.

        Raises:
            WildPointer: a pointer or length lies outside the guest's memory.
            Trap: it trapped, an `Api.Trap`; components raise an `Api.WasmtimeError`.
        """
        ...


class Ended:
    """The result of a host function that ends its guest by a trap instead of answering."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


FindMemory = Callable[[Any], "CapiMemory | None"]
"""Takes a store, and looks up the memory that the caller of a host function exports; valid while
the call lasts."""

Handler = Callable[..., "int | Ended | None"]
"""Takes a `FindMemory` and the unsigned arguments of a call; returns the result, or an end. It
must not raise."""


def wild(what: str, pointer: int, length: int, size: int) -> WildPointer:
    """The error for a range that does not lie inside a memory of `size` bytes."""
    end = pointer + length
    return WildPointer(
        f"{what} names bytes {pointer} to {end}, {end - size} beyond its memory of {size} bytes"
    )
