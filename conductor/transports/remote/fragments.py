"""The frames of a WebSocket, put together to messages: for both ends."""

from __future__ import annotations

from websockets.frames import Frame, Opcode


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
