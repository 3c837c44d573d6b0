"""The chain of a trace, which runs in another process: the page pauses its components."""

from __future__ import annotations

import asyncio
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
            control = await asyncio.to_thread(_connected, self._source.reader.head())
            try:
                await asyncio.to_thread(control.ask, do, name, patient=True)
            finally:
                control.close()


def _connected(head: Head) -> Control:
    """Connects to the chain that writes a trace. Raises `ConductorError`."""
    path = next((path for pid, path in places.listed() if pid == head.process), None)
    try:
        if path is None:
            raise ConnectionRefusedError
        control = Control.connected(path)
    except OSError:
        raise ConductorError(
            "the chain of this trace cannot be reached",
            "it has ended, or runs with `--control off`",
        ) from None
    # Another chain may have the number of a process that has ended.
    if time.time() - control.state().uptime < (head.began or 0.0) - _SLACK:
        control.close()
        raise ConductorError("the chain of this trace has ended")
    return control
