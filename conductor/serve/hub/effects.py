"""The effects that a hub asks the shell for. Frames have no newline at their end."""

from __future__ import annotations

import msgspec


class ToClient(msgspec.Struct, frozen=True):
    """A connection gets a frame; `session` names its stream over HTTP, None is the connection's."""

    connection: str
    frame: bytes
    session: str | None = None


class ToChain(msgspec.Struct, frozen=True):
    """A chain gets a frame from its client, which is the hub."""

    chain: str
    frame: bytes


class OpenChain(msgspec.Struct, frozen=True):
    """The shell starts a chain for a connection; frames for it follow."""

    chain: str
    connection: str


class CloseChain(msgspec.Struct, frozen=True):
    """Nobody needs the chain any more: the hub has forgotten it, and takes nothing more from it."""

    chain: str


class Owned(msgspec.Struct, frozen=True):
    """The principal has a session from now on: `owns` must answer True for it, also later."""

    session: str


class Disowned(msgspec.Struct, frozen=True):
    """A session was deleted: `owns` may forget it."""

    session: str


class LogLine(msgspec.Struct, frozen=True):
    """The log gets a line about a client, or a chain."""

    who: str
    text: str


Effect = ToClient | ToChain | OpenChain | CloseChain | Owned | Disowned | LogLine
