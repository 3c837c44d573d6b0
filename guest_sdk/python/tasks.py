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
        self._callbacks: list[Callable[[], None]] | None = None

    def resolve(self, value: T) -> None:
        """The event has happened; all that wait go on with `value`."""
        self._value = value
        self._settle()

    def fail(self, error: BaseException) -> None:
        """The event has failed; `error` is raised in all that wait."""
        self._error = error
        self._settle()

    def _settle(self) -> None:
        if self.done:
            return
        self.done = True
        callbacks, self._callbacks = self._callbacks, None
        if callbacks is not None:
            for callback in callbacks:
                callback()

    def then(self, callback: Callable[[], None]) -> None:
        """Calls back when it has happened, at once if it has already."""
        if self.done:
            callback()
        elif self._callbacks is None:
            self._callbacks = [callback]
        else:
            self._callbacks.append(callback)

    def result(self) -> T:
        """The value; raises the error that it failed with."""
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    def __await__(self) -> Generator[Waiter[Any], None, T]:
        if not self.done:
            yield self
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]


class Task(Waiter[Any]):
    """A running coroutine. `owner`: the engine it belongs to; `context`: what it works on."""

    __slots__ = ("_coroutine", "_thrown", "_waits", "context", "loop", "owner")

    def __init__(self, loop: Loop, context: Any) -> None:
        self.done = False
        self._value = None
        self._error = None
        self._callbacks = None
        self.loop = loop
        self._coroutine: Coroutine[Any, Any, Any] | None = None
        self._waits: Waiter[Any] | None = None
        self._thrown: BaseException | None = None
        self.owner = loop.owner
        self.context = context

    def begin(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Runs this when `Loop.run` is called."""
        self._coroutine = coroutine
        self.loop.ready.append(self)

    def cancel(self) -> None:
        """Raises `Cancelled` where the task waits."""
        if not self.done:
            self._thrown = Cancelled()
            self.wake()

    def wake(self) -> None:
        """Goes on at the next opportunity, unless it still waits."""
        self.loop.soon(self)

    def step(self) -> None:
        """Runs until the next thing that has not happened."""
        global _current  # noqa: PLW0603 - which task runs is a fact about the process
        coroutine, thrown, waits = self._coroutine, self._thrown, self._waits
        if (
            self.done
            or coroutine is None
            or (waits is not None and not waits.done and thrown is None)
        ):
            return
        self._waits = None
        before, _current = _current, self
        try:
            if thrown is None:
                awaited = coroutine.send(None)
            else:
                self._thrown = None
                awaited = coroutine.throw(thrown)
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
            self.wake()
            return
        self._waits = awaited
        awaited.then(self.wake)


_current: Task | None = None


def current() -> Task | None:
    """The task that runs right now."""
    return _current


class Loop:
    """Tasks that can go on, in order."""

    __slots__ = ("owner", "ready")

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.ready: deque[Task] = deque()
        """The tasks that can run."""

    def start(self, coroutine: Coroutine[Any, Any, Any], context: Any = None) -> Task:
        """A task for the coroutine; it runs when `run` is called."""
        task = Task(self, context)
        task.begin(coroutine)
        return task

    def soon(self, task: Task) -> None:
        """Lets a task go on at the next opportunity."""
        self.ready.append(task)

    def run(self) -> None:
        """Runs until every task waits for something from outside."""
        ready = self.ready
        while ready:
            ready.popleft().step()


async def gather(*awaitables: Awaitable[Any]) -> list[Any]:
    """Waits for all; their results in order. The first failure is raised when all have ended.

    Where the handler is cancelled, so are they.
    """
    running = _current
    if running is None:
        raise RuntimeError("gather() works in handlers only")

    async def one(awaitable: Awaitable[Any]) -> Any:
        return await awaitable

    loop: Loop = running.loop  # of this module
    tasks = [loop.start(one(awaitable), running.context) for awaitable in awaitables]
    try:
        for task in tasks:
            if not task.done:
                done: Waiter[None] = Waiter()
                task.then(lambda done=done: done.resolve(None))  # type: ignore[misc]
                await done
    except Cancelled:  # of all: what they have opened is to end
        for task in tasks:
            task.cancel()
        raise
    return [task.result() for task in tasks]
