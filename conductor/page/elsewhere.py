"""The chain of a trace, which runs in another process: the page pauses its components."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from typing import Final

from conductor.control import places
from conductor.control.client import Control
from conductor.errors import ConductorError
from conductor.page.source import Source
from conductor.record.turns.model import Head

_SLACK: Final = 5.0
"""Seconds by which two clocks may differ."""


class Elsewhere:
    """Reaches the chain of a trace by its control socket."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._one_at_a_time = asyncio.Lock()
        """A thread waits for each: the page needs others."""

    async def pause(self, name: str, paused: bool) -> None:
        """Pauses a component, or resumes it, once nothing is open in the chain. Raises
        `ConductorError`."""
        do = "pause" if paused else "resume"
        async with self._one_at_a_time:
            control = await asyncio.to_thread(connected, self._source.reader.head())
            try:
                await asyncio.to_thread(control.ask, do, name, patient=True)
            finally:
                control.close()


def connected(head: Head) -> Control:
    """A connection to the chain that writes a trace. Raises `ConductorError`."""
    paths = [path for id_, path in places.listed() if id_.process == head.process]
    for path in paths:
        with contextlib.suppress(OSError):
            control = Control.connected(path)
            state = control.state()
            # Another chain may have the number of a process that has ended.
            has_begun = time.time() - state.uptime >= (head.began or 0.0) - _SLACK
            if has_begun and (len(paths) == 1 or _is_same(state.trace, head.source)):
                return control
            control.close()
    raise ConductorError(
        "the chain of this trace cannot be reached", "it has ended, or runs with `-c control=off`"
    )


def _is_same(trace: str, source: str) -> bool:
    """Whether two paths name one file."""
    with contextlib.suppress(OSError):
        return os.path.samefile(trace, source)
    return False
