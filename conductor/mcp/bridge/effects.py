"""What the bridge asks the outside world to do. Values only."""

from __future__ import annotations

import msgspec


class ToAgent(msgspec.Struct, frozen=True, gc=False):
    """Write `frame`, newline included, to the agent."""

    frame: bytes


class ToChain(msgspec.Struct, frozen=True, gc=False):
    """Hand `frame` to the router, as if the agent had sent it."""

    frame: bytes


class Listen(msgspec.Struct, frozen=True, gc=False):
    """Make an address of a kind (`stdio` or `http`) where clients of `listener` come in.

    Answered by `Bridge.listening` or `Bridge.refused`; until then nothing goes down.
    """

    listener: str
    kind: str


class CloseListener(msgspec.Struct, frozen=True, gc=False):
    """Nobody may come in there any more, and whoever has is to be dropped."""

    listener: str


class ToConnection(msgspec.Struct, frozen=True, gc=False):
    """Send `frame` (no newline) to an MCP client.

    `related`: raw id of the client's request it belongs to, where that is known.
    """

    connection: str
    frame: bytes
    related: bytes | None = None


class NoAnswer(msgspec.Struct, frozen=True, gc=False):
    """The client's request with this raw id was cancelled and will get no answer."""

    connection: str
    id: bytes


class CloseConnection(msgspec.Struct, frozen=True, gc=False):
    """Drop an MCP client."""

    connection: str


class Wait(msgspec.Struct, frozen=True, gc=False):
    """Call `Bridge.expired` with `token` in so many seconds."""

    token: int
    seconds: float


class Note(msgspec.Struct, frozen=True, gc=False):
    """Something worth a line in the log."""

    level: str
    text: str


Effect = (
    ToAgent
    | ToChain
    | Listen
    | CloseListener
    | ToConnection
    | NoAnswer
    | CloseConnection
    | Wait
    | Note
)
