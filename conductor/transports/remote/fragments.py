"""The input of a WebSocket, for both ends: bytes are read in pieces, frames make messages."""

from __future__ import annotations

from typing import Final

from websockets.frames import Frame, Opcode
from websockets.protocol import Event, Protocol

_LEAST: Final = 1024
_MOST: Final = 16 * 1024
"""Bytes of a piece: few while frames are short, since each frame costs the same."""
_FEW: Final = 8
"""After a piece with at most so many frames the next piece may be longer."""


class Pieces:
    """The bytes that have come, read piece by piece: so a flood of short frames costs little in one
    turn of the event loop, and its reader lets others have theirs.

    Attributes:
        unread: The bytes that have not been read.
    """

    def __init__(self, protocol: Protocol) -> None:
        self.unread = b""
        self._protocol = protocol
        self._size = _LEAST

    def read(self) -> list[Event]:
        """The frames that the next piece completes."""
        piece, self.unread = self.unread[: self._size], self.unread[self._size :]
        self._protocol.receive_data(piece)
        events = self._protocol.events_received()
        self._size = min(2 * self._size, _MOST) if len(events) <= _FEW else _LEAST
        return events


class Fragments:
    """The message that has begun."""

    def __init__(self) -> None:
        self._parts = bytearray()
        self._is_text = False

    @property
    def size(self) -> int:
        """The bytes of the message so far."""
        return len(self._parts)

    def text(self, frame: Frame) -> bytes | None:
        """The text that a frame completes; None: it completes none. A binary message is ignored, by
        the rules of ACP."""
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY):
            self._is_text = frame.opcode is Opcode.TEXT
        elif frame.opcode is not Opcode.CONT:
            return None
        if not self._is_text:
            return None
        self._parts += frame.data  # one buffer: fragments without end may be empty
        if not frame.fin:
            return None
        text, self._parts = bytes(self._parts), bytearray()
        return text

    def discard(self) -> None:
        """Forgets the parts of the message."""
        self._parts = bytearray()
