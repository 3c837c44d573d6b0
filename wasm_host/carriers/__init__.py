"""Carriers: how a module speaks the channel. Three of them offer one `Guest`."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class Guest(Protocol):
    """One running instance of a guest module (docs/architecture.md#the-channel).

    Not thread-safe: one caller at a time. After a `GuestError` that is no `LimitRefused` the guest
    is dead and only `close` is useful.
    """

    name: str
    carrier: str
    """`core`, `component` or `wasi`."""
    dead: bool
    denied: set[str]
    """Names of imported functions that the host refused to the guest, or answered with a dummy."""

    @property
    def memory_bytes(self) -> int | None:
        """Current size of the linear memory; `None` where the carrier hides it."""
        ...

    @property
    def stderr(self) -> str:
        """The last 8 KiB that the guest wrote to its standard error."""
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
