"""What every carrier offers, and what they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from wasm_host.errors import GuestError
from wasm_host.ticker import TICKER

if TYPE_CHECKING:
    from wasm_host.limits import Limits


STDERR_KEPT = 8192
"""Last bytes of a guest's standard error that are kept."""


@runtime_checkable
class Guest(Protocol):
    """One running instance of a guest module (docs/channel-abi.md).

    Not thread-safe: one caller at a time. After a `GuestError` that is no
    `LimitRefused` the guest is dead and only `close` is useful.
    """

    name: str
    carrier: str
    """`core`, `component` or `wasi`."""
    dead: bool
    denied: set[str]
    """Names of imported functions the guest called and was refused, or given a dummy for."""

    @property
    def memory_bytes(self) -> int | None:
        """Current size of the linear memory; `None` where the carrier hides it."""
        ...

    @property
    def stderr(self) -> str:
        """The last of what the guest wrote to its standard error, at most 8 KiB."""
        ...

    def start(self, config: bytes) -> bytes:
        """Start the guest and deliver its first lines (possibly none); return its outbox."""
        ...

    def deliver(self, lines: bytes) -> bytes:
        """Deliver complete lines, return complete lines.

        Raises:
            LimitRefused: a line was refused; the guest has seen nothing and lives on.
            GuestError: the guest trapped, broke the contract or exceeded a limit.
        """
        ...

    def close(self) -> None:
        """End the guest and free its memory; may be called again."""
        ...


class BaseGuest:
    """Life and death of a guest; carriers add how to run it."""

    carrier = ""

    __slots__ = ("_cause", "_limits", "_started", "dead", "denied", "name", "stderr_tail")

    def __init__(self, name: str, limits: Limits) -> None:
        self.name = name
        self.dead = False
        self.denied: set[str] = set()
        # Last bytes written to standard error.
        self.stderr_tail = b""
        self._limits = limits
        self._started = False
        self._cause = ""

    @property
    def stderr(self) -> str:
        """The last of what the guest wrote to its standard error, at most 8 KiB."""
        return self.stderr_tail.decode("utf-8", "replace")

    def start(self, config: bytes) -> bytes:
        """Start the guest and deliver its first lines; see `Guest`."""
        if self._started:
            raise GuestError("start", f"{self.name} was started already")
        self._check_alive("start")
        self._started = True
        return self._begin(config)

    def _begin(self, config: bytes) -> bytes:
        raise NotImplementedError

    def _check_alive(self, phase: str) -> None:
        if self.dead:
            raise GuestError(
                phase,
                f"{self.name} is dead: {self._cause}",
                hint="instantiate the module again for a fresh guest",
            )

    def _die(self, error: GuestError) -> GuestError:
        """Mark the guest dead because of `error` and return it, to be raised."""
        self.dead = True
        self._cause = str(error)
        if self.denied:
            names = ", ".join(sorted(self.denied))
            refused = f"refused or faked for it before: {names}"
            error.detail = f"{error.detail}\n{refused}" if error.detail else refused
        return error

    def _enter(self) -> None:
        """Let the epoch clock run; each call is followed by `_leave`."""
        TICKER.running.add(self)
        if TICKER.asleep:
            TICKER.wake()

    def _leave(self) -> None:
        TICKER.running.discard(self)
