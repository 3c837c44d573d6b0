"""One message in the hands of its handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from .merging import Snapshot
from .messages import Notification, Request
from .reading import Answer
from .tasks import Task, Waiter

if TYPE_CHECKING:
    from .engine import Engine
    from .lanes import Key

Next = Callable[[Any], Awaitable[Any]]
"""Passes a message on to the next handler, or out of the proxy; a request's answer."""


class Forwarded(Waiter[Any]):
    """The answer to a request that a handler passed on."""

    __slots__ = ("handling",)

    def __init__(self, handling: Handling) -> None:
        super().__init__()
        self.handling = handling


class Handling(Task):
    """A message in the hands of its handlers, and the task in which they work on it.

    `sent_as`: under which id it was passed on, while it is not answered. `came`: the answer that
    came back, and a snapshot of it.
    """

    __slots__ = (
        "answers",
        "came",
        "engine",
        "lane",
        "message",
        "own",
        "sent_as",
        "side",
        "turn_over",
    )

    def __init__(self, engine: Engine, side: str, message: Request | Notification) -> None:
        Task.__init__(self, engine.loop, self)
        self.engine = engine
        self.side = side
        self.message = message
        self.lane: Key | None = None
        self.sent_as: tuple[str, str] | None = None
        self.came: tuple[Answer, Snapshot] | None = None
        self.answers: list[Any] | None = None
        """The answers that the last of its handlers got from `next`."""
        self.own: set[tuple[str, str]] | None = None
        """Requests of its own that the handler has sent: side and id."""
        self.turn_over = False
        """Whether the client has cancelled the turn, rather than the request."""

    def speaks(self) -> None:
        """The handler says something of its own: what came behind an answer waits no longer."""
        if self.came is not None and self.lane is not None:
            self.engine.lanes.release(self)

    async def forward(self, message: Any) -> Any:
        """Passes a request on; its result. Raises `Answered`. The `next` of the last handler."""
        answer = await self.engine.forward(self, message)
        self.answers = [answer]
        return answer

    async def tell(self, message: Any) -> None:
        """The same of a notification."""
        self.engine.tell(self, message)


class Rest:
    """The handlers behind one: its `next`."""

    __slots__ = ("_following", "_handler", "answers")

    def __init__(self, handler: Callable[[Any, Next], Awaitable[Any]], following: Next) -> None:
        self._handler = handler
        self._following = following
        self.answers: list[Any] | None = None
        """The answers of the last call."""

    async def __call__(self, message: Any) -> Any:
        answer = await self._handler(message, self._following)
        self.answers = [answer]
        return answer


def answers(following: Next) -> list[Any] | None:
    """The answers of the last call of a `next`; None: there was no call, or none came back."""
    asked: Any = getattr(following, "__self__", following)
    found: list[Any] | None = asked.answers
    return found
