"""The words of a proxy to the agent before the user's first prompt of a session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from . import checked, failures
from .errors import Cancelled
from .messages import Request
from .tasks import Task

if TYPE_CHECKING:
    from .engine import Engine
    from .handling import Next
    from .records import Record
    from .sessions import Session
    from .turns import Turn

Opens = Callable[["Opening"], Any]
"""An author's function: prompts the agent, and returns blocks for the user's prompt, or nothing."""

_TRIES: Final = 2
"""How often one prompt of the user's begins it: it may be cancelled by an earlier prompt's end."""


class Opening:
    """The prompts before the user's first one in a session; `@proxy.opening` declares them.

    The user's prompts wait until the opening is done. It does not run
    again in its session, unless the user stops it: then the next prompt begins it anew.
    """

    __slots__ = ("_blocks", "_done", "_engine", "_function", "_stopped", "_task", "session")

    def __init__(self, engine: Engine, function: Opens, session: Session) -> None:
        self._engine = engine
        self._function = function
        self._task: Task | None = None
        self._stopped = False
        self._done = False
        self._blocks: list[Any] = []
        self.session = session
        """The client's session in which they are said."""

    @property
    def state(self) -> Any:
        """The proxy's own data of the session (`Proxy(session=…)`)."""
        return self.session.state

    async def prompt(self, *blocks: str | dict[str, Any] | Record, show: bool = True) -> Turn:
        """Prompts the agent as `Session.prompt` does.

        Raises `Cancelled` once the user has stopped the turn; let it pass.
        """
        if self._stopped:
            raise Cancelled
        turn = await self.session.prompt(*blocks, show=show)
        if turn.stop_reason == "cancelled":
            raise Cancelled
        return turn

    async def _before(self, request: Request) -> None:
        """Lets a user's prompt wait for the opening, and puts the opening's result in front."""
        for _ in range(_TRIES):
            if self._done:
                break
            # Apart from this prompt: that it is cancelled does not make untold what was begun.
            if self._task is None or self._task.done:
                self._stopped = False
                self._task = self._engine.start(self._run(), "the opening")
            try:
                await self._task
            except Cancelled:
                self._stopped = True
                raise
        held = request.params.get("prompt")
        if self._blocks and isinstance(held, list) and not request.is_command:
            request.preface(*self._blocks)
            self._blocks = []

    async def _run(self) -> None:
        try:
            found = self._function(self)
            found = await found if isinstance(found, Awaitable) else found
            try:
                self._blocks = checked.blocks(found)
            except TypeError as error:
                raise TypeError(f"{checked.place(self._function)} returned {error}") from None
        except Cancelled:
            return
        except Exception as error:  # the user's prompt is not to suffer from it
            failures.report(self._engine, "the opening failed", error)
        self._done = True


def handler(engine: Engine, function: Opens) -> Callable[[Request, Next], Awaitable[Any]]:
    """The handler of prompts that holds the first one back."""

    async def prompt(request: Request, following: Next) -> Any:
        session = getattr(request, "session", None)
        if session is not None and session.began == "session/new" and request.direction == "down":
            opening = session.opening
            if opening is None:
                opening = session.opening = Opening(engine, function, session)
            await opening._before(request)
        return await following(request)

    return prompt
