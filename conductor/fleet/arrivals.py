"""Packets from the bus for the connections of a gateway or a worker.

Packets of all principals come in one line. So a packet is sorted at once, which costs little,
and is looked at when it is the turn of its principal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from conductor.errors import place_of
from conductor.transports.turns import Turns

_PACKETS: Final = 8
"""The most packets that are taken in one go."""


class Arrivals:
    """Hands over the packets of connections, each principal's in its turn."""

    def __init__(self, turns: Turns, log: Callable[[str], None]) -> None:
        self._turns, self._log = turns, log
        self._connections: dict[str, _Arriving] = {}

    def __contains__(self, connection: str) -> bool:
        return connection in self._connections

    def begin(
        self,
        connection: str,
        principal: str,
        take: Callable[[bytes], None],
        waits: Callable[[int], None] = lambda size: None,
    ) -> None:
        """Packets of a connection go to `take` from now on. `waits` hears how many bytes of them
        wait for their turn."""
        arriving = _Arriving(self._turns, principal, take, waits, self._log)
        self._connections[connection] = arriving

    def end(self, connection: str) -> None:
        """Packets of a connection are dropped from now on."""
        arriving = self._connections.pop(connection, None)
        if arriving is not None:
            arriving.end()

    def packet(self, subject: str, packet: bytes) -> None:
        """A packet has come for a connection; it is dropped if the connection is over."""
        arriving = self._connections.get(subject.rpartition(".")[2])
        if arriving is not None:
            arriving.came(packet)


class _Arriving:
    """The packets that come for one connection."""

    def __init__(
        self,
        turns: Turns,
        principal: str,
        take: Callable[[bytes], None],
        waits: Callable[[int], None],
        log: Callable[[str], None],
    ) -> None:
        self._turns, self._principal, self._log = turns, principal, log
        self._take, self._waits = take, waits
        self._packets: deque[bytes] = deque()
        """The packets that wait for their turn."""
        self._size = 0
        """The bytes of the waiting packets: at most the window of their link."""

    def came(self, packet: bytes) -> None:
        """Takes a packet, now or later."""
        if not self._packets:
            if self._turns.may(self._principal):
                self._take(packet)
                return
            self._turns.later(self._principal, self._go_on)
        self._packets.append(packet)
        self._size += len(packet)
        self._waits(self._size)

    def _go_on(self) -> None:
        while self._packets:
            if not self._turns.may(self._principal):
                self._turns.later(self._principal, self._go_on)
                return
            try:
                self._take_some()
            except Exception as error:  # the next packet is taken
                self._log(f"a defect of conductor: {place_of(error)}")

    def _take_some(self) -> None:
        for _ in range(_PACKETS):
            if not self._packets:  # or it has ended meanwhile
                return
            packet = self._packets.popleft()
            self._size -= len(packet)
            self._waits(self._size)
            self._take(packet)

    def end(self) -> None:
        """Drops the waiting packets."""
        self._packets.clear()
