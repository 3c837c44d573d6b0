"""Tasks with an owner: anyio's groups, whose errors come out as they are.

    async with group() as tasks:
        tasks.start_soon(work, argument)
        …
        tasks.cancel_scope.cancel()     # ends tasks that only wait

A chain's own tasks, and those of servers, buses and clients, are in groups of asyncio: the start of
a chain does not wait for anyio, and a cancelled task may wait for its own end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup


@asynccontextmanager
async def group() -> AsyncIterator[TaskGroup]:
    """A group that ends after its tasks. An exception of a task, or of the block, ends all of them,
    and is raised; exceptions of others that follow from it are its notes."""
    try:
        async with anyio.create_task_group() as tasks:
            yield tasks
    except BaseExceptionGroup as errors:
        first, *others = _each(errors)
        for other in others:
            first.add_note(f"then: {other!r}")
        raise first from first.__cause__


async def first(*waits: Callable[[], Awaitable[object]]) -> None:
    """Waits until one of these returns, and ends the others. Raises an exception of any."""
    async with group() as tasks:

        async def wait(one: Callable[[], Awaitable[object]]) -> None:
            await one()
            tasks.cancel_scope.cancel()

        for one in waits:
            tasks.start_soon(wait, one)


def _each(errors: BaseExceptionGroup) -> list[BaseException]:
    """The errors of a group, and of groups in it."""
    return [
        each
        for error in errors.exceptions
        for each in (_each(error) if isinstance(error, BaseExceptionGroup) else [error])
    ]
