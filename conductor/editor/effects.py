"""The effects of the desk: messages to the chain, to the client and to components."""

from __future__ import annotations

import msgspec


class ToChain(msgspec.Struct, frozen=True):
    """A request of the chain's is answered; `member` is `b"result"` or `b"error"`."""

    id: bytes
    member: bytes
    body: bytes


class ToClient(msgspec.Struct, frozen=True):
    """The client gets a message: a request under the id that the router gave it, or, without an
    id, a notification."""

    id: bytes | None
    method: str
    params: bytes


class Pass(msgspec.Struct, frozen=True):
    """The router gets a request of the client's, with the owner in it."""

    id: bytes
    method: str
    params: bytes


class Answer(msgspec.Struct, frozen=True):
    """A request of the client's is answered."""

    id: bytes
    member: bytes
    body: bytes


class Say(msgspec.Struct, frozen=True):
    """A line for the log."""

    level: str
    name: str
    text: str


Effect = ToChain | ToClient | Pass | Answer | Say
