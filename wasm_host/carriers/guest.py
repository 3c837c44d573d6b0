"""The base of the carriers: a guest's store, its life and death, and the exchange of lines."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from wasm_host.calls import Api, Calls, WildPointer
from wasm_host.carriers.abi import LINES, SIDE_CODES, check_inbox, check_outbox, short
from wasm_host.errors import GuestError, explain
from wasm_host.ticker import TICKER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wasm_host.limits import Limits


STDERR_KEPT = 8192
"""Last bytes of a guest's standard error that are kept."""


class BaseGuest:
    """Life and death of a guest; carriers add how to run it.

    Whatever ends a guest frees its store at once: `dead` guests hold no memory.
    """

    carrier = ""
    bounds = (1, 8, 1)
    """Instances, tables and memories that its store may hold."""

    __slots__ = (
        "_cause", "_failures", "_fuel", "_limits", "_started", "_store", "_ticks", "dead",
        "denied", "name", "stderr_tail",
    )  # fmt: skip

    def __init__(self, api: Api, engine: Any, name: str, limits: Limits) -> None:
        self.name = name
        # The exceptions of its calls when it, or wasmtime, fails.
        self._failures: tuple[type[Exception], ...] = (api.Trap, api.WasmtimeError)
        self.dead = False
        self.denied: set[str] = set()
        # Last bytes written to standard error.
        self.stderr_tail = b""
        self._limits = limits
        self._ticks = limits.ticks
        self._fuel = limits.fuel
        self._started = False
        self._cause = ""
        self._store: Any = api.Store(engine)
        """None: it has been freed."""
        self._store.set_limits(limits.memory_bytes, limits.table_elements, *self.bounds)

    @property
    def stderr(self) -> str:
        """The last 8 KiB that the guest wrote to its standard error."""
        return self.stderr_tail.decode("utf-8", "replace")

    @property
    def memory_bytes(self) -> int | None:
        """Current size of the linear memory in bytes; 0 once closed, `None` where it is hidden."""
        return None if self._store is not None else 0

    def keep_stderr(self, data: bytes) -> None:
        """Append to the kept part of the standard error."""
        self.stderr_tail = (self.stderr_tail + data)[-STDERR_KEPT:]

    def start(self, config: bytes) -> bytes:
        """Start the guest and deliver its first lines; see `wasm_host.Guest`."""
        if self._started:
            raise GuestError("start", f"{self.name} was started already")
        self._check_alive("start")
        self._started = True
        return self._begin(config)

    def _begin(self, config: bytes) -> bytes:
        raise NotImplementedError

    def close(self) -> None:
        """End the guest and free its memory; may be called again."""
        if not self.dead:
            self.dead = True
            self._cause = "closed"
        self._stop()

    def _stop(self) -> None:
        """Stop calls that still run, then free the store; may be called again."""
        self._free()

    def _free(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()

    def _check_alive(self, phase: str) -> None:
        if self.dead:
            raise GuestError(
                phase,
                f"{self.name} is dead: {self._cause}",
                hint="instantiate the module again for a fresh guest",
            )

    def _die(self, error: GuestError) -> GuestError:
        """Stop the guest, dead because of `error`, and return that to be raised."""
        self._stop()
        self.dead = True
        self._cause = str(error)
        if self.denied:
            names = ", ".join(sorted(self.denied))
            refused = f"refused or faked for it before: {names}"
            error.detail = f"{error.detail}\n{refused}" if error.detail else refused
        return error

    def _explain(self, error: Exception, phase: str) -> GuestError:
        """The `GuestError` for a trap or error of wasmtime."""
        # While a guest is being instantiated its memory cannot be looked at yet.
        memory = None if phase == "instantiate" else self.memory_bytes
        return explain(error, phase, self.name, self._limits, memory=memory, stderr=self.stderr)

    def _arm(self) -> None:
        """Give the next call into the guest its full allowance of time and fuel."""
        assert self._store is not None
        self._store.set_epoch_deadline(self._ticks)
        if self._fuel is not None:
            self._store.set_fuel(self._fuel)

    @contextlib.contextmanager
    def _running(self, phase: str) -> Iterator[None]:
        """Run guest code under its limits; whatever goes wrong in it ends the guest.

        Raises:
            GuestError: it trapped, or the body raised one.
        """
        self._enter()
        try:
            self._arm()
            yield
        except self._failures as error:
            raise self._die(self._explain(error, phase)) from None
        except GuestError as error:
            raise self._die(error) from None
        finally:
            self._leave()

    def _enter(self) -> None:
        """Let the epoch clock run; each call is followed by `_leave`."""
        TICKER.running.add(self)
        if TICKER.asleep:
            TICKER.wake()

    def _leave(self) -> None:
        TICKER.running.discard(self)


class DirectGuest(BaseGuest):
    """A guest whose `deliver` is one call: lines in, lines out (core modules and components)."""

    __slots__ = ("_calls", "_depth", "_room", "_short")

    _calls: Calls

    def __init__(self, api: Api, engine: Any, name: str, limits: Limits) -> None:
        super().__init__(api, engine, name, limits)
        self._depth = limits.json_depth
        self._short = short(limits)
        self._room = limits.outbox_bytes

    def _begin(self, config: bytes) -> bytes:
        return self._exchange(config, "start") if config else b""

    def deliver(self, lines: bytes) -> bytes:
        """Deliver complete lines, return complete lines; see `wasm_host.Guest`."""
        return self._exchange(lines, "deliver")

    def _exchange(self, lines: bytes, phase: str) -> bytes:
        if self.dead:
            self._check_alive(phase)
        # The hottest path of the host: `check_inbox`, `check_outbox` and `_running` are written
        # out for one short line or a few, where most deliveries end.
        most, depth = self._short, self._depth
        if len(lines) > most or lines.count(b"{") + lines.count(b"[") > depth:
            check_inbox(lines, self._limits)
        TICKER.running.add(self)
        if TICKER.asleep:
            TICKER.wake()
        try:
            if self._fuel is not None:
                self._arm()
            out = self._calls.exchange(lines, self._ticks)
            size = len(out)
            single = size > 2 and out.find(b"\n") == size - 1 and out[0] in SIDE_CODES
            if not (
                # A line that came back as it went in, its side aside, was checked on its way in.
                single and size == len(lines) and size <= self._room and out.endswith(lines[1:])
            ) and (
                size > most
                or out.count(b"{") + out.count(b"[") > depth
                or (not single and not LINES(out))
            ):
                check_outbox(out, self._limits, phase, self.name)
        except self._failures as error:
            raise self._die(self._explain(error, phase)) from None
        except WildPointer as error:
            text = f"{self.name} returned a wild pointer: {error}"
            hint = "this is a fault in the guest (docs/architecture.md#the-channel)"
            raise self._die(GuestError(phase, text, hint=hint)) from None
        except GuestError as error:
            raise self._die(error) from None
        finally:
            TICKER.running.discard(self)
        return out
