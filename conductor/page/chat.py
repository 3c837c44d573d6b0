"""The requests of the page of a chat: sessions, prompts, answers to questions.

Routes below `/api/chat/`; like all data they need the secret of the page, in a header that no other
site can make a browser send.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from conductor.client.chat import Chat
from conductor.errors import UsageError
from conductor.http.request import Request, Response
from conductor.http.routes import Route
from conductor.page.data import Data, data
from conductor.page.posts import MOST_BODY, Pause, pausing, taking
from conductor.page.running import RunningChain
from conductor.record.turns.detail import repeated

_MOST_PROMPT: Final = 24 * 1024 * 1024
"""Bytes of a prompt with its pictures."""
_PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


class _Said(msgspec.Struct, forbid_unknown_fields=True):
    """A text of a prompt, or a picture as base64."""

    text: str = ""
    mime: str = ""
    data: str = ""


class _Prompt(msgspec.Struct):
    session: str
    parts: list[_Said]


class _Session(msgspec.Struct):
    session: str


class _Older(msgspec.Struct):
    cursor: str | None = None


class _Answer(msgspec.Struct):
    question: int
    option: int


class _Mode(msgspec.Struct):
    session: str
    mode: str


class _Option(msgspec.Struct):
    session: str
    option: str
    value: str | bool


class _Nothing(msgspec.Struct):
    pass


class ChatRoutes:
    """The routes of one chat."""

    def __init__(
        self, chat: Chat, chain: RunningChain, pause: Pause, lacks: Callable[[], list[str]]
    ) -> None:
        """`lacks`: says of components why they do not do all that they are there for."""
        self._chat = chat
        self._chain = chain
        self._data = Data(chain)
        self._pause = pause
        self._lacks = lacks

    @property
    def all(self) -> list[Route]:
        """The routes that the server has beside those of the trace."""
        routes = [
            Route("/api/chat/news", self.news),
            pausing(self._pause),
        ]
        posts: tuple[tuple[str, type, int, Callable[[Any], Awaitable[Any]]], ...] = (
            ("prompt", _Prompt, _MOST_PROMPT, self._prompt),
            ("cancel", _Session, MOST_BODY, self._cancel),
            ("answer", _Answer, MOST_BODY, self._answer),
            ("new", _Nothing, MOST_BODY, self._new),
            ("load", _Session, MOST_BODY, self._load),
            ("mode", _Mode, MOST_BODY, self._mode),
            ("option", _Option, MOST_BODY, self._option),
            ("history", _Session, MOST_BODY, self._history),
            ("sessions", _Older, MOST_BODY, self._older),
        )
        for name, shape, most, act in posts:
            routes.append(Route(f"/api/chat/{name}", taking(shape, most, act), "POST"))
        return routes

    async def news(self, request: Request) -> Response:
        """How much there is of the trace, and the state of the chat unless its version is `seen`
        already."""
        news = {**self._data.now(), "version": self._chat.version}
        if request.query.get("seen") != str(self._chat.version):
            news["chat"] = {**self._chat.state(), "lacks": self._lacks()}
        return data(news)

    # -- acts of the person --------------------------------------------------------------------

    # An address of a page holds no half of an emoji; an id or a cursor of an agent's may.

    async def _history(self, asked: _Session) -> Any:
        """The history that the agent repeated of a session that was loaded."""
        session = self._chat.sessions.get(asked.session)
        if session is None or session.history is None:
            raise UsageError("this session was not loaded", "")
        return repeated(self._chain.reader, session.id, *session.history)

    async def _older(self, asked: _Older) -> Any:
        """The sessions that the agent knows."""
        return await self._chat.listed(asked.cursor)

    async def _prompt(self, asked: _Prompt) -> Any:
        blocks: list[dict[str, Any]] = []
        for part in asked.parts:
            if part.mime:
                if part.mime not in _PICTURES:
                    raise UsageError(f"`{part.mime}` is no picture that a prompt may hold", "")
                blocks.append({"type": "image", "mimeType": part.mime, "data": part.data})
            elif part.text.strip():
                blocks.append({"type": "text", "text": part.text})
        if not blocks:
            raise UsageError("the prompt is empty", "write one")
        self._chat.prompt(asked.session, blocks)

    async def _cancel(self, asked: _Session) -> Any:
        self._chat.cancel(asked.session)

    async def _answer(self, asked: _Answer) -> Any:
        self._chat.answer(asked.question, asked.option)

    async def _new(self, asked: _Nothing) -> Any:
        return {"session": (await self._chat.new_session()).id}

    async def _load(self, asked: _Session) -> Any:
        return {"session": (await self._chat.load(asked.session)).id}

    async def _mode(self, asked: _Mode) -> Any:
        await self._chat.set_mode(asked.session, asked.mode)

    async def _option(self, asked: _Option) -> Any:
        await self._chat.set_option(asked.session, asked.option, asked.value)
