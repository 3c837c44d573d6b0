"""Tasks that run beside the messages of a chain; an unexpected error in them fails the chain.

The error may have lost a message, and the sender of that would wait for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from conductor.core import Closure


class Tasks:
    """The tasks of one chain; `failed` takes errors in them and in callbacks of the loop."""

    def __init__(self, failed: Callable[[Closure], None]) -> None:
        self._failed = failed
        self._running: set[asyncio.Task[None]] = set()
        self._former: Any = None
        self._watching = False
        self._over = False

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs `work` as a task that ends with the chain; not at all once that ends."""
        if self._over:
            work.close()
            return
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._done)

    async def cancel(self) -> None:
        """Ends all of them; no other begins."""
        self._over = True
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Handles errors in the loop's callbacks."""
        self._former = loop.get_exception_handler()
        self._watching = True
        loop.set_exception_handler(self._uncaught)

    def unwatch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Restores the handler that was there before."""
        self._watching = False
        # Chains on one loop end in any order: a handler stays as long as a later one calls it.
        handler = loop.get_exception_handler()
        while isinstance(tasks := getattr(handler, "__self__", None), Tasks):
            if tasks._watching:
                break
            handler = tasks._former
        loop.set_exception_handler(handler)

    def _uncaught(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if self._former is not None:
            self._former(loop, context)
        else:
            loop.default_exception_handler(context)
        error = context.get("exception") if self._watching else None
        # Libraries have callbacks on the loop too; their errors need not lose a message.
        if error is not None and "handle" in context and _is_ours(error):
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._failed(Closure(f"internal error: {error!r}", "please report this"))


def _is_ours(error: BaseException) -> bool:
    """Whether a frame of this package is in the traceback."""
    at = error.__traceback__
    while at is not None:
        if at.tb_frame.f_globals.get("__name__", "").startswith("conductor."):
            return True
        at = at.tb_next
    return False
