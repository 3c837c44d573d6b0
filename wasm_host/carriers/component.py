"""Carrier 2: a component with `deliver: func(lines: string) -> string` (wasm_host/channel.wit).

This is how Python and JavaScript come along, by componentize-py and componentize-qjs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import wasmtime
from wasmtime import component

from wasm_host.calls.capi_component import deliver_for
from wasm_host.carriers.abi import LINES, SIDE_CODES, check_inbox, check_outbox, excerpt, short
from wasm_host.carriers.guest import BaseGuest
from wasm_host.errors import GuestError, LimitRefused
from wasm_host.ticker import TICKER
from wasm_host.traps import explain

if TYPE_CHECKING:
    from wasm_host.limits import Limits


INSTANCES, TABLES, MEMORIES = 100, 20, 4
"""Core instances, tables and memories one component may be made of. The Python runtime needs 24, 2
and 1, JavaScript's 3 memories; the bounds leave room for other toolchains."""

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


class ComponentGuest(BaseGuest):
    """An instance of a component; what it prints is kept with its standard error.

    Raises:
        GuestError: phase `instantiate`: it trapped or exceeded a limit.
    """

    carrier = "component"

    __slots__ = ("_deliver", "_depth", "_linker", "_short", "_store", "_ticks")

    def __init__(
        self,
        engine: wasmtime.Engine,
        compiled: component.Component,
        name: str,
        limits: Limits,
        *,
        grants: frozenset[str],
        wasi: bool,
        calls: str | None = None,
    ) -> None:
        super().__init__(name, limits)
        self._ticks = limits.ticks
        self._depth = limits.json_depth
        self._short = short(limits)
        store: wasmtime.Store = wasmtime.Store(engine)
        self._store: wasmtime.Store | None = store
        store.set_limits(limits.memory_bytes, limits.table_elements, INSTANCES, TABLES, MEMORIES)
        self._linker = component.Linker(engine)
        if wasi:
            from wasm_host.wasi.preview2 import Wasi2, define

            define(self._linker, compiled, Wasi2(self, grants))
        interface = find_deliver(compiled, engine)
        self._enter()
        try:
            self._arm(store)
            instance = self._linker.instantiate(store, compiled)
        except wasmtime.WasmtimeError as error:
            failure = self._explain(error, "instantiate")
            self._free()
            raise self._die(failure) from None
        finally:
            self._leave()
        index = instance.get_export_index(store, interface or "")
        deliver = instance.get_export_index(store, "deliver", index)
        found = instance.get_func(store, deliver) if deliver is not None else None
        assert found is not None, "load() checked that deliver exists"
        self._deliver = deliver_for(store, found, calls)

    @property
    def memory_bytes(self) -> int | None:
        """`None`: a component does not show its memory. 0 once closed."""
        return None if self._store is not None else 0

    def _begin(self, config: bytes) -> bytes:
        return self._exchange(config, "start") if config else b""

    def deliver(self, lines: bytes) -> bytes:
        """Deliver complete lines, return complete lines; see `wasm_host.Guest`."""
        return self._exchange(lines, "deliver")

    def prepare(self, preface: bytes) -> None:
        """Give the guest what makes it this very guest: the program of a shared interpreter, say.

        Raises:
            GuestError: phase `instantiate`, with what the guest says is wrong with it.
        """
        said = self._call(preface, "instantiate").decode("utf-8")
        if said:
            self._free()
            self.denied.clear()  # what its toolchain asked for by itself explains nothing
            first, _, rest = said.partition("\n")
            raise self._die(GuestError("instantiate", f"{self.name} {first}", detail=rest))

    def _exchange(self, lines: bytes, phase: str) -> bytes:
        if self.dead:
            self._check_alive(phase)
        # As in CoreGuest, the checks of one short line are spelled out.
        most, depth = self._short, self._depth
        if len(lines) > most or lines.count(b"{") + lines.count(b"[") > depth:
            check_inbox(lines, self._limits)
        if not lines.isascii():
            self._check_text(lines, phase)
        out = self._call(lines, phase)
        size = len(out)
        if (
            size > most
            or out.count(b"{") + out.count(b"[") > depth
            or (
                (size < 3 or out.find(b"\n") != size - 1 or out[0] not in SIDE_CODES)
                and not LINES(out)
            )
        ):
            try:
                check_outbox(out, self._limits, phase, self.name)
            except GuestError as error:
                self._free()
                raise self._die(error) from None
        return out

    def _check_text(self, lines: bytes, phase: str) -> None:
        try:
            lines.decode("utf-8")
        except UnicodeDecodeError as error:
            raise LimitRefused(
                phase,
                f"lines that are not UTF-8 were not delivered to {self.name}: {error.reason} "
                f"at byte {error.start}",
                detail=excerpt(lines[max(0, error.start - 20) :]),
            ) from None

    def _call(self, lines: bytes, phase: str) -> bytes:
        """Calls it with UTF-8."""
        TICKER.running.add(self)
        if TICKER.asleep:
            TICKER.wake()
        try:
            if self._limits.fuel is not None:
                assert self._store is not None
                self._store.set_fuel(self._limits.fuel)
            return self._deliver.exchange(lines, self._ticks)
        except wasmtime.WasmtimeError as error:
            failure = self._explain(error, phase)
            self._free()
            raise self._die(failure) from None
        finally:
            TICKER.running.discard(self)

    def _explain(self, error: Exception, phase: str) -> GuestError:
        refused = _UNKNOWN_IMPORT.search(str(error))
        if refused is not None:
            self.denied.add(refused[1])
            return GuestError(
                phase,
                f"{self.name} called {refused[1]}, which no guest may",
                detail=f"stderr: {self.stderr}\n{error}",
                hint="ask for it by a message to the conductor instead (docs/channel-abi.md)",
            )
        return explain(error, phase, self.name, self._limits, stderr=self.stderr)

    def _arm(self, store: wasmtime.Store) -> None:
        store.set_epoch_deadline(self._ticks)
        if self._limits.fuel is not None:
            store.set_fuel(self._limits.fuel)

    def close(self) -> None:
        """End the guest and free its memory; may be called again."""
        if not self.dead:
            self.dead = True
            self._cause = "closed"
        self._free()

    def _free(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()
            self._linker.close()
