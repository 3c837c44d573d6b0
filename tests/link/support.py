"""Two ends, and their packets, read by other code than that of the machine."""

import sys
from typing import Any, Final, NamedTuple

import msgspec

from conductor.link import Limits, Link

SMALL: Final = Limits(packet=768, window=2048, frame=4000, queue=3000, acked=4)
"""Limits so small that frames are split and windows are full at once."""
COST: Final = 256


class Seen(NamedTuple):
    """A packet on its way."""

    word: str
    epoch: str
    sequence: int
    have: int
    credit: int
    cost: int
    text: str


def seen(packet: bytes) -> Seen:
    """The fields of a packet; all of the packet must be text."""
    text = packet.decode()
    word, epoch, *fields = text.split(" ", 6)
    if word in ("frame", "part"):
        sequence, have, credit, length, payload = fields
        assert len(payload.encode()) == int(length)
        return Seen(word, epoch, int(sequence), int(have), int(credit), COST + int(length), payload)
    have, credit = fields if word == "ack" else fields[1:3]
    return Seen(word, epoch, 0, int(have), int(credit), 0, "")


def footprint(link: Link) -> int:
    """Bytes of all that a link holds."""
    size, counted, left = 0, set[int](), [*vars(link).values()]
    while left:
        value: Any = left.pop()
        if id(value) in counted or isinstance(value, type):
            continue
        counted.add(id(value))
        size += sys.getsizeof(value)
        if isinstance(value, dict):
            left += [*value.keys(), *value.values()]
        elif isinstance(value, tuple | list):
            left += value
        elif isinstance(value, msgspec.Struct):
            left += msgspec.structs.astuple(value)
    return size


def written(link: Link) -> list[bytes]:
    """All that a link writes now."""
    packets = []
    while (packet := link.take()) is not None:
        packets.append(packet)
    return packets


def exchange(one: Link, other: Link) -> tuple[list[bytes], list[bytes]]:
    """All that two ends have for each other goes; the frames that each gets."""
    got: tuple[list[bytes], list[bytes]] = ([], [])
    moved = True
    while moved:
        moved = False
        for near, far, to in ((one, other, 1), (other, one, 0)):
            for packet in written(near):
                moved = True
                got[to].extend(far.received(packet))
    return got


def opened(one: Limits = SMALL, other: Limits = SMALL) -> tuple[Link, Link]:
    """Two ends between which frames flow."""
    ends = Link("e", one), Link("e", other)
    for end in ends:
        end.linked()
    exchange(*ends)
    return ends
