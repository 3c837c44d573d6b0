"""The pulse of a WebSocket: whether its client is still there.

A client that is there answers a ping. But nobody can expect an answer while something stands before
the ping or its answer: a client that has not taken earlier bytes, or a server that
does not read because its chain takes no more. Then only the network is judged: the client's machine
still confirms the bytes it gets, also where the client itself does not read.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable
from typing import Final, Protocol

BEAT: Final = 15.0
"""Seconds between two looks."""
_GONE: Final = 4
"""The number of looks in a row without an answer to a ping until a client is taken for gone."""
_UNREACHED: Final = 2
"""The number of looks that one look counts for, if the client's machine confirms nothing at it."""
_TRIES: Final = 5
"""How often the system sends something in vain until a machine is taken for unreached."""


class Link(Protocol):
    """The link that a pulse looks at."""

    @property
    def heard(self) -> int:
        """A number that grows whenever bytes come."""

    @property
    def pending(self) -> int:
        """Bytes that the client's machine has not confirmed."""

    @property
    def reached(self) -> bool | None:
        """Whether the client's machine confirms the bytes sent; None: the system does not say."""

    def turn_away(self) -> None:
        """Ends the link at once."""


class Pulse:
    """Pings the client of a link, and cuts the link once the client is gone."""

    def __init__(self, link: Link, ping: Callable[[], None], held: Callable[[], bool]) -> None:
        """`ping` asks the client for a sign. `held`: whether nothing is read from it now."""
        self._link, self._ping, self._held = link, ping, held
        self._heard = link.heard
        self._pending = 0
        self._asked = False
        """Whether a ping was sent at the last look."""
        self._silent = 0

    async def watch(self) -> None:
        """Looks again and again, until the client is gone."""
        while True:
            await asyncio.sleep(BEAT)
            if not self.beat():
                return

    def beat(self) -> bool:
        """Looks once; whether the client may still be there."""
        link, pending = self._link, self._link.pending
        missed = self._missed(pending)
        self._silent = self._silent + missed if missed else 0
        self._heard, self._pending = link.heard, pending
        if self._silent >= _GONE:
            link.turn_away()
            return False
        self._asked = not pending
        if self._asked:
            self._ping()
        return True

    def _missed(self, pending: int) -> int:
        """The number of looks without a sign that this look counts for."""
        link = self._link
        if link.heard != self._heard:
            return 0
        if pending and link.reached is not None:
            return 0 if link.reached else _UNREACHED
        if pending:
            return int(pending >= self._pending > 0)
        return int(self._asked and not self._held())


def unconfirmed(connection: socket.socket) -> int:
    """Bytes of a connection that the system keeps until the other machine confirms them; 0 also
    where the system does not say."""
    if sys.platform != "linux":
        return 0
    import fcntl
    import termios

    try:
        kept = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, b"\0" * 4)
    except (OSError, ValueError):
        return 0
    return int.from_bytes(kept, sys.byteorder)


def reached(connection: socket.socket) -> bool | None:
    """Whether the other machine confirms the bytes sent to it; None: the system does not say."""
    if sys.platform != "linux":
        return None
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)
    except (OSError, ValueError):
        return None
    return info[2] < _TRIES and info[3] < _TRIES  # tcpi_retransmits, tcpi_probes
