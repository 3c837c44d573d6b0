"""A group of tasks: the error of one task is reported, and the other tasks go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class TaskGroup(asyncio.TaskGroup):
    """Such a group. Leaving its block waits for its tasks, as in asyncio."""

    def __init__(self, failed: Callable[[Exception], object]) -> None:
        """`failed` is called with the error of a task."""
        super().__init__()
        self._failed = failed

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Starts a task."""
        task = self.create_task(self._guarded(work))
        task.add_done_callback(lambda _: work.close())  # it may end before it has begun
        return task

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:
            self._failed(error)
