"""Panels and comments of a proxy beside the conversation, and the user's acts on them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from . import checked
from .errors import METHOD_NOT_FOUND, ProxyError
from .records import plain

if TYPE_CHECKING:
    from .sessions import Session
    from .speaker import Speaker

_ANY: Final = ""


@dataclass(frozen=True)
class EditorEvent:
    """An act of the user on a panel or a comment."""

    name: str
    """`close`, or the name that the panel's own scripts give it."""
    data: Any
    """The data of the act, any JSON."""
    session: Session
    """The session where it is shown."""


F = TypeVar("F", bound=Callable[[EditorEvent], Any])


class Shown:
    """A panel or a comment of the proxy's, by its id in a session."""

    family: ClassVar[str]
    """How its methods begin."""

    def __init__(self, engine: Speaker, session: Session, id: str) -> None:  # noqa: A002 - the wire's name
        self.id = checked.said(id, "the id of what is shown")
        self._engine = engine
        self._session = session
        self._handlers: dict[str, Callable[[Any], Any]] = {}

    def on(self, *names: str) -> Callable[[F], F]:
        """Declares the handler of these events; without names, of all others: `@panel.on("click")`.

        `handler(event)`, sync or async, gets an `EditorEvent`; its result, any JSON, is the
        answer. The event `close`: the user has closed the panel, or resolved the comment. A
        later handler of a name takes the place of the former.
        """
        for name in names:
            checked.said(name, "`on(…)`")

        def declare(function: F) -> F:
            for name in names or (_ANY,):
                self._handlers[name] = function
            return function

        return declare

    async def clear(self) -> None:
        """Takes it away."""
        await self._ask("clear")

    async def happened(self, name: str, data: Any) -> Any:
        """The answer to an event. Raises `ProxyError` where nobody hears of it."""
        handler = self._handlers.get(name) or self._handlers.get(_ANY)
        if handler is None:
            raise ProxyError(f"`{self.id}` has no handler of `{name}`", METHOD_NOT_FOUND)
        found = await called(handler, EditorEvent(name, data, self._session))
        return {} if found is None else plain(found)

    async def _ask(self, method: str, **params: Any) -> Any:
        named = {"sessionId": self._session.id, "id": self.id, **params}
        return await self._engine.request("p", f"{self.family}/{method}", named)

    async def _show(self, **params: Any) -> bool:
        """Whether the editor shows it."""
        given = {name: value for name, value in params.items() if value is not None}
        answer = await self._ask("show", **given)
        return not isinstance(answer, dict) or answer.get("shown") != "text"


async def called(handler: Callable[[Any], Any], argument: Any) -> Any:
    """The result of a handler, sync or async."""
    found = handler(argument)
    return await found if isinstance(found, Awaitable) else found
