"""Panels, comments and requests of components beside a chat (docs/editors.md#the-editors-side).

They are kept here for pages that come and go. A page shows them, and answers the requests.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from conductor.client.connection import Handler
from conductor.client.session import plain
from conductor.core import json_text
from conductor.core.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from conductor.core.policy.key_table import STAMP
from conductor.editor.messages import (
    CLEAR_COMMENT,
    CLEAR_PANEL,
    CLOSE,
    LOG,
    OPERATIONS,
    REPLY,
    SHOW_COMMENT,
    SHOW_PANEL,
)
from conductor.errors import RequestError, UsageError

CAPABILITIES: Final = {
    "symposium": {
        "version": "1.0",
        "html_panel": True,
        "file_comment": True,
        "ide_operation": True,
        "log": True,
    }
}
"""The members in the `_meta` of the client's capabilities."""
_MOST_LINES: Final = 500
"""Lines of the log that are kept."""
_MOST_ASKED: Final = 100
"""The most operations that wait for a page."""
_MOST_PARAMS: Final = 64 * 1024
"""The most bytes of the params of one operation."""
_LAST: Final = 2**53 - 1
"""The last line or column that a page can count to."""
_PATIENCE: Final = 30.0
"""Seconds that a component waits for a page to answer."""
_SHOWN: Final = {CLEAR_PANEL: SHOW_PANEL, CLEAR_COMMENT: SHOW_COMMENT}

Send = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""Sends a request to the chain."""


class Shown(msgspec.Struct):
    """A panel or a comment that a component shows."""

    number: int
    """Changes each time the panel or comment changes."""
    method: str
    """The method of the message that has shown it."""
    params: dict[str, Any]
    """The params of the message that has shown it."""
    secret: str
    """The last part of the address where a frame gets the HTML of a panel."""
    replies: list[dict[str, str]] = []
    """The replies below a comment: `from` is `user` or a component, and `text`."""


class Asked(msgspec.Struct):
    """A component's request to the editor; it waits for a page."""

    number: int
    method: str
    params: Any
    answer: asyncio.Future[Any]


class Editing:
    """The editor's side of a chat.

    Args:
        changed: Called when a page should know of something.
        send: Sends a request to the chain.
    """

    def __init__(self, changed: Callable[[], None], send: Send) -> None:
        self._changed = changed
        self._send = send
        self._shown: dict[tuple[str, str, str], Shown] = {}
        """The panels and comments by method, session and id; the panel in front is the last."""
        self._asked: dict[int, Asked] = {}
        self._count = 0
        self._lines: deque[tuple[int, dict[str, Any]]] = deque(maxlen=_MOST_LINES)
        self._logged = 0

    @property
    def handlers(self) -> dict[str, Handler]:
        """The handlers of the chain's requests, by method."""
        return {
            SHOW_PANEL: self._show_panel,
            SHOW_COMMENT: self._show_comment,
            CLEAR_PANEL: self._clear_panel,
            CLEAR_COMMENT: self._clear_comment,
            REPLY: self._owner_replies,
            **{method: self._asker(method) for method in OPERATIONS},
        }

    @property
    def hears(self) -> dict[str, Callable[[dict[str, Any]], None]]:
        """Which notifications it takes."""
        return {LOG: self._log}

    # -- data for a page -----------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The panels, comments and requests, in short."""
        return {
            "shown": [
                {"number": one.number, "method": key[0], "session": key[1], "id": key[2]}
                for key, one in self._shown.items()
            ],
            "asked": [
                {"number": one.number, "method": one.method, "params": one.params}
                for one in self._asked.values()
            ],
            "lines": self._logged,
        }

    def shown(self, number: int) -> Shown | None:
        """A panel or comment; None: it has changed, or is gone."""
        return next((one for one in self._shown.values() if one.number == number), None)

    def framed(self, secret: str) -> Shown | None:
        """The panel of a frame; None: it has changed, or is gone."""
        for one in self._shown.values():
            if one.method == SHOW_PANEL and secrets.compare_digest(one.secret, secret):
                return one
        return None

    def lines(self, after: int) -> list[dict[str, Any]]:
        """The lines of the log behind so many."""
        return [line for number, line in self._lines if number > after]

    # -- acts of the person --------------------------------------------------------------------

    async def happened(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Something has happened to a panel or a comment: its owner hears of it, and answers.
        Raises `RequestError`, `ChainEnded`."""
        key = self._key(method, params)
        if params.get("name") == CLOSE and self._shown.pop(key, None) is not None:
            self._changed()
        return await self._send(method, params)

    async def reply(self, session: str, id_: str, text: str) -> list[dict[str, Any]]:
        """The person replies to a comment; the blocks of a prompt that its owner wants to be sent
        in its place. Raises `RequestError`, `ChainEnded`."""
        params = {"sessionId": session, "id": id_, "text": text}
        answer = await self._send(REPLY, params)
        self._add_reply(params, "user")
        prompt = answer.get("prompt")
        return prompt if isinstance(prompt, list) else []

    def answer(self, number: int, result: Any, error: RequestError | None) -> None:
        """A page answers a component's request. Raises `UsageError`: another page has answered."""
        asked = self._asked.get(number)
        if asked is None or asked.answer.done():
            raise UsageError("nobody waits for this answer any more", "")
        if error is not None:
            asked.answer.set_exception(error)
        else:
            asked.answer.set_result(result)

    # -- messages of the chain -----------------------------------------------------------------

    def _next(self) -> int:
        self._count += 1
        self._changed()
        return self._count

    @staticmethod
    def _key(method: str, params: Mapping[str, Any]) -> tuple[str, str, str]:
        show = SHOW_PANEL if "/html_panel/" in method else SHOW_COMMENT
        return show, str(params.get("sessionId")), str(params.get("id"))

    async def _show_panel(self, params: dict[str, Any]) -> dict[str, Any]:
        return self._show(SHOW_PANEL, params)

    async def _show_comment(self, params: dict[str, Any]) -> dict[str, Any]:
        for name in ("start", "end"):
            place = params.get(name)
            for count in place.values() if isinstance(place, dict) else ():
                if isinstance(count, int) and count > _LAST:
                    text = f"`{name}`: a line or column of at most {_LAST}"
                    raise RequestError(INVALID_PARAMS, text)
        return self._show(SHOW_COMMENT, params)

    def _show(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        key = self._key(method, params)
        old = self._shown.pop(key, None)
        replies = [] if old is None else old.replies
        secret = secrets.token_urlsafe(32)
        self._shown[key] = Shown(self._next(), method, params, secret, replies)
        return {}

    async def _clear_panel(self, params: dict[str, Any]) -> dict[str, Any]:
        return self._clear(CLEAR_PANEL, params)

    async def _clear_comment(self, params: dict[str, Any]) -> dict[str, Any]:
        return self._clear(CLEAR_COMMENT, params)

    def _clear(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if self._shown.pop(self._key(method, params), None) is not None:
            self._changed()
        return {}

    async def _owner_replies(self, params: dict[str, Any]) -> dict[str, Any]:
        meta = params.get("_meta")
        owner = meta.get(STAMP) if isinstance(meta, dict) else None
        self._add_reply(params, str(owner or "component"))
        return {}

    def _add_reply(self, params: Mapping[str, Any], by: str) -> None:
        comment = self._shown.get(self._key(REPLY, params))
        if comment is not None:
            comment.replies = [*comment.replies, {"from": by, "text": str(params.get("text"))}]
            comment.number = self._next()

    def _asker(self, method: str) -> Handler:
        async def ask(params: dict[str, Any]) -> Any:
            if len(self._asked) == _MOST_ASKED:
                raise RequestError(INTERNAL_ERROR, f"{_MOST_ASKED} operations wait already")
            given = plain(params)
            if len(json_text.encode(given)) > _MOST_PARAMS:
                text = f"an operation takes at most {_MOST_PARAMS} bytes of arguments"
                raise RequestError(INVALID_PARAMS, text)
            waiting = asyncio.get_running_loop().create_future()
            number = self._next()
            self._asked[number] = Asked(number, method, given, waiting)
            try:
                async with asyncio.timeout(_PATIENCE):
                    return await waiting
            except TimeoutError:
                raise RequestError(
                    INTERNAL_ERROR, "no page of this chat answers\nhint: open its address"
                ) from None
            finally:
                del self._asked[number]
                self._changed()

        return ask

    def _log(self, params: dict[str, Any]) -> None:
        self._logged += 1
        self._lines.append((self._logged, {"number": self._logged, "params": plain(params)}))
        self._changed()
