"""Calls through wasmtime's public API: the fallback, and what tests compare `capi` with."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import wasmtime

from wasm_host.calls import Ended, Handler, wild

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wasmtime import component


UINT32 = 0xFFFFFFFF
UINT64 = 0xFFFFFFFFFFFFFFFF

FAILED = 29
"""WASI's EIO, what calls answer once their guest is over."""


class PublicMemory:
    """`wasm_host.calls.GuestMemory` by `Memory.read` and `Memory.write`."""

    __slots__ = ("_memory", "_store")

    def __init__(self, store: wasmtime.Store, memory: wasmtime.Memory) -> None:
        self._store = store
        self._memory = memory

    def memory_size(self) -> int:
        return self._memory.data_len(self._store)

    def read(self, pointer: int, length: int) -> bytes:
        self._check("a call", pointer, length)
        return bytes(self._memory.read(self._store, pointer, pointer + length))

    def write(self, pointer: int, data: bytes) -> None:
        self._check("a call", pointer, len(data))
        if data:
            self._memory.write(self._store, data, pointer)

    def drop(self) -> None:
        """Keeps nothing that points into the store."""

    def _check(self, what: str, pointer: int, length: int) -> None:
        size = self._memory.data_len(self._store)
        if pointer + length > size:
            raise wild(what, pointer, length, size)


class PublicCalls(PublicMemory):
    """`Calls` by `Func.__call__` and `Memory.read` / `write`."""

    __slots__ = ("_abi", "_deliver", "_reserve")

    interface = "public"

    def __init__(self, store: wasmtime.Store, exports: Mapping[str, Any]) -> None:
        super().__init__(store, exports["memory"])
        self._abi: wasmtime.Func = exports["channel_abi"]
        self._reserve: wasmtime.Func = exports["channel_reserve"]
        self._deliver: wasmtime.Func = exports["channel_deliver"]

    def exchange(self, lines: bytes, ticks: int) -> bytes:
        store = self._store
        store.set_epoch_deadline(ticks)
        length = len(lines)
        if length > UINT32:
            raise wild("channel_reserve", 0, length, self.memory_size())
        pointer = self._reserve(store, _signed(length)) & UINT32
        self._check("channel_reserve", pointer, length)
        self.write(pointer, lines)
        answer = self._deliver(store, _signed(pointer), _signed(length))
        pointer, length = (answer >> 32) & UINT32, answer & UINT32
        self._check("channel_deliver", pointer, length)
        return self.read(pointer, length)

    def abi_version(self, ticks: int) -> int:
        self._store.set_epoch_deadline(ticks)
        version = self._abi(self._store)
        assert isinstance(version, int)
        return version


class PublicDeliver:
    """`Calls` of a component by `Func.__call__`."""

    __slots__ = ("_function", "_store")

    interface = "public"

    def __init__(self, store: wasmtime.Store, function: component.Func) -> None:
        self._store = store
        self._function = function
        # Every call asks for the type, and spends half its time reading it.
        kind = function.type(store)
        kept = SimpleNamespace(params=kind.params, result=kind.result)
        function.__dict__["type"] = lambda store: kept

    def exchange(self, lines: bytes, ticks: int) -> bytes:
        self._store.set_epoch_deadline(ticks)
        out: str = self._function(self._store, lines.decode("utf-8"))
        return out.encode("utf-8")


class PublicHost:
    """`wasm_host.calls.Host` by `wasmtime.Func`.

    A public callback can end its guest only by raising, which travels through a global of
    wasmtime and may surface in another call. So the guest's time is declared over instead: it
    traps at the next loop or function it enters, and each host function it calls until then
    answers an error without doing anything.
    """

    __slots__ = ("_ended",)

    def __init__(self) -> None:
        self._ended = False

    def make(
        self, store: wasmtime.Store, kind: wasmtime.FuncType, handler: Handler
    ) -> wasmtime.Func:
        masks = [UINT32 if str(item) == "i32" else UINT64 for item in kind.params]
        returns = bool(kind.results)

        def call(caller: wasmtime.Caller, *arguments: int) -> int | None:
            def find_memory(store: wasmtime.Store) -> PublicMemory | None:
                memory = caller.get("memory")
                return PublicMemory(store, memory) if isinstance(memory, wasmtime.Memory) else None

            answer: int | Ended | None = FAILED
            if not self._ended:
                try:
                    unsigned = (value & mask for value, mask in zip(arguments, masks, strict=True))
                    answer = handler(find_memory, *unsigned)
                except Exception:
                    # A fault of the host, which must not pass through the guest.
                    answer = Ended("host function failed")
            if isinstance(answer, Ended):
                self._ended = True
                store.set_epoch_deadline(0)
                answer = FAILED
            return answer if returns else None

        return wasmtime.Func(store, kind, call, access_caller=True)

    def drop(self) -> None:
        """wasmtime forgets the functions with the store."""


def _signed(value: int) -> int:
    """An unsigned 32-bit number as the signed one wasmtime's API wants."""
    return value - (1 << 32) if value >= 1 << 31 else value
