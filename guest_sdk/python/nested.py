"""Exchanges within a conversation that a client may show apart, under a title."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .turns import OwnTurn

if TYPE_CHECKING:
    from .records import Record
    from .sessions import Session
    from .speaker import Speaker
    from .turns import Turn

SUBCONVERSATION: Final = "conductor.conversation/subconversation"
"""The member of an update's `_meta` that says which exchange it is of: `{"id", "title"}`."""


class Nested:
    """An exchange that a client may show apart (`Session.nested`). Other clients show its text as
    they show all text of the agent's."""

    __slots__ = ("_engine", "_meta", "_session")

    def __init__(self, engine: Speaker, session: Session, id: str, title: str) -> None:  # noqa: A002 - the wire's name
        self._engine = engine
        self._session = session
        self._meta: dict[str, Any] = {SUBCONVERSATION: {"id": id, "title": title}}

    def say(self, said: str) -> None:
        """Shows the client text of the exchange."""
        self._session.say(said, _meta=self._meta)

    def think(self, thought: str) -> None:
        """Shows the client text of the exchange as a thought."""
        self._session.think(thought, _meta=self._meta)

    async def prompt(self, *blocks: str | dict[str, Any] | Record) -> Turn:
        """A turn of one prompt (`Session.prompt`) whose words belong to the exchange."""
        async with OwnTurn(self._engine, self._session.id, True, self._meta) as turn:
            return await turn.prompt(*blocks)
