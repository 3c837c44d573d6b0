"""Texts of a WebSocket that go on as soon as they have come.

For each message aiohttp wakes a task, which takes as long as all else that a server does with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

try:
    from websockets.speedups import apply_mask
except ImportError:  # websockets was built without a compiler
    from websockets.utils import apply_mask

_WHOLE_TEXT: Final = 0x81
"""The first byte of a frame that is a whole text; other bits would mean something else."""
_OPCODE: Final = 0x0F
_BEGINS: Final = (1, 2)
"""Opcodes of frames with which a message begins."""
_MASKED: Final = 0x80
_LENGTHS: Final = {126: 2, 127: 8}
"""What the seven bits of a length mean that stands behind them: its bytes."""
_MASK: Final = 4
_FRAMES: Final = 8
"""Frames that are taken in one go: the shortest have six bytes, and cost as much as others."""
_MOST: Final = 64 * 1024
"""Bytes of a text that goes on at once: of a longer one nobody notices the task."""


class Reader(Protocol):
    """What reads the bytes of a WebSocket."""

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Takes bytes; whether it takes no more."""

    def feed_eof(self) -> None:
        """No more bytes come."""


class Texts:
    """Stands before aiohttp's reader of one WebSocket: a text goes on at once if it has come in one
    frame and in one piece, and all before it has been taken; aiohttp reads everything else.

    Attributes:
        rest: What was too much for one go; its owner feeds it again.
    """

    def __init__(self, reader: Reader, count: Callable[[int], None]) -> None:
        """`count` is told how many bytes more the reader holds; below 0, how many were taken."""
        self._reader = reader
        self._count = count
        self.rest = b""
        self._sizes: deque[int] = deque()
        """Bytes of the messages that the reader has got and that have not been taken."""
        self._take: Callable[[bytes], bool] | None = None
        self._most = 0
        self._head = b""
        """The beginning of a frame whose length is not known yet."""
        self._owed = 0
        """Bytes that the reader has not got of the frame it has last."""
        self._given = 0
        """Messages of which the reader has got a beginning …"""
        self._taken = 0
        """… and those that have been taken from it."""

    def begin(self, take: Callable[[bytes], bool], most: int) -> None:
        """From now on texts of at most so many bytes go to `take`, which says whether it takes
        one; if not, the reader gets it."""
        self._take, self._most = take, min(most, _MOST)

    def end(self) -> None:
        """From now on the reader gets all."""
        self._take = None

    def taken(self) -> None:
        """A message of the reader's has been taken."""
        self._taken += 1
        self._count(-self._sizes.popleft())

    # -- as aiohttp calls a reader -------------------------------------------------------------

    def feed_eof(self) -> None:
        """No more bytes come."""
        self._reader.feed_eof()

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Takes bytes; whether no more are taken."""
        at, frames, answer = 0, 0, (False, b"")
        if self._owed:
            at = min(self._owed, len(data))
            self._owed -= at
            self._hold(at)
            answer = self._reader.feed_data(data[:at])
        elif self._head:
            data, self._head = self._head + data, b""
        while at < len(data) and not answer[0]:
            if frames == _FRAMES:
                self.rest = data[at:]
                break
            frames += 1
            found = _extent(data, at)
            if found is None:
                self._head = data[at:]
                break
            start, end = found
            if not self._goes_on(data, at, start, end):
                self._owed = max(end - len(data), 0)
                if data[at] & _OPCODE in _BEGINS:
                    self._given += 1
                    self._sizes.append(0)
                self._hold(min(end, len(data)) - at)
                answer = self._reader.feed_data(data[at:end])
            at = end
        return answer

    def _hold(self, size: int) -> None:
        if self._sizes:  # else they are of a frame that no message has: a ping
            self._sizes[-1] += size
            self._count(size)

    def _goes_on(self, data: bytes, at: int, start: int, end: int) -> bool:
        """Whether the frame from `at` to `end`, with its payload from `start`, went on."""
        if self._take is None or data[at] != _WHOLE_TEXT or not data[at + 1] & _MASKED:
            return False
        if end > len(data) or end - start > self._most or self._given != self._taken:
            return False
        return self._take(apply_mask(data[start:end], data[start - _MASK : start]))


def _extent(data: bytes, at: int) -> tuple[int, int] | None:
    """Where the payload of the frame at `at` begins and ends; None: its head is not complete."""
    if len(data) < at + 2:
        return None
    start, length = at + 2, data[at + 1] & ~_MASKED
    if length in _LENGTHS:
        start += _LENGTHS[length]
        if len(data) < start:
            return None
        length = int.from_bytes(data[at + 2 : start])
    if data[at + 1] & _MASKED:
        start += _MASK
    return (start, start + length) if len(data) >= start else None
