"""What a host of guests reports for a trace, as it goes to the conductor that started the host.

It is batches of entries, each behind its length, in lines of Base64. A batch goes before the lines
that it explains: so the conductor knows of each message of the host which guest has sent it.
"""

from __future__ import annotations

import time
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from conductor.core import Trace

_BEGINS: Final = b"j"
"""How a line begins that begins a batch …"""
_GOES_ON: Final = b"J"
"""… and one that goes on with it."""
_MARKS: Final = (_BEGINS, _GOES_ON)

CROSSED: Final = "crossed"
"""A message crossed between two guests, or between a guest and the conductor: a `Trace`."""
DELIVERED: Final = "delivered"
"""A guest got lines, returned lines, and failed for this reason; it got none: it has started."""

_PIECE: Final = 512 * 1024
"""Bytes of the stream in one line."""
_HEAD: Final = 8
"""Bytes of the length of a batch."""
_LEAST: Final = 3
"""Parts of an entry."""
_MOST: Final = 256 * 1024 * 1024
"""Bytes of a batch that is believed."""

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[list[Any]]).decode


class HostRecord:
    """What one host has to report. `send` takes whole lines for the conductor."""

    def __init__(self, line_limit: int, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._piece = min(_PIECE, line_limit // 2)
        self._entries: list[tuple[Any, ...]] = []

    def crossed(self, trace: Trace) -> None:
        """A message crossed."""
        self._entries.append((CROSSED, time.monotonic(), msgspec.structs.astuple(trace)))

    def delivered(self, name: str, given: bytes, returned: bytes, failed: str = "") -> None:
        """A guest got lines, and returned lines; it got none: it has started. `failed`: why it
        ended of that."""
        self._entries.append((DELIVERED, time.monotonic(), name, given, returned, failed))

    def send(self) -> None:
        """Sends what waits."""
        if not self._entries:
            return
        batch, self._entries = _encode(self._entries), []
        stream = len(batch).to_bytes(_HEAD, "big") + batch
        for start in range(0, len(stream), self._piece):
            mark = _GOES_ON if start else _BEGINS
            self._send(mark + b2a_base64(stream[start : start + self._piece]))


def is_record(line: bytes) -> bool:
    """Whether a line of a host is one of its record."""
    return line[:1] in _MARKS


class RecordReader:
    """Reads the record of one host."""

    def __init__(self) -> None:
        self._held = bytearray()

    def read(self, line: bytes) -> Iterator[Sequence[Any]]:
        """The entries that are complete with this line: a kind, a time, and what it says. Raises
        `ValueError`, or `msgspec.DecodeError`, for nonsense."""
        if line.startswith(_BEGINS):
            self._held.clear()  # of a host that has ended meanwhile
        self._held += a2b_base64(line[1:].rstrip(b"\n"), strict_mode=True)
        size = int.from_bytes(self._held[:_HEAD], "big")
        if size > _MOST:
            raise ValueError("a batch of its record is too long")
        if len(self._held) < _HEAD + size:
            return
        batch = bytes(self._held[_HEAD:])
        self._held.clear()
        for entry in _decode(batch):
            if len(entry) < _LEAST or not isinstance(entry[1], float):
                raise ValueError("its record has something that is no entry")
            yield entry


def trace_of(fields: Sequence[Any]) -> Trace:
    """The `Trace` that a host has reported. Raises `ValueError` for nonsense."""
    names = Trace.__struct_fields__
    if not isinstance(fields, list) or len(fields) != len(names):
        raise ValueError("its record has a message that is none")
    return msgspec.convert(dict(zip(names, fields, strict=True)), Trace)
