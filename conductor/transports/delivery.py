"""Handing lines to a guest, where a line that the guest must not see harms nobody else's."""

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
