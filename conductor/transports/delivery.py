"""Handing lines to a guest, where a line that the guest must not see harms nobody else's.

And what is said of a guest that fails of them.
"""

from __future__ import annotations

from collections.abc import Callable

import wasm_host


def deliver(guest: wasm_host.Guest, data: bytes, on_refused: Callable[[bytes, str], None]) -> bytes:
    """Delivers whole lines and returns what the guest says.

    A line beyond the guest's limits (too long, too deep) is left out and reported to `on_refused`
    without its newline; the others are delivered one by one. Raises `wasm_host.GuestError` when
    the guest itself fails.
    """
    try:
        return guest.deliver(data)
    except wasm_host.LimitRefused:
        said = []
        for line in data.split(b"\n")[:-1]:
            try:
                said.append(guest.deliver(line + b"\n"))
            except wasm_host.LimitRefused as refused:
                on_refused(line, str(refused))
        return b"".join(said)


def ended(name: str) -> wasm_host.GuestError:
    """What there is to say of a guest that ended without an error, as a WASI program may."""
    return wasm_host.GuestError(
        "deliver",
        f"{name} has ended by itself",
        hint="a proxy reads its input until that ends; see what it says on its standard error",
    )


def overdrawn(name: str, limit: int) -> wasm_host.GuestError:
    """What is said of a guest that sends far more messages than it is given."""
    return wasm_host.GuestError(
        "deliver",
        f"{name} exceeded own_messages: it sent many times the {limit} a second that it may send "
        "of its own",
        limit="own_messages",
        hint="raise the component's own_messages if this is intended",
    )


def flooded(name: str, waiting: int) -> wasm_host.GuestError:
    """What is said of a guest that answers messages with ever more messages."""
    return wasm_host.GuestError(
        "deliver",
        f"{name} exceeded waiting_bytes: {waiting} bytes that it sent are waiting for delivery",
        limit="waiting_bytes",
        hint="the guest answers messages with ever more messages; report it to its author",
    )


def explain(name: str, error: wasm_host.GuestError) -> tuple[str, str]:
    """What a guest's error says after its name, and the hint."""
    return str(error).removeprefix(f"{name} "), error.hint or ""
