"""Comments in files, with the replies to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from . import checked
from .errors import METHOD_NOT_FOUND, ProxyError
from .shown import Shown, called

Place = int | tuple[int, int]
"""A line, or a line and a column. Both count from 1; a column counts characters."""

R = TypeVar("R", bound=Callable[[str], Any])


@dataclass(frozen=True)
class CommentReply:
    """One reply in the thread of a comment."""

    by: Literal["user", "owner"]
    """Who replied: the user, or the proxy itself."""
    text: str
    """Its words."""


@dataclass(frozen=True)
class Thread:
    """A comment as it stands in a file, with its replies."""

    url: str
    """The URL of the file."""
    start: Place
    """The place where it begins."""
    end: Place | None
    """The place where it ends; None: at the end of the start's line."""
    text: str
    """Its words."""
    can_reply: bool
    """Whether the user can reply."""
    replies: list[CommentReply]
    """In order."""


class Comment(Shown):
    """A comment in a file (`session.editor.comment(id)`)."""

    family = "_scp/file_comment"
    _replied: Callable[[str], Any] | None = None

    async def show(
        self,
        *,
        url: str,
        start: Place,
        end: Place | None = None,
        text: str,
        can_reply: bool = False,
    ) -> bool:
        """Shows it, or changes it. False: this editor shows no comments, so the user reads it as
        text in the conversation, with file and lines.

        `url`: of the file, `file:///…`. `start`, `end`: a line, or a line and a column; an end is
        exclusive, without its column it is the end of that line, without an `end` the end of the
        start's line. `text`: Markdown. Raises `Answered` where it is refused.
        """
        last = None if end is None else _position(end)
        return await self._show(
            url=url, start=_position(start), end=last, text=text, can_reply=can_reply
        )

    async def reply(self, text: str) -> None:
        """Adds to its thread, in the name of the proxy."""
        await self._ask("reply", text=checked.said(text, "`reply(…)`"))

    async def get(self) -> Thread | None:
        """The comment with its thread; None: there is no such comment (any more)."""
        held = await self._ask("get")
        if not isinstance(held, dict):
            return None
        replies = [
            CommentReply("user" if one["from"] == "user" else "owner", one["text"])
            for one in held.get("replies", ())
        ]
        end = None if held.get("end") is None else _place(held["end"])
        return Thread(
            held["url"], _place(held["start"]), end, held["text"], held["can_reply"], replies
        )

    def on_reply(self, function: R) -> R:
        """Declares who takes the user's replies: `handler(text)`, sync or async.

        Where it returns False, or nobody is declared, the reply becomes a prompt of the user's
        that names the file and the line. A later handler takes the place of a former one.
        """
        self._replied = function
        return function

    async def replied(self, text: str) -> Any:
        """The answer to a reply of the user's. Raises `ProxyError` where nobody takes it."""
        if self._replied is None or await called(self._replied, text) is False:
            raise ProxyError(f"nobody takes replies to `{self.id}`", METHOD_NOT_FOUND)
        return {}


def _position(place: Place) -> dict[str, int]:
    """Raises `TypeError` for no numbers, `ValueError` for those that are no place."""
    numbers = place if isinstance(place, tuple) else (place,)
    if len(numbers) not in (1, 2) or not all(type(one) is int for one in numbers):
        raise TypeError(f"a place in a file is a line, or (line, column), not {place!r}")
    if min(numbers) < 1:
        raise ValueError(f"lines and columns count from 1: {place!r}")
    return dict(zip(("line", "column"), numbers, strict=False))


def _place(position: dict[str, int]) -> Place:
    column = position.get("column")
    return position["line"] if column is None else (position["line"], column)
