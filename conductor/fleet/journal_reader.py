"""Reads the journal: the frames of a room's chains, or of one session, in order.

A writer to the journal may have made an entry up, so no entry hides another entry: all that is
stored is read. An entry that contradicts an earlier entry is disputed: its epoch is smaller (then
it comes from a worker that did not know yet that it was dead, or the earlier entry is made up), or
its place in its chain is taken.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import AsyncIterator, Iterator
from typing import Final

import msgspec

from conductor.core import json_text
from conductor.fleet import names
from conductor.fleet.bus import Bus, Stored
from conductor.fleet.journal import A2C, AT, C2A, MARK, MORE, NUMBER, UNREAD

_HELD: Final = 16 * 1024 * 1024
"""The most bytes of entries that wait for a missing entry: then it counts as missing."""
_REMEMBERED: Final = 4096
"""Entries of a chain that are known again when they come twice."""
_HIGHEST: Final = 2**53
_OPEN: Final = 4096
"""Requests without an answer that are remembered of a chain."""


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the journal."""

    at: float
    """When it passed (Unix time)."""
    epoch: int
    chain: str
    way: str
    """`c2a`, `a2c` or `mark`."""
    number: int
    """The entry's place in its chain."""
    frame: bytes
    """The frame without secrets; for a mark, JSON that describes it."""
    left_out: int = 0
    """Bytes of a frame that could not be read."""
    gap: int = 0
    """The number of the chain's entries that are missing before this entry."""
    disputed: bool = False
    """Whether it contradicts an entry that stands before it: one of both is false."""
    fragment: bool = False
    """Whether the frame is only a part."""


class _Piece(msgspec.Struct, order=True):
    number: int
    part: int
    more: int = 0
    epoch: int = 0
    way: str = ""
    at: float = 0.0
    left_out: int = 0
    data: bytes = b""


async def read(bus: Bus, principal: str, session: str = "") -> AsyncIterator[Written]:
    """The entries of a principal's chains, or of one session if `session` names one. Raises
    `ConductorError`."""
    subjects = f"{names.journal(names.encoded(principal), '*', '*')}"
    order = Order()
    chosen = Chosen(session) if session else None
    async for stored in bus.stored(names.JOURNAL, subjects):
        for one in order.take(stored):
            for each in chosen.take(one) if chosen is not None else (one,):
                yield each
    for one in order.rest():
        for each in chosen.take(one) if chosen is not None else (one,):
            yield each


class Order:
    """Puts entries of a room in order, drops those that came twice, and joins parts."""

    def __init__(self) -> None:
        self._epoch = 0
        self._chains: dict[tuple[int, str], _Chain] = {}

    def take(self, stored: Stored) -> Iterator[Written]:
        """Takes a stored message. Returns the entries that can be read now."""
        try:
            chain, piece = _read(stored)
        except (ValueError, RecursionError):
            return  # no worker has written it
        epoch = piece.epoch
        if epoch > self._epoch:
            yield from self.rest()
            self._epoch = epoch
        of = self._chains.setdefault((epoch, chain), _Chain(chain))
        yield from self._told(epoch, of.take(piece))

    def rest(self) -> Iterator[Written]:
        """The entries that wait for a missing entry."""
        for (epoch, _), chain in self._chains.items():
            yield from self._told(epoch, chain.rest())

    def _told(self, epoch: int, found: Iterator[Written]) -> Iterator[Written]:
        for one in found:
            late = epoch < self._epoch
            yield msgspec.structs.replace(one, disputed=True) if late else one


def _read(stored: Stored) -> tuple[str, _Piece]:
    """The chain and the piece in an entry. Raises `ValueError` for a message that is no entry."""
    _, _, chain, way = stored.subject.split(".")
    headers = stored.headers
    epoch, part = _place(headers.get("Nats-Msg-Id", ""))
    piece = _Piece(
        number=int(headers.get(NUMBER, "0")),
        part=part,
        more=int(headers.get(MORE, "0")),
        epoch=epoch,
        way=way,
        at=float(headers.get(AT, "0")),
        left_out=int(headers.get(UNREAD, "0")),
        data=stored.data,
    )
    if not piece.left_out:
        json_text.decode(b"null" if piece.more or part else piece.data)
    numbers = (epoch, part, piece.number, piece.more, piece.left_out)
    if min(numbers) < 0 or max(numbers) > _HIGHEST or not math.isfinite(piece.at):
        raise ValueError("a number is none that a worker writes")
    return chain, piece


def _place(id_: str) -> tuple[int, int]:
    """The epoch in an id, and which part it is of."""
    epoch, _, _ = id_.partition("-")
    _, _, part = id_.rpartition("-")[2].partition(".")
    return int(epoch or 0), int(part or 0)


class _Chain:
    """The entries of one chain."""

    def __init__(self, id_: str) -> None:
        self._id = id_
        self._last = 0
        """The number of the last entry that was whole."""
        self._parts: list[_Piece] = []
        """The parts so far of the next entry."""
        self._held: list[_Piece] = []
        self._size = 0
        self._came: dict[tuple[int, int], int] = {}
        """The pieces that were read last, by number and part: a hash of each."""

    def take(self, piece: _Piece) -> Iterator[Written]:
        """Takes a piece. Yields the entries that are in order now."""
        heapq.heappush(self._held, piece)
        self._size += len(piece.data)
        while self._held and (self._is_next(self._held[0]) or self._size > _HELD):
            yield from self._pop()

    def rest(self) -> Iterator[Written]:
        """All that is held, with gaps."""
        while self._held:
            yield from self._pop()

    def _is_next(self, piece: _Piece) -> bool:
        number, part = self._last + 1, len(self._parts)
        return (piece.number, piece.part) <= (number, part)

    def _pop(self) -> Iterator[Written]:
        piece = heapq.heappop(self._held)
        self._size -= len(piece.data)
        if self._came_twice(piece):
            return
        if piece.number <= self._last:
            yield self._alone(piece)  # its place is taken
            return
        if self._parts and piece.number != self._parts[0].number:
            yield from map(self._alone, self._parts)  # the end of a split frame is missing
            self._parts.clear()
        if piece.part != len(self._parts):
            yield self._alone(piece)  # its beginning is missing, or its place is taken
            return
        self._parts.append(piece)
        if not piece.more:
            yield self._whole()

    def _came_twice(self, piece: _Piece) -> bool:
        place, seen = (piece.number, piece.part), hash((piece.way, piece.more, piece.data))
        if self._came.get(place) == seen:
            return True
        self._came[place] = seen
        if len(self._came) > _REMEMBERED:
            del self._came[next(iter(self._came))]
        return False

    def _whole(self) -> Written:
        """The frame of all parts."""
        frame = b"".join(one.data for one in self._parts)
        piece = self._parts[-1]
        self._parts.clear()
        gap, self._last = piece.number - self._last - 1, piece.number
        fragment = bool(piece.part) and not _is_json(frame)
        return self._written(piece, frame, gap=gap, fragment=fragment)

    def _alone(self, piece: _Piece) -> Written:
        """A piece that has no place here, as a disputed entry."""
        fragment = bool(piece.part or piece.more)
        return self._written(piece, piece.data, fragment=fragment, disputed=True)

    def _written(
        self,
        piece: _Piece,
        frame: bytes,
        *,
        gap: int = 0,
        fragment: bool = False,
        disputed: bool = False,
    ) -> Written:
        return Written(
            at=piece.at,
            epoch=piece.epoch,
            chain=self._id,
            way=piece.way,
            number=piece.number,
            frame=frame,
            left_out=piece.left_out,
            gap=gap,
            fragment=fragment,
            disputed=disputed,
        )


def _is_json(frame: bytes) -> bool:
    try:
        json_text.decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


class _Session(msgspec.Struct):
    sessionId: str | None = None  # noqa: N815 - as it is written


class _Message(msgspec.Struct):
    id: msgspec.Raw = msgspec.Raw()
    method: str | None = None
    params: msgspec.Raw = msgspec.Raw()
    result: msgspec.Raw = msgspec.Raw()


def _session(raw: msgspec.Raw) -> str | None:
    """The session that an object names."""
    try:
        return json_text.decode(raw, type=_Session).sessionId
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


class Chosen:
    """Chooses the entries of one session: messages that name it, the answers to them, the request
    that opened it, and from its chains marks and disputed entries."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._chains: set[str] = set()
        self._open: dict[tuple[str, str, bytes], Written | None] = {}
        """By chain, way and id: requests; None: it was chosen already."""

    def take(self, one: Written) -> Iterator[Written]:
        """The entries that are chosen now."""
        if one.way == MARK or one.left_out or one.disputed or one.fragment:
            if one.chain in self._chains:
                yield one
            return
        try:
            message = json_text.decode(one.frame, type=_Message)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return
        id_ = bytes(message.id)
        if message.method is not None:
            chosen = _session(message.params) == self._session
            if id_ and len(self._open) < _OPEN:
                self._open[one.chain, one.way, id_] = None if chosen else one
            if chosen:
                self._chains.add(one.chain)
                yield one
            return
        other = A2C if one.way == C2A else C2A
        asked = self._open.pop((one.chain, other, id_), one)
        if asked is None:
            yield one
        elif _session(message.result) == self._session:
            self._chains.add(one.chain)
            if asked is not one:
                yield asked
            yield one
