"""Server-sent events: chunks of a stream in, events out. Pure.

By the rules of HTML: lines end by LF, CRLF or CR, a BOM in front is left out, several `data` make
one event, and comments and unknown fields mean nothing. Chunks may split a line end, a BOM or a
character.
"""

from __future__ import annotations

from typing import Final

import msgspec

from conductor.transports.framing import keep_part
from conductor.transports.remote.wire import LONGEST_ID

_BOM: Final = b"\xef\xbb\xbf"
_HEAD: Final = 4096


class Event(msgspec.Struct, frozen=True, gc=False):
    """One event: its data, and the id of the last event that had one."""

    data: bytes
    id: str


class EventParser:
    """Collects events, however the chunks fall. One longer than `limit` bytes is skipped, not kept.

    Attributes:
        oversized: The first bytes of events that were skipped, until the owner clears it.
        last_id: The id that a reader shows who comes back; empty: the server gives none.
        has_comments: Whether a comment has come: the server keeps the stream alive.
    """

    def __init__(self, limit: int) -> None:
        self.oversized: list[bytes] = []
        self.last_id = ""
        self._next_id: str | None = None
        """The id that counts once the event has come to its end."""
        self.has_comments = False
        self._limit = limit
        self._begun = False
        self._held = b""
        self._parts: list[bytes] = []
        """A line that is not complete, in parts."""
        self._part_bytes = 0
        self._after_cr = False
        self._data = bytearray()
        """Lines of data, each with its line break: one buffer, since most lines may be empty."""
        self._skipped = b""
        """The first bytes of an event that is too long; empty: it is not."""

    @property
    def skips(self) -> bool:
        """Whether an event has begun that is too long."""
        return bool(self._skipped)

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that a chunk completes."""
        chunk = self._without_bom(chunk)
        events: list[Event] = []
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if not chunk:
            return events
        self._after_cr = chunk.endswith(b"\r")
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            self._keep(line)
            whole = b"".join(self._parts) if len(self._parts) > 1 else self._parts[0]
            self._parts.clear()
            self._part_bytes = 0
            self._line(whole, events)
        if rest:
            self._keep(rest)
        return events

    def _without_bom(self, chunk: bytes) -> bytes:
        if self._begun:
            return chunk
        chunk = self._held + chunk
        self._held = b""
        if len(chunk) < len(_BOM) and _BOM.startswith(chunk):
            self._held = chunk  # the bytes may become a BOM
            return b""
        self._begun = True
        return chunk.removeprefix(_BOM)

    def _keep(self, part: bytes) -> None:
        self._part_bytes += len(part)
        if self._part_bytes + len(self._data) > self._limit + _HEAD:
            self._skip((bytes(self._data[:_HEAD]) + b"".join((*self._parts, part)))[:_HEAD])
            # The name of the field stays: the line still ends, and is still of the event.
            self._parts = [b"".join((*self._parts, part))[:_HEAD]]
            return
        keep_part(self._parts, part)

    def _skip(self, head: bytes) -> None:
        if not self._skipped:
            self._skipped = head.removeprefix(b"data:").lstrip() or b" "
        self._data = bytearray()

    def _line(self, line: bytes, events: list[Event]) -> None:
        if not line:
            self._dispatch(events)
            return
        name, colon, value = line.partition(b":")
        if not name and colon:
            self.has_comments = True
            return
        value = value.removeprefix(b" ")
        if name == b"data" and not self._skipped:
            self._data += value
            self._data += b"\n"
            if len(self._data) - 1 > self._limit:
                self._skip(bytes(self._data[:_HEAD]))
        elif name == b"id" and len(value) <= LONGEST_ID:
            id_ = value.decode(errors="replace")
            if id_.isascii() and id_.isprintable():  # a header carries no other
                self._next_id = id_

    def _dispatch(self, events: list[Event]) -> None:
        if self._next_id is not None:
            self.last_id = self._next_id
        if self._skipped:
            self.oversized.append(self._skipped)
            self._skipped = b""
        elif len(self._data) > 1:
            events.append(Event(bytes(memoryview(self._data)[:-1]), self.last_id))
        self._data = bytearray()
