"""How many descriptors this process may have open, and who may take which."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Final

from conductor.errors import UsageError

FEWEST: Final = 64
"""Descriptors without which nothing is begun."""

_PLENTY: Final = 1 << 30
_before: list[tuple[int, int]] = []
"""The limits with which this process was started, once it has raised them."""


def raise_limit() -> None:
    """From now on this process may have as many open as it may have at all. Raises `UsageError` if
    these are too few."""
    import resource

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = limits
    if soft != hard:
        # macOS takes no more than a number of its own, whatever the hard limit is.
        for wanted in (hard, 10_240):
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
                _before[:] = [limits]
                soft = wanted
                break
    if soft != resource.RLIM_INFINITY and soft < FEWEST:
        raise UsageError(
            f"this process may have {soft} files and connections open, too few for a chain",
            f"allow {FEWEST} or more: `ulimit -n 1024`",
        )


def restore(pid: int) -> None:
    """A program that was just started has the limits that this process was started with: some
    programs look at each descriptor that they may have."""
    if _before and sys.platform == "linux":
        import resource

        with contextlib.suppress(OSError):  # it has ended already
            resource.prlimit(pid, resource.RLIMIT_NOFILE, _before[0])


def most() -> int:
    """How many this process may have."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else _PLENTY


def taken() -> int:
    """How many it has: a system hands out the lowest number that is free."""
    try:
        lowest = os.open(os.devnull, os.O_RDONLY)
    except OSError:
        return most()
    os.close(lowest)
    return lowest
