"""The actions of `http_rules`, which an HTTP client performs."""

from __future__ import annotations

import msgspec


class Post(msgspec.Struct, frozen=True):
    """Send this. `number` 0: it opens the connection. `tries`: how often that has failed."""

    frame: bytes
    number: int
    session: str | None = None
    is_answer: bool = False
    tries: int = 0
    is_notification: bool = False
    order: int = 0
    """The message's place among all messages that the owner has written."""


class Listen(msgspec.Struct, frozen=True):
    """Open the stream of a session, or of the connection, behind an event."""

    session: str | None
    after: str = ""
    tries: int = 0


class Deliver(msgspec.Struct, frozen=True):
    """A frame for the owner."""

    frame: bytes


class Undelivered(msgspec.Struct, frozen=True):
    """A frame of the owner does not arrive."""

    frame: bytes
    why: str


class Leave(msgspec.Struct, frozen=True):
    """Tell the server that this connection is done."""


class Over(msgspec.Struct, frozen=True):
    """Nothing more comes. `status`: the answer of the server that says so; 0: there was none."""

    text: str
    status: int = 0


Action = Post | Listen | Deliver | Undelivered | Leave | Over
