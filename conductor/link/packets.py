"""The packets of `conductor.link.1`, read and written; frames cut into payloads."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final

import msgspec

from conductor.link.errors import LinkError, Reason

HEADING: Final = 192
"""Bytes of a packet beside its payload, at most."""
OVERHEAD: Final = 256
"""Bytes that a packet takes from the window beside its payload: so much memory it costs to keep."""
DIGITS: Final = 18
"""Of a number, at most: it fits into 64 bits, and no end ever counts so far."""

_SIGNS: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.")
_LONGEST_EPOCH: Final = 64


class Kind(Enum):
    """The kind of a packet."""

    HELLO = b"hello"
    WELCOME = b"welcome"
    FRAME = b"frame"
    PART = b"part"
    ACK = b"ack"


_KINDS: Final = {kind.value: kind for kind in Kind}
_CARRIERS: Final = (Kind.FRAME, Kind.PART)


class Packet(msgspec.Struct, frozen=True, gc=False):
    """One packet, without its epoch. A field that its kind does not have is 0."""

    kind: Kind
    have: int
    credit: int
    sequence: int = 0
    number: int = 0
    oldest: int = 0
    payload: bytes = b""

    @property
    def cost(self) -> int:
        """The bytes that the packet takes from the window."""
        return len(self.payload) + OVERHEAD


def epoch_of(name: str) -> bytes:
    """The epoch as packets have it.

    Raises:
        ValueError: the name cannot be an epoch.
    """
    epoch = name.encode()
    if not 0 < len(epoch) <= _LONGEST_EPOCH or not _SIGNS.issuperset(epoch):
        raise ValueError(f"an epoch is 1 to {_LONGEST_EPOCH} of A-Z a-z 0-9 _ - . and not {name!r}")
    return epoch


def write(epoch: bytes, packet: Packet) -> bytes:
    """A packet as it travels."""
    word, have, credit = packet.kind.value, packet.have, packet.credit
    if packet.kind is Kind.ACK:
        return b"%b %b %d %d" % (word, epoch, have, credit)
    if packet.sequence:
        payload = packet.payload
        form = b"%b %b %d %d %d %d %b"
        return form % (word, epoch, packet.sequence, have, credit, len(payload), payload)
    return b"%b %b %d %d %d %d" % (word, epoch, packet.number, have, credit, packet.oldest)


def read(epoch: bytes, raw: bytes, limit: int) -> Packet:
    """A packet of this epoch.

    Raises:
        LinkError: it is too large, malformed, or of another epoch.
    """
    if len(raw) > limit:
        raise LinkError(
            Reason.LARGE,
            f"the other end of a link sent a packet of {len(raw)} bytes; the limit is {limit}",
            "set the same packet limit at both ends",
        )
    word, *fields = raw.split(b" ", 6)
    kind = _KINDS.get(word)
    if kind is None or len(fields) != (6 if kind in _CARRIERS else 3 if kind is Kind.ACK else 5):
        raise _malformed("it has no such kind, or not the fields of that")
    if fields[0] != epoch:
        raise LinkError(
            Reason.EPOCH,
            f"a packet of the epoch {fields[0][:_LONGEST_EPOCH].decode(errors='replace')} came on "
            f"a link of {epoch.decode()}",
            "one end has started anew: open a new connection; session/load brings the history",
        )
    numbers = [_number(field) for field in fields[1:5]]
    if kind is Kind.ACK:
        have, credit = numbers
        return Packet(kind, have, credit)
    first, have, credit, last = numbers
    if first == 0 or (last == 0 and kind not in _CARRIERS):
        raise _malformed("a number is 0 that counts from 1")
    if kind not in _CARRIERS:
        return Packet(kind, have, credit, number=first, oldest=last)
    payload = fields[5]
    if last != len(payload) or (kind is Kind.PART and not payload):
        raise _malformed("its payload is not as long as it must be")
    if not is_text(payload):
        raise _malformed("its payload is no UTF-8")
    return Packet(kind, have, credit, sequence=first, payload=payload)


def _malformed(why: str) -> LinkError:
    return LinkError(
        Reason.MALFORMED,
        f"the other end of a link sent something that is no packet of conductor.link.1: {why}",
        "both ends must speak conductor.link.1: upgrade the older one",
    )


def _number(field: bytes) -> int:
    if not field.isdigit() or len(field) > DIGITS or (field[:1] == b"0" and field != b"0"):
        raise _malformed(f"a number must have 1 to {DIGITS} digits, and no 0 before them")
    return int(field)


def is_text(data: bytes) -> bool:
    """Whether it is UTF-8."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def parts(frame: bytes, most: int) -> Iterator[bytes]:
    """A frame as payloads of at most `most` bytes, none of which splits a character."""
    start = 0
    while len(frame) - start > most:
        end = start + most
        while frame[end] & 0xC0 == 0x80:  # the middle of a character
            end -= 1
        yield frame[start:end]
        start = end
    yield frame[start:] if start else frame
