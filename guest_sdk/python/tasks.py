"""Coroutines without an event loop: driven by `send`, as lines come in.

There is no time here and no waiting: a task runs until it awaits something that has not happened,
and goes on when a line makes it happen. So the same code runs inside WebAssembly, behind standard
input, and in a test.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

from .errors import Cancelled

T = TypeVar("T")


class Waiter(Generic[T]):
    """Something that will happen: awaited by tasks, settled by `resolve` or `fail`."""

    __slots__ = ("_callbacks", "_error", "_value", "done")

    def __init__(self) -> None:
        self.done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[], None]] = []

    def resolve(self, value: T) -> None:
        """It happened; whoever waits goes on with `value`."""
        self._value = value
        self._settle()

    def fail(self, error: BaseException) -> None:
        """It failed; `error` is raised in whoever waits."""
        self._error = error
        self._settle()

    def _settle(self) -> None:
        if self.done:
            return
        self.done = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def then(self, callback: Callable[[], None]) -> None:
        """Calls back when it has happened, at once if it has already."""
        if self.done:
            callback()
        else:
            self._callbacks.append(callback)

    def result(self) -> T:
        """The value; raises what it failed with."""
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    def __await__(self) -> Generator[Waiter[Any], None, T]:
        if not self.done:
            yield self
        return self.result()


class Task(Waiter[Any]):
    """A running coroutine. `owner`: the engine it belongs to; `context`: what it works on."""

    __slots__ = ("_coroutine", "_loop", "_thrown", "_waits", "context", "owner")

    def __init__(self, loop: Loop, coroutine: Coroutine[Any, Any, Any], context: Any) -> None:
        super().__init__()
        self._loop = loop
        self._coroutine = coroutine
        self._waits: Waiter[Any] | None = None
        self._thrown: BaseException | None = None
        self.owner = loop.owner
        self.context = context

    def cancel(self) -> None:
        """Raises `Cancelled` where the task waits."""
        if not self.done:
            self._thrown = Cancelled()
            self._loop.soon(self)

    def step(self) -> None:
        """Runs until the next thing that has not happened."""
        waits, self._waits = self._waits, None
        if self.done or (waits is not None and not waits.done and self._thrown is None):
            self._waits = waits
            return
        global _current  # noqa: PLW0603 - which task runs is a fact about the process
        before, _current = _current, self
        try:
            thrown, self._thrown = self._thrown, None
            if thrown is not None:
                awaited = self._coroutine.throw(thrown)
            else:
                awaited = self._coroutine.send(None)
        except StopIteration as stop:
            self.resolve(stop.value)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # kept for whoever awaits the task
            self.fail(error)
        else:
            self._wait(awaited)
        finally:
            _current = before
            if self.done:
                # What it worked on knows its task: as a circle both would stay, with a message
                # however large, until the collector comes by.
                self.context = None

    def _wait(self, awaited: object) -> None:
        if not isinstance(awaited, Waiter):
            what = f"{type(awaited).__module__}.{type(awaited).__qualname__}"
            self._thrown = TypeError(
                f"a proxy awaited {what}; it can only await what guest_sdk.python gives it, e.g. "
                "`await next(request)`, `await proxy.timer.sleep(seconds)`, `await gather(…)`"
            )
            self._loop.soon(self)
            return
        self._waits = awaited
        awaited.then(lambda: self._loop.soon(self) if self._waits is awaited else None)


_current: Task | None = None


def current() -> Task | None:
    """The task that runs right now."""
    return _current


class Loop:
    """Tasks that can go on, in order."""

    __slots__ = ("_ready", "owner")

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self._ready: deque[Task] = deque()

    def start(self, coroutine: Coroutine[Any, Any, Any], context: Any = None) -> Task:
        """A task for the coroutine; it runs when `run` is called."""
        task = Task(self, coroutine, context)
        self._ready.append(task)
        return task

    def soon(self, task: Task) -> None:
        """Lets a task go on at the next opportunity."""
        self._ready.append(task)

    def run(self) -> None:
        """Runs until every task waits for something from outside."""
        while self._ready:
            self._ready.popleft().step()


async def gather(*awaitables: Awaitable[Any]) -> list[Any]:
    """Waits for all; their results in order. The first failure is raised when all have ended."""
    running = _current
    if running is None:
        raise RuntimeError("gather() works in handlers only")

    async def one(awaitable: Awaitable[Any]) -> Any:
        return await awaitable

    loop: Loop = running._loop  # of this module
    tasks = [loop.start(one(awaitable), running.context) for awaitable in awaitables]
    for task in tasks:
        if not task.done:
            done: Waiter[None] = Waiter()
            task.then(lambda done=done: done.resolve(None))  # type: ignore[misc]
            await done
    return [task.result() for task in tasks]
