"""Carrier 1: a core module called directly, the fast one (docs/channel-abi.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import wasmtime

from wasm_host.calls.common import Calls, WildPointer
from wasm_host.carriers.abi import LINES, SIDE_CODES, check_inbox, check_outbox, short
from wasm_host.carriers.guest import STDERR_KEPT, BaseGuest
from wasm_host.engine import calls_for
from wasm_host.errors import GuestError
from wasm_host.ticker import TICKER
from wasm_host.traps import explain

if TYPE_CHECKING:
    from wasm_host.limits import Limits
    from wasm_host.wasi.preview1 import Wasi


ABI_VERSION = 1


class CoreGuest(BaseGuest):
    """An instance of a module that exports `channel_abi`, `_reserve` and `_deliver`.

    `grants` is `None` for a module without imports. One that imports WASI has no input, and
    what it prints is kept with its standard error.

    Instantiating runs the module's start function and `_initialize`, under the same limits as
    a delivery.

    Raises:
        GuestError: phase `instantiate`: it trapped, exceeded a limit or speaks another ABI.
    """

    carrier = "core"

    __slots__ = ("_calls", "_depth", "_fault", "_fuel", "_short", "_store", "_ticks", "_wasi")

    _calls: Calls

    def __init__(
        self,
        engine: wasmtime.Engine,
        module: wasmtime.Module,
        name: str,
        limits: Limits,
        *,
        grants: frozenset[str] | None = None,
        calls: str | None = None,
    ) -> None:
        super().__init__(name, limits)
        self._ticks = limits.ticks
        self._fuel = limits.fuel
        self._wasi = None if grants is None else _wasi(grants, self)
        self._depth = limits.json_depth
        self._fault: wasmtime.Func | None = None
        self._short = short(limits)
        store: wasmtime.Store = wasmtime.Store(engine)
        self._store: wasmtime.Store | None = store
        store.set_limits(
            memory_size=limits.memory_bytes,
            table_elements=limits.table_elements,
            instances=1,
            tables=8,
            memories=1,
        )
        self._enter()
        try:
            self._instantiate(store, module, calls)
        except (wasmtime.Trap, wasmtime.WasmtimeError) as error:
            self._ask_why(error)
            self._free()
            failure = explain(error, "instantiate", name, limits, stderr=self.stderr)
            raise self._die(failure) from None
        except GuestError as error:
            self._free()
            raise self._die(error) from None
        finally:
            self._leave()

    def _instantiate(
        self, store: wasmtime.Store, module: wasmtime.Module, calls: str | None
    ) -> None:
        imports = self._wasi.functions(store, module) if self._wasi is not None else []
        self._arm(store)
        instance = wasmtime.Instance(store, module, imports)
        exports = instance.exports(store)
        if "_initialize" in exports:
            self._arm(store)
            initialize = exports["_initialize"]
            assert isinstance(initialize, wasmtime.Func)
            initialize(store)
        self._calls = calls_for(store, exports, calls)
        if "channel_fault" in exports:
            fault = exports["channel_fault"]
            self._fault = fault if isinstance(fault, wasmtime.Func) else None
        version = self._calls.abi_version(self._ticks)
        if version != ABI_VERSION:
            raise GuestError(
                "instantiate",
                f"{self.name} speaks channel ABI {version}, this host speaks {ABI_VERSION}",
                hint=f"rebuild the guest for channel/{ABI_VERSION} (docs/channel-abi.md)",
            )

    @property
    def memory_bytes(self) -> int | None:
        """Current size of the linear memory in bytes; 0 once closed."""
        return self._calls.memory_size() if self._store is not None else 0

    def _begin(self, config: bytes) -> bytes:
        return self._exchange(config, "start") if config else b""

    def deliver(self, lines: bytes) -> bytes:
        """Deliver complete lines, return complete lines; see `wasm_host.Guest`."""
        return self._exchange(lines, "deliver")

    def _exchange(self, lines: bytes, phase: str) -> bytes:
        if self.dead:
            self._check_alive(phase)
        # check_inbox and check_outbox, spelled out for one short line or a few: with the ticker's
        # protocol below this is the hottest path of the host, and most deliveries end here.
        most, depth = self._short, self._depth
        if len(lines) > most or lines.count(b"{") + lines.count(b"[") > depth:
            check_inbox(lines, self._limits)
        TICKER.running.add(self)
        if TICKER.asleep:
            TICKER.wake()
        try:
            if self._fuel is not None:
                self._refuel()
            out = self._calls.exchange(lines, self._ticks)
            size = len(out)
            if (
                size > most
                or out.count(b"{") + out.count(b"[") > depth
                or (
                    (size < 3 or out.find(b"\n") != size - 1 or out[0] not in SIDE_CODES)
                    and not LINES(out)
                )
            ):
                check_outbox(out, self._limits, phase, self.name)
        except (wasmtime.Trap, wasmtime.WasmtimeError) as error:
            memory = self._calls.memory_size()
            self._ask_why(error)
            failure = explain(
                error, phase, self.name, self._limits, memory=memory, stderr=self.stderr
            )
            self._free()
            raise self._die(failure) from None
        except WildPointer as error:
            failure = GuestError(
                phase,
                f"{self.name} returned a wild pointer: {error}",
                hint="this is a fault in the guest (docs/channel-abi.md)",
            )
            self._free()
            raise self._die(failure) from None
        except GuestError as error:
            self._free()
            raise self._die(error) from None
        finally:
            TICKER.running.discard(self)
        return out

    def _ask_why(self, error: Exception) -> None:
        """Take what the guest has to say of a trap that it made itself, as its standard error.

        What it answers need not make sense: then there is nothing it has to say.
        """
        store, fault = self._store, self._fault
        if fault is None or store is None or "unreachable" not in str(error):
            return
        kind = fault.type(store)
        if kind.params or [str(one) for one in kind.results] != ["i64"]:
            return
        try:
            self._arm(store)
            said: int = fault(store)
            start, length = said >> 32 & 0xFFFFFFFF, said & 0xFFFFFFFF
            text = self._calls.read(start, min(length, STDERR_KEPT))
            self.stderr_tail = (self.stderr_tail + text)[-STDERR_KEPT:]
        except (wasmtime.Trap, wasmtime.WasmtimeError, WildPointer):
            return

    def _arm(self, store: wasmtime.Store) -> None:
        """Give the next call into the guest its full allowance of time and fuel."""
        store.set_epoch_deadline(self._ticks)
        if self._fuel is not None:
            store.set_fuel(self._fuel)

    def _refuel(self) -> None:
        assert self._store is not None
        assert self._fuel is not None
        self._store.set_fuel(self._fuel)

    def close(self) -> None:
        """End the guest and free its memory; may be called again."""
        if not self.dead:
            self.dead = True
            self._cause = "closed"
        self._free()

    def _free(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            if hasattr(self, "_calls"):
                self._calls.drop()
            store.close()
        if self._wasi is not None:
            self._wasi.drop()

    # What a module that imports WASI reaches (wasm_host.wasi.preview1.Streams).

    def read_stdin(self, room: int) -> bytes:
        """Nothing: lines come by `channel_deliver`."""
        return b""

    def stdin_ready(self) -> bool:
        """Always: at its end."""
        return True

    def wait_stdin(self) -> None:
        """Never blocks."""

    def stdout_room(self, size: int) -> int:
        """Room for what is kept."""
        return min(size, STDERR_KEPT)

    def write_stdout(self, data: bytes) -> None:
        """Keep what the guest printed, for messages about it."""
        self.stderr_tail = (self.stderr_tail + data)[-STDERR_KEPT:]

    def exited(self, code: int) -> None:
        """The trap that follows tells the code."""

    def sleep(self, seconds: float) -> None:
        """Refused: a reactor has nothing to wait for."""
        self.denied.add("poll_oneoff")


def _wasi(grants: frozenset[str], guest: CoreGuest) -> Wasi:
    # Most guests import nothing and need none of it.
    from wasm_host.wasi.preview1 import Wasi

    return Wasi(grants, guest)
