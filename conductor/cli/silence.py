"""No command is silent for long on a terminal: after two seconds without a word it shows what it
waits for, in a status line that the next word takes away. Where no line can be taken away, a
command that compiles says so once.

By a signal of the system's clock, since commands wait for processes and compilers, and threads
would keep processes from being forked. Code with an event loop uses `conductor.cli.status` instead.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from conductor.cli import commands, report

_SILENT: Final = 2.0
"""Seconds without a word until the status line comes."""
_REDRAWN: Final = 0.5
"""Seconds between two drawings."""

_doing: list[tuple[str, float]] = []
"""The work that is being done, and since when; the innermost last."""
_named: set[str] = set()
"""The texts that were shown where no line can be taken away."""


@contextmanager
def during(text: str, *, anywhere: bool = False) -> Iterator[None]:
    """While the block lasts, a terminal that hears nothing for long is told this; `anywhere`: files
    and pipes too."""
    heard = anywhere or report.can_cover()
    if not heard or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGALRM)
    if not _doing:
        signal.signal(signal.SIGALRM, _tick)
        signal.setitimer(signal.ITIMER_REAL, _SILENT, _REDRAWN)
    _doing.append((text, time.monotonic()))
    try:
        yield
    finally:
        _doing.pop()
        report.uncover()
        if not _doing:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


@contextmanager
def of(arguments: Sequence[str]) -> Iterator[None]:
    """The same for a whole command line, unless its command shows its work."""
    if not arguments or commands.has(arguments, commands.LASTING):
        yield
        return
    with during(f"`conductor {arguments[0]}` is at work"):
        yield


def _tick(number: int, frame: Any) -> None:
    if not _doing:
        return
    text, since = _doing[-1]
    now = time.monotonic()
    said = report.said()
    if said is None or now - max(since, said) < _SILENT:
        return
    if report.can_cover():
        report.cover(f"{text}, {now - since:.0f} s")
    elif text not in _named:
        _named.add(text)  # before: the clock goes on
        try:
            report.write(f"{text} …", dim=True)
        except RuntimeError:  # in the middle of another line
            _named.discard(text)
