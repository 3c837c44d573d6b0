"""Tasks of which each may fail: its error is told, and ends no other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class Watched(asyncio.TaskGroup):
    """A group of such tasks."""

    def __init__(self, failed: Callable[[Exception], object]) -> None:
        """`failed` is called with the error of a task."""
        super().__init__()
        self._failed = failed

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Starts a task."""
        task = self.create_task(self._watch(work))
        task.add_done_callback(lambda _: work.close())  # it may end before it has begun
        return task

    async def _watch(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:
            self._failed(error)
