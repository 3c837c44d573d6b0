"""Calls between host and guests, both ways: through wasmtime's C interface or its public API.

A delivery through the public API costs ten times as much for a core module and more than twice as
much for a component, and to import the package costs 30 ms. So core modules live in objects of
`wasm_host.capi` and are called by `wasm_host.calls.capi`; components live in the package's and are
called by `wasm_host.calls.capi_component`. `wasm_host.calls.public` is the fallback where the
installed wasmtime differs, and what the tests compare the other with.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    import wasmtime
    from wasmtime import component


CALLS_VARIABLE: Final = "WASM_HOST_CALLS"
"""Environment variable that forces how guests are called: `fast` (the C interface) or `public`."""


class Api(Protocol):
    """wasmtime's classes: `wasm_host.capi`, or the package `wasmtime`.

    Whoever has an object of the one calls it by the other's names too; objects of the two do not
    mix. Annotations of carriers name the package's classes for both.
    """

    __name__: str

    @property
    def Store(self) -> Any:  # noqa: N802 - as wasmtime has it
        """Where instances live."""
        ...

    @property
    def Module(self) -> Any:  # noqa: N802
        """A compiled core module."""
        ...

    @property
    def Instance(self) -> Any:  # noqa: N802
        """An instance of one."""
        ...

    @property
    def Func(self) -> Any:  # noqa: N802
        """A function in a store."""
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
    """Calls of `deliver` in one instance (docs/architecture.md#the-channel)."""

    interface: str
    """`fast` or `public`, the value of `WASM_HOST_CALLS` that chooses this class."""

    def exchange(self, lines: bytes, ticks: int) -> bytes:
        """Copy lines in, deliver them and copy out what it returns, within `ticks` epoch ticks.

        A component's lines must be UTF-8.

        Raises:
            WildPointer: a pointer or length lies outside the guest's memory.
            Trap: it trapped, an `Api.Trap`; components raise an `Api.WasmtimeError`.
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


FindMemory = Callable[[Any], GuestMemory | None]
"""Takes a store, and looks up the memory that the caller of a host function exports; valid while
the call lasts."""

Handler = Callable[..., "int | Ended | None"]
"""Takes a `FindMemory` and the unsigned arguments of a call; returns the result, or an end. It
must not raise."""


class Host(Protocol):
    """Host functions of one store."""

    def make(self, store: Any, kind: Any, handler: Handler) -> Any:
        """A `Func` in a store, of that type, which calls the handler."""
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


def core_api(force: str | None = None) -> Api:
    """The classes for core modules.

    Args:
        force: `fast` or `public`; without it the variable `WASM_HOST_CALLS` decides, and else
            what the installed wasmtime has.

    Raises:
        ValueError: the forced interface does not exist, or not with this wasmtime.
    """
    from wasm_host.calls import capi

    if _is_fast(force, capi.missing_symbols()):
        from wasm_host import capi as fast

        return fast
    import wasmtime

    return wasmtime


def core_calls(api: Api, store: Any, exports: Any) -> CoreCalls:
    """The object that calls a core module, which lives in objects of `api`."""
    from wasm_host import capi as fast

    if api is fast:
        from wasm_host.calls.capi import CapiCalls

        return CapiCalls(store, exports)
    from wasm_host.calls.public import PublicCalls

    return PublicCalls(store, exports)


def host_functions(api: Api) -> Host:
    """A maker of host functions for core modules that live in objects of `api`."""
    from wasm_host import capi as fast

    if api is fast:
        from wasm_host.calls.capi import CapiHost

        return CapiHost()
    from wasm_host.calls.public import PublicHost

    return PublicHost()


def component_calls(
    store: wasmtime.Store, function: component.Func, force: str | None = None
) -> Calls:
    """The object that calls a component's `deliver`; see `core_api`."""
    from wasm_host.calls import capi_component

    if _is_fast(force, capi_component.missing_symbols()):
        return capi_component.CapiDeliver(store, function)
    from wasm_host.calls.public import PublicDeliver

    return PublicDeliver(store, function)


def _is_fast(force: str | None, missing: list[str]) -> bool:
    interface = force or os.environ.get(CALLS_VARIABLE) or ""
    if interface not in ("", "fast", "public"):
        raise ValueError(f"{CALLS_VARIABLE} must be 'fast' or 'public', not {interface!r}")
    if interface == "fast" and missing:
        raise ValueError(f"fast calls need wasmtime symbols that are missing: {missing}")
    return interface != "public" and not missing
