"""The panels, comments and files of a chat's page, and the person's acts on them (docs/editors.md).

Routes below `/api/chat/`, and the frames of panels: a frame brings no header, so its address is the
secret.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import msgspec

from conductor.client.chat import Chat
from conductor.core import json_text
from conductor.core.jsonrpc import INTERNAL_ERROR
from conductor.editor.messages import COMMENT_EVENT, PANEL_EVENT
from conductor.errors import ConductorError, RequestError, UsageError
from conductor.http.request import Request, Response
from conductor.http.routes import Route
from conductor.page import frames
from conductor.page.data import data, failure
from conductor.page.posts import MOST_BODY, refused, taking
from conductor.page.project import Project

_MOST_ANSWER: Final = 1024 * 1024
"""The most bytes of a page's answer to a component."""
_EVENTS: Final = {"panel": PANEL_EVENT, "comment": COMMENT_EVENT}


class _Event(msgspec.Struct):
    of: str
    session: str
    id: str
    name: str
    data: Any = None


class _Reply(msgspec.Struct):
    session: str
    id: str
    text: str


class _Failure(msgspec.Struct):
    message: str
    code: int = INTERNAL_ERROR


class _Answer(msgspec.Struct):
    number: int
    result: Any = None
    error: _Failure | None = None


class EditorRoutes:
    """The routes of the editor's side of one chat, for the project in a folder."""

    def __init__(self, chat: Chat, folder: str) -> None:
        self._chat = chat
        self._editing = chat.editing
        self._project = Project(folder)

    @property
    def all(self) -> list[Route]:
        """The routes that the server has beside those of the chat."""
        posts: tuple[tuple[str, type, int, Callable[[Any], Awaitable[Any]]], ...] = (
            ("event", _Event, MOST_BODY, self._event),
            ("reply", _Reply, MOST_BODY, self._reply),
            ("answered", _Answer, _MOST_ANSWER, self._answered),
        )
        return [
            Route("/frame/{secret}", self.frame),
            Route("/api/chat/shown/{number:int}", self.shown),
            Route("/api/chat/lines", self.lines),
            Route("/api/chat/file", self.file),
            Route("/api/chat/found/{what}", self.found),
            *(
                Route(f"/api/chat/{name}", taking(shape, most, act), "POST")
                for name, shape, most, act in posts
            ),
        ]

    async def frame(self, request: Request) -> Response:
        """The HTML of a panel, in a document that can reach nothing."""
        panel = self._editing.framed(request.parts["secret"])
        if panel is None:
            return failure(404, "this panel has changed, or is gone")
        scripts = panel.params.get("scripts") is True
        html = frames.document(str(panel.params.get("contents", "")), scripts=scripts)
        headers = tuple(frames.headers(scripts=scripts).items())
        return Response(json_text.utf8(html), kind="text/html; charset=utf-8", headers=headers)

    async def shown(self, request: Request) -> Response:
        """A panel or comment: the message that has shown it, and the replies below it."""
        one = self._editing.shown(int(request.parts["number"]))
        if one is None:
            return failure(404, "this has changed, or is gone")
        address = f"/frame/{one.secret}"
        held = {"method": one.method, "params": one.params, "replies": one.replies}
        return data({**held, "frame": address})

    async def lines(self, request: Request) -> Response:
        """Lines of the log behind a number."""
        after = request.query.get("after", "0")
        return data(self._editing.lines(int(after) if after.isdecimal() else 0))

    async def file(self, request: Request) -> Response:
        """A file of the project, as text."""
        return await _done(partial(self._project.file, request.query.get("url", "")))

    async def found(self, request: Request) -> Response:
        """The results of a search in the project, for components that may have its files, too."""
        if not self._chat.reads:
            why = "components get no files of the project"
            return refused(UsageError(why, "`conductor chat --fs read` lends them to the chain"))
        asked = request.query
        word, url = asked.get("word", ""), asked.get("url", "")
        searches: dict[str, Callable[[], Any]] = {
            "references": partial(self._project.references, word),
            "definitions": partial(self._project.definitions, word),
            "diagnostics": partial(self._project.diagnostics, url),
        }
        search = searches.get(request.parts["what"])
        return failure(404, "there is no such search") if search is None else await _done(search)

    # -- acts of the person --------------------------------------------------------------------

    async def _event(self, asked: _Event) -> Any:
        method = _EVENTS.get(asked.of)
        if method is None:
            raise UsageError(f"`{asked.of}` is neither a panel nor a comment", "")
        params = {"sessionId": asked.session, "id": asked.id, "name": asked.name}
        if asked.data is not None:
            params["data"] = asked.data
        return await self._editing.happened(method, params)

    async def _reply(self, asked: _Reply) -> Any:
        if not asked.text.strip():
            raise UsageError("the reply is empty", "write one")
        await self._chat.reply(asked.session, asked.id, asked.text)

    async def _answered(self, asked: _Answer) -> Any:
        error = asked.error
        made = None if error is None else RequestError(error.code, error.message)
        self._editing.answer(asked.number, asked.result, made)


async def _done(work: Callable[[], Any]) -> Response:
    """The result of some work with files; other requests are answered meanwhile."""
    try:
        return data(await asyncio.to_thread(work))
    except ConductorError as error:
        return refused(error)
