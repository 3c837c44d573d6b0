"""Carrier 2: a component with `deliver: func(lines: string) -> string` (wasm_host/channel.wit).

This is how Python and JavaScript come along, by componentize-py and componentize-qjs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import wasmtime
from wasmtime import component

from wasm_host import capi
from wasm_host.calls.capi_component import CapiDeliver
from wasm_host.carriers.abi import excerpt
from wasm_host.carriers.guest import DirectGuest
from wasm_host.errors import GuestError, LimitRefused

if TYPE_CHECKING:
    from wasm_host.limits import Limits


_UNKNOWN_IMPORT = re.compile(r"`([^`]+)`[^`]* (?:has not been defined|was not defined)")


def find_deliver(compiled: component.Component, engine: wasmtime.Engine) -> str | None:
    """Name of the exported interface that has `deliver: func(lines: string) -> string`."""
    for name, extern in compiled.type.exports(engine).items():
        instance = extern.ty
        if not isinstance(instance, component.ComponentInstanceType):
            continue
        deliver = instance.exports(engine).get("deliver")
        kind = deliver.ty if deliver is not None else None
        if (
            isinstance(kind, component.FuncType)
            and [type(item) for _, item in kind.params] == [component.String]
            and isinstance(kind.result, component.String)
        ):
            return name
    return None


class ComponentGuest(DirectGuest):
    """An instance of a component; its prints are kept with its standard error.

    Args:
        grants: `None` for a component that imports no WASI.

    Raises:
        GuestError: phase `instantiate`: it trapped or exceeded a limit.
    """

    carrier = "component"
    # A component is made of several core modules. The Python runtime needs 24 instances, 2 tables
    # and 1 memory, JavaScript's 3 memories; the bounds leave room for other toolchains.
    bounds = (100, 20, 4)

    __slots__ = ("_linker",)

    def __init__(
        self,
        engine: wasmtime.Engine,
        compiled: component.Component,
        name: str,
        limits: Limits,
        *,
        grants: frozenset[str] | None,
    ) -> None:
        super().__init__(wasmtime, engine, name, limits)
        self._failures = (*self._failures, capi.WasmtimeError)
        store = self._store
        assert store is not None
        self._linker = component.Linker(engine)
        with self._running("instantiate"):
            if grants is not None:
                from wasm_host.wasi.preview2 import Wasi2, define

                define(self._linker, compiled, Wasi2(self, grants))
            instance = self._linker.instantiate(store, compiled)
        interface = instance.get_export_index(store, find_deliver(compiled, engine) or "")
        index = instance.get_export_index(store, "deliver", interface)
        deliver = instance.get_func(store, index) if index is not None else None
        assert deliver is not None, "load() checked that deliver exists"
        self._calls = CapiDeliver(store, deliver)

    def _begin(self, config: bytes) -> bytes:
        self._check_text(config, "start")
        return super()._begin(config)

    def deliver(self, lines: bytes) -> bytes:
        """Deliver complete lines, return complete lines; see `wasm_host.Guest`."""
        if not lines.isascii():
            self._check_text(lines, "deliver")
        return self._exchange(lines, "deliver")

    def prepare(self, preface: bytes) -> None:
        """Deliver the program of a guest of a shared interpreter.

        Raises:
            GuestError: phase `instantiate`, with the guest's answer: why it cannot start.
        """
        with self._running("instantiate"):
            complaint = self._calls.exchange(preface, self._ticks).decode("utf-8")
            if complaint:
                # Imports that its toolchain tried by itself do not explain the author's error.
                self.denied.clear()
                first, _, rest = complaint.partition("\n")
                raise GuestError("instantiate", f"{self.name} {first}", detail=rest)

    def _check_text(self, lines: bytes, phase: str) -> None:
        """Refuse lines that are not UTF-8, which wasmtime takes for granted.

        Raises:
            LimitRefused: they are not.
        """
        self._check_alive(phase)
        try:
            lines.decode("utf-8")
        except UnicodeDecodeError as error:
            raise LimitRefused(
                phase,
                f"lines that are not UTF-8 were not delivered to {self.name}: {error.reason} "
                f"at byte {error.start}",
                detail=excerpt(lines[max(0, error.start - 20) :]),
            ) from None

    def _explain(self, error: Exception, phase: str) -> GuestError:
        refused = _UNKNOWN_IMPORT.search(str(error))
        if refused is None:
            return super()._explain(error, phase)
        self.denied.add(refused[1])
        return GuestError(
            phase,
            f"{self.name} called {refused[1]}, which no guest may",
            detail=f"stderr: {self.stderr}\n{error}",
            hint="ask the conductor for it by a message instead (docs/architecture.md#the-channel)",
        )

    def _free(self) -> None:
        if self._store is not None:
            super()._free()
            self._linker.close()
