"""Finding out which dialect a proxy speaks: what was asked of it, and what its behaviour tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw, UnsetType

from conductor.core.dialects import DETECTION, Dialect
from conductor.core.effects import Effect
from conductor.core.jsonrpc import INVALID_REQUEST, METHOD_NOT_FOUND
from conductor.core.peer import Peer
from conductor.core.pending import Pending

_NEXT_ON: Final = (METHOD_NOT_FOUND, INVALID_REQUEST)


class ErrorBody(msgspec.Struct, frozen=True):
    """What is read of an error object."""

    code: int = 0
    message: str = "an error"

    @property
    def unknown_method(self) -> bool:
        """Whether a component says by it that it does not know this role request."""
        return self.code in _NEXT_ON


_error = msgspec.json.Decoder(ErrorBody)


def read_error(body: bytes) -> ErrorBody:
    """The code and message of an error object, defaults for what cannot be read."""
    try:
        return _error.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ErrorBody()


class Handshake:
    """One proxy being initialized: what was asked of it and what is left to try."""

    __slots__ = (
        "held",
        "left",
        "number",
        "onward",
        "params",
        "pending",
        "reopened",
        "tried",
        "upstream",
        "when_back",
    )

    def __init__(self, pending: Pending, params: Raw | UnsetType, peer: Peer) -> None:
        self.pending = pending
        self.params = params
        self.number = 0
        """Of the hop by which it began."""
        self.left: list[Dialect] = list(DETECTION) if peer.guessing else [peer.dialect]
        self.tried: list[Dialect] = []
        self.reopened = False
        """Whether the peer has been started once more; that happens once."""
        self.onward: Pending | None = None
        """The `initialize` a policed peer has forwarded for it."""
        self.upstream: tuple[bytes, bytes] | None = None
        """How that was answered (member, body)."""
        self.when_back: Callable[[bytes, bytes, list[Effect]], None] | None = None
        """Takes that answer, where the peer was not to give one of its own."""
        self.held: bytes | None = None
        """The peer's answer, while it is being told to launch its successor (`scp`)."""

    def next(self) -> Dialect:
        """The dialect to ask in now."""
        self.tried.append(self.left.pop(0))
        return self.tried[-1]

    def prefer(self, dialect: Dialect) -> None:
        """Asks in `dialect` next, unless that has been done: its envelopes look like that."""
        if dialect not in self.tried:
            self.left = [dialect, *(other for other in self.left if other is not dialect)]


def confirm(peer: Peer, dialect: Dialect, out: list[Effect], *, unsettled: bool = False) -> None:
    """Takes the peer's dialect as known and sends what has waited for that.

    `unsettled`: its first envelope may still tell `pacp` from `sacp`.
    """
    peer.guessing = False
    peer.unsettled = unsettled
    peer.speak(dialect)
    peer.ready = True
    resume_waiting(peer, out)


def resume_waiting(peer: Peer, out: list[Effect]) -> None:
    """Takes up again what waits for the peer, in order."""
    waiting, peer.backlog, peer.held = peer.backlog, [], 0
    for resume in waiting:
        resume(out)
