"""Work that nobody waits for, in a process beside the host of guests.

A host that runs the baseline compiler's code has the usual compiler make better code for the next
start. The host forks for it before it gives up its rights. So the fork has these rights, and runs
nothing of a guest.
"""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Final

from wasm_host.cache.compile_process import may_fork

if TYPE_CHECKING:
    from collections.abc import Callable

_NICE: Final = 10
"""Its priority: all other work of the machine comes first."""
_DELAY: Final = 5.0
"""Seconds after which it begins: most short runs are over by then, and it would have been for
nothing."""


def later(work: Callable[[], None]) -> None:
    """Do `work` in a process of low priority that ends with this one, where this one may fork."""
    if not may_fork():
        return
    parent = os.getpid()
    if os.fork() != 0:
        # Nobody waits for the fork: the system forgets it at its end. There is no other child.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        return
    try:
        from wasm_host.harden.layers import die_with_parent

        die_with_parent(parent)
        # Else it would keep the pipes to the conductor open.
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        os.nice(_NICE)
        time.sleep(_DELAY)
        work()
    finally:
        # Not a return: the rest of this program belongs to the parent.
        os._exit(0)
