"""Calls between host and core guests, either way, however they are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import wasmtime


class WildPointer(Exception):  # noqa: N818 - what the guest handed over
    """A guest named bytes outside its memory; the message says which."""


class GuestMemory(Protocol):
    """Checked access to an instance's linear memory."""

    def memory_size(self) -> int:
        """Current size in bytes."""
        ...

    def read(self, pointer: int, length: int) -> bytes:
        """Bytes at an unsigned address; raises `WildPointer`."""
        ...

    def write(self, pointer: int, data: bytes) -> None:
        """Store bytes at an unsigned address; raises `WildPointer`."""
        ...

    def drop(self) -> None:
        """Forget everything that points into the store, which is about to be freed."""
        ...


class Calls(GuestMemory, Protocol):
    """Calls into one instance of a core module (docs/channel-abi.md).

    Every method may raise `wasmtime.Trap` or `wasmtime.WasmtimeError`.
    """

    way: str
    """`fast` or `public`."""

    def exchange(self, lines: bytes, ticks: int) -> bytes:
        """Reserve, copy in, deliver, copy out, all within `ticks` epoch ticks.

        Raises:
            WildPointer: a pointer or length lies outside the guest's memory.
        """
        ...

    def abi_version(self, ticks: int) -> int:
        """What `channel_abi` returns."""
        ...


class Ended:
    """What a host function returns to end the guest by a trap instead of answering."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


class Caller(Protocol):
    """Whoever called a host function, while the call lasts."""

    def memory(self, store: wasmtime.Store) -> GuestMemory | None:
        """Its exported memory."""
        ...


Handler = Callable[..., "int | Ended | None"]
"""Takes the caller and unsigned arguments; gives the result, or an end. Must not raise."""


class Host(Protocol):
    """Host functions of one store."""

    def make(
        self, store: wasmtime.Store, kind: wasmtime.FuncType, handler: Handler
    ) -> wasmtime.Func:
        """A function of that type which calls `handler(caller, *arguments)`."""
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
