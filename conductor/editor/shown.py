"""The things that components show: panels, and comments with their replies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from conductor.core import json_text
from conductor.core.jsonrpc import METHOD_NOT_FOUND
from conductor.editor.messages import Position

_encode: Final = json_text.encode
TAKEN: Final = b"{}"
Settle = Callable[[bytes, bytes], tuple[bytes, bytes]]
"""Takes the member and body of an answer, and returns the member and body that go on."""


class Panel(msgspec.Struct):
    """A panel that a component shows."""

    owner: str
    label: str
    contents: str
    scripts: bool = False
    before: Panel | None = None
    """The panel whose place it took; None: there was none, or the client has shown this one."""
    size: int = 0
    """Bytes it takes, about."""
    body: str = ""
    """The contents as Markdown, for an editor that shows no panels."""

    def __post_init__(self) -> None:
        self.size = len(self.label) + size_of(self.contents)


class Thread(msgspec.Struct):
    """The replies below a comment."""

    replies: list[dict[str, str]] = []
    size: int = 0

    def add(self, reply: dict[str, str]) -> None:
        """Adds a reply."""
        self.replies.append(reply)
        self.size += size_of(reply["text"]) + 64


class Comment(msgspec.Struct):
    """A comment of a component in a file, with its thread."""

    owner: str
    url: str
    start: Position
    end: Position | None
    can_reply: bool
    text: str
    thread: Thread
    before: Comment | None = None
    """As of a panel."""
    own: int = 0
    """Bytes that it takes without its thread, about."""

    def __post_init__(self) -> None:
        self.own = size_of(self.url) + size_of(self.text) + 128

    @property
    def size(self) -> int:
        """Bytes it takes, about."""
        return self.own + self.thread.size


Shown = TypeVar("Shown", Panel, Comment)
Key = tuple[str, str]
"""A session and an id."""


def size_of(text: str) -> int:
    """The bytes of a text."""
    return len(text.encode(errors="surrogatepass"))


def members_of(id_: str, comment: Comment, *, with_replies: bool) -> dict[str, object]:
    members: dict[str, object] = {"id": id_, "url": comment.url, "start": comment.start}
    if comment.end is not None:
        members["end"] = comment.end
    members |= {"can_reply": comment.can_reply, "text": comment.text}
    return {**members, "replies": comment.thread.replies} if with_replies else members


def once_shown(kept: dict[Key, Shown], key: Key, new: Shown, word: bytes) -> Settle:
    """Takes the client's answer to `show`: an error undoes the change."""

    def settle(member: bytes, body: bytes) -> tuple[bytes, bytes]:
        if member == b"result":
            new.before = None
            return member, b'{"shown":"%b"}' % word
        there = kept.get(key)
        if there is new and new.before is None:
            del kept[key]
        elif there is new:
            kept[key] = new.before  # type: ignore[assignment]  # of the same kind
        while there is not None:  # a later panel goes back to the one before this
            if there.before is new:
                there.before = new.before
            there = there.before
        return member, body

    return settle


def once_taken(member: bytes, body: bytes) -> tuple[bytes, bytes]:
    return (member, TAKEN) if member == b"result" else (member, body)


class _Error(msgspec.Struct):
    code: int = 0


def once_heard(member: bytes, body: bytes) -> tuple[bytes, bytes]:
    """An owner that is not there, or does not know events, has heard of it all the same."""
    if member == b"error":
        try:
            if json_text.decode(body, type=_Error).code == METHOD_NOT_FOUND:
                return b"result", TAKEN
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
    return member, body
