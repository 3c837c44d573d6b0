"""The journal of a host of guests, as it goes to the conductor that started the host.

It is batches of entries, each behind its length, in lines of Base64. It leaves out lines that
follow from others, and counts them: those of the conductor, and those that guests got.
"""

from __future__ import annotations

import time
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from conductor.core import json_text
from conductor.run.journal import LOST
from conductor.run.segment_spec import SegmentSpec

_BEGINS: Final = b"j"
"""How a line begins that begins a batch …"""
_GOES_ON: Final = b"J"
"""… and one that goes on with it."""

BEGUN: Final = "begun"
"""The host has begun: its `SegmentSpec`, and the carriers of its guests."""
FED: Final = "fed"
"""The router got so many lines of a peer."""
CALLED: Final = "called"
"""A method of the router was called, with these arguments."""
DELIVERED: Final = "delivered"
"""A guest got lines, returned lines, and failed for this reason; it got none: it has started. Lines
that it got are a number where the router sent all of them."""

_MARKS: Final = (_BEGINS, _GOES_ON)

OWN: Final = b"c"
"""How lines begin that are between the conductor and a host or a guest …"""
_OWN_LATER: Final = b"\nc"
"""… which may come before others that were sent earlier."""

_WAITING: Final = 32 * 1024
"""Bytes of entries that wait at most, unless the host has nothing else to do."""
_LATE: Final = 0.1
"""Seconds that an entry waits, likewise."""
_PIECE: Final = 512 * 1024
"""Bytes of the stream in one line."""
_HEAD: Final = 8
"""Bytes of the length of a batch."""
_BESIDE: Final = 32
"""Bytes of an entry beside its lines."""
_LEAST: Final = 2
"""Parts of an entry."""
_MOST: Final = 256 * 1024 * 1024
"""Bytes of a batch that is believed."""

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[list[Any]]).decode


class HostJournal:
    """Keeps the journal of a host's router, and what was delivered to its guests; a
    `conductor.run.journal.Journal`."""

    def __init__(
        self, spec: SegmentSpec, carriers: Mapping[str, str], send: Callable[[bytes], None]
    ) -> None:
        """`send` takes whole lines for the conductor."""
        self._send = send
        self._counts = spec.numbers > 0
        self._piece = min(_PIECE, spec.line_limit // 2)
        self._entries: list[list[Any]] = []
        self._size = 0
        self._fed: list[Any] = [FED, 0.0, "", 0]
        """The entry that counts the lines of a peer."""
        self._add(BEGUN, json_text.encode(spec), dict(carriers))

    def _add(self, kind: str, *what: Any, size: int = 0) -> None:
        self._fed = entry = [kind, time.monotonic(), *what]
        self._entries.append(entry)
        self._size += size + _BESIDE

    def received(self, peer: str, frame: bytes) -> None:
        """See `Journal`: a guest's line stands in what it returned."""
        fed = self._fed
        if fed[0] is FED and fed[2] is peer:
            fed[3] += 1
        else:
            self._add(FED, peer, 1)

    def called(self, method: str, args: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        """See `Journal`."""
        size = sum(len(each) for each in args if isinstance(each, (bytes, str)))
        self._add(CALLED, method, args, named, size=size)

    def delivered(self, name: str, given: bytes, returned: bytes, failed: str = "") -> None:
        """A guest got lines, and returned lines; it got none: it has started. `failed`: why it
        ended of that."""
        # A number where the lines follow from others; of a start there are none.
        has_own = given.startswith(OWN) or _OWN_LATER in given
        counts = self._counts and bool(given) and not has_own
        what = given.count(b"\n") if counts else given
        size = len(returned) + (0 if counts else len(given))
        self._add(DELIVERED, name, what, returned, failed, size=size)

    def lost(self, name: str) -> None:
        """A guest that observes does not get the last copy for it."""
        self._add(CALLED, LOST, (name,), {})

    @property
    def waits(self) -> bool:
        """Whether anything is to be sent."""
        return bool(self._entries)

    @property
    def is_due(self) -> bool:
        """Whether what waits is to be sent, also where the host has other things to do."""
        return self._size >= _WAITING or time.monotonic() > self._entries[0][1] + _LATE

    def send(self) -> None:
        """Sends what waits."""
        self._fed = [CALLED]
        entries, self._entries, self._size = self._entries, [], 0
        if not entries:
            return
        batch = _encode(entries)
        stream = len(batch).to_bytes(_HEAD, "big") + batch
        for start in range(0, len(stream), self._piece):
            mark = _GOES_ON if start else _BEGINS
            self._send(mark + b2a_base64(stream[start : start + self._piece]))


def is_journal(line: bytes) -> bool:
    """Whether a line of a host is one of its journal."""
    return line[:1] in _MARKS


class HostEntries:
    """Reads the journal of one host."""

    def __init__(self) -> None:
        self._held = bytearray()

    def read(self, line: bytes) -> Iterator[list[Any]]:
        """The entries that are complete with this line, each a kind, a time and what it says.
        Raises `ValueError`, or `msgspec.DecodeError`, for nonsense."""
        if line.startswith(_BEGINS):
            self._held.clear()  # of a host that has ended meanwhile
        self._held += a2b_base64(line[1:].rstrip(b"\n"), strict_mode=True)
        size = int.from_bytes(self._held[:_HEAD], "big")
        if size > _MOST:
            raise ValueError("a batch of its journal is too long")
        if len(self._held) < _HEAD + size:
            return
        batch = bytes(self._held[_HEAD:])
        self._held.clear()
        for entry in _decode(batch):
            if len(entry) < _LEAST or not isinstance(entry[1], float):
                raise ValueError("its journal has something that is no entry")
            yield entry
