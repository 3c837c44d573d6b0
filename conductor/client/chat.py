"""A chat: the client of a person, whose page may come and go. Its state outlives every page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from conductor.client.connection import Handler
from conductor.client.editing import CAPABILITIES, Editing
from conductor.client.handlers import READ
from conductor.client.session import Question, Session, Update, plain
from conductor.client.talk import Talk
from conductor.errors import ConductorError, UsageError
from conductor.transports.memory import Channel

_PLACE: Final = "the agent of this chain"


class Attach(NamedTuple):
    """A live session of others to attach to (docs/remote.md)."""

    session: str
    views: bool
    """Whether the person only watches it."""


class Chat(Talk):
    """The client's end of one chain, for one person.

    Args:
        cwd: The folder in which the sessions work.
        handlers: By method: further requests of the chain that are served, such as those for files.
        events: How many events the trace of the chain has.
        answers: Called with each part of an answer.
        attach: A live session of others, in place of an own session.
    """

    def __init__(
        self,
        cwd: str,
        handlers: Mapping[str, Handler],
        *,
        events: Callable[[], int],
        answers: Callable[[], None],
        attach: Attach | None = None,
    ) -> None:
        self._attach = attach
        self._events = events
        self.editing = Editing(self._changed, self._request)
        self.reads = READ in handlers
        """Whether the chain gets the files of the folder."""
        super().__init__(
            "chat",
            cwd,
            {**handlers, **self.editing.handlers},
            hears=self.editing.hears,
            section=CAPABILITIES,
            answers=answers,
        )
        self._chosen: dict[int, asyncio.Future[str | None]] = {}
        """By the number of a question: the option that the person chooses."""
        self._ended = ("", "")
        self.version = 0
        """Changes each time some of the state changes."""
        self.begun = asyncio.Event()
        """Set when the first session is open, or there is none: `failed` says why."""
        self.failed: ConductorError | None = None

    # -- the chain -----------------------------------------------------------------------------

    async def run(self, channel: Channel) -> None:
        """The in-process component in the editor's place; returns after `leave`, and when the
        chain has ended."""
        async with self.over(channel):
            try:
                await self._begun()
            except ConductorError as error:
                self.failed = error
                return
            finally:
                self.begun.set()
            await self.stay()

    async def _begun(self) -> None:
        wanted = self._attach
        if wanted is None:
            await self.introduced()
            await self.new_session()
            return
        await self.introduced(_PLACE, attaches=wanted.session)
        begin = self._events()
        await self.attached(wanted.session, drives=not wanted.views, history="full")
        self.sessions[wanted.session].history = begin, self._events()
        self._changed()

    def leave(self) -> None:
        """The person ends the chat: turns that run are cancelled."""
        for session in self.sessions.values():
            if session.running and not session.viewed:
                self.cancel(session.id)
        self._leaving.set()

    def ended(self, text: str, hint: str) -> None:
        """The chain has ended: no prompt can be sent any more."""
        self._ended = text, hint
        for session in self.sessions.values():
            session.unlinked()
        self._changed()

    async def _request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return await self._connection.request(method, params)

    # -- data for a page -----------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All that a page shows beside the trace."""
        return {
            "agent": plain(self.can.agent),
            "cwd": self.cwd,
            "can": {
                "image": self.can.image,
                "load": self.can.loads,
                "list": self.can.lists,
                "new": self._attach is None,
                "search": self.reads,
            },
            "sessions": [session.state() for session in self.sessions.values()],
            "questions": [question.state() for question in self.questions.values()],
            "editor": self.editing.state(),
            "ended": self._ended,
        }

    def _changed(self) -> None:
        self.version += 1

    async def _shown(self, session: Session, update: Update) -> None:
        if update.get("sessionUpdate") == "session_closed" and not self._ended[0]:
            self.ended("the session was closed", "its server shows which are live")

    # -- acts of the person --------------------------------------------------------------------

    async def load(self, id_: str) -> Session:
        """See `Talk`; the page shows the history that the agent repeats."""
        begin = self._events()
        session = await super().load(id_)
        session.history = begin, self._events()
        self._changed()
        return session

    async def reply(self, id_: str, comment: str, text: str) -> None:
        """Replies to a comment. If nobody takes the reply, it becomes the next prompt. Raises
        `UsageError`, `RequestError`, `ChainEnded`."""
        session = self._session(id_)
        blocks = await self.editing.reply(id_, comment, text)
        if blocks:
            self.prompt(session.id, blocks, waits=True)

    def answer(self, number: int, option: int) -> None:
        """Answers a question by the place of an option. Raises `UsageError`."""
        question, chosen = self.questions.get(number), self._chosen.get(number)
        if question is not None and question.viewed:
            raise UsageError("you only watch this session", "attach without --view to take part")
        if question is None or chosen is None or chosen.done():
            raise UsageError("this question does not wait for an answer any more", "")
        if not 0 <= option < len(question.options):
            raise UsageError("the question has no such option", "choose one of those it has")
        chosen.set_result(question.option(option))

    async def _answered(self, question: Question) -> str | None:
        chosen: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._chosen[question.number] = chosen
        try:
            return await chosen
        finally:
            del self._chosen[question.number]
