"""Calls between host and guests, both ways: through wasmtime's C interface or its public API.

`wasm_host.calls.capi` and `wasm_host.calls.capi_component` use private API of wasmtime, because a
delivery through the public API costs ten times as much for a core module and more than twice as
much for a component. `wasm_host.calls.public` is the fallback where the installed wasmtime differs,
and what the tests compare the other with.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    import wasmtime
    from wasmtime import component
    from wasmtime._exportable import AsExtern


CALLS_VARIABLE: Final = "WASM_HOST_CALLS"
"""Environment variable that forces how guests are called: `fast` (the C interface) or `public`."""


class WildPointer(Exception):  # noqa: N818 - the host is fine, the guest is not
    """A guest named bytes outside its memory; the message states which."""


class GuestMemory(Protocol):
    """Checked access to an instance's linear memory. Addresses are unsigned."""

    def memory_size(self) -> int:
        """Current size in bytes."""
        ...

    def read(self, pointer: int, length: int) -> bytes:
        """Bytes at an address; raises `WildPointer`."""
        ...

    def write(self, pointer: int, data: bytes) -> None:
        """Store bytes at an address; raises `WildPointer`."""
        ...

    def drop(self) -> None:
        """Forget everything that points into the store, which is about to be freed."""
        ...


class Calls(Protocol):
    """Calls of `deliver` in one instance (docs/channel-abi.md)."""

    interface: str
    """`fast` or `public`, the value of `WASM_HOST_CALLS` that chooses this class."""

    def exchange(self, lines: bytes, ticks: int) -> bytes:
        """Copy lines in, deliver them and copy out what it returns, within `ticks` epoch ticks.

        A component's lines must be UTF-8.

        Raises:
            WildPointer: a pointer or length lies outside the guest's memory.
            wasmtime.Trap: it trapped; components raise `wasmtime.WasmtimeError`.
        """
        ...


class CoreCalls(Calls, GuestMemory, Protocol):
    """Calls of a core module, and access to its memory."""

    def abi_version(self, ticks: int) -> int:
        """The result of `channel_abi`."""
        ...


class Ended:
    """The result of a host function that ends its guest by a trap instead of answering."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


FindMemory = Callable[["wasmtime.Store"], GuestMemory | None]
"""Looks up the memory that the caller of a host function exports; valid while the call lasts."""

Handler = Callable[..., "int | Ended | None"]
"""Takes a `FindMemory` and the unsigned arguments of a call; returns the result, or an end. It
must not raise."""


class Host(Protocol):
    """Host functions of one store."""

    def make(
        self, store: wasmtime.Store, kind: wasmtime.FuncType, handler: Handler
    ) -> wasmtime.Func:
        """A function of that type which calls the handler."""
        ...

    def drop(self) -> None:
        """Forget the handlers, after the store is closed."""
        ...


def wild(what: str, pointer: int, length: int, size: int) -> WildPointer:
    """The error for a range that does not lie inside a memory of `size` bytes."""
    end = pointer + length
    return WildPointer(
        f"{what} names bytes {pointer} to {end}, {end - size} beyond its memory of {size} bytes"
    )


def core_calls(
    store: wasmtime.Store, exports: Mapping[str, AsExtern], force: str | None = None
) -> CoreCalls:
    """The object that calls a core module.

    Args:
        force: `fast` or `public`; without it the variable `WASM_HOST_CALLS` decides, and else
            what the installed wasmtime has.

    Raises:
        ValueError: the forced interface does not exist, or not with this wasmtime.
    """
    from wasm_host.calls import capi

    if _is_fast(force, capi.missing_symbols()):
        return capi.CapiCalls(store, exports)
    from wasm_host.calls.public import PublicCalls

    return PublicCalls(store, exports)


def component_calls(
    store: wasmtime.Store, function: component.Func, force: str | None = None
) -> Calls:
    """The object that calls a component's `deliver`; see `core_calls`."""
    from wasm_host.calls import capi_component

    if _is_fast(force, capi_component.missing_symbols()):
        return capi_component.CapiDeliver(store, function)
    from wasm_host.calls.public import PublicDeliver

    return PublicDeliver(store, function)


def host_functions() -> Host:
    """A maker of host functions, through the interface that `core_calls` would choose."""
    from wasm_host.calls import capi

    if _is_fast(None, capi.missing_symbols()):
        return capi.CapiHost()
    from wasm_host.calls.public import PublicHost

    return PublicHost()


def _is_fast(force: str | None, missing: list[str]) -> bool:
    interface = force or os.environ.get(CALLS_VARIABLE) or ""
    if interface not in ("", "fast", "public"):
        raise ValueError(f"{CALLS_VARIABLE} must be 'fast' or 'public', not {interface!r}")
    if interface == "fast" and missing:
        raise ValueError(f"fast calls need wasmtime symbols that are missing: {missing}")
    return interface != "public" and not missing
