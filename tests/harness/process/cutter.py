"""A TCP proxy that cuts links: at a moment, or where a text passes.

It reads what it carries: HTTP as it is, WebSocket frames unmasked, so that a cut can wait for a
message of a turn.
"""

import asyncio
import socket
from dataclasses import dataclass
from enum import Enum
from typing import Final

from tests.harness.process.relay import Relay, drop

UP: Final = "up"
"""From the client to the server."""
DOWN: Final = "down"
"""From the server to the client."""

_CHUNK: Final = 1 << 16


class Where(Enum):
    """Where a cut falls, seen from the message that it waits for."""

    BEFORE = "before"
    """The message does not arrive."""
    WITHIN = "within"
    """Half of the message arrives."""
    AFTER = "after"
    """The message arrives, and nothing after it."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A cut that waits until a text passes in one direction."""

    way: str
    text: bytes
    where: Where


class Cutter(Relay["_Pair"]):
    """Listens on a port of its own and carries each link to ``port``."""

    def __init__(self, port: int) -> None:
        self._cuts: list[Cut] = []
        self._frozen = False
        self.made = 0
        """Cuts that were made while a link was there."""
        super().__init__(
            ("127.0.0.1", port), lambda: socket.create_server(("127.0.0.1", 0)), _CHUNK
        )

    def when(self, way: str, text: bytes, where: Where) -> None:
        """Cuts once this text passes."""
        self._do(lambda: self._cuts.append(Cut(way, text, where)))

    def freeze(self, frozen: bool) -> None:
        """Whether links stay open and carry nothing."""

        def change() -> None:
            self._frozen = frozen
            for pair in self._pairs:
                pair.freeze(frozen)

        self._do(change)

    @property
    def waiting(self) -> int:
        """Cuts whose text has not passed yet."""
        return len(self._cuts)

    def forget(self) -> None:
        """Drops the cuts whose text has not passed."""
        self._do(self._cuts.clear)

    # -- in the thread -----------------------------------------------------------------------

    async def _carry(
        self,
        near: asyncio.StreamReader,
        back: asyncio.StreamWriter,
        far: asyncio.StreamReader,
        on: asyncio.StreamWriter,
    ) -> None:
        pair = _Pair(self, back, on)
        pair.freeze(self._frozen)
        self._pairs.add(pair)
        try:
            await asyncio.gather(pair.pump(UP, near, on), pair.pump(DOWN, far, back))
        finally:
            self._pairs.discard(pair)
            pair.drop()

    def due(self, way: str, text: bytes, known: int) -> Where | None:
        """The cut that this text asks for; it is taken off the list. The first ``known`` bytes of
        the text have passed before."""
        for cut in self._cuts:
            if cut.way == way and text.find(cut.text, max(0, known - len(cut.text) + 1)) >= 0:
                self._cuts.remove(cut)
                return cut.where
        return None

    def _cut(self) -> None:
        self.made += bool(self._pairs)
        super()._cut()

    def cut_now(self) -> None:
        """A cut that waited is made: of all links, as of a machine that leaves a network."""
        self._cut()


class _Pair:
    """A link: the client's socket, the server's, and the bytes that pass between."""

    def __init__(
        self, cutter: Cutter, back: asyncio.StreamWriter, on: asyncio.StreamWriter
    ) -> None:
        self._cutter = cutter
        self._ends = (back, on)
        self._flowing = asyncio.Event()
        self._views = {UP: _View(), DOWN: _View()}

    def freeze(self, frozen: bool) -> None:
        """Whether nothing passes."""
        if frozen:
            self._flowing.clear()
        else:
            self._flowing.set()

    def drop(self) -> None:
        """Cuts the link."""
        self._flowing.set()
        for end in self._ends:
            drop(end)

    async def pump(
        self, way: str, source: asyncio.StreamReader, target: asyncio.StreamWriter
    ) -> None:
        """Carries bytes one way until the end of the link."""
        try:
            while data := await source.read(_CHUNK):
                await self._flowing.wait()
                where = self._cutter.due(way, *self._views[way].texts(data))
                if where is Where.WITHIN:
                    data = data[: len(data) // 2]
                if where is not Where.BEFORE:
                    target.write(data)
                    await target.drain()
                if where is not None:
                    if where is not Where.BEFORE:
                        await asyncio.sleep(0)
                    self._cutter.cut_now()
                    return
            target.write_eof()
        except (OSError, RuntimeError):
            self.drop()


class _View:
    """The text in the bytes of one direction, once its messages are whole."""

    def __init__(self) -> None:
        self._head = b""
        self._frames: bool | None = None
        self._rest = b""

    def texts(self, data: bytes) -> tuple[bytes, int]:
        """The text of messages that end in these bytes, and the length of the part that was
        known."""
        said = b""
        if self._frames is None:
            self._head += data
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return b"", 0
            self._frames = b"upgrade: websocket" in self._head[:end].lower()
            data, self._head = self._head, b""
            if self._frames:
                said, data = data[: end + 4], data[end + 4 :]
        if not self._frames:
            # A text may stand across two reads: the end of the last one is looked at again.
            known = len(self._rest)
            seen, self._rest = self._rest + data, data[-64:]
            return seen, known
        self._rest += data
        while (frame := _frame(self._rest)) is not None:
            payload, self._rest = frame
            said += payload
        return said, 0


def _frame(data: bytes) -> tuple[bytes, bytes] | None:
    """The first WebSocket frame, unmasked, and what follows; None while it is not whole."""
    if len(data) < 2:
        return None
    size, at = data[1] & 0x7F, 2
    if size >= 126:
        width = 2 if size == 126 else 8
        size, at = int.from_bytes(data[2 : 2 + width], "big"), 2 + width
    mask = b""
    if data[1] & 0x80:
        mask, at = data[at : at + 4], at + 4
    if len(data) < at + size:
        return None
    payload = data[at : at + size]
    if mask:
        pattern = (mask * (size // 4 + 1))[:size]
        both = int.from_bytes(payload, "big") ^ int.from_bytes(pattern, "big")
        payload = both.to_bytes(size, "big")
    return payload, data[at + size :]
