"""Carrier 1: a core module called directly, the fast one (docs/architecture.md#the-channel)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wasm_host import capi
from wasm_host.calls import WildPointer
from wasm_host.calls.capi import CapiCalls
from wasm_host.carriers.guest import STDERR_KEPT, DirectGuest
from wasm_host.errors import GuestError

if TYPE_CHECKING:
    from wasm_host.limits import Limits
    from wasm_host.wasi.preview1 import Wasi


ABI_VERSION = 1


class CoreGuest(DirectGuest):
    """An instance of a module that exports `channel_abi`, `_reserve` and `_deliver`.

    Instantiating runs the module's start function and `_initialize`, under the same limits as
    a delivery.

    Args:
        grants: `None` for a module without imports. A module that imports WASI has no input, and
            its prints are kept with its standard error.

    Raises:
        GuestError: phase `instantiate`: it trapped, exceeded a limit or speaks another ABI.
    """

    carrier = "core"

    __slots__ = ("_fault", "_wasi")

    _calls: CapiCalls

    def __init__(
        self,
        engine: capi.Engine,
        module: capi.Module,
        name: str,
        limits: Limits,
        *,
        grants: frozenset[str] | None = None,
    ) -> None:
        super().__init__(capi, engine, name, limits)
        self._fault: capi.Func | None = None
        self._wasi: Wasi | None = None
        if grants is not None:
            # Most guests import nothing and need none of it.
            from wasm_host.wasi.preview1 import Wasi

            self._wasi = Wasi(self, grants)
        with self._running("instantiate"):
            self._instantiate(module)

    def _instantiate(self, module: capi.Module) -> None:
        store = self._store
        assert store is not None
        imports = self._wasi.functions(store, module) if self._wasi is not None else []
        exports = capi.Instance(store, module, imports).exports(store)
        initialize, fault = exports.get("_initialize"), exports.get("channel_fault")
        if isinstance(initialize, capi.Func):
            self._arm()
            initialize(store)
        self._calls = CapiCalls(store, exports)
        self._fault = fault if isinstance(fault, capi.Func) else None
        version = self._calls.abi_version(self._ticks)
        if version != ABI_VERSION:
            raise GuestError(
                "instantiate",
                f"{self.name} speaks channel ABI {version}, this host speaks {ABI_VERSION}",
                hint=f"build the guest anew for channel/{ABI_VERSION} "
                "(docs/architecture.md#the-channel)",
            )

    @property
    def memory_bytes(self) -> int | None:
        """Current size of the linear memory in bytes; 0 once closed."""
        return self._calls.memory_size() if self._store is not None else 0

    def _explain(self, error: Exception, phase: str) -> GuestError:
        self._read_fault(error)
        return super()._explain(error, phase)

    def _read_fault(self, error: Exception) -> None:
        """Keep the guest's own text about a trap that it made (`channel_fault`), as standard error.

        The guest has just failed, so nothing it returns here is trusted: a text that cannot be had
        is no text.
        """
        store, fault = self._store, self._fault
        if fault is None or store is None or "unreachable" not in str(error):
            return
        try:
            self._arm()
            place = fault(store) or 0
            start, length = place >> 32 & 0xFFFFFFFF, place & 0xFFFFFFFF
            self.keep_stderr(self._calls.read(start, min(length, STDERR_KEPT)))
        except WildPointer:
            return
        except self._failures:
            return

    def _free(self) -> None:
        if self._store is not None and hasattr(self, "_calls"):
            # Before the store is closed: the view of the memory would dangle.
            self._calls.drop()
        super()._free()
        if self._wasi is not None:
            self._wasi.drop()
