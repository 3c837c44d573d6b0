"""The record of a host of guests for a trace, as it goes to the conductor that started the host.

The record is entries in lines of JSON, several in a line; an entry that is too long goes in several
lines. The entries go before the lines that they explain: so the conductor knows of each message of
the host which guest has sent it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec import Raw
from msgspec.structs import astuple, force_setattr

from conductor.core import Entry, json_text

_ENTRIES: Final = b"j"
"""The beginning of a line of entries."""
_BEGINS: Final = b"J"
"""The beginning of a line that begins a long entry, before the bytes of the entry."""
_GOES_ON: Final = b"+"
"""The beginning of a line that goes on with a long entry."""
_MARKS: Final = (_ENTRIES, _BEGINS, _GOES_ON)

_PIECE: Final = 512 * 1024
"""Bytes in one line: in more there could be too many entries to be held."""
_MOST: Final = 256 * 1024 * 1024
"""Bytes of a long entry that is believed."""


class Crossed(Entry, frozen=True, array_like=True, tag="crossed", gc=False):
    """A message crossed between two guests, or between a guest and the conductor."""

    at: float = 0.0
    """The time, by the machine's clock."""
    same: bool = False
    """Whether its payload is the same as that of the last message with a payload. Most guests pass
    messages on as they came: so the host sends the payload once."""


class Delivered(msgspec.Struct, frozen=True, array_like=True, tag="delivered"):
    """A guest got lines, and returned lines; it got none: it has started."""

    guest: str
    given: bytes
    returned: bytes
    failed: str
    """Why the guest ended in this delivery; empty: it did not end."""
    at: float


class HostRecord:
    """The entries that one host has to report. `send` takes whole lines for the conductor."""

    def __init__(self, line_limit: int, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._piece = min(_PIECE, line_limit // 2)
        self._entries: list[Crossed | Delivered] = []
        self._last: bytes | None = None
        """The last payload among the entries."""

    def crossed(self, entry: Entry) -> None:
        """A message crossed."""
        fields = *astuple(entry), time.monotonic()
        crossed = Crossed(*fields)
        if entry.payload is not None:
            payload = bytes(entry.payload)  # in JSON, raw JSON would be part of it
            if payload == self._last:
                force_setattr(crossed, "payload", None)
                force_setattr(crossed, "same", True)
            else:
                self._last = payload
                force_setattr(crossed, "payload", payload)
        self._entries.append(crossed)

    def delivered(self, name: str, given: bytes, returned: bytes, failed: str = "") -> None:
        """A guest got lines, and returned lines; without input it has started. `failed`: why it
        ended in this delivery."""
        self._entries.append(Delivered(name, given, returned, failed, time.monotonic()))

    def send(self) -> None:
        """Sends the waiting entries."""
        entries, self._entries, self._last = self._entries, [], None
        line: list[bytes] = []
        size = 0
        for text in map(json_text.encode, entries):
            size += len(text) + 1
            if size > self._piece:
                self._send_entries(line)
                line, size = [], len(text) + 1
            if len(text) > self._piece:
                self._send_long(text)
            else:
                line.append(text)
        self._send_entries(line)

    def _send_entries(self, texts: list[bytes]) -> None:
        if texts:
            self._send(b"%b[%b]\n" % (_ENTRIES, b",".join(texts)))

    def _send_long(self, text: bytes) -> None:
        self._send(b"%b%d\n" % (_BEGINS, len(text)))
        for start in range(0, len(text), self._piece):
            self._send(b"%b%b\n" % (_GOES_ON, text[start : start + self._piece]))


def is_record(line: bytes) -> bool:
    """Whether a line of a host is one of its record."""
    return line[:1] in _MARKS


class RecordReader:
    """Reads the record of one host, which may send anything: it holds one long entry at most, and
    takes no text apart that is not of a known form."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._size = 0
        """The bytes of the long entry that has begun; 0: there is none."""
        self._last: Raw | bytes | None = None
        """The last payload."""

    def read(self, line: bytes) -> Sequence[Crossed | Delivered]:
        """The entries that are complete with this line. Raises `ValueError` for nonsense."""
        if not line.startswith(_GOES_ON):
            self._held, self._size = bytearray(), 0  # of a host that has ended meanwhile
            if line.startswith(_BEGINS):
                self._begin(int(line[len(_BEGINS) :]))
                return ()
            if len(line) > 2 * _PIECE:
                raise ValueError("a line of its record is too long")
            return self._whole(_several(memoryview(line)[len(_ENTRIES) :]))
        if not self._size:
            return ()  # the line goes on with an entry that was refused
        self._held += memoryview(line)[len(_GOES_ON) :]
        if len(self._held) < self._size:
            return ()
        text, self._held, self._size = bytes(self._held), bytearray(), 0
        return self._whole([_one(text)])

    def _whole(self, entries: list[Crossed | Delivered]) -> list[Crossed | Delivered]:
        """Entries, each with its payload."""
        for entry in entries:
            if isinstance(entry, Delivered):
                continue
            if entry.same:
                if self._last is None:
                    raise ValueError("no message before has a payload")
                force_setattr(entry, "payload", self._last)
            elif entry.payload is not None:
                json_text.check(entry.payload)  # it could break out of its line in a file
                self._last = entry.payload
        return entries

    def _begin(self, size: int) -> None:
        if size > _MOST:
            raise ValueError("an entry of its record is too long")
        self._size = size


_one: Final = json_text.Decoder(Crossed | Delivered).decode
_several: Final = json_text.Decoder(list[Crossed | Delivered]).decode
