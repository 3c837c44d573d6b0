"""Signals that call a function in a loop.

uvloop's `add_signal_handler` may call twice for one signal: it counts a signal by Python's handler
and by the byte that wakes the loop, and the byte may come one turn later. A second Ctrl-C ends many
commands at once, so one Ctrl-C must count once.
"""

from __future__ import annotations

import contextlib
import signal

TYPE_CHECKING = False

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from types import FrameType


def call(
    loop: asyncio.AbstractEventLoop,
    number: int,
    function: Callable[..., object],
    *arguments: object,
) -> None:
    """Calls `function` in `loop`, once for each signal `number`; a signal that comes after the loop
    does nothing."""

    def came(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(function, *arguments)

    signal.signal(number, came)
    signal.siginterrupt(number, False)
